"""Where a file has data: nodata values, masks and transparency, by one rule for whole files and for windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from emrdm.errors import DataError

_SCANNED = 1 << 24  # pixels of a transparency band that are looked at in full; larger ones are sampled
_SAMPLES = 64


@final
@dataclass(frozen=True)
class Validity:
    """How a GeoTIFF says where it has data.

    Attributes:
        bands: numbers, from 1, of the bands that are not transparency.
        nodata: the number that stands for no data, in the file's type.
        mask: whether a mask that is stored beside the bands tells.
        alpha: numbers, from 1, of the bands that are transparency.
    """

    bands: tuple[int, ...]
    nodata: float | None
    mask: bool
    alpha: tuple[int, ...] = ()

    def of(self, file: Any, pixels: np.ndarray, window: Any = None) -> np.ndarray | None:
        """(h, w) bool, True where there is data; None where the file says nothing. ``pixels`` are of all its bands."""
        told = []
        if self.nodata is not None:
            told.append(with_data(pixels, self.nodata))
        if self.mask:
            told.append(np.asarray(file.read_masks(self.bands[0], window=window) > 0))
        told += [np.asarray(file.read(band, window=window) > 0) for band in self.alpha]
        return np.logical_and.reduce(told) if told else None


def validity_of(file: Any) -> Validity:
    """What an open file says about where it has data.

    Many programs write a fourth 8-bit band as transparency whatever it is; near infrared, say. Only what is nowhere
    between invisible and opaque is taken for it.
    """
    from rasterio.enums import MaskFlags

    alpha = [i for i, meaning in enumerate(file.colorinterp, 1) if meaning.name == "alpha"]
    clear = [i for i in alpha if file.count > len(alpha) and _is_on_or_off(file, i)]
    bands = tuple(i for i in range(1, file.count + 1) if i not in clear)
    flags = set(file.mask_flag_enums[bands[0] - 1])
    mask = MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags
    nodata = None if mask else fitting(file.nodata, np.dtype(file.dtypes[0]))  # GDAL, too, has the mask come first
    return Validity(bands, nodata, mask, tuple(clear))


def fitting(nodata: float | None, dtype: np.dtype[Any]) -> float | None:
    """A nodata value as numbers of this type can have it; None for one they cannot have."""
    if nodata is None:
        return None
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    if dtype.kind == "f":
        reachable = not np.isfinite(nodata) or limits.min <= nodata <= limits.max
        return float(dtype.type(nodata)) if reachable else None
    return nodata if limits.min <= nodata <= limits.max and nodata == int(nodata) else None


def checked_nodata(nodata: float | None, dtype: np.dtype[Any], name: str) -> float | None:
    """A nodata value that somebody gave, which numbers of this type must be able to have."""
    fit = fitting(nodata, dtype)
    if fit is None and nodata is not None:
        raise DataError(f"nodata {nodata:g} for {name}: expected a number that {dtype} can have")
    return fit


def with_data(pixels: np.ndarray, nodata: float) -> np.ndarray:
    """(h, w) bool, True where (C, h, w) pixels have data.

    A band without data makes the pixel unusable. Zero is an exception: dark water is zero in a band or two, so there it
    takes all bands.
    """
    if np.isnan(nodata):
        return np.asarray(~np.isnan(pixels).any(0))
    if pixels.dtype.kind == "f" and np.isfinite(nodata):  # as GDAL does: programs write the last digits differently
        limits = np.finfo(pixels.dtype)
        slack = 4 * float(limits.eps) * abs(nodata)
        low, high = max(nodata - slack, float(limits.min)), min(nodata + slack, float(limits.max))  # -3.4e38 is common
        differs = ~((pixels >= low) & (pixels <= high))
    else:
        differs = pixels != pixels.dtype.type(nodata)
    return np.asarray(differs.any(0) if nodata == 0 else differs.all(0))


def finite(pixels: np.ndarray) -> np.ndarray:
    """(h, w) bool, True where all bands are finite numbers."""
    if pixels.dtype.kind != "f":
        return np.ones(pixels.shape[1:], bool)
    return np.asarray(np.isfinite(pixels).all(0))


def _is_on_or_off(file: Any, band: int) -> bool:
    """Whether a band is zero or the largest number everywhere, by a sample of its blocks where it is large."""
    ends = (0, np.iinfo(file.dtypes[band - 1]).max if np.dtype(file.dtypes[band - 1]).kind in "ui" else 1)
    whole = file.width * file.height <= _SCANNED
    windows = [window for _, window in file.block_windows(band)] if whole else _spread(file, band)
    return all(np.isin(file.read(band, window=window), ends).all() for window in windows)


def _spread(file: Any, band: int) -> list[Any]:
    """Windows of at most a block in size, spread over the file."""
    height, width = file.block_shapes[band - 1]
    side = int(_SAMPLES**0.5)
    rows = np.linspace(0, max(0, -(-file.height // height) - 1), side).astype(int)
    columns = np.linspace(0, max(0, -(-file.width // width) - 1), side).astype(int)
    return [file.block_window(band, int(row), int(column)) for row in set(rows) for column in set(columns)]
