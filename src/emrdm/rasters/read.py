"""Read one image file at once, guarded: known formats only, the header is checked before any pixel is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from emrdm.rasters.guard import GEOTIFF, SUFFIXES, checked_file, opened_geotiff, reading_geotiff, real_type
from emrdm.rasters.picture import check_size, decode
from emrdm.rasters.validity import validity_of

__all__ = ["SUFFIXES", "Raster", "read"]


@final
@dataclass(frozen=True)
class Raster:
    """The content of one image file.

    Attributes:
        pixels: (C, H, W) in the file's own number type.
        valid: (H, W) bool, False where the file says that there is no data; None where it says nothing.
        names: of the bands, empty texts where the file has none.
    """

    pixels: np.ndarray
    valid: np.ndarray | None
    names: tuple[str, ...]


def read(path: Path) -> Raster:
    """Read all of a GeoTIFF, PNG, WebP or JPEG file; what is wrong with it is one line that names it."""
    if checked_file(path) in GEOTIFF:
        return _read_geotiff(path)
    pixels, valid = decode(path)
    return Raster(pixels, valid, ("",) * len(pixels))  # three bands need not be colours: people save false colours, too


def _read_geotiff(path: Path) -> Raster:
    with reading_geotiff(path), opened_geotiff(path) as file:
        check_size(path, file.count, file.height, file.width)
        real_type(path, file.dtypes)
        validity = validity_of(file)
        pixels = file.read(list(validity.bands))
        valid = validity.of(file, pixels)
        names = tuple(file.descriptions[i - 1] or "" for i in validity.bands)
    return Raster(pixels, None if valid is None or valid.all() else valid, names)
