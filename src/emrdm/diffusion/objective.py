"""The training objective (paper, Algorithm 1 and Eq. all_training_loss)."""

from __future__ import annotations

from torch import Tensor

from emrdm.diffusion.denoiser import Denoiser


def training_losses(denoiser: Denoiser, x0: Tensor, mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
    """Loss of each sample: weight(sigma) times the mean squared error of D (Algorithm 1, lines 4 to 9).

    Args:
        denoiser: D; its condition is bound to these samples.
        x0: clear image (B, C, H, W) in [-1, 1].
        mu: cloudy frames (B, L, C, H, W) in [-1, 1].
        sigma: (B,), see :func:`~emrdm.diffusion.noise_levels.log_normal_sigma`.
        noise: standard normal (B, L, C, H, W), independent over frames.

    Returns:
        (B,). The mean over the batch is what the paper minimises; the paper's squared norm is a mean over pixels here,
        as in the published implementation.
    """
    t = denoiser.process.t(sigma.to(mu.device))
    x = denoiser.process.perturb(x0.unsqueeze(1), mu, t, noise)
    error = (denoiser(x, t) - x0).float()
    weight = denoiser.factors(t, mu.shape[1]).weight
    return weight * error.square().flatten(1).mean(1)
