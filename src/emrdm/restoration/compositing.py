"""Clear pixels stay what they are, restored ones take the place of cloud, and no seam shows between them.

Everything here is local: a pixel depends on those within a stated distance only, and comes out with the same bits
whatever window of the scene is looked at, as long as that distance lies around it or the scene ends.
"""

from __future__ import annotations

import math

import numpy as np

from emrdm.errors import InputError
from emrdm.restoration.blurring import smooth_sum

_TRUST = 0.1  # share of the weights around a pixel that clear pixels need for their difference to count half


def grow(cloud: np.ndarray, pixels: int) -> np.ndarray:
    """The mask (h, w) with everything within so many pixels of it, so that the thin rims of clouds are in it."""
    if pixels < 0:
        raise InputError(f"a mask cannot grow by {pixels} pixels: expected 0 or more")
    cloud = np.asarray(cloud, bool)
    height, half, wide, grown = len(cloud), 0, cloud.copy(), cloud.copy()
    for away in range(min(pixels, height), -1, -1):  # rows above and below: the disc is narrow far away, wide near by
        for step in range(half + 1, math.isqrt(pixels**2 - away**2) + 1):
            wide[:, step:] |= cloud[:, :-step]
            wide[:, :-step] |= cloud[:, step:]
            half = step
        grown[away:] |= wide[: height - away]
        grown[: height - away] |= wide[away:]
    return grown


def halo(feather: int) -> int:
    """How far away a pixel can be that :func:`keep_clear` makes another one depend on."""
    return sum(2 * radius for radius in _radii(feather))


def keep_clear(
    original: np.ndarray, restored: np.ndarray, cloud: np.ndarray, valid: np.ndarray, *, feather: int
) -> np.ndarray:
    """The original where it is clear, to the bit; under cloud the restored image, led up to it without a seam.

    Nothing of the cloud is mixed in. Beside it, a model's ground is a little brighter or darker than the clear ground
    of this date. That difference, original less restored, is known on clear pixels; it is smoothed, carried on under
    the cloud, where it fades away within about ``feather`` pixels, and added to the restored image. Differences of
    all sizes are carried on, wide ones far, narrow ones a few pixels (as in a Laplacian pyramid).

    Pixels beside the cloud that are under its rim or shadow spoil the difference: :func:`grow` the mask first.

    Args:
        original: (C, h, w) float32. What it is under cloud and where there is no data has no effect.
        restored: alike.
        cloud: (h, w), True where restored pixels shall be shown.
        valid: (h, w), False where the original has no data: there it is handed through.
        feather: pixels; 0 for none.

    Returns:
        (C, h, w) float32.
    """
    if not original.shape == restored.shape == (len(original), *cloud.shape) or cloud.shape != valid.shape:
        shapes = ", ".join(str(array.shape) for array in (original, restored, cloud, valid))
        raise InputError(f"original, restored, cloud and valid are {shapes}: expected (C, h, w) twice and (h, w) twice")
    radii = _radii(feather)
    replaced, clear = cloud & valid, valid & ~cloud
    result = original.astype(np.float32)
    if not replaced.any():
        return result
    known = clear.astype(np.float32)
    weights = [smooth_sum(known, radius) + np.float32(_TRUST * (2 * radius + 1) ** 4) for radius in radii]
    for band, image in zip(result, restored, strict=True):
        left = np.where(clear, band - image, np.float32(0))  # what is still to be explained
        shift = np.zeros_like(left)
        for radius, weight in zip(radii, weights, strict=True):
            step = smooth_sum(left, radius) / weight
            shift += step
            left = np.where(clear, left - step, np.float32(0))
        np.copyto(band, image + shift, where=replaced)
    return result


def _radii(feather: int) -> tuple[int, ...]:
    """Of the box sums, from wide to narrow; the widest reaches ``feather`` pixels when it is done twice."""
    if feather < 0:
        raise InputError(f"a border cannot be feathered over {feather} pixels: expected 0 or more")
    radii, radius = [], -(-feather // 2)
    while radius >= 1:
        radii.append(radius)
        radius //= 2
    return tuple(radii)
