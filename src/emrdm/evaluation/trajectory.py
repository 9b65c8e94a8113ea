"""A run of a sampler, looked at step by step: what the denoiser sees, and what it makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from emrdm.config import SamplerConfig
from emrdm.diffusion import Step
from emrdm.diffusion.samplers import perturb_further, start
from emrdm.errors import InputError
from emrdm.images import prepare
from emrdm.model import EMRDM
from emrdm.noise import Window, fold, normal


@final
@dataclass(frozen=True)
class Trajectory:
    """What happened, in [-1, 1] or near it.

    Attributes:
        levels: noise level of each step, falling.
        states: (steps, L, C, H, W), the noisy frames x(t) = s(t) x~(t) that the denoiser saw: at the first step little
            but the cloudy frames under noise, which the paper calls the noisy mean.
        estimates: (steps, C, H, W), what it made of them.
        restored: (C, H, W), the result.
    """

    levels: tuple[float, ...]
    states: np.ndarray
    estimates: np.ndarray
    restored: np.ndarray


def follow(
    model: EMRDM,
    cloudy: np.ndarray | Tensor,
    aux: np.ndarray | Tensor | None = None,
    *,
    seed: int = 0,
    sampler: SamplerConfig | None = None,
    scaled: bool = False,
) -> Trajectory:
    """Restore one image or series and keep every step; the result is that of :meth:`EMRDM.restore` with this seed."""
    if cloudy.ndim == 5 or (cloudy.ndim == 4 and not model.config.network.multi_temporal):
        raise InputError(f"cloudy has shape {tuple(cloudy.shape)}: expected one image or series, not a batch")
    frames = prepare(model.config, cloudy, aux, scaled=scaled, device=model.device)
    sampler, process, mu = sampler or model.config.sampler, model.process, frames.cloudy
    times = process.t(torch.tensor(sampler.schedule(), dtype=torch.float64)).tolist()
    _, count, bands, *sides = mu.shape
    window = Window(0, 0, *sides)

    def noise(draw: int) -> Tensor:  # the very numbers that the model draws by itself
        return normal(fold(fold(seed, 0), draw), window, frames=count, bands=bands, device=mu.device)

    x = start(mu, times, process, noise)
    levels, states, estimates = [], [], []

    def watch(step: Step) -> None:
        nonlocal x
        seen, t = perturb_further(x, mu, process, times[step.index], sampler.as_churn(), step.index, step.count, noise)
        time = torch.tensor(t, dtype=torch.float64)
        levels.append(float(process.sigma(time)))
        states.append((float(process.s(time)) * seen[0]).cpu())
        estimates.append(step.denoised[0].float().cpu())
        x = step.x

    restored = model.sample(mu, frames.aux, sampler=sampler, noise=noise, callback=watch)
    height, width = cloudy.shape[-2:]
    return Trajectory(
        tuple(levels),
        torch.stack(states)[..., :height, :width].numpy(),
        torch.stack(estimates)[..., :height, :width].numpy(),
        restored[0, :, :height, :width].float().cpu().numpy(),
    )
