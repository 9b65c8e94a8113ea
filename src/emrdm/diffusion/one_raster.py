"""The stochastic sampler with a state of one image, however many frames there are.

For s(t) = 1 / (1 + alpha t) and sigma(t) = t the Euler step is x' = r x + (1 - r) D with r = t'/t, and D is the same
for all frames. From x_0 = t_0 (alpha mu + z) it follows that at every step

    x^l = t (alpha mu^l + z^l) + S,        S' = r S + (1 - r) D,        S_0 = 0,

so only S (B, C, H, W) is kept between steps: the cloudy frames are the input files and the noise is a function of
position. Churn keeps the form: from t to t_hat the noise becomes z' = (t z + sqrt(t_hat^2 - t^2) S_noise eps) /
t_hat, a weighted sum of the draws so far. The last level is 0, where S is the answer.

Whole scenes are restored this way, a window at a time; S is also all that a checkpoint has to hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from emrdm.diffusion.process import MeanReverting
from emrdm.diffusion.samplers import Churn, Denoise, NoiseSource, falling_pairs


@final
@dataclass(frozen=True)
class RasterStep:
    """One step, as scalars: everything a worker needs besides the pixels."""

    t: float  # level the denoiser is called at, after churn
    ratio: float  # r = t_next / t
    noise_weights: tuple[float, ...]  # weight of each draw in the effective noise z; draws of weight 0 are never made


def plan(times: Sequence[float], churn: Churn | None = None) -> tuple[RasterStep, ...]:
    """All steps of a run, computed once."""
    churn = churn or Churn()
    pairs = falling_pairs(times)
    weights = [1.0]
    steps = []
    for t, t_next in pairs:
        t_hat = t * (1 + churn.gamma(t, len(pairs)))
        kept = t / t_hat
        weights = [kept * weight for weight in weights]
        weights.append(math.sqrt(t_hat**2 - t**2) * churn.noise / t_hat if t_hat > t else 0.0)
        steps.append(RasterStep(t=t_hat, ratio=t_next / t_hat, noise_weights=tuple(weights)))
    return tuple(steps)


def frames(step: RasterStep, state: Tensor, mu: Tensor, process: MeanReverting, noise: NoiseSource) -> Tensor:
    """Noisy frames x (B, L, C, H, W) that the denoiser sees at this step, from S (B, C, H, W), for any window."""
    z = sum((weight * noise(draw) for draw, weight in enumerate(step.noise_weights) if weight), torch.zeros_like(mu))
    return step.t * (process.alpha * mu + z) + state.unsqueeze(1)


def advance(step: RasterStep, state: Tensor, denoised: Tensor) -> Tensor:
    """S after the step."""
    return step.ratio * state + (1 - step.ratio) * denoised


def sample(
    denoise: Denoise,
    mu: Tensor,
    times: Sequence[float],
    process: MeanReverting,
    noise: NoiseSource,
    *,
    churn: Churn | None = None,
) -> Tensor:
    """Algorithm 2 with the one-raster state; equals :func:`~emrdm.diffusion.samplers.stochastic` up to rounding."""
    state = torch.zeros_like(mu[:, 0])
    for step in plan(times, churn):
        x = frames(step, state, mu, process, noise)
        state = advance(step, state, denoise(x, torch.tensor(step.t, dtype=torch.float64)))
    return state
