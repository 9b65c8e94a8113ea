"""A scene before and after, side by side in one picture; large scenes are read piece by piece."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from emrdm import pictures
from emrdm.errors import InputError
from emrdm.rasters.bands import canonical
from emrdm.rasters.source import Source
from emrdm.window import Window
from emrdm.wording import many

_LOG = logging.getLogger(__name__)
_COLOURS = (("B4", "B3", "B2"), ("red", "green", "blue"), ("r", "g", "b"))
_SENTINEL2 = 13  # so many bands without names are taken for Sentinel-2's
_PIECE = 1024  # pixels along a side of what is read at once
_CHECKER, _SQUARE = (150, 190), 8  # shades and size of the squares where there is no data
# dark to bright, equally far apart to the eye, told apart by the colour-blind (five colours of matplotlib's viridis)
_SCALE = np.array([(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)], np.float64)
_LEGEND, _BAR = 34, (12, 200)  # height of the legend, size of the bar in it
_GAP = 6  # pixels between the pictures of a sheet and around them
SMALLEST = 64
"""Pixels along the side of a picture that still shows something."""


def draw(
    clear: Source,
    cloudy: Sequence[Source],
    *,
    uncertainty: Source | None = None,
    window: Window | None = None,
    bands: Sequence[str] = (),
    names: Sequence[str] = (),
    size: int = 1600,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Any:
    """Draw the dates before, the clear image after and the uncertainty, all on the same grid; a Pillow image.

    Colours are true where bands allow it and contrast is that of the clear image, which clouds exceed.

    Args:
        clear: the restored image.
        cloudy: what it was made from.
        uncertainty: its standard deviation; several bands are shown as their root mean square.
        window: the part to show, all of it by default.
        bands: to show instead of true colour, three or one, by names or by numbers from 1.
        names: written above the images, from left to right, instead of "before" and "after" with their files.
        size: width of the picture in pixels.
        progress: told how many pieces of how many were read.
    """
    maps = [] if uncertainty is None else [uncertainty]
    for source in [*cloudy, *maps]:
        _check_grid(clear, source)
    window = _checked(window, clear)
    if names and len(names) != 1 + len(cloudy):
        raise InputError(f"{many(len(names), 'name')} for {many(1 + len(cloudy), 'image')}: expected one each")
    count = 1 + len(cloudy) + len(maps)
    columns = count if count <= 4 else math.ceil(math.sqrt(count))
    side = (size - _GAP) // columns - _GAP
    if side < SMALLEST:
        raise InputError(
            f"a picture {size} pixels wide for {count} images: expected {columns * (SMALLEST + _GAP) + _GAP}"
        )

    choices = [_bands(source, bands) for source in (clear, *cloudy)] + [tuple(range(of.count)) for of in maps]
    longest = max(window.height, window.width)
    side -= side % longest if longest < side else 0  # small images are enlarged by whole numbers
    reading = _Reading(window, max(1, longest // side), count, progress)  # up to twice as large as shown
    parts = [reading.small(source, chosen) for source, chosen in zip((clear, *cloudy, *maps), choices, strict=True)]
    black_white = _limits(clear, parts[0])
    titles = names or [*map(_label, cloudy), f"after: {Path(clear.name).name}"]
    images = [_picture(part, black_white) for part in (*parts[1 : 1 + len(cloudy)], parts[0])]
    tiles = [pictures.Tile(*titled) for titled in zip(titles, images, strict=True)]
    highest = 0.0
    if maps:
        drawn, highest = _in_colours(parts[-1])
        tiles.append(pictures.Tile("uncertainty", drawn))
    page = pictures.sheet([tiles[i : i + columns] for i in range(0, count, columns)], side=side)
    height, width = (round(side * length / longest) for length in (window.height, window.width))
    page = page.crop((0, 0, page.width - (side - width), page.height - (side - height)))  # slots of a sheet are square
    return _with_legend(page, highest) if maps else page


def picture(
    source: Source, *, size: int = 1024, black_white: pictures.Limits | None = None
) -> tuple[np.ndarray, pictures.Limits]:
    """One image, (h, w, 3) uint8, no side much longer than ``size``; and its contrast, for others to be shown alike."""
    part = _whole(source, _bands(source, ()), size)
    black_white = black_white or _limits(source, part)
    return _picture(part, black_white), black_white


def spread(source: Source, *, size: int = 1024) -> tuple[np.ndarray, float]:
    """A map of standard deviations, (h, w) from 0 to 1 and NaN without data, and the value that is shown as 1."""
    part = _whole(source, tuple(range(source.count)), size)
    share, highest = _shares(part)
    return np.where(part.valid, share, np.nan), highest


def overlaid(picture: np.ndarray, share: np.ndarray, *, strength: float = 0.85) -> np.ndarray:
    """(h, w, 3) in gray under the colours of (h, w) from 0 to 1: the higher, the more colour; NaN leaves it alone."""
    gray = picture.mean(-1, keepdims=True)
    known = np.nan_to_num(share)[..., None]
    weight = strength * np.sqrt(known)  # small values are to be seen as well
    mixed = (1 - weight) * gray + weight * _colours(known[..., 0])
    return np.where(np.isnan(share)[..., None], picture, mixed.round()).astype(np.uint8)


def _whole(source: Source, bands: Sequence[int], size: int) -> _Part:
    window = Window(0, 0, source.grid.height, source.grid.width)
    factor = max(1, math.ceil(max(window.height, window.width) / size))
    return _Reading(window, factor, 1, lambda _done, _total: None).small(source, bands)


# ---------------------------------------------------------------- what to read


def _check_grid(clear: Source, other: Source) -> None:
    """The same size; the same place, too, where both know where they are, as a picture does not."""
    same_size = (clear.grid.height, clear.grid.width) == (other.grid.height, other.grid.width)
    located = clear.grid.georeferenced and other.grid.georeferenced
    difference = clear.grid.difference(other.grid) if located or not same_size else None
    if difference:
        raise InputError(f"{clear.name} and {other.name} are not on the same grid: {difference}")


def _checked(window: Window | None, source: Source) -> Window:
    whole = Window(0, 0, source.grid.height, source.grid.width)
    if window is None:
        return whole
    down, right = window.row + window.height, window.column + window.width
    if min(window.height, window.width) < 1 or min(window) < 0 or down > whole.height or right > whole.width:
        numbers = ",".join(map(str, window))
        raise InputError(f"window {numbers}: expected a part of the {source.grid.size} of {source.name}")
    return window


def _bands(source: Source, asked: Sequence[str]) -> tuple[int, ...]:
    """The bands to show: those asked for, red, green and blue, or else the first as gray."""
    own = [canonical(name) for name in source.names]
    if asked:
        if len(asked) not in (1, 3):
            raise InputError(f"bands are {', '.join(asked)}: expected three, or one")
        return tuple(_place(name, own, source) for name in asked)
    for names in _COLOURS:
        if all(own.count(name) == 1 for name in names):
            return tuple(own.index(name) for name in names)
    if not any(own) and source.count == 3:
        return (0, 1, 2)
    if not any(own) and source.count == _SENTINEL2:
        _LOG.info("%s: 13 bands without names are taken for Sentinel-2's", source.name)
        return (3, 2, 1)
    return (0,)


def _place(name: str, own: Sequence[str], source: Source) -> int:
    if canonical(name) in own:
        return own.index(canonical(name))
    if name.isdecimal() and 1 <= int(name) <= source.count:
        return int(name) - 1
    has = ", ".join(filter(None, source.names)) or "no names"
    raise InputError(f"{source.name} has no band {name!r}: it has {has}; numbers go from 1 to {source.count}")


# ---------------------------------------------------------------- reading


class _Part(NamedTuple):
    """What was read of an image, made small: (C, h, w) float32, and (h, w) bool."""

    image: np.ndarray
    valid: np.ndarray


class _Reading:
    """Reads images small: the mean of every square of pixels, of which the valid ones count."""

    def __init__(self, window: Window, factor: int, images: int, progress: Callable[[int, int], None]) -> None:
        self.window, self.factor, self.progress = window, factor, progress
        self.done, self.total = 0, images * sum(1 for _ in self.pieces())
        progress(0, self.total)

    def pieces(self) -> Iterator[Window]:
        """Windows of whole squares, but at the lower and right border."""
        step = self.factor * max(1, _PIECE // self.factor)
        row, column, height, width = self.window
        for down in range(0, height, step):
            for right in range(0, width, step):
                yield Window(row + down, column + right, min(step, height - down), min(step, width - right))

    def small(self, source: Source, bands: Sequence[int]) -> _Part:
        """Some bands of an image, in the units that the file's scale and offset give."""
        shape = (math.ceil(self.window.height / self.factor), math.ceil(self.window.width / self.factor))
        total, count = np.zeros((len(bands), *shape), np.float32), np.zeros((1, *shape), np.float32)
        for piece in self.pieces():
            pixels, valid = source.read(piece, bands)
            top, left = (piece.row - self.window.row) // self.factor, (piece.column - self.window.column) // self.factor
            known = _added_up(valid[None].astype(np.float32), self.factor)
            here = np.s_[:, top : top + known.shape[1], left : left + known.shape[2]]
            total[here] = _added_up(np.where(valid, pixels, 0).astype(np.float32), self.factor)
            count[here] = known
            self.done += 1
            self.progress(self.done, self.total)
        image = total / np.maximum(count, 1)
        for band, place in zip(image, bands, strict=True):
            band *= np.float32(source.scales[place])
            band += np.float32(source.offsets[place])
        return _Part(image, count[0] > 0)


def _added_up(image: np.ndarray, factor: int) -> np.ndarray:
    """Sums over squares of pixels; those at the lower and right border may be smaller."""
    count, height, width = image.shape
    padded = np.pad(image, ((0, 0), (0, -height % factor), (0, -width % factor)))
    squares = padded.reshape(count, padded.shape[1] // factor, factor, padded.shape[2] // factor, factor)
    return np.asarray(squares.sum((2, 4)))


# ---------------------------------------------------------------- drawing


def _limits(clear: Source, part: _Part) -> pictures.Limits:
    """Black and white of all pictures; 8-bit images are shown as they are, others by the range of the clear one."""
    return (0.0, 255.0) if clear.dtype == np.uint8 else pictures.limits(part.image[:, part.valid])


def _picture(part: _Part, black_white: pictures.Limits) -> np.ndarray:
    low, _ = black_white
    if isinstance(low, np.ndarray) and len(low) != len(part.image):  # one is gray and one in colour
        black_white = pictures.limits(part.image[:, part.valid])
    return _checkered(pictures.colour(part.image, range(len(part.image)), black_white), part.valid)


def _in_colours(part: _Part) -> tuple[np.ndarray, float]:
    """A map of standard deviations, and the value from which on it has the brightest colour."""
    share, highest = _shares(part)
    return _checkered(_colours(share), part.valid), highest


def _shares(part: _Part) -> tuple[np.ndarray, float]:
    """All bands together, as shares of a value that few exceed; and that value."""
    together = np.sqrt(np.square(part.image).mean(0))
    highest = float(np.quantile(together[part.valid], 0.98)) if part.valid.any() else 0.0
    return (together / (highest or 1.0)).clip(0, 1), highest


def _colours(share: np.ndarray) -> np.ndarray:
    """(...) in [0, 1] as (..., 3) uint8."""
    stops = np.linspace(0, 1, len(_SCALE))
    return np.stack([np.interp(share, stops, channel) for channel in _SCALE.T], -1).round().astype(np.uint8)


def _checkered(picture: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The picture with gray squares where there is no data: no shade of an image looks like them."""
    rows, columns = np.indices(valid.shape) // _SQUARE
    squares = np.where((rows + columns) % 2, *_CHECKER).astype(np.uint8)
    return np.where(valid[..., None], picture, squares[..., None])


def _label(source: Source) -> str:
    name = Path(source.name).name
    return f"before: {source.date}, {name}" if source.date and str(source.date) not in name else f"before: {name}"


def _with_legend(page: Any, highest: float) -> Any:
    """The sheet with the scale of the uncertainty below it."""
    from PIL import Image, ImageDraw, ImageFont

    result = Image.new("RGB", (page.width, page.height + _LEGEND), "white")
    result.paste(page, (0, 0))
    canvas, font = ImageDraw.Draw(result), ImageFont.load_default(12)
    height, width = _BAR
    bar = np.broadcast_to(_colours(np.linspace(0, 1, width)), (height, width, 3))
    start, left, top = "standard deviation: 0", _GAP, page.height + _GAP
    canvas.text((left, top - 2), start, fill="black", font=font)
    left += round(canvas.textlength(start, font=font)) + _GAP
    result.paste(Image.fromarray(np.ascontiguousarray(bar)), (left, top))
    canvas.text((left + width + _GAP, top - 2), f"{highest:.3g} and more", fill="black", font=font)
    return result
