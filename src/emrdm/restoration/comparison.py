"""A restored image beside the truth and its uncertainty map: which bands belong together, a sample of their pixels."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import numpy as np

from emrdm.errors import InputError
from emrdm.rasters.bands import canonical
from emrdm.rasters.base import Source
from emrdm.rasters.tiles import blocks
from emrdm.wording import brief, many

_PIECE = 512  # pixels along a side of what is read at once
_MOST = 4_000_000  # values that are compared, over pixels and bands: they have to be in memory, and sorted
_SEED = 0
_STD = "_std"  # what the map's bands are called behind the image's
_ORIGIN = ("EMRDM_MODEL_DIGEST", "EMRDM_INPUTS", "EMRDM_SAMPLER", "EMRDM_SAMPLES", "EMRDM_SEED")


class Trio(NamedTuple):
    """A restored image, what it should be, and the map of its uncertainty."""

    clear: Source
    truth: Source
    spread: Source


def check_grids(images: Sequence[Source]) -> None:
    """The same size; the same place, too, where both know where they are, as a picture does not. No file twice."""
    clear = images[0]
    for i, image in enumerate(images[1:], 1):
        if any(image.identity == other.identity for other in images[:i]):
            raise InputError(f"{image.name} is given twice: expected different images")
        same_size = (clear.grid.height, clear.grid.width) == (image.grid.height, image.grid.width)
        located = clear.grid.georeferenced and image.grid.georeferenced
        difference = image.grid.difference(clear.grid) if located or not same_size else None
        if difference:
            raise InputError(f"{image.name} and {clear.name} are not on the same grid: {difference}")
    if len(images) > 3 and images[3].count != 1:
        raise InputError(f"{images[3].name} has {images[3].count} bands: expected 1 in a cloud mask")


def bands_of(trio: Trio) -> tuple[list[str], list[list[int]]]:
    """Names of the map's bands, and where each image has them."""
    clear, truth, spread = trio
    maps = [i for i, name in enumerate(spread.names) if name.endswith(_STD)]
    names = [spread.names[i].removesuffix(_STD) for i in maps]
    if not names:
        raise InputError(
            f"{spread.name} has bands {_listed(spread.names)}: "
            f"expected NAME{_STD}, as emrdm restore --uncertainty writes them"
        )
    known = {canonical(name) for name in names}
    without = [f"{name}{_STD}" for name in clear.names if name and canonical(name) not in known]
    if without:
        raise InputError(f"{spread.name} has no band {brief(without)}: expected one for each band of {clear.name}")
    places = [_places(image, names) for image in (clear, truth)]
    for name, ours, theirs in zip(names, *places, strict=True):
        meant = [(image.scales[at], image.offsets[at]) for image, at in ((truth, theirs), (clear, ours))]
        if meant[0] != meant[1]:
            texts = [f"scale {scale:g} and offset {offset:g}" for scale, offset in meant]
            raise InputError(f"{truth.name} does not fit {clear.name}: band {name} has {texts[0]} against {texts[1]}")
    return names, [*places, maps]


def _places(image: Source, names: Sequence[str]) -> list[int]:
    """Where an image has these bands: by name, or in this order if it has no names at all."""
    if not any(image.names):
        if image.count != len(names):
            raise InputError(
                f"{image.name} has {many(image.count, 'band')} without names: expected {len(names)}, {_listed(names)}"
            )
        return list(range(image.count))
    own = [canonical(name) for name in image.names]
    missing = [name for name in names if canonical(name) not in own]
    if missing:
        raise InputError(f"{image.name} has no band {brief(missing)}: it has {_listed(image.names)}")
    twice = [name for name in names if own.count(canonical(name)) > 1]
    if twice:
        raise InputError(f"{image.name} has band {twice[0]} twice: expected one")
    return [own.index(canonical(name)) for name in names]


def _listed(names: Sequence[str]) -> str:
    return brief([name or "(no name)" for name in names], 15)


def samples_of(trio: Trio) -> int | None:
    """How many samples image and map come from, as their tags say; None where they do not."""
    clear, _, spread = trio
    for key in _ORIGIN:
        ours, theirs = clear.tags.get(key), spread.tags.get(key)
        if ours is not None and theirs is not None and ours != theirs:
            raise InputError(f"{spread.name} was not written with {clear.name}: {key} is {theirs} against {ours}")
    text = clear.tags.get("EMRDM_SAMPLES", spread.tags.get("EMRDM_SAMPLES"))
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 2:
        raise InputError(f"{clear.name} has EMRDM_SAMPLES {text}: expected 2 or more, one has no spread")
    return int(text)


# ---------------------------------------------------------------- reading


@final
class Sample:
    """An even sample of pixels of which nobody knows how many will come.

    Every pixel draws a lot between 0 and 1, and those below a bound stay; the bound is halved whenever they are too
    many. A stride would do as well, were it not for tiles, whose seams come at a stride, too.
    """

    def __init__(self, most: int) -> None:
        self.most, self.bound, self.seen, self.kept = most, 1.0, 0, 0
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, values: np.ndarray, lots: np.ndarray) -> None:
        """Take (..., n) values of n pixels, and their lots."""
        self.seen += lots.size
        self._parts.append(self._below(lots, values))
        self.kept += self._parts[-1][0].size
        while self.kept > self.most:
            self.bound /= 2
            self._parts = [self._below(*part) for part in self._parts]
            self.kept = sum(part.size for part, _ in self._parts)

    def _below(self, lots: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        stays = lots < self.bound
        return lots[stays], values[..., stays]

    def values(self) -> np.ndarray:
        """(..., n) values of those that stayed."""
        return np.concatenate([values for _, values in self._parts], -1)


def draw(
    trio: Trio, places: Sequence[Sequence[int]], mask: Sequence[Source], progress: Callable[[int, int], None]
) -> Sample:
    """(3, C, n) values of the image, the truth and the map, where all have data and the mask has cloud."""
    sample = Sample(max(1, _MOST // len(places[0])))
    grid = trio.clear.grid
    pieces = list(blocks(grid.height, grid.width, _PIECE))
    for done, piece in enumerate(pieces):
        progress(done, len(pieces))
        usable = np.ones((piece.height, piece.width), bool)
        for image in mask:
            pixels, known = image.read(piece)
            usable &= known & (pixels[0] != 0)
        if not usable.any():
            continue
        values = []
        for image, bands in zip(trio, places, strict=True):
            pixels, known = image.read(piece, bands)
            usable &= known
            values.append(pixels)
        lots = np.random.default_rng((_SEED, piece.row, piece.column)).random(usable.sum())
        sample.add(np.stack([pixels[:, usable].astype(np.float64) for pixels in values]), lots)
    progress(len(pieces), len(pieces))
    if not sample.kept:
        clouds = f" and cloud in {mask[0].name}" if mask else ""
        raise InputError(f"no pixel has data in {', '.join(image.name for image in trio)}{clouds}: expected one")
    return sample
