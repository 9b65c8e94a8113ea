"""Pictures through Pillow: PNG, WebP and JPEG, and the world files beside them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from emrdm.errors import DataError, MissingDependencyError
from emrdm.rasters.grid import as_wkt
from emrdm.rasters.guard import PICTURES, misnamed, opened_picture

_LARGEST = 1 << 30  # numbers in one image; a header may promise anything
_ALWAYS_PLAUSIBLE = 1 << 25
_RATIO = 200  # numbers for a byte of a picture's file; photographs reach 50, an empty PNG 1000


def decode(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """All of a picture, (C, H, W), and where it is not transparent, (H, W) bool or None for everywhere."""
    kind = PICTURES[path.suffix.lower()]
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingDependencyError(f"{path} needs pillow: pip install 'emrdm[pictures]'") from None
    _refuse_deep_colour(path, kind)
    try:
        with opened_picture(path, kind) as image:
            check_size(path, len(image.getbands()), image.height, image.width)
            _check_plausible(path, kind, len(image.getbands()) * image.height * image.width)
            image.load()
            if world_file(path) is None:  # which is about pixels as they are stored
                image = ImageOps.exif_transpose(image)  # as everybody shows it
            return _from_pillow(path, image)
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        struct.error,
        zlib.error,
        Image.DecompressionBombError,
    ) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a whole {kind} image: {misnamed(path, kind) or error}") from None


def check_size(path: Path, bands: int, height: int, width: int) -> None:
    """Refuse an image that is too large to be read at once."""
    if bands * height * width > _LARGEST:
        raise DataError(
            f"{path} is {width} x {height} pixels of {bands} bands: expected at most {_LARGEST:,} numbers in an image"
        )


def _check_plausible(path: Path, kind: str, declared: int) -> None:
    """Refuse a picture that would fill the memory from next to nothing."""
    size = path.stat().st_size
    if declared > max(_ALWAYS_PLAUSIBLE, _RATIO * size):
        raise DataError(f"{path} is not a whole {kind} image: it promises {declared:,} numbers in {size:,} bytes")


def world_file(path: Path) -> tuple[float, float, float, float, float, float] | None:
    """The transform in the world file beside an image, as in affine.Affine; None where there is none.

    Its name is the image's with another suffix: the first and last letter of the image's and a w, all of it and a w,
    or ``.wld``.
    """
    letters = path.suffix[1:]
    for suffix in (f".{letters[0]}{letters[-1]}w", f".{letters}w", ".wld"):
        beside = path.with_suffix(suffix)
        if beside.is_file():
            return _transform(beside)
    return None


def projection_file(path: Path) -> str | None:
    """The coordinate system in a ``.prj`` file beside an image, as WKT; None without one that rasterio can read."""
    try:
        with path.with_suffix(".prj").open("rb") as file:
            return as_wkt(file.read(65536).decode().strip())
    except (OSError, ValueError):
        return None


def _transform(path: Path) -> tuple[float, float, float, float, float, float]:
    try:
        with path.open("rb") as file:
            words = file.read(4096).decode("ascii").split()
        a, d, b, e, x, y = (float(word) for word in words)
    except (OSError, ValueError):
        raise DataError(f"{path} is no world file: expected six numbers") from None
    numbers = (a, b, x - (a + b) / 2, d, e, y - (d + e) / 2)  # it names the centre of the first pixel
    if not np.isfinite(numbers).all() or a * e == b * d:
        raise DataError(f"{path} has {', '.join(words)}: expected six numbers that turn pixels into places")
    return numbers


def _from_pillow(path: Path, image: Any) -> tuple[np.ndarray, np.ndarray | None]:
    if image.mode == "1":
        image = image.convert("L")
    if image.mode in ("P", "PA"):
        image = image.convert("RGBA" if "transparency" in image.info or image.mode == "PA" else "RGB")
    valid = None
    if image.mode in ("RGBA", "LA"):  # transparent pixels have no data
        valid = np.asarray(image.getchannel("A")) > 0
        image = image.convert(image.mode[:-1])
    if image.mode not in ("L", "RGB", "I;16", "I;16B", "I", "F"):
        raise DataError(f"{path} has colour mode {image.mode}: expected gray or RGB")
    pixels = np.asarray(image)
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    if image.mode == "I":  # Pillow's way to hold 16-bit gray in some files
        pixels = pixels.astype(np.uint16) if pixels.min() >= 0 and pixels.max() < 1 << 16 else pixels
    return np.ascontiguousarray(pixels), None if valid is None or valid.all() else valid


def _refuse_deep_colour(path: Path, kind: str) -> None:
    """Pillow would silently cut 16-bit colours to 8 bits."""
    with path.open("rb") as file:
        start = file.read(26)
    if kind == "PNG" and len(start) == 26 and start[24] == 16 and start[25] != 0:
        raise DataError(
            f"{path} is a 16-bit colour PNG: expected 8-bit colour or 16-bit gray; save it as GeoTIFF instead"
        )
