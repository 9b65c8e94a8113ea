"""The folders that a recipe names, opened as data sets."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from emrdm.config import Band, ModelConfig
from emrdm.data import Dataset, Numbers, find_layout
from emrdm.data.cache import Cache
from emrdm.data.clouds import STYLES
from emrdm.data.folders import OWN_UNIT
from emrdm.data.synthetic import Synthetic
from emrdm.errors import ConfigError, InputError, printable
from emrdm.presets import Preset
from emrdm.presets.recipe import Source, TrainConfig
from emrdm.strict import dump
from emrdm.wording import many

_LOG = logging.getLogger(__name__)


def open_training(
    sources: Sequence[Source], config: ModelConfig, train: TrainConfig, make_cache: Callable[[], Cache | None]
) -> list[Dataset]:
    """The training splits; files that are missing are left out and said."""
    if not sources:
        raise ConfigError("there is no data to train on: expected --data NAME=ROOT, or data in the recipe")
    options = {"augmentation": train.augmentation, "crop": train.crop}
    return [open_source(source, config, "train", cache=make_cache(), **options) for source in sources]


def open_validation(
    sources: Sequence[Source], config: ModelConfig, make_cache: Callable[[], Cache | None]
) -> list[Dataset]:
    """The validation splits of those that have one."""
    found = []
    for source in sources:
        try:
            found.append(open_source(source, config, "val", cache=make_cache()))
        except InputError:  # the training split was opened before: it is this one that is empty
            own = find_layout(source.dataset).own_validation
            why = "has none of the images on its list" if own else "has one image, which is trained on"
            _LOG.warning("%s is not validated: %s %s", source.dataset, printable(source.root), why)
    return found


def with_ranges_of(datasets: Sequence[Dataset], recipe: Preset) -> Preset:
    """The recipe for a model that takes the numbers of one's own images as they are.

    What black and white are in a folder of one's own only its owner knows; a preset's 0 to 255 would cut reflectances
    to white. The weights then say what they were trained with.
    """
    own: dict[str, Band] = {}
    for dataset in datasets:
        for band in (*dataset.bands, *dataset.aux):
            known = own.get(band.name, band)
            if band.unit == OWN_UNIT and (known.low, known.high) != (band.low, band.high):
                raise ConfigError(
                    f"{band.name} is {known.low:g} to {known.high:g} in one data set and {band.low:g} to {band.high:g} "
                    "in another: expected one range, since a model has one"
                )
            own |= {band.name: band} if band.unit == OWN_UNIT else {}
    changes = {}
    for part, bands in (("bands", recipe.model.bands), ("aux", recipe.model.aux)):
        adopted = [own.get(b.name, b) if (b.low, b.high) != _ends(own.get(b.name, b)) else b for b in bands]
        if list(bands) != adopted:
            _LOG.info(
                "%s: %s, as the images are", part, ", ".join(f"{b.name} {b.low:g} to {b.high:g}" for b in adopted)
            )
            changes[f"model.{part}"] = [dump(band) for band in adopted]
    return recipe.replace(changes) if changes else recipe


def _ends(band: Band) -> tuple[float, float]:
    return band.low, band.high


def contents(datasets: Sequence[Dataset]) -> dict[str, Any]:
    """What is in them, whatever folder they are in."""
    return {
        f"{place + 1}": {
            "dataset": dataset.layout.name,
            "rule": dataset.rule,
            "images": len(dataset),
            "names": digest_of(dataset.names),
            "bands": [[band.name, band.low, band.high] for band in dataset.bands],
            **({"clouds": dump(dataset.layout.style)} if isinstance(dataset.layout, Synthetic) else {}),
        }
        for place, dataset in enumerate(datasets)
    }


def digest_of(names: Iterable[str]) -> str:
    """What tells these images, in this order, from others."""
    return hashlib.sha256(os.fsencode("\n".join(names))).hexdigest()[:16]


def sizes(datasets: Sequence[Dataset]) -> list[tuple[str, int]]:
    """Kinds of data sets and their numbers of images."""
    return [(dataset.layout.name, len(dataset)) for dataset in datasets]


def summary(found: Iterable[tuple[str, int]]) -> str:
    """Names and sizes, in words."""
    return ", ".join(f"{name} ({many(images, 'image')})" for name, images in found)


def open_source(source: Source, config: ModelConfig, split: str | None, **options: Any) -> Dataset:
    """A split of a folder, with as many frames as the model takes; options are those of the data set."""
    changes: dict[str, Any] = {}
    if source.bands or source.range is not None:
        low, high = source.range or (None, None)
        changes["numbers"] = Numbers(source.bands, low, high)
    if source.clouds is not None:
        changes["style"] = STYLES[source.clouds]
    if source.dataset == "synthetic":  # as many frames as asked for are drawn
        changes["frames"] = source.frames or config.frames
    return Dataset(
        find_layout(source.dataset, **changes),
        Path(source.root),
        split=split,
        rule=source.rule,
        on_error="skip",
        frames=config.frames,
        **options,
    )
