"""Where weights come from and how good they are: what people ask before they trust a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from emrdm.errors import ConfigError
from emrdm.strict import check


@final
@dataclass(frozen=True)
class Results:
    """Scores of one model on one data set; a score without its protocol means nothing."""

    dataset: str
    protocol: str
    source: str
    scores: Mapping[str, float]

    def __post_init__(self) -> None:
        check(self, "results")
        for name, score in self.scores.items():
            if abs(score) == float("inf"):
                raise ConfigError(f"results.scores.{name} is infinite: expected a number")


@final
@dataclass(frozen=True)
class ModelCard:
    """Provenance of weights.

    Attributes:
        title: what the model is for, in a line.
        source: where the weights come from: who trained them, from which file they were converted.
        licence: of the weights, SPDX where possible.
        training: data and recipe, in a few words.
        results: measured scores, each with its protocol.
    """

    title: str = ""
    source: str = "not trained: random initialisation"
    licence: str = "unknown"
    training: str = ""
    results: tuple[Results, ...] = ()

    def __post_init__(self) -> None:
        check(self, "card")
