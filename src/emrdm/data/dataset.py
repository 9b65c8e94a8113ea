"""A folder opened as a data set: a split of it, each item read, checked and scaled to [-1, 1]."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from emrdm.config import Band
from emrdm.data.augment import Augmentation, augment
from emrdm.data.bands import colours
from emrdm.data.cache import Cache
from emrdm.data.layout import VALIDATION, Decoded, Item, Layout, choose, folder, without_twins
from emrdm.data.sample import NODATA, Sample
from emrdm.errors import DataError, InputError, printable
from emrdm.files import as_path
from emrdm.images import to_model_units
from emrdm.metrics import Data
from emrdm.wording import many

_LOG = logging.getLogger(__name__)
OnError = Literal["stop", "skip"]


@final
@dataclass(frozen=True)
class Draw:
    """An index and the key of its augmentation: what a training loader asks for."""

    index: int
    key: int


class Failure(NamedTuple):
    """An item that could not be read, and why."""

    name: str
    reason: str


@final
class Dataset(torch.utils.data.Dataset[Sample]):
    """The samples of one split.

    Indexing gives a :class:`Sample`; a :class:`Draw` gives it augmented. A file that cannot be read raises a
    :class:`~emrdm.errors.DataError` that names it; :meth:`fetch` returns a :class:`Failure` instead.
    """

    def __init__(
        self,
        layout: Layout,
        root: str | Path,
        *,
        split: str | None = "all",
        rule: str | None = None,
        validation: float = VALIDATION,
        on_error: OnError = "stop",
        cache: Cache | None = None,
        frames: int | None = None,
        augmentation: Augmentation | None = None,
        crop: int | None = None,
    ) -> None:
        """Open a folder.

        Args:
            layout: what kind of data set it is.
            root: its folder.
            split: train, val, test or all; None is test where the folder has such a split, else all.
            rule: how the data set's own lists are read, see ``layout.rules``.
            validation: share of the training items that become "val" where the data set has no such split of its own.
            on_error: what to do about missing partners: refuse the folder, or leave those items out and say so.
            cache: keeps decoded images.
            frames: take the first so many frames only.
            augmentation: of a :class:`Draw`; the data set's own recipe if None.
            crop: side of the square that a :class:`Draw` cuts out.
        """
        if frames is not None and frames < 1:
            raise InputError(f"frames is {frames}: expected 1 or more")
        root = as_path(root, "the root of a data set")
        self.layout = layout.prepared(folder(root, layout.layout_help()))
        self.root, self.rule = root, pick_rule(layout, rule)
        self.cache, self.frames, self.crop = cache, frames, crop
        self.augmentation: Augmentation = augmentation or layout.augmentation
        listing = without_twins(self.layout.scan(root, self.rule))
        self.problems, self.notes = listing.problems, listing.notes
        if self.problems and on_error == "stop":
            more = f" (and {len(self.problems) - 1} more: see emrdm data verify)" if len(self.problems) > 1 else ""
            raise DataError(f"{self.problems[0]}{more}")
        for problem in self.problems:
            _LOG.warning("left out: %s", printable(problem))
        if split is None:
            split = "test" if any("test" in item.splits for item in listing.items) else "all"
        self.split = split
        self._carve = 0 if layout.own_validation else validation
        self.items = choose(listing.items, split, carve=self._carve)
        if not self.items:
            raise InputError(_nothing(self.layout, root, split, listing.items))

    def __len__(self) -> int:
        return len(self.items)

    @property
    def names(self) -> list[str]:
        """Names of the samples, in order."""
        return [item.name for item in self.items]

    @cached_property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """Names of all that is in the folder, by split; looked for when it is asked, since few want to know."""
        items = without_twins(self.layout.scan(self.root, self.rule)).items
        return {
            part: tuple(item.name for item in choose(items, part, carve=self._carve))
            for part in ("train", "val", "test")
        }

    @property
    def bands(self) -> tuple[Band, ...]:
        """Of cloudy frames and target."""
        return self.layout.bands

    @property
    def aux(self) -> tuple[Band, ...]:
        """Auxiliary bands."""
        return self.layout.aux

    @property
    def data(self) -> Data:
        """What protocols must know: depth and colours."""
        return Data(self.layout.levels, colours(self.layout.bands))

    def __getitem__(self, index: int | Draw) -> Sample:
        place, key = (index.index, index.key) if isinstance(index, Draw) else (index, None)
        item = self.items[place]
        sample = self._scaled(item, self.layout.render(item, self.decoded(item), key))
        return sample if key is None else augment(sample, key, kind=self.augmentation, crop=self.crop)

    def fetch(self, index: int | Draw) -> Sample | Failure:
        """As indexing, but a file that cannot be read is an answer, not an exception."""
        try:
            return self[index]
        except DataError as error:
            return Failure(self.items[index.index if isinstance(index, Draw) else index].name, str(error))

    def decoded(self, item: Item) -> Decoded:
        """The numbers of an item, from the cache if there is one."""
        decode = self.layout.decode
        return decode(item) if self.cache is None else self.cache.get(item, decode, recipe=self.layout.name)

    def preload(
        self,
        indices: Iterable[int] | None = None,
        *,
        workers: int = 4,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Failure]:
        """Decode these items, or all, into the cache, in threads; the items that could not be read."""
        items = self.items if indices is None else [self.items[i] for i in dict.fromkeys(indices)]
        failures = []

        def decode(item: Item) -> Failure | None:
            try:
                self.decoded(item)
            except DataError as error:
                return Failure(item.name, str(error))
            return None

        with ThreadPoolExecutor(workers) as pool:
            for done, failure in enumerate(pool.map(decode, items), 1):
                failures += [failure] if failure else []
                if progress:
                    progress(done, len(items))
        return failures

    def _scaled(self, item: Item, decoded: Decoded) -> Sample:
        chosen = slice(self.frames)
        if self.frames is not None and len(decoded.cloudy) < self.frames:
            raise DataError(f"{item.name} has {len(decoded.cloudy)} frames: expected {self.frames} at least")
        repaired: dict[str, int] = {}
        return Sample(
            name=item.name,
            cloudy=scale(decoded.cloudy[chosen], self.bands, repaired, decoded.valid),
            target=None if decoded.target is None else scale(decoded.target, self.bands, repaired, decoded.valid),
            aux=None if decoded.aux is None else scale(decoded.aux[chosen], self.aux, repaired, decoded.valid),
            classes=None if decoded.classes is None else torch.from_numpy(decoded.classes[chosen].copy()),
            valid=_known(decoded, chosen),
            dates=decoded.dates[chosen],
            repaired={reason: count for reason, count in repaired.items() if count},
        )


def _known(decoded: Decoded, chosen: slice) -> Tensor | None:
    """Pixels that can be scored: the target is a number there, and one of the frames has data."""
    parts = [] if decoded.valid is None else [decoded.valid]
    if decoded.target is not None and decoded.target.dtype.kind == "f":
        parts.append(np.isfinite(decoded.target).all(0))
    if decoded.classes is not None:
        parts.append((decoded.classes[chosen] != NODATA).any(0))
    known = np.logical_and.reduce(parts) if parts else np.array(True)
    return None if known.all() else torch.from_numpy(known)


def scale(
    numbers: np.ndarray, bands: Sequence[Band], repaired: dict[str, int], valid: np.ndarray | None = None
) -> Tensor:
    """To [-1, 1], float32. NaN and infinities that remain become -1, the band's lower end.

    How many values were changed is added to ``repaired``, by reason; pixels that are not ``valid`` don't count.
    """
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is dealt with as such
        x = torch.from_numpy(numbers.astype(np.float32))
    scaled = to_model_units(x, bands, "image")
    counted = torch.tensor(True) if valid is None else torch.from_numpy(valid)
    clipped = [band for band in bands if band.clip]
    if clipped and not (numbers.dtype == np.uint8 and all(band.low <= 0 and band.high >= 255 for band in clipped)):
        low, high, clip = (
            torch.tensor([getattr(band, name) for band in bands])[:, None, None] for name in ("low", "high", "clip")
        )
        outside = ((x < low) | (x > high)) & clip & counted
        repaired["clipped"] = repaired.get("clipped", 0) + int(outside.sum())
    if numbers.dtype.kind == "f":
        bad = ~torch.isfinite(scaled)
        repaired["nan"] = repaired.get("nan", 0) + int((bad & counted).sum())
        scaled = scaled.masked_fill(bad, -1.0)
    return scaled


def pick_rule(layout: Layout, rule: str | None) -> str:
    """The rule a user asked for, or the data set's default."""
    if rule is None:
        return layout.rules[0] if layout.rules else ""
    if rule not in layout.rules:
        known = f"{layout.name} has one way to be read" if not layout.rules else f"expected {' or '.join(layout.rules)}"
        raise InputError(f"rule is {rule!r}: {known}")
    return rule


def _nothing(layout: Layout, root: Path, split: str, items: Sequence[Item]) -> str:
    if not items:
        return f"{root} has no images: expected {layout.layout_help()}"
    listed = sorted({s for item in items for s in item.splits})
    there = f"the folder has {', '.join(listed)}" if listed else "the folder has no split"
    hint = "images to train on" if split == "train" else f"--split all for {many(len(items), 'image')}"
    return f"{root} has no images for split {split!r}: {there}; expected {hint}"


def summary_of_repairs(repaired: dict[str, int]) -> str:
    """What was changed on the way, in words; empty if nothing was."""
    words = {"clipped": "values clipped to the range of their band", "nan": "values not finite, set to the lower end"}
    return "; ".join(f"{count:,} {words[reason]}" for reason, count in repaired.items() if count)
