"""Numbers of the network as numbers of a file: they saturate, never wrap, and never become nodata by accident."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike


def saturate(values: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Real numbers as ``dtype``: the nearest it has, halves to the even one; NaN becomes 0, for the caller to mask.

    Floating-point types keep NaN and infinities; a finite number stays finite.
    """
    target = np.dtype(dtype)
    if target.kind == "f":
        if values.dtype.itemsize <= target.itemsize:
            return values.astype(target, copy=False)
        ends = np.finfo(target)
        return np.where(np.isfinite(values), values.clip(ends.min, ends.max), values).astype(target)
    limits = np.iinfo(target)
    exact = np.float64 if target.itemsize > 2 else np.float32  # has the ends of the range: 2**31 - 1 is no float32
    rounded: np.ndarray = np.rint(values, dtype=np.result_type(values.dtype, exact))
    rounded[np.isnan(rounded)] = 0
    np.clip(rounded, limits.min, limits.max, out=rounded)
    return rounded.astype(target)


def avoiding(pixels: np.ndarray, nodata: float | None, *, in_any_band: bool = False) -> np.ndarray:
    """(C, H, W) in which no pixel reads as nodata: what would is moved to the nearest number that does not.

    As readers here see it, one band without data makes a pixel unusable; but where nodata is 0, it takes all bands,
    since dark water is 0 in one or two. What already reads as data is not touched. Other programs look at bands one by
    one: ``in_any_band`` leaves no 0 for them either, in pixels that need not stay what they are.
    """
    if nodata is None or not np.isfinite(nodata):
        return pixels
    if pixels.dtype.kind == "f":
        value, other, same = _among_floats(pixels, nodata)
    else:
        limits = np.iinfo(pixels.dtype)
        if nodata != int(nodata) or not limits.min <= nodata <= limits.max:
            return pixels
        value = int(nodata)
        other, same = (value + 1 if value < limits.max else value - 1), pixels == value
    if value == 0 and not in_any_band:
        same = np.broadcast_to(same.all(0), pixels.shape)
    return np.where(same, pixels.dtype.type(other), pixels) if same.any() else pixels


def halved(pixels: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An image of half the size, sides rounded up: each pixel is the mean of the four below it, of those with data.

    Takes and gives (C, H, W) and where it has data, (H, W) bool.
    """
    bottom, right = (side % 2 for side in valid.shape)
    known = np.pad(valid, ((0, bottom), (0, right)))
    count = _quarters(known.astype(np.uint8))
    half = np.empty((len(pixels), *count.shape), pixels.dtype)
    for band, result in zip(pixels, half, strict=True):  # one at a time, since sums take more memory
        sums = _quarters(np.pad(np.where(valid, band, 0), ((0, bottom), (0, right))).astype(np.float64))
        result[...] = saturate(sums / np.maximum(count, 1), pixels.dtype)
    return half, count > 0


def _quarters(values: np.ndarray) -> np.ndarray:
    """The sums of 2 x 2 pixels."""
    pairs = values[::2] + values[1::2]
    return np.asarray(pairs[:, ::2] + pairs[:, 1::2])


def _among_floats(pixels: np.ndarray, nodata: float) -> tuple[float, float, np.ndarray]:
    """Nodata in the type of the pixels, the nearest number that is none, and where the pixels are nodata.

    GDAL takes numbers for equal that differ by a few units in the last place.
    """
    limits = np.finfo(pixels.dtype)
    value = float(np.clip(nodata, limits.min, limits.max).astype(pixels.dtype))
    if value == 0:
        return 0.0, float(limits.tiny), pixels == 0
    slack = 4 * float(limits.eps) * abs(value)
    low, high = max(value - slack, float(limits.min)), min(value + slack, float(limits.max))
    return value, value * (1 - 8 * float(limits.eps)), (pixels >= low) & (pixels <= high)
