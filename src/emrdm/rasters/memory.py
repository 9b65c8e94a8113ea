"""Images that are in memory: arrays, and pictures, which are decoded at once."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np

from emrdm.errors import DataError
from emrdm.rasters.base import Source
from emrdm.rasters.dates import date_of
from emrdm.rasters.grid import Grid
from emrdm.rasters.guard import identity
from emrdm.rasters.picture import decode, projection_file, world_file
from emrdm.rasters.validity import checked_nodata, finite, with_data
from emrdm.window import Window
from emrdm.wording import many


@final
class ArraySource(Source):
    """An image in memory: (C, H, W) numbers and, optionally, (H, W) bool that is True where there is data."""

    def __init__(
        self,
        pixels: np.ndarray,
        valid: np.ndarray | None = None,
        names: Sequence[str] = (),
        grid: Grid | None = None,
        *,
        name: str = "array",
        nodata: float | None = None,
        tags: Mapping[str, str] | None = None,
        date: datetime.date | None = None,
        scales: Sequence[float] | None = None,
        offsets: Sequence[float] | None = None,
    ) -> None:
        self.name = name
        self._pixels = _stack(pixels, name)
        count, height, width = self._pixels.shape
        self._valid = _plane(valid, (height, width), name)
        self.grid = grid or Grid(height, width)
        if (self.grid.height, self.grid.width) != (height, width):
            raise DataError(f"{name} has {width} x {height} pixels: its grid has {self.grid.size}")
        self.names = tuple(names) or ("",) * count
        self.scales = _each(scales, 1.0, count, "scale", name)
        self.offsets = _each(offsets, 0.0, count, "offset", name)
        if len(self.names) != count:
            given = f"{many(len(self.names), 'name')} given, {', '.join(self.names)}"
            raise DataError(f"{name} has {many(count, 'band')}: {given}")
        self.dtype = self._pixels.dtype
        self.nodata = checked_nodata(nodata, self.dtype, name)
        self.tags = dict(tags or {})
        self.date = date
        self.masked = valid is not None

    @property
    def identity(self) -> Hashable:
        """Equal for two sources of the same array."""
        return id(self._pixels)

    def _read(self, window: Window, bands: list[int]) -> tuple[np.ndarray, np.ndarray]:
        pixels = self._pixels[:, window.rows, window.columns]
        valid = finite(pixels)
        if self._valid is not None:
            valid &= self._valid[window.rows, window.columns]
        if self.nodata is not None:
            valid &= with_data(pixels, self.nodata)
        return pixels[bands], valid


@final
class PictureSource(Source):
    """A PNG, WebP or JPEG file, all of it in memory; a world file beside it says where its pixels lie."""

    def __init__(self, path: Path, *, nodata: float | None = None) -> None:
        self.name = str(path)
        pixels, valid = decode(path)
        count, height, width = pixels.shape
        transform = world_file(path)
        self.grid = Grid(height, width, None if transform is None else projection_file(path), transform)
        self._content = ArraySource(pixels, valid, grid=self.grid, name=self.name, nodata=nodata)
        self.names, self.scales, self.offsets = ("",) * count, (1.0,) * count, (0.0,) * count
        self.dtype, self.nodata, self.masked = pixels.dtype, self._content.nodata, valid is not None
        self.tags = {}
        self.date = date_of({}, path.stem)
        self._identity = identity(path)

    @property
    def identity(self) -> Hashable:
        """Equal for two sources of the same file."""
        return self._identity

    def _read(self, window: Window, bands: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return self._content.read(window, bands)


def _stack(pixels: np.ndarray, name: str) -> np.ndarray:
    array = np.asarray(pixels)
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.size == 0 or array.dtype.kind not in "uif":
        raise DataError(
            f"{name} is {array.dtype} of shape {array.shape}: expected real numbers of (bands, rows, columns)"
        )
    return array


def _plane(valid: np.ndarray | None, shape: tuple[int, int], name: str) -> np.ndarray | None:
    if valid is None:
        return None
    plane = np.asarray(valid)
    if plane.shape != shape or plane.dtype != bool:
        raise DataError(f"{name} has a mask of {plane.dtype} {plane.shape}: expected bool {shape}")
    return plane


def _each(values: Sequence[float] | None, default: float, count: int, what: str, name: str) -> tuple[float, ...]:
    numbers = (default,) * count if values is None else tuple(float(value) for value in values)
    if len(numbers) != count:
        raise DataError(f"{name} has {many(count, 'band')}: {many(len(numbers), what)} given")
    return numbers
