"""Arrays as pictures: true colour, gray, cloud masks, and sheets of them with labels. Needs Pillow to write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from emrdm.errors import InputError, MissingDependencyError, printable
from emrdm.files import atomic_path

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_CLASSES = {
    0: (40, 40, 46),
    1: (245, 245, 245),
    2: (120, 170, 230),
    3: (230, 190, 60),
    254: (90, 90, 100),
    255: (150, 40, 90),
}
_LONGEST = {"JPEG": 65500, "WEBP": 16383}  # pixels of a side that the format knows
_SHOULDER, _BRIGHTEST = 0.8, 12.0  # share of white where it bends, and what becomes white, for limits of land
_LARGEST = 1 << 28  # pixels of a sheet
_INK, _EDGE, _PAPER, _GAP, _LABEL = (30, 32, 38), (170, 174, 182), (255, 255, 255), 6, 18


class Tile(NamedTuple):
    """A picture in a sheet: (H, W, 3) uint8, and what is written above it."""

    label: str
    pixels: np.ndarray


Limits = tuple[float | np.ndarray, float | np.ndarray]


def limits(image: np.ndarray, *, share: float = 0.02) -> Limits:
    """Values of (C, ...) that become black and white so that all but a share at each end can be told apart.

    Each band has its own black, which takes the blue of the air away, and all have the same contrast.
    """
    bands = [band[np.isfinite(band)] for band in image.reshape(len(image), -1)]
    if not all(band.size for band in bands):
        return 0.0, 1.0
    ends = np.array([np.quantile(band, (share, 1 - share)) for band in bands])
    span = float((ends[:, 1] - ends[:, 0]).max()) or 1.0
    low = ends[:, :1, None]
    return low, low + span


def colour(image: np.ndarray, bands: Sequence[int], black_white: Limits = (-1.0, 1.0)) -> np.ndarray:
    """(C, H, W) as (H, W, 3) uint8: three of its bands, or one as gray.

    Values outside of plain limits saturate. Limits from :func:`limits` are those of land, which clouds exceed many
    times: above them brightness goes on slowly, so that an overcast date is not a blank.
    """
    low, high = black_white
    with np.errstate(over="ignore"):
        scaled = (image[list(bands)].astype(np.float32) - low) / (high - low)
    scaled = np.nan_to_num(scaled.clip(0, 1e6), nan=0)
    if isinstance(low, np.ndarray):
        bright = (scaled - _SHOULDER).clip(0)
        scaled = np.minimum(scaled, _SHOULDER) + (1 - _SHOULDER) * np.log1p(bright) / np.log1p(_BRIGHTEST)
    scaled = (scaled.clip(0, 1) * 255 + 0.5).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(scaled, (3, *scaled.shape[1:])).transpose(1, 2, 0))


def classes(mask: np.ndarray) -> np.ndarray:
    """A cloud mask (H, W) as (H, W, 3): thick white, thin blue, shadow yellow, no data purple, clear dark."""
    picture = np.zeros((*mask.shape, 3), np.uint8)
    for value, rgb in _CLASSES.items():
        picture[mask == value] = rgb
    return picture


def sheet(rows: Sequence[Sequence[Tile]], *, side: int = 224, title: str = "") -> Any:
    """A contact sheet: one row a sample, every picture as large as ``side`` allows; a Pillow image."""
    from_pillow = _pillow()
    columns = max((len(row) for row in rows), default=0)
    if not columns:
        raise InputError("a sheet needs one picture at least")
    top = 30 if title else _GAP
    width, height = columns * (side + _GAP) + _GAP, top + len(rows) * (side + _LABEL + _GAP)
    if width * height > _LARGEST:
        raise InputError(f"a sheet would be {width} x {height} pixels: expected fewer rows or smaller pictures")
    page = from_pillow.Image.new("RGB", (width, height), _PAPER)
    draw = from_pillow.ImageDraw.Draw(page)
    if title:
        font = from_pillow.ImageFont.load_default(15)
        draw.text((_GAP, 7), _fitting(draw, title, font, width - 2 * _GAP), fill=_INK, font=font)
    font = from_pillow.ImageFont.load_default(11)
    for i, row in enumerate(rows):
        for j, tile in enumerate(row):
            x, y = _GAP + j * (side + _GAP), top + i * (side + _LABEL + _GAP)
            draw.text((x, y + 3), _fitting(draw, tile.label, font, side), fill=_INK, font=font)
            picture = shrunk(tile.pixels, side)
            page.paste(picture, (x, y + _LABEL))
            box = (x - 1, y + _LABEL - 1, x + picture.width, y + _LABEL + picture.height)
            draw.rectangle(box, outline=_EDGE)  # an overcast date is white on white
    return page


def shrunk(pixels: np.ndarray, side: int) -> Any:
    """A Pillow image of (H, W, 3) uint8, no side longer than ``side``; small ones are enlarged by whole numbers."""
    pillow = _pillow()
    image = pillow.Image.fromarray(pixels)
    longest = max(image.size)
    if longest > side:
        size = tuple(max(1, round(length * side / longest)) for length in image.size)
        return image.resize(size, pillow.Image.Resampling.LANCZOS)
    factor = side // longest
    return image.resize((image.width * factor, image.height * factor), pillow.Image.Resampling.NEAREST)


def save(image: Any, path: Path, *, quality: int = 88, sweep: bool = True) -> None:
    """Write a Pillow image by the suffix of its name; the file is there whole or not at all (see ``atomic_path``)."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path}: expected a name ending in {', '.join(FORMATS)}")
    options = {} if kind == "PNG" else {"quality": quality}
    longest = _LONGEST.get(kind, 1 << 31)
    if max(image.size) > longest:
        raise InputError(
            f"{path} would be {image.width} x {image.height} pixels: expected {longest} at most for {kind}"
        )
    with atomic_path(path, sweep=sweep) as temporary, temporary.open("wb") as file:
        image.save(file, kind, **options)


def _fitting(draw: Any, text: str, font: Any, width: int) -> str:
    """Text on one line, cut in the middle until it fits."""
    short = text = printable(text)
    while len(text) > 4 and draw.textlength(short, font=font) > width:
        text = text[: len(text) // 2 - 1] + text[len(text) // 2 :] if len(text) > 8 else text[:-1]
        short = text[: len(text) // 2] + "..." + text[len(text) // 2 :]
    return short


def _pillow() -> Any:
    try:
        import PIL
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError:
        raise MissingDependencyError("pictures need pillow: pip install 'emrdm[pictures]'") from None
    return PIL
