"""A folder of dated series of one's own: several dates of one place, with or without cloud masks."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, final

import numpy as np

from emrdm.data.folders import CLEAR_NAMES, Numbers, read_frame
from emrdm.data.layout import Decoded, Item, Layout, Listing, folder, natural
from emrdm.data.sample import CLEAR, NODATA, SHADOW, THICK, THIN, UNKNOWN
from emrdm.errors import DataError
from emrdm.rasters import SUFFIXES, Raster, read
from emrdm.wording import brief

_DATE = re.compile(r"(?<!\d)(19|20)(\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)")
_KNOWN = (CLEAR, THICK, THIN, SHADOW, NODATA)
_CLEAR_ENOUGH = 0.0  # share of cloudy pixels in a date that may serve as the target


@final
@dataclass(frozen=True)
class Series(Layout):
    """A folder of series, one folder a place; a folder of images alone is one place.

    ROOT/PLACE/NAME.tif, one file a date, in the order of the dates in their names or else of the names; NAME_mask.tif
    with 0 clear, 1 thick cloud, 2 thin cloud, 3 shadow, 255 no data, if there are masks; the target is PLACE/clear.tif,
    or else the clearest date whose mask has no cloud; ROOT/train/PLACE and ROOT/test/PLACE if there is a split
    """

    numbers: Numbers = field(default_factory=Numbers)

    def prepared(self, root: Path) -> Self:
        """With the bands of the folder's images."""
        images = (path for _, place in self._places(root) for path in _images(place))
        numbers, bands, levels = self.numbers.seen(images, f"{root} has no images: expected {self.layout_help()}")
        return replace(self, numbers=numbers, bands=bands, levels=levels)

    def _places(self, root: Path) -> list[tuple[str, Path]]:
        """Folders of places with their splits."""
        folder(root, self.layout_help())
        places = []
        for entry in sorted((e for e in root.iterdir() if e.is_dir()), key=lambda e: natural(e.name)):
            if entry.name in ("train", "val", "test"):
                inner = sorted((e for e in entry.iterdir() if e.is_dir()), key=lambda e: natural(e.name))
                places += [(entry.name, place) for place in inner]
            else:
                places.append(("", entry))
        places = [(split, place) for split, place in places if _images(place)]
        return places or [("", root)]

    def scan(self, root: Path, rule: str) -> Listing:  # noqa: ARG002 - it has one way only
        """One item a place."""
        items: list[Item] = []
        problems: list[str] = []
        without = []
        for split, place in self._places(root):
            item, wrong = _scan_place(place, split)
            problems += wrong
            if item is not None:
                items.append(item)
                if item.target is None and not item.masks:
                    without.append(item.name)
        notes = [] if any(item.splits for item in items) else ["the folder has no split: all places are one set"]
        stray = _images(root) if all(place != root for _, place in self._places(root)) else []
        if stray:
            notes.append(f"{brief(path.name for path in stray)} beside the folders of places: left out")
        if without:
            notes.append(f"no clear image and no masks to find one by: {', '.join(without)} can be shown, not scored")
        return Listing(tuple(items), tuple(problems), tuple(notes))

    def decode(self, item: Item) -> Decoded:
        """The frames in order of time, the target taken out of them where it is one of the dates."""
        first = read_frame(item.cloudy[0], self.bands, None, self.numbers.dtype)
        size = (first.pixels.shape[1], first.pixels.shape[2])
        frames = [first, *(read_frame(path, self.bands, size, self.numbers.dtype) for path in item.cloudy[1:])]
        classes = [_classes(path, frame) for path, frame in zip(item.masks, frames, strict=False)]
        if not classes and any(frame.valid is not None for frame in frames):
            classes = [_data_only(frame) for frame in frames]
        dates = list(item.dates)
        target: np.ndarray | None = None
        valid: np.ndarray | None = None
        if item.target is not None:
            clear = read_frame(item.target, self.bands, size, self.numbers.dtype)
            target, valid = clear.pixels, clear.valid
        elif item.masks:
            best = _clearest(classes)
            if best is not None:
                target, valid = frames.pop(best).pixels, classes.pop(best) != NODATA
                dates = dates[:best] + dates[best + 1 :]
        if not frames:
            raise DataError(f"{item.cloudy[0].parent} has one date, which is clear: expected a cloudy one beside it")
        return Decoded(
            np.stack([frame.pixels for frame in frames]),
            target,
            classes=np.stack(classes) if classes else None,
            valid=None if valid is None or valid.all() else valid,
            dates=tuple(dates),
        )


def _scan_place(place: Path, split: str) -> tuple[Item | None, list[str]]:
    images = _images(place)
    masks = {path.stem.removesuffix("_mask"): path for path in sorted(place.iterdir()) if _is_mask(path)}
    targets = [path for path in images if path.stem.lower() in CLEAR_NAMES]
    dated = {path: _date(path.stem) for path in images if path not in targets}
    known = {path.stem for path in images}
    problems = [f"{path} has no image of that name" for stem, path in masks.items() if stem not in known]
    masks = {stem: path for stem, path in masks.items() if stem not in {target.stem for target in targets}}
    if masks:
        problems += [f"{path} has no mask {path.stem}_mask" for path in dated if path.stem not in masks]
    frames = [path for path in dated if not masks or path.stem in masks]
    dates = tuple(dated[path] for path in frames)
    if all(dates):
        if len(set(dates)) != len(dates):
            return None, [*problems, f"{place} has two images of one date: expected one file a date"]
        frames = sorted(frames, key=lambda path: dated[path])
    if not frames:
        return None, [*problems, f"{place} has no cloudy images"]
    if len(targets) > 1:
        problems.append(f"{place} has {targets[0].name} and {targets[1].name}: expected one clear image")
    name = place.name if place.name not in ("", "..") else place.resolve().name
    name = f"{split}_{name}" if split else name
    return (
        Item(
            name,
            tuple(frames),
            targets[0] if targets else None,
            masks=tuple(masks[path.stem] for path in frames) if masks else (),
            splits=(split,) if split else (),
            dates=tuple(sorted(dates)) if all(dates) else (),
        ),
        problems,
    )


def _images(place: Path) -> list[Path]:
    """The dates of a place, in natural order."""
    found = (path for path in place.iterdir() if _is_image(path) and not _is_mask(path))
    return sorted(found, key=lambda path: natural(path.name))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def _is_mask(path: Path) -> bool:
    return _is_image(path) and path.stem.endswith("_mask")


def _date(stem: str) -> str:
    """The ISO date in a name, or an empty text."""
    found = _DATE.search(stem)
    if not found:
        return ""
    try:
        return datetime.date(int(found[1] + found[2]), int(found[3]), int(found[4])).isoformat()
    except ValueError:  # the 31st of a short month
        return ""


def _classes(path: Path, frame: Raster) -> np.ndarray:
    mask = read(path).pixels
    if mask.shape != (1, *frame.pixels.shape[1:]):
        raise DataError(f"{path} has shape {mask.shape}: expected one band of {frame.pixels.shape[1:]} pixels")
    unknown = sorted(set(np.unique(mask).tolist()) - set(_KNOWN))
    if unknown:
        raise DataError(f"{path} has the value {unknown[0]}: expected 0 clear, 1 thick, 2 thin, 3 shadow, 255 no data")
    classes: np.ndarray = mask[0].astype(np.uint8)
    if frame.valid is not None:
        classes[~frame.valid] = NODATA
    return classes


def _data_only(frame: Raster) -> np.ndarray:
    """Classes of a frame without a mask: which pixels have data is all that is known."""
    classes = np.full(frame.pixels.shape[1:], UNKNOWN, np.uint8)
    if frame.valid is not None:
        classes[~frame.valid] = NODATA
    return classes


def _clearest(classes: list[np.ndarray]) -> int | None:
    """The frame without any cloud that has the most data; None if all have cloud."""
    cloud = [((c != CLEAR) & (c != NODATA)).mean() for c in classes]
    data = [(c != NODATA).mean() for c in classes]
    free = [i for i in range(len(classes)) if cloud[i] <= _CLEAR_ENOUGH and data[i] > 0]
    return max(free, key=lambda i: data[i]) if free else None
