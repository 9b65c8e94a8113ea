"""Noise levels: drawn for training, scheduled for sampling."""

from __future__ import annotations

import torch
from torch import Tensor

from emrdm.errors import ConfigError


def log_normal_sigma(normal: Tensor, p_mean: float, p_std: float) -> Tensor:
    """Training noise levels, ln sigma ~ N(p_mean, p_std^2), from standard normal numbers (Algorithm 1, lines 2 and 3).

    Nothing is clamped, as published.
    """
    return torch.exp(p_mean + p_std * normal)


def rho_schedule(steps: int, sigma_min: float = 0.001, sigma_max: float = 100.0, rho: float = 7.0) -> Tensor:
    """Sampling noise levels: ``steps`` values from sigma_max down to sigma_min, then 0 (EDM, Eq. 5).

    sigma_min is the last level the denoiser is called at, so ``steps`` counts denoiser calls of a first order sampler.
    The two ends are exact, which the comparisons with S_tmin and S_tmax rely on.

    Returns:
        float64 on the CPU, (steps + 1,), strictly decreasing.
    """
    if steps < 1:
        raise ConfigError(f"sampler.steps is {steps}: expected at least 1")
    if not 1e-9 <= sigma_min < sigma_max <= 1e9:
        raise ConfigError(
            f"sampler noise levels are {sigma_min:g} to {sigma_max:g}: expected 1e-9 <= sigma_min < sigma_max <= 1e9"
        )
    if not 0.1 <= rho <= 100:
        raise ConfigError(f"sampler.rho is {rho:g}: expected 0.1 to 100")
    ramp = torch.linspace(0, 1, steps, dtype=torch.float64)
    high, low = sigma_max ** (1 / rho), sigma_min ** (1 / rho)
    sigmas = (high + ramp * (low - high)) ** rho
    sigmas[-1] = sigma_min
    sigmas[0] = sigma_max  # last, so that a single step starts at sigma_max
    return torch.cat([sigmas, sigmas.new_zeros(1)])
