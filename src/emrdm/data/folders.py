"""What folders of a user's own have in common: bands and ranges, from what the user says or the first file shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from emrdm.config import Band
from emrdm.data.bands import SENTINEL2
from emrdm.data.layout import read_like
from emrdm.errors import DataError, InputError
from emrdm.rasters import Raster, read

CLOUDY_NAMES = ("cloudy", "cloud", "input", "cloudy_image")
CLEAR_NAMES = ("clear", "label", "target", "cloudless", "gt", "reference", "ground_truth")
OWN_UNIT = "value"  # of numbers whose meaning only the owner of a folder knows
_BY_COUNT = {1: ("gray",), 3: ("red", "green", "blue"), 4: ("red", "green", "blue", "nir"), 13: SENTINEL2}


@final
@dataclass(frozen=True)
class Numbers:
    """What the numbers of a folder's images mean; what is left open is taken from its first image.

    Attributes:
        names: of the bands, in the order of the files.
        low: value that is black.
        high: value that is white.
        dtype: type of number of the files, such as "uint16".
    """

    names: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    dtype: str = ""

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise InputError(f"range is {self.low} to {self.high}: expected both ends or neither")

    def seen(self, images: Iterable[Path], nothing: str) -> tuple[Numbers, tuple[Band, ...], int | None]:
        """All of it, bands, and steps from black to white, for a folder of these images.

        The first image that can be read decides; those before it are for reading to report. Where there is no image
        at all, ``nothing`` is what to say.
        """
        failed: DataError | None = None
        for path in images:
            try:
                raster = read(path)
            except DataError as error:
                failed = failed or error
                continue
            bands, levels = self._bands(raster, path)
            return replace(self, dtype=str(raster.pixels.dtype)), bands, levels
        raise failed or InputError(nothing)

    def _bands(self, raster: Raster, example: Path) -> tuple[tuple[Band, ...], int | None]:
        names = self._names(raster, example)
        low, high = self._range(raster, example)
        whole = raster.pixels.dtype.kind in "ui" and float(low).is_integer() and float(high).is_integer()
        unit = "8-bit value" if raster.pixels.dtype == np.uint8 and (low, high) == (0, 255) else OWN_UNIT
        bands = tuple(Band(name, unit, low, high, clip=unit == OWN_UNIT) for name in names)
        return bands, int(high - low) if whole else None

    def _names(self, raster: Raster, example: Path) -> tuple[str, ...]:
        count = len(raster.pixels)
        if self.names:
            if len(self.names) != count or len(set(self.names)) != count:
                raise InputError(f"bands are {', '.join(self.names)}: expected {count} names for {example}, each once")
            return self.names
        if all(raster.names) and len(set(raster.names)) == count:
            return raster.names
        return _BY_COUNT.get(count) or tuple(f"band{i + 1}" for i in range(count))

    def _range(self, raster: Raster, example: Path) -> tuple[float, float]:
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if raster.pixels.dtype == np.uint8:
            return 0.0, 255.0
        raise InputError(
            f"{example} has numbers of type {raster.pixels.dtype}: "
            "say which values are black and white with --range, such as --range 0:10000 for Sentinel-2"
        )


def read_frame(path: Path, bands: Sequence[Band], size: tuple[int, int] | None, dtype: str) -> Raster:
    """An image that has these bands and type of number; where the file names its bands, names and order must agree."""
    raster = read_like(path, len(bands), size=size, dtype=dtype)
    expected = tuple(band.name for band in bands)
    if all(raster.names) and raster.names != expected and set(raster.names) & set(expected):
        raise DataError(
            f"{path} names its bands {', '.join(raster.names)}: expected {', '.join(expected)} "
            "(--bands gives all images of a folder other names, in the order of the files)"
        )
    return raster


def find_folder(root: Path, names: Sequence[str]) -> Path | None:
    """The one of these folders that exists."""
    return next((root / name for name in names if (root / name).is_dir()), None)


def together(*masks: np.ndarray | None) -> np.ndarray | None:
    """Pixels that are valid in every mask; None if all of all are."""
    given = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(given) if given else None
