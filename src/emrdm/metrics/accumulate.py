"""Scores of many images, kept one by one: they merge over batches, runs and ranks, and nothing is counted twice."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from emrdm.errors import InputError


@final
@dataclass(frozen=True)
class Mean:
    """A mean over images, of how many, and how many were left out because the score is not defined for them."""

    value: float
    count: int
    left_out: int


@final
class Scores:
    """Values by image and metric.

    An image is known by its name. Whatever the order it arrives in, and however often (distributed samplers repeat
    images to fill their last batch), the mean is the same number, bit for bit.
    """

    def __init__(self, values: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self.values: dict[str, dict[str, float]] = {name: dict(scores) for name, scores in (values or {}).items()}

    def __len__(self) -> int:
        return len(self.values)

    def __contains__(self, image: str) -> bool:
        return image in self.values

    def add(self, images: Sequence[str], scores: Mapping[str, Tensor]) -> None:
        """Add a batch: names, and one tensor (B,) a metric."""
        for metric, values in scores.items():
            if values.shape != (len(images),):
                raise InputError(
                    f"{metric} has shape {tuple(values.shape)} for {len(images)} images: expected one each"
                )
        lists = {metric: values.tolist() for metric, values in scores.items()}
        for i, image in enumerate(images):
            self.values.setdefault(image, {metric: float(values[i]) for metric, values in lists.items()})

    def merge(self, other: Scores) -> Scores:
        """Both together; where both know an image, this one's values stay."""
        return Scores({**other.values, **self.values})

    def without(self, images: Collection[str]) -> Scores:
        """The scores of all other images."""
        return Scores({image: scores for image, scores in self.values.items() if image not in images})

    def gather(self) -> Scores:
        """The scores of all ranks of a distributed run, the same on each; a lone process keeps its own."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return self
        parts: list[dict[str, dict[str, float]]] = [{} for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather_object(parts, self.values)
        gathered = Scores()
        for part in parts:
            gathered = gathered.merge(Scores(part))
        return gathered

    @property
    def metrics(self) -> list[str]:
        """Names of all metrics, in the order they first appear."""
        return list(dict.fromkeys(metric for scores in self.values.values() for metric in scores))

    def mean(self, metric: str) -> Mean:
        """Mean of per-image values; images where the metric is NaN are left out and counted."""
        values = [scores[metric] for scores in self.values.values() if metric in scores]
        defined = [value for value in values if not math.isnan(value)]
        # fsum rounds once, so the order of images makes no difference; it refuses infinities of both signs only
        mean = math.fsum(defined) / len(defined) if defined else math.nan
        return Mean(mean, len(defined), len(values) - len(defined))

    def total(self, metric: str) -> float:
        """Sum over images, for metrics that count something."""
        return math.fsum(scores[metric] for scores in self.values.values() if metric in scores)

    def means(self) -> dict[str, Mean]:
        """The mean of every metric."""
        return {metric: self.mean(metric) for metric in self.metrics}
