"""What a study found, as data: what tables and plots are made from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from emrdm.metrics import METRICS, PROTOCOLS


@final
@dataclass(frozen=True)
class Result:
    """One row of a study.

    Attributes:
        label: what the case is called.
        point: what was varied, by dotted key: numbers, texts, lists; empty where the cases are presets.
        paper: the paper's scores by metric, if it has any.
        seeds: our mean scores by metric, one for each seed that is done.
    """

    label: str
    point: Mapping[str, Any]
    paper: Mapping[str, float]
    seeds: tuple[Mapping[str, float], ...]

    def mean(self, metric: str) -> float:
        """Over the seeds; NaN where there is nothing yet."""
        values = self._values(metric)
        return math.fsum(values) / len(values) if values else math.nan

    def deviation(self, metric: str) -> float:
        """Standard deviation of the seeds (of a sample, n - 1); NaN for fewer than two."""
        values = self._values(metric)
        finite = len(values) > 1 and all(map(math.isfinite, values))
        return statistics.stdev(values) if finite else math.nan

    def _values(self, metric: str) -> list[float]:
        return [scores[metric] for scores in self.seeds if not math.isnan(scores.get(metric, math.nan))]


@final
@dataclass(frozen=True)
class Findings:
    """A study's results.

    Attributes:
        name: of the study, as users type it.
        title: what it is about.
        source: where the paper has it; empty for a study of one's own.
        axes: dotted keys that vary; none where the cases are presets.
        results: in the paper's order; those without scores are not done.
        protocol: how all of it was scored.
        images: number that every case was scored on.
        caption: how it was made: data, split, steps, seeds, sampler.
        notes: what a reader must know.
        left: what the time did not suffice for.
        pictures: for a sheet, by case and image: a label and the restored image (H, W, 3).
        frames: for a sheet, by image: cloudy frames with their labels, and the clear one last.
    """

    name: str
    title: str
    source: str
    axes: tuple[str, ...]
    results: tuple[Result, ...]
    protocol: str
    images: int
    caption: Mapping[str, str]
    notes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    pictures: Mapping[str, Mapping[str, tuple[str, np.ndarray]]] = field(default_factory=dict)
    frames: Mapping[str, Sequence[tuple[str, np.ndarray]]] = field(default_factory=dict)

    @property
    def metrics(self) -> list[str]:
        """Those of the protocol that have a better end and a value for one case at least."""
        return [
            metric
            for metric in PROTOCOLS[self.protocol].metrics
            if METRICS[metric].better and any(not math.isnan(result.mean(metric)) for result in self.results)
        ]

    @property
    def seeds(self) -> int:
        """The most seeds that any case has."""
        return max((len(result.seeds) for result in self.results), default=0)
