"""SSIM (Wang et al. 2004), with every choice that papers make silently as an argument."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from emrdm.errors import InputError
from emrdm.metrics.pixels import Over, check_pair, mean_over


def gaussian_taps(size: int = 11, sigma: float = 1.5) -> tuple[float, ...]:
    """One dimension of a Gaussian window that sums to one."""
    offsets = torch.arange(size, dtype=torch.float64) - size // 2
    weights = torch.exp(-(offsets**2) / (2 * sigma**2))
    return tuple((weights / weights.sum()).tolist())


def uniform_taps(size: int = 7) -> tuple[float, ...]:
    """One dimension of a flat window."""
    return (1 / size,) * size


def ssim(
    prediction: Tensor,
    target: Tensor,
    *,
    data_range: float = 1.0,
    taps: tuple[float, ...] | None = None,
    border: Literal["crop", "zeros"] = "crop",
    sample_covariance: bool = False,
    where: Tensor | None = None,
) -> Tensor:
    """Structural similarity, the mean of its map over pixels and channels, (B,).

    Args:
        prediction: (B, C, H, W).
        target: (B, C, H, W).
        data_range: largest possible difference of two values.
        taps: of the separable window; the 11 x 11 Gaussian of sigma 1.5 if None.
        border: "crop" leaves out pixels whose window is not inside the image, as scikit-image does; "zeros" pads with
            zeros and counts every pixel.
        sample_covariance: divide by n - 1 instead of n, n being the number of pixels in the window.
        where: pixels to average the map over; the windows still see their neighbours.
    """
    check_pair(prediction, target, where)
    over = ssim_over(
        prediction, target, data_range=data_range, taps=taps, border=border, sample_covariance=sample_covariance
    )
    return over(where)


def ssim_over(
    prediction: Tensor,
    target: Tensor,
    *,
    data_range: float = 1.0,
    taps: tuple[float, ...] | None = None,
    border: Literal["crop", "zeros"] = "crop",
    sample_covariance: bool = False,
) -> Over:
    """As :func:`ssim`, for several regions: the map is computed once."""
    taps = taps or gaussian_taps()
    if border == "crop" and min(target.shape[2:]) < len(taps):
        size = " x ".join(map(str, reversed(target.shape[2:])))
        raise InputError(f"images are {size} pixels: SSIM needs {len(taps)} x {len(taps)} at least")
    pad = len(taps) // 2
    similarity = _ssim_map(
        prediction.double(), target.double(), data_range, taps, pad if border == "zeros" else 0, sample_covariance
    )

    def over(where: Tensor | None) -> Tensor:
        if where is not None and border == "crop":
            where = where[:, pad : where.shape[1] - pad, pad : where.shape[2] - pad]
        return mean_over(similarity, where)

    return over


def _ssim_map(
    x: Tensor, y: Tensor, data_range: float, taps: tuple[float, ...], padding: int, sample_covariance: bool
) -> Tensor:
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    unbiased = len(taps) ** 2 / (len(taps) ** 2 - 1) if sample_covariance else 1.0
    moments = _filter(torch.cat((x, y, x * x, y * y, x * y), dim=1), taps, padding)
    mean_x, mean_y, mean_xx, mean_yy, mean_xy = moments.chunk(5, dim=1)
    variances = unbiased * (mean_xx - mean_x**2 + mean_yy - mean_y**2)
    covariance = unbiased * (mean_xy - mean_x * mean_y)
    return ((2 * mean_x * mean_y + c1) * (2 * covariance + c2)) / ((mean_x**2 + mean_y**2 + c1) * (variances + c2))


def _filter(x: Tensor, taps: tuple[float, ...], padding: int) -> Tensor:
    """The separable window on every channel: rows, then columns."""
    x = F.pad(x, (padding,) * 4)
    for dim in (2, 3):
        length = x.shape[dim] - len(taps) + 1  # shifted sums: a convolution in double precision is slow on CPUs
        filtered = x.narrow(dim, 0, length) * taps[0]
        for offset, weight in enumerate(taps[1:], 1):
            filtered.add_(x.narrow(dim, offset, length), alpha=weight)
        x = filtered
    return x
