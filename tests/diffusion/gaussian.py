"""A problem whose answer is known: Gaussian images, whose exact denoiser and ODE solution are formulas."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from emrdm.diffusion import Process


@dataclass(frozen=True)
class Gaussian:
    """x0 ~ N(mean, variance), seen through L frames x^l = x0 + k mu^l + sigma n^l."""

    mean: float = 0.3
    variance: float = 0.6

    def denoiser(self, process: Process, mu: Tensor):
        """E[x0 | x], for (B, L, ...) states."""

        def denoise(x: Tensor, t: Tensor) -> Tensor:
            sigma, k = process.sigma(t), process.k(t)
            average = (x - k * mu).mean(1)
            noise = sigma**2 / mu.shape[1]
            return (self.variance * average + noise * self.mean) / (self.variance + noise)

        return denoise

    def solution(self, start: Tensor, process: Process, mu: Tensor, t_start: float, t_end: float) -> Tensor:
        """Exact state at ``t_end`` of the ODE from ``start`` at ``t_start``.

        With y = x - k mu: the mean over frames moves as mean + c sqrt(variance + sigma^2 / L), what a frame differs from it by as c sigma.
        """
        frames = mu.shape[1]
        times = torch.tensor([t_start, t_end], dtype=torch.float64)
        (sigma0, sigma1), (k0, k1) = process.sigma(times).tolist(), process.k(times).tolist()
        y = start - k0 * mu
        average = y.mean(1, keepdim=True)
        growth = math.sqrt((self.variance + sigma1**2 / frames) / (self.variance + sigma0**2 / frames))
        return self.mean + (average - self.mean) * growth + (y - average) * (sigma1 / sigma0) + k1 * mu
