"""Samplers compared on one image: how near each comes to the truth, and to where it would end with many steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from emrdm.config import Method, SamplerConfig
from emrdm.errors import InputError
from emrdm.metrics.pixels import psnr, rmse
from emrdm.model import EMRDM

METHODS: tuple[Method, ...] = ("euler", "heun", "multistep", "stochastic")
CALLS = (1, 2, 3, 5, 9, 15, 25)
_REFERENCE = 60  # steps, and no fewer than twice as many calls as any other run has
_CHURN = 1.0  # of the stochastic sampler where the model has none: the paper's best


@final
@dataclass(frozen=True)
class Run:
    """One sampler with one number of steps.

    Attributes:
        method: its name.
        steps: N.
        calls: of the network: a step of heun takes two, but for the last.
        distance: root mean square from the reference, for values in [-1, 1].
        psnr: in dB to the truth, for values in [-1, 1]; None where it is not known.
        restored: (C, H, W) in [-1, 1].
    """

    method: str
    steps: int
    calls: int
    distance: float
    psnr: float | None
    restored: np.ndarray


@final
@dataclass(frozen=True)
class Comparison:
    """All runs, and the sampler that the reference was made with: many steps of the backward ODE."""

    runs: tuple[Run, ...]
    reference: SamplerConfig
    churn: float

    def name(self, method: str) -> str:
        """A method as it is called in a legend: the stochastic one is nothing without its churn."""
        return f"stochastic, churn {self.churn:g}" if method == "stochastic" else method

    def lines(self, measure: str) -> dict[str, dict[int, float | None]]:
        """Values of "psnr" or "distance" by method and number of calls."""
        found: dict[str, dict[int, float | None]] = {}
        for run in self.runs:
            found.setdefault(self.name(run.method), {})[run.calls] = getattr(run, measure)
        return found


def compare_samplers(
    model: EMRDM,
    cloudy: np.ndarray,
    aux: np.ndarray | None = None,
    *,
    truth: np.ndarray | None = None,
    calls: Sequence[int] = CALLS,
    methods: Sequence[str] = METHODS,
    sampler: SamplerConfig | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Comparison:
    """Restore one image with every method and number of calls, all from the same noise.

    Args:
        model: any.
        cloudy: one image or series in [-1, 1], as :meth:`EMRDM.restore` takes them.
        aux: auxiliary bands alike.
        truth: (C, H, W) in [-1, 1].
        calls: of the network; heun, which takes an odd number, gets the next smaller one.
        methods: some of ``METHODS``.
        sampler: noise levels and churn; the model's own by default.
        seed: of the noise.
        progress: told how many calls of how many were made.
    """
    unknown = [method for method in methods if method not in METHODS]
    if unknown or not methods:
        raise InputError(f"sampler {', '.join(unknown) or 'none'}: expected some of {', '.join(METHODS)}")
    if not calls or min(calls) < 1:
        raise InputError(f"calls are {list(calls)}: expected numbers of 1 or more")
    base = sampler or model.config.sampler
    churn = base.churn or _CHURN
    quiet: dict[str, Any] = {"churn": 0.0}
    reference = dataclasses.replace(base, method="heun", steps=max(_REFERENCE, max(calls)), **quiet)
    plans = [
        dataclasses.replace(base, method=method, steps=steps, churn=churn if method == "stochastic" else 0.0)
        for method in (known for name in methods for known in METHODS if known == name)
        for steps in sorted({(count + 1) // 2 if method == "heun" else count for count in calls})
    ]
    total, done = sum(map(_calls, [reference, *plans])), 0

    def restored(settings: SamplerConfig) -> Tensor:
        nonlocal done
        image = model.restore(cloudy, aux, seed=seed, sampler=settings, scaled=True, exact=True)
        done += _calls(settings)
        progress(done, total)
        return torch.from_numpy(image)[None]

    progress(done, total)
    target = restored(reference)
    clear = None if truth is None else torch.from_numpy(np.ascontiguousarray(truth))[None]
    runs = []
    for plan in plans:
        image = restored(plan)
        score = None if clear is None else float(psnr(image, clear, data_range=2.0))
        runs.append(Run(plan.method, plan.steps, _calls(plan), float(rmse(image, target)), score, image[0].numpy()))
    return Comparison(tuple(runs), reference, churn)


def _calls(sampler: SamplerConfig) -> int:
    return 2 * sampler.steps - 1 if sampler.method == "heun" else sampler.steps
