"""Whether images that a model is scored on are ones it was trained on, as far as that can be known."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from emrdm.cli import models
from emrdm.errors import ConfigError
from emrdm.wording import many

if TYPE_CHECKING:
    from emrdm.card import ModelCard
    from emrdm.data import Dataset


def note(model: str, card: ModelCard, dataset: Dataset, scored: Collection[str]) -> str | None:
    """A line where the model was trained on some of the scored images, None where it was not or nobody can tell.

    The folder of a run tells: it was trained on this folder, or on images of the same names. Weights alone have a
    card, which names kinds of data sets and numbers of images.
    """
    training = dataset.parts["train"]
    known = set(scored) & set(training)
    if not known:
        return None
    who = Path(model).name
    found = _by_the_run(model, dataset)
    if found is None:
        counted = f"{dataset.layout.name} ({many(len(training), 'image')})"
        if counted not in card.training:
            return None
        why = f"{who} was, by its card, trained on {counted}, as many as this folder has for it; if it was this one,"
    elif found:
        why = f"{who} was trained on this folder:"
    else:
        return None
    others = next((split for split in ("test", "val") if dataset.parts[split]), None)
    instead = f"; --split {others} has images it was not trained on" if others else ""
    return f"{why} it has learnt from {len(known):,} of the {many(len(scored), 'image')} scored here{instead}"


def _by_the_run(model: str, dataset: Dataset) -> bool | None:
    """Whether the run that made the model took this folder; None where there is no run to ask."""
    folder = models.run_of(model)
    if folder is None:
        return None

    from emrdm.training import RunFolder
    from emrdm.training.sources import digest_of

    try:
        facts = RunFolder(folder).facts()
        roots = {(source["dataset"], Path(source["root"]).resolve()) for source in facts["recipe"]["data"]}
        names = {(part["dataset"], part["names"]) for part in facts["samples"].values()}
    except (ConfigError, LookupError, TypeError, AttributeError):  # somebody has changed it: the card is left
        return None
    kind = dataset.layout.name
    return (kind, dataset.root.resolve()) in roots or (kind, digest_of(dataset.parts["train"])) in names
