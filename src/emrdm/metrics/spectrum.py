"""SAM, the spectral angle mapper (Kruse et al. 1993)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from emrdm.metrics.pixels import check_pair, mean_over


def sam(
    prediction: Tensor,
    target: Tensor,
    *,
    zeros: Literal["leave out", "nan"] = "leave out",
    where: Tensor | None = None,
) -> Tensor:
    """Mean angle between the spectra of each pixel, in degrees, (B,).

    An all-zero spectrum has no direction. Such pixels are left out (count them with :func:`zero_spectra`), or make
    the whole image NaN, as the published evaluation of SEN12MS-CR does.
    """
    check_pair(prediction, target, where)
    x, y = prediction.double(), target.double()
    x, y = (v / _length(v) for v in (x, y))
    # The same angle as arccos(x . y), without its loss of digits near zero: identical spectra give exactly 0.
    angle = 2 * torch.atan2(_length(x - y), _length(x + y))[:, 0]
    degrees = torch.rad2deg(angle)[:, None]
    if zeros == "leave out":
        defined = ~_zero(prediction, target)
        where = defined if where is None else where & defined
    return mean_over(degrees, where)


def zero_spectra(prediction: Tensor, target: Tensor, *, where: Tensor | None = None) -> Tensor:
    """Number of pixels of each image that are zero in all bands of the prediction or of the target, (B,)."""
    check_pair(prediction, target, where)
    zero = _zero(prediction, target)
    return (zero if where is None else zero & where).flatten(1).sum(1)


def _length(spectra: Tensor) -> Tensor:
    return spectra.square().sum(1, keepdim=True).sqrt()


def _zero(prediction: Tensor, target: Tensor) -> Tensor:
    return (prediction == 0).all(1) | (target == 0).all(1)
