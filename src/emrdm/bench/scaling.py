"""Cost against the side of an image and against the number of frames, and which part of it is linear."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from emrdm.bench.results import Point, Scaling
from emrdm.config import ModelConfig


def macs(config: ModelConfig, size: int, *, frames: int | None = None) -> tuple[int, int]:
    """Multiply-accumulates of a call, and how many of them are global attention.

    Global attention alone grows with the square of the number of pixels, and all else is linear: three sizes tell them
    apart exactly.
    """
    config = config if frames is None else dataclasses.replace(config, frames=frames)
    total = config.cost(size, size).macs
    # a square of side s and one of twice that: c + b s^2 + a s^4, whose second difference has a alone
    one, two, three = (config.cost(size, size * k).macs for k in (1, 2, 3))
    quadratic = (three - 2 * two + one) // 2
    return total, quadratic


def fit(x: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, float] | None:
    """Constant, linear and quadratic part, none of them negative, closest to the times in relative terms."""
    if len(x) < 3:
        return None
    values, times = np.asarray(x, np.float64), np.asarray(seconds, np.float64)
    scale = values.max()
    columns = np.stack([np.ones_like(values), values / scale, (values / scale) ** 2], axis=1) / times[:, None]
    best: tuple[float, np.ndarray] | None = None
    for count in (1, 2, 3):
        for chosen in combinations(range(3), count):  # seven least squares: the one without a negative part wins
            parts = np.zeros(3)
            parts[list(chosen)] = np.linalg.lstsq(columns[:, chosen], np.ones_like(times), rcond=None)[0]
            error = float(np.square(columns @ parts - 1).sum())
            if (parts >= 0).all() and (best is None or error < best[0]):
                best = error, parts
    assert best is not None  # a single column of positive numbers never needs a negative factor
    constant, linear, quadratic = best[1].tolist()
    return constant, linear / scale, quadratic / scale**2


def with_fit(scaling: Scaling) -> Scaling:
    """The scaling with the parts of our path's time."""
    found = [(argument(scaling, point), point.ours.seconds) for point in scaling.points if point.ours is not None]
    return dataclasses.replace(scaling, fit=fit(*zip(*found, strict=True)) if found else None)


def argument(scaling: Scaling, point: Point) -> float:
    """What time is a polynomial of: pixels, or frames."""
    return point.pixels if scaling.axis == "size" else point.value


def shares(scaling: Scaling, point: Point) -> tuple[float, float, float] | None:
    """Shares of the fitted time at a point: constant, linear, quadratic."""
    if scaling.fit is None:
        return None
    x = argument(scaling, point)
    parts = [part * x**power for power, part in enumerate(scaling.fit)]
    total = sum(parts)
    return parts[0] / total, parts[1] / total, parts[2] / total


def bend(config: ModelConfig) -> int | None:
    """Side at which global attention has half of the multiply-accumulates; None where there is none of it."""
    side = config.network.padded(64)
    total, quadratic = macs(config, side)
    if not quadratic:
        return None
    linear = (total - quadratic) / side**2
    return round(math.sqrt(linear / (quadratic / side**4)))


def found_words(scaling: Scaling, half: int | None) -> str:
    """What a scaling shows, in a sentence."""
    last = next((point for point in reversed(scaling.points) if point.ours is not None), None)
    parts = shares(scaling, last) if last is not None else None
    if last is None or parts is None:
        return ""
    what = "pixels" if scaling.axis == "size" else "frames"
    end = f"{last.value} x {last.value}" if scaling.axis == "size" else f"L = {last.value}"
    text = f"fit: {_percent(parts[1])} of the time at {end} is linear in {what}, {_percent(parts[2])} quadratic"
    if scaling.axis == "size":
        text += (
            f"; global attention has half of the MACs from side {half:,}" if half else "; there is no global attention"
        )
    return text


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
