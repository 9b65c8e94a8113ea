"""Augmentation as a pure function of a key: the same sample and key give the same picture, in any order or process."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from emrdm.data.sample import Sample
from emrdm.errors import DataError
from emrdm.noise import fold, scalars

Augmentation = Literal["none", "flips-and-turns", "dihedral"]


def augment(sample: Sample, key: int, *, kind: Augmentation = "dihedral", crop: int | None = None) -> Sample:
    """A sample flipped, turned and cropped, all its images alike.

    Args:
        sample: images are (..., H, W).
        key: decides; derive one from seed, epoch and index with :func:`emrdm.noise.fold`.
        kind: "flips-and-turns" as for Sen2_MTC_New: none, up-down or left-right, then 0 to 3 quarter turns, each
            equally likely (reflections therefore come twice as often as rotations); "dihedral" draws the eight
            symmetries of a square equally often; "none" only crops.
        crop: side of a square cut out at random; images smaller than that are refused.
    """
    if crop is not None:
        sample = _map(sample, _cropping(sample, key, crop))
    if kind == "none":
        return sample
    flip = fold(key, 0) % (3 if kind == "flips-and-turns" else 2)
    turns = fold(key, 1) % 4

    def change(x: Tensor) -> Tensor:
        x = x.flip(-2 if flip == 1 else -1) if flip else x
        return torch.rot90(x, turns, (-2, -1)).contiguous()

    return _map(sample, change)


def thinned(sample: Sample, key: int, *, share: float) -> Sample:
    """A sample whose clouds are made thinner, with probability ``share``: all its frames alike, by any amount.

    Between the clear and the cloudy image lie the images with less of the same cloud and shadow.
    """
    if sample.target is None or _chance(fold(key, 4)) >= share:
        return sample
    return dataclasses.replace(sample, cloudy=torch.lerp(sample.target, sample.cloudy, _chance(fold(key, 5))))


def toned(sample: Sample, key: int, *, strength: float) -> Sample:
    """A sample with other tones, all its images alike: dark and bright parts as another sensor or stretch shows them.

    Values in [0, 1] are raised to a power whose logarithm is normal, in all bands and half as much in each alone. Black
    and white stay, so that clouds stay white. ``strength`` is the spread of the logarithm; 0 changes nothing.
    """
    if not strength:
        return sample
    bands = sample.cloudy.shape[-3]
    draws = scalars([fold(key, 6), *(fold(key, 7, band) for band in range(bands))]).tolist()
    powers = sample.cloudy.new_tensor([math.exp(strength * (draws[0] + draw / 2)) for draw in draws[1:]])

    def change(x: Tensor) -> Tensor:
        return ((x + 1) / 2).clamp(0, 1) ** powers[:, None, None] * 2 - 1

    target = None if sample.target is None else change(sample.target)
    return dataclasses.replace(sample, cloudy=change(sample.cloudy), target=target)


def _chance(bits: int) -> float:
    """Evenly in [0, 1), from 53 random bits."""
    return (bits >> 11) * 2.0**-53


def _cropping(sample: Sample, key: int, side: int) -> Callable[[Tensor], Tensor]:
    height, width = sample.cloudy.shape[-2:]
    if min(height, width) < side:
        raise DataError(f"{sample.name} is {width} x {height} pixels: expected {side} x {side} at least, to crop it")
    row, column = fold(key, 2) % (height - side + 1), fold(key, 3) % (width - side + 1)
    return lambda x: x[..., row : row + side, column : column + side]


def _map(sample: Sample, change: Callable[[Tensor], Tensor]) -> Sample:
    """The sample with all its images changed alike."""
    names = ("cloudy", "target", "aux", "classes", "valid")
    images = {name: change(x) for name in names if (x := getattr(sample, name)) is not None}
    return dataclasses.replace(sample, **images)  # type: ignore[arg-type]
