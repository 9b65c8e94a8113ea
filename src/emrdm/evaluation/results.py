"""What an evaluation found, as data: what tables and pages are made from."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, final

from emrdm.metrics import Scores

CLOUDY_IMAGE = "cloudy-image"  # the baseline that returns its input


@final
@dataclass(frozen=True)
class Method:
    """Something that was scored: its short name, what it is, and what kind of thing that is."""

    name: str
    title: str
    kind: Literal["model", "predictions", "baseline"]


@final
@dataclass(frozen=True)
class Published:
    """A row of somebody's table: figures from elsewhere, with where they come from and how they were computed."""

    method: str
    source: str
    protocol: str
    scores: Mapping[str, float]
    note: str = ""


@final
@dataclass(frozen=True)
class Evaluation:
    """Scores of methods on one split of one data set.

    Attributes:
        dataset: its name, such as "rice1".
        title: what it is, in a line.
        split: train, val, test or all.
        rule: how its lists were read, such as "strict" or "paper"; empty where there is one way only.
        protocols: names, in the order they are shown.
        methods: in the order they are shown.
        scores: per-image values by (method, protocol); metrics may have a region, as in "psnr/cloudy".
        facts: how it was made, for the foot of a report: model, digest, seed, sampler, version.
        notes: what a reader must know before using the figures: leaks, images left out, values clipped.
        published: figures of others on this data set.
    """

    dataset: str
    title: str
    split: str
    rule: str
    protocols: tuple[str, ...]
    methods: tuple[Method, ...]
    scores: Mapping[tuple[str, str], Scores]
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()

    @property
    def images(self) -> list[str]:
        """Names of the images that were scored."""
        return list(dict.fromkeys(name for scores in self.scores.values() for name in scores.values))

    def of(self, method: str, protocol: str) -> Scores:
        """The scores of a method by a protocol; none where it was not scored."""
        return self.scores.get((method, protocol), Scores())

    @property
    def subject(self) -> Method:
        """The method that a reader came for: the model, else the predictions, else the best of the baselines."""
        for kind in ("model", "predictions"):
            for method in self.methods:
                if method.kind == kind:
                    return method
        doing = [method for method in self.methods if method.name != CLOUDY_IMAGE] or list(self.methods)
        means = {method.name: self.of(method.name, self.protocols[0]).mean("psnr").value for method in doing}
        return max(doing, key=lambda method: -math.inf if math.isnan(means[method.name]) else means[method.name])


def picture_name(image: str, what: str) -> str:
    """Name of the file with an image's picture; a long one is cut and told apart by a digest."""
    name = f"{image}.{what}.webp"
    encoded = os.fsencode(name)
    if len(encoded) <= 200:
        return name
    return f"{encoded[:120].decode('utf-8', 'ignore')}-{hashlib.sha256(encoded).hexdigest()[:16]}.{what}.webp"
