"""Box sums of images whose rounding does not depend on where a window of the image begins."""

from __future__ import annotations

import numpy as np


def box_sum(image: np.ndarray, radius: int) -> np.ndarray:
    """Sum over the square of side 2 radius + 1 around each pixel of (..., h, w); outside of the image is zero.

    Running sums would be faster for wide squares, but carry rounding along from the first pixel of the window. Here
    numbers are added in pairs, pairs of pairs and so on, in the same order for every pixel.
    """
    for axis in (-1, -2):
        image = _line_sum(image, radius, axis)
    return image


def smooth_sum(image: np.ndarray, radius: int) -> np.ndarray:
    """Two box sums, one after the other: weights fall to zero 2 radius + 1 pixels away, without an edge."""
    return box_sum(box_sum(image, radius), radius)


def _line_sum(image: np.ndarray, radius: int, axis: int) -> np.ndarray:
    """Sum over the 2 radius + 1 pixels around each along one axis."""
    spread = [(0, 0)] * image.ndim
    spread[axis] = (radius, radius)
    run = np.moveaxis(np.pad(image, spread), axis, 0)  # run[i] is the sum of `width` numbers from i on
    length, width, total, start = image.shape[axis], 1, None, 0
    while True:
        if (2 * radius + 1) & width:
            piece = run[start : start + length]
            total = piece.copy() if total is None else total + piece
            start += width
        if 2 * width > 2 * radius + 1:
            assert total is not None
            return np.moveaxis(total, 0, axis)
        run = run[:-width] + run[width:]
        width *= 2
