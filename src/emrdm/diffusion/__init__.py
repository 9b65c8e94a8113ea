"""The paper's mathematics on tensors. Knows nothing of networks, images or files.

Question -> file: what is s(t)? ``process``. What is c_skip? ``preconditioning``. What is D? ``denoiser``. Which
sigmas? ``noise_levels``. What is minimised? ``objective``. How is it sampled? ``samplers``. How with one image of
state? ``one_raster``.
"""

from emrdm.diffusion.denoiser import Denoiser, Network
from emrdm.diffusion.noise_levels import log_normal_sigma, rho_schedule
from emrdm.diffusion.objective import training_losses
from emrdm.diffusion.preconditioning import Factors, Preconditioning
from emrdm.diffusion.process import MeanReverting, Process
from emrdm.diffusion.samplers import Churn, Step, euler, heun, multistep, stochastic

__all__ = [
    "Churn",
    "Denoiser",
    "Factors",
    "MeanReverting",
    "Network",
    "Preconditioning",
    "Process",
    "Step",
    "euler",
    "heun",
    "log_normal_sigma",
    "multistep",
    "rho_schedule",
    "stochastic",
    "training_losses",
]
