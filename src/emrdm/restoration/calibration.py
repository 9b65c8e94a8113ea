"""Whether an uncertainty map can be believed, on data with truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, NamedTuple, final

import numpy as np

from emrdm.errors import InputError

LEVELS = (0.5, 0.8, 0.9, 0.95)


class Bin(NamedTuple):
    """Pixels of similar predicted standard deviation: its root mean square, the error found, how many there are."""

    predicted: float
    error: float
    values: int


@final
@dataclass(frozen=True)
class Calibration:
    """What was found.

    Attributes:
        count: values compared, over pixels and bands.
        rmse: of the restored mean.
        spread_skill: root mean square of the predicted standard deviation, divided by ``rmse``: 1 is right, less is
            overconfident.
        coverage: share of the truth inside the normal interval of each level; the level itself is right.
        reliability: the curve: bins of equal count, by predicted standard deviation; on the diagonal is right.
        sparsification: area under the sparsification error. The least certain values are left out, a twentieth at a
            time, and the error of the rest is compared with that after leaving out the largest errors, as a share of
            ``rmse``. 0: the map ranks errors perfectly.
        unranked: the same area for a map that says nothing, its values left out at random.
    """

    count: int
    rmse: float
    spread_skill: float
    coverage: dict[float, float]
    reliability: tuple[Bin, ...]
    sparsification: float
    unranked: float

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        facts = asdict(self)
        facts["coverage"] = {f"{level:g}": share for level, share in self.coverage.items()}
        return facts | {"reliability": [part._asdict() for part in self.reliability]}

    def lines(self) -> list[str]:
        """For the screen."""
        shares = ", ".join(f"{share:.1%} of {level:.0%}" for level, share in self.coverage.items())
        return [
            f"values          {self.count:,}, RMSE {self.rmse:.4g}",
            f"spread / skill  {self.spread_skill:.3f} (1 is right, less is overconfident)",
            f"coverage        {shares}",
            f"ranking         {self.sparsification:.3f} (0 is perfect, {self.unranked:.3f} is none)",
            "std  -> error   " + ", ".join(f"{part.predicted:.3g} -> {part.error:.3g}" for part in self.reliability),
        ]


def calibrate(
    mean: np.ndarray,
    std: np.ndarray,
    truth: np.ndarray,
    *,
    valid: np.ndarray | None = None,
    samples: int | None = None,
    bins: int = 10,
) -> Calibration:
    """Compare predicted standard deviations with the errors that were made.

    Args:
        mean: restored, (..., h, w) in any unit.
        std: predicted standard deviation, alike, not negative.
        truth: alike.
        valid: (h, w), or the shape of the others; False where there is no truth. NaN anywhere counts as that, too.
        samples: how many ``mean`` and ``std`` come from, K. The truth is further from a mean of K than from the mean of
            all, by sqrt(1 + 1 / K), and is given that much more room; None for none.
        bins: of the reliability curve.

    Returns:
        The calibration.
    """
    if not mean.shape == std.shape == truth.shape:
        raise InputError(f"mean, std and truth are {mean.shape}, {std.shape}, {truth.shape}: expected the same shape")
    if samples is not None and samples < 2:
        raise InputError(f"samples is {samples}: expected 2 or more, one has no spread")
    if bins < 1:
        raise InputError(f"bins is {bins}: expected 1 or more")
    usable = np.isfinite(mean) & np.isfinite(std) & np.isfinite(truth)
    usable &= True if valid is None else valid
    if not usable.any():
        raise InputError("no pixel has a mean, a standard deviation and a truth: expected one at least")
    spread = std[usable].astype(np.float64) * (1 if samples is None else np.sqrt(1 + 1 / samples))
    if spread.min() < 0:
        raise InputError(f"std goes down to {spread.min():g}: expected 0 or more")
    errors = np.abs(mean[usable].astype(np.float64) - truth[usable])
    order = np.argsort(spread, kind="stable")
    spread, errors = spread[order], errors[order]

    rmse = _rms(errors)
    wanted = {level: NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS}
    parts = [part for part in np.array_split(np.arange(len(errors)), bins) if part.size]
    best = _remaining(np.sort(errors))
    return Calibration(
        count=len(errors),
        rmse=rmse,
        spread_skill=_rms(spread) / rmse if rmse else float("inf"),
        coverage={level: float((errors <= width * spread).mean()) for level, width in wanted.items()},
        reliability=tuple(Bin(_rms(spread[part]), _rms(errors[part]), part.size) for part in parts),
        sparsification=_area(_remaining(errors) - best),
        unranked=_area(1 - best) if rmse else 0.0,
    )


def rank_histogram(samples: np.ndarray, truth: np.ndarray, *, valid: np.ndarray | None = None) -> np.ndarray:
    """How often the truth is the smallest of all, second smallest ... largest, among K samples.

    Flat is right; high at both ends is overconfident, high in the middle too cautious, high at one end biased. Where
    the truth equals some samples, as it will in whole numbers, the ranks it might have share the pixel.

    Args:
        samples: (K, ..., h, w).
        truth: (..., h, w).
        valid: (h, w), or the shape of the truth.

    Returns:
        (K + 1,) shares that sum to 1.
    """
    if samples.shape[1:] != truth.shape or len(samples) < 1:
        raise InputError(f"samples are {samples.shape} and truth {truth.shape}: expected (K, ...) and (...)")
    usable = np.isfinite(samples).all(0) & np.isfinite(truth)
    usable &= True if valid is None else valid
    if not usable.any():
        raise InputError("no pixel has samples and a truth: expected one at least")
    truth, count = truth[usable], len(samples)
    below, equal = np.zeros(truth.size, np.int64), np.zeros(truth.size, np.int64)
    for sample in samples:
        below += sample[usable] < truth
        equal += sample[usable] == truth
    share = 1 / (equal + 1)
    steps = np.zeros(
        count + 2
    )  # each pixel adds its share from rank `below` on and takes it away after `below + equal`
    np.add.at(steps, below, share)
    np.add.at(steps, below + equal + 1, -share)
    return np.asarray(np.cumsum(steps)[:-1] / truth.size)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _remaining(errors: np.ndarray) -> np.ndarray:
    """Error of the first 100 %, 95 % ... 5 % of the values, as a share of the first; zeros where all are zero."""
    squares = np.cumsum(np.square(errors))
    kept = np.maximum(1, np.round(len(errors) * np.arange(20, 0, -1) / 20).astype(np.int64))
    curve = np.sqrt(squares[kept - 1] / kept)
    return np.asarray(curve / (curve[0] or 1.0))


def _area(curve: np.ndarray) -> float:
    """Under a curve of evenly spaced points, of which the last is a twentieth before the end."""
    return float((curve[1:] + curve[:-1]).sum() / 2 / 20)
