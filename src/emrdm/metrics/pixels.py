"""Scores of single pixels: MAE, RMSE, PSNR.

Here and in the files beside it, images are (B, C, H, W), ``where`` is (B, H, W) bool, and the answer is one number an
image, (B,), float64. ``where`` restricts a score to the pixels it selects; an image without any gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from emrdm.errors import InputError

# A score whose work has been done, waiting for the pixels to take it over: (B, H, W) bool or None -> (B,).
Over = Callable[[Tensor | None], Tensor]


def mae(prediction: Tensor, target: Tensor, *, where: Tensor | None = None) -> Tensor:
    """Mean absolute error, in the units of the images."""
    check_pair(prediction, target, where)
    return mean_over((prediction.double() - target.double()).abs(), where)


def rmse(prediction: Tensor, target: Tensor, *, where: Tensor | None = None) -> Tensor:
    """Root of the mean squared error over all bands together, in the units of the images."""
    check_pair(prediction, target, where)
    return mean_over((prediction.double() - target.double()).square(), where).sqrt()


def psnr(prediction: Tensor, target: Tensor, *, data_range: float = 1.0, where: Tensor | None = None) -> Tensor:
    """Peak signal to noise ratio in dB, 20 log10(range / RMSE); infinite for identical images."""
    return 20 * torch.log10(data_range / rmse(prediction, target, where=where))


def mean_over(values: Tensor, where: Tensor | None) -> Tensor:
    """Mean of each image's (C, H, W) values over the selected pixels, (B,)."""
    if where is None:
        return values.flatten(1).mean(1)
    chosen = where[:, None].expand_as(values)
    total = torch.where(chosen, values, 0).flatten(1).sum(1)
    return total / chosen.flatten(1).sum(1)  # 0 / 0 is NaN: no pixel, no score


def check_pair(prediction: Tensor, target: Tensor, where: Tensor | None) -> None:
    """Refuse what is no image, and shapes that do not belong together."""
    for name, given in (("prediction", prediction), ("target", target), ("where", where)):
        if not isinstance(given, Tensor) and (given is not None or name != "where"):
            kind = type(given).__name__
            raise InputError(f"{name} is a {kind}: expected a tensor, as torch.from_numpy makes of an array")
    if prediction.ndim != 4 or prediction.shape != target.shape:
        raise InputError(
            f"prediction has shape {tuple(prediction.shape)} and target {tuple(target.shape)}: "
            "expected two equal shapes (B, C, H, W)"
        )
    expected = (len(target), *target.shape[2:])
    if where is not None and (where.dtype != torch.bool or where.shape != expected):
        raise InputError(f"where is {where.dtype} of shape {tuple(where.shape)}: expected bool {expected}")
