"""LPIPS (Zhang et al. 2018), version 0.1 with AlexNet: five convolutions and five vectors.

The weights lie beside this file, so nothing is ever downloaded: the convolutions of AlexNet as trained for torchvision
(BSD-3-Clause) and the linear heads of LPIPS v0.1 (BSD-2-Clause); see LICENSES.md there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import as_file, files

import torch
from torch import Tensor
from torch.nn import functional as F

from emrdm.errors import InputError
from emrdm.metrics.pixels import Over, check_pair, mean_over

SMALLEST = 31  # pixels a side: below, the third convolution has nothing left to see
_SHIFT, _SCALE = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)  # ImageNet's mean and deviation, on [-1, 1]
# Each convolution of AlexNet: its name in the file, stride, padding, and whether a 3 x 3 maximum comes before it.
_LAYERS = ((0, 4, 2, False), (3, 1, 2, True), (6, 1, 1, True), (8, 1, 1, False), (10, 1, 1, False))


def lpips(prediction: Tensor, target: Tensor, *, where: Tensor | None = None) -> Tensor:
    """Perceptual distance of RGB images in [-1, 1], (B,).

    With ``where``, features count by the share of selected pixels under them; they still see their surroundings.
    """
    check_pair(prediction, target, where)
    return lpips_over(prediction, target)(where)


def lpips_over(prediction: Tensor, target: Tensor) -> Over:
    """As :func:`lpips`, for several regions: the network is run once."""
    if target.shape[1] != 3:
        raise InputError(f"images have {target.shape[1]} bands: LPIPS needs red, green and blue")
    if min(target.shape[2:]) < SMALLEST:
        size = " x ".join(map(str, reversed(target.shape[2:])))
        raise InputError(f"images are {size} pixels: LPIPS needs {SMALLEST} x {SMALLEST} at least")
    weights = _weights(target.device)
    distances = []
    # TF32, which convolutions use on a GPU by default, would change the fourth digit.
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=torch.backends.cudnn.enabled, allow_tf32=False):
        for i, features in enumerate(_features(torch.cat((prediction, target)).float(), weights)):
            x, y = (features / (features.square().sum(1, keepdim=True).sqrt() + 1e-10)).chunk(2)
            distances.append(F.conv2d((x - y).square(), weights[f"lin{i}.weight"]).double())

    def over(where: Tensor | None) -> Tensor:
        means = (mean_over(d, None) if where is None else _weighted_mean(d, where) for d in distances)
        return torch.stack(tuple(means)).sum(0)

    return over


def _features(x: Tensor, weights: dict[str, Tensor]) -> Iterator[Tensor]:
    """What AlexNet sees after each of its five convolutions."""
    shift, scale = (torch.tensor(v, device=x.device).reshape(1, 3, 1, 1) for v in (_SHIFT, _SCALE))
    x = (x - shift) / scale
    for number, stride, padding, pooled in _LAYERS:
        x = F.max_pool2d(x, 3, 2) if pooled else x
        weight, bias = weights[f"features.{number}.weight"], weights[f"features.{number}.bias"]
        x = F.relu(F.conv2d(x, weight, bias, stride=stride, padding=padding))
        yield x


def _weighted_mean(distance: Tensor, where: Tensor) -> Tensor:
    """Mean over features, each counting by the share of selected pixels in its cell; NaN where there are none."""
    share = F.adaptive_avg_pool2d(where[:, None].double(), (distance.shape[2], distance.shape[3]))
    return (distance * share).flatten(1).sum(1) / share.flatten(1).sum(1)


@cache
def _weights(device: torch.device) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    with as_file(files(__package__).joinpath("lpips_alex.safetensors")) as path:
        return load_file(path, device=str(device))
