"""Samplers of the backward ODE (paper, section 3.5, Algorithms 2 and 3).

Each is a function of the same four things: the denoiser ``D(x, t) -> (B, C, H, W)``, the cloudy frames ``mu``
(B, L, C, H, W), a schedule ``times`` that falls to 0, and the process. ``noise(draw)`` gives standard normal
numbers shaped like ``mu``: draw 0 starts the run, draw i + 1 belongs to the churn of step i. ``present`` (B, L) says
which frames exist; the others are left out of the result.

Scalars are kept in double precision on the CPU, images in their own dtype on their own device: nothing in a
run waits for the device. A product and a sum are one pass over the images (``alpha``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from emrdm.diffusion.process import Process
from emrdm.diffusion.shapes import mean_over_frames
from emrdm.errors import ConfigError
from emrdm.strict import check

Denoise = Callable[[Tensor, Tensor], Tensor]
NoiseSource = Callable[[int], Tensor]


@final
@dataclass(frozen=True)
class Step:
    """What a callback sees after each step."""

    index: int
    count: int
    t: float  # where the denoiser was called, after churn
    x: Tensor  # state after the step (B, L, C, H, W)
    denoised: Tensor  # D of this step (B, C, H, W)


Callback = Callable[[Step], None]


@final
@dataclass(frozen=True)
class Churn:
    """How much fresh noise each step adds: S_churn, S_noise, S_tmin and S_tmax of the paper."""

    amount: float = 0.0
    noise: float = 1.0
    t_min: float = 0.0
    t_max: float = math.inf

    def __post_init__(self) -> None:
        check(self, "churn")
        for name, value in (("churn", self.amount), ("noise", self.noise)):
            if not 0 <= value <= 1e6:
                raise ConfigError(f"sampler.{name} is {value:g}: expected 0 to 1e6")
        for name, value in (("t_min", self.t_min), ("t_max", self.t_max)):
            if not value >= 0:
                raise ConfigError(f"sampler.{name} is {value:g}: expected a number of 0 or more")

    def gamma(self, t: float, steps: int) -> float:
        """Relative increase of t, S_churn / N inside [S_tmin, S_tmax] and without EDM's cap (Algorithm 2, line 5)."""
        margin = 1e-6  # a level equal to a bound up to rounding lies inside it, on every machine
        inside = self.t_min * (1 - margin) <= t <= self.t_max * (1 + margin)
        return self.amount / steps if inside else 0.0


def euler(
    denoise: Denoise,
    mu: Tensor,
    times: Sequence[float],
    process: Process,
    noise: NoiseSource,
    *,
    present: Tensor | None = None,
    callback: Callback | None = None,
) -> Tensor:
    """Deterministic first order sampler: Algorithm 3 with S_churn = 0. One denoiser call a step.

    Returns:
        restored image (B, C, H, W).
    """
    x = start(mu, times, process, noise)
    for i, (t, t_next) in enumerate(falling_pairs(times)):
        denoised = denoise(x, _scalar(t))
        x = _advance(x, denoised, mu, process, t, t_next)
        _report(callback, i, times, t, x, denoised)
    return mean_over_frames(x, present)


def stochastic(
    denoise: Denoise,
    mu: Tensor,
    times: Sequence[float],
    process: Process,
    noise: NoiseSource,
    *,
    churn: Churn,
    present: Tensor | None = None,
    callback: Callback | None = None,
) -> Tensor:
    """The paper's stochastic sampler, Algorithm 3 (for its s and sigma: Algorithm 2). One denoiser call a step.

    With ``churn.amount`` 0 it equals :func:`euler` bit for bit.
    """
    x = start(mu, times, process, noise)
    for i, (t, t_next) in enumerate(falling_pairs(times)):
        x, t_hat = perturb_further(x, mu, process, t, churn, i, len(times) - 1, noise)
        denoised = denoise(x, _scalar(t_hat))
        x = _advance(x, denoised, mu, process, t_hat, t_next)
        _report(callback, i, times, t_hat, x, denoised)
    return mean_over_frames(x, present)


def heun(
    denoise: Denoise,
    mu: Tensor,
    times: Sequence[float],
    process: Process,
    noise: NoiseSource,
    *,
    churn: Churn | None = None,
    present: Tensor | None = None,
    callback: Callback | None = None,
) -> Tensor:
    """Second order (Heun); two denoiser calls a step, one in the last. With ``churn``: EDM's Algorithm 2, this ODE."""
    churn = churn or Churn()
    x = start(mu, times, process, noise)
    for i, (t, t_next) in enumerate(falling_pairs(times)):
        x, t_hat = perturb_further(x, mu, process, t, churn, i, len(times) - 1, noise)
        denoised = denoise(x, _scalar(t_hat))
        predicted = _advance(x, denoised, mu, process, t_hat, t_next)
        if t_next > 0:
            slope = _slope(x, denoised, mu, process, t_hat)
            corrected = _slope(predicted, denoise(predicted, _scalar(t_next)), mu, process, t_next)
            predicted = x + (t_next - t_hat) * (slope + corrected) / 2
        x = predicted
        _report(callback, i, times, t_hat, x, denoised)
    return mean_over_frames(x, present)


def multistep(
    denoise: Denoise,
    mu: Tensor,
    times: Sequence[float],
    process: Process,
    noise: NoiseSource,
    *,
    present: Tensor | None = None,
    callback: Callback | None = None,
) -> Tensor:
    """Second order at one denoiser call a step: extrapolates D from the step before (DPM-Solver++ 2M).

    With y = x - k mu the backward ODE is EDM's, dy/dsigma = (y - D) / sigma, whatever s and sigma are. For a
    constant D a step is exact; the first step and the last, to sigma = 0, take it as constant.
    """
    x = start(mu, times, process, noise)
    previous: Tensor | None = None
    log_step_before = math.nan
    for i, (t, t_next) in enumerate(falling_pairs(times)):
        denoised = denoise(x, _scalar(t))
        sigma, sigma_next = _value(process.sigma, t), _value(process.sigma, t_next)
        target = denoised
        if t_next > 0:
            log_step = math.log(sigma / sigma_next)
            if previous is not None:
                target = denoised + (denoised - previous) * (log_step / (2 * log_step_before))
            log_step_before = log_step
        ratio = sigma_next / sigma
        k_next = _value(process.k, t_next)
        k_rest = k_next - ratio * _value(process.k, t)
        x = ratio * x + (1 - ratio) * target.unsqueeze(1)
        if abs(k_rest) > 1e-12 * abs(k_next):  # else it is rounding: k and sigma are proportional
            x = x + k_rest * mu
        previous = denoised
        _report(callback, i, times, t, x, denoised)
    return mean_over_frames(x, present)


def start(mu: Tensor, times: Sequence[float], process: Process, noise: NoiseSource) -> Tensor:
    """Initial state, a draw of N(k mu, sigma^2) a frame (Algorithm 3, lines 2 and 3)."""
    return torch.add(_value(process.k, times[0]) * mu, noise(0), alpha=_value(process.sigma, times[0]))


def perturb_further(
    x: Tensor, mu: Tensor, process: Process, t: float, churn: Churn, step: int, steps: int, noise: NoiseSource
) -> tuple[Tensor, float]:
    """Raise the noise level from ``t`` to ``t (1 + gamma)`` (Eq. enlarge_noise_and_mean); gamma 0 draws nothing."""
    gamma = churn.gamma(t, steps)
    if gamma == 0:
        return x, t
    t_hat = t * (1 + gamma)
    k_rise = _value(process.k, t_hat) - _value(process.k, t)
    spread = math.sqrt(_value(process.sigma, t_hat) ** 2 - _value(process.sigma, t) ** 2)
    return torch.add(torch.add(x, mu, alpha=k_rise), noise(step + 1), alpha=spread * churn.noise), t_hat


def _slope(x: Tensor, denoised: Tensor, mu: Tensor, process: Process, t: float) -> Tensor:
    """dx/dt at ``t`` (Eq. backward_denoiser_ode, regrouped: see Process.slope)."""
    slope = process.slope(t)
    result = slope.x * x + slope.denoised * denoised.unsqueeze(1)
    return result + slope.mu * mu if slope.mu != 0 else result


def _advance(x: Tensor, denoised: Tensor, mu: Tensor, process: Process, t: float, t_next: float) -> Tensor:
    """Euler step x + (t_next - t) dx/dt, with the scalars gathered first: for sigma = t the step to 0 leaves D."""
    slope, h = process.slope(t), t_next - t
    result = torch.add((1 + h * slope.x) * x, denoised.unsqueeze(1), alpha=h * slope.denoised)
    return torch.add(result, mu, alpha=h * slope.mu) if slope.mu != 0 else result


def falling_pairs(times: Sequence[float]) -> list[tuple[float, float]]:
    """(t_i, t_{i+1}) of a schedule, which must fall strictly and end in 0."""
    times = [float(t) for t in times]
    if len(times) < 2 or times[-1] != 0 or any(a <= b for a, b in pairwise(times)):
        raise ConfigError(f"sampling times are {times}: expected at least two, strictly falling, the last one 0")
    return list(pairwise(times))


def _scalar(t: float) -> Tensor:
    return torch.tensor(t, dtype=torch.float64)


def _value(function: Callable[[Tensor], Tensor], t: float) -> float:
    return float(function(_scalar(t)))


def _report(callback: Callback | None, i: int, times: Sequence[float], t: float, x: Tensor, denoised: Tensor) -> None:
    if callback is not None:
        callback(Step(index=i, count=len(times) - 1, t=t, x=x, denoised=denoised))
