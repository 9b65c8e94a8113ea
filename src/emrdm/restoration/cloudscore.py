"""Where clouds are, from one image alone: a few lines of arithmetic, for scenes that come without a mask.

Limits. Bright gray ground, sand and salt, white roofs, surf and, without B11, snow look like cloud; thin cloud over
dark water or forest is missed, and the shadow of a cloud is not looked for. The numbers below were chosen on images of
dry land (three places of CloudSEN12: F1 0.78) and on Landsat pictures (RICE2: F1 0.75). On images that had no part in
it, F1 is 0.62 on a bright desert, where half of what is called cloud is none, and 0.68 on RICE2's test list. The bounds
for B10 and B11 are customary ones. A mask that was made for the sensor is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emrdm.errors import InputError
from emrdm.rasters.bands import canonical
from emrdm.restoration.blurring import box_sum

CLOUDY = 0.5
"""The score from which on a pixel counts as cloud."""
RADIUS = 2
"""Pixels around one that its score depends on."""
_CHANGED = 0.03  # root mean square of reflectance: what scores a half
_SYNONYMS = {"red": ("b4", "r"), "green": ("b3", "g"), "blue": ("b2", "b"), "nir": ("b8", "b8a"), "swir": ("b11",)}


@dataclass(frozen=True)
class _Look:
    """What tells cloud from ground: blue - red / 2 + darkest * (darkest band) - colourful * (saturation).

    Blue less half of red is the haze-optimised transform (Zhang et al. 2002), in which ground of most kinds lies on one
    line and haze beside it. ``middle`` is the value that scores a half, ``span`` the distance from score 0 to 1.
    """

    darkest: float
    colourful: float
    middle: float
    span: float


# Chosen on training images: of CloudSEN12, places 00 to 02, for reflectance; of RICE2 for 8-bit pictures, where sand is
# as bright as cloud, so that the darkest band speaks against cloud.
_REFLECTANCE = _Look(darkest=0.5, colourful=0.1, middle=0.138, span=0.1)
_PICTURE = _Look(darkest=-0.25, colourful=0.25, middle=0.061, span=0.1)


def cloud_score(image: np.ndarray, names: Sequence[str] = (), *, valid: np.ndarray | None = None) -> np.ndarray:
    """How much each pixel looks like cloud, from 0 to 1; from ``CLOUDY`` on it counts as cloud.

    Cloud is bright in blue for its red, bright in its darkest band and without colour. With the bands of Sentinel-2,
    cirrus (B10) counts as cloud, and what is much darker in B11 than in green (snow) or brighter in B11 than in the
    near infrared (bare soil) does not. Scores are averaged over 5 x 5 pixels, so that single pixels do not matter.

    Args:
        image: (C, h, w) in [0, 1]: reflectance, or a picture's values divided by 255.
        names: of the bands. Red, green and blue by colour are those of a picture, B4, B3 and B2 those of Sentinel-2.
            Three bands or one without names are a picture.
        valid: (h, w), False where there is no data; the score is 0 there.

    Returns:
        (h, w) float32.
    """
    bands = _by_name(image, names)
    valid = np.ones(image.shape[1:], bool) if valid is None else valid
    reflectance = any(canonical(name) in ("B2", "B3", "B4") for name in names)
    score = _brightness_score(bands, _REFLECTANCE if reflectance else _PICTURE)
    if "swir" in bands and "nir" in bands:
        score = score * _ramp(_index(bands["green"], bands["swir"]), 0.8, 0.65)  # snow; ice cloud reaches 0.6
        score = score * _ramp(_index(bands["nir"], bands["swir"]), -0.2, -0.05)  # soil
    if "b10" in bands:
        score = np.maximum(score, _ramp(bands["b10"], 0.01, 0.03))
    count = box_sum(valid.astype(np.float32), RADIUS)
    mean = box_sum(np.where(valid, score, np.float32(0)), RADIUS) / np.maximum(count, 1)
    return np.where(valid, mean, np.float32(0))


def change_score(cloudy: np.ndarray, restored: np.ndarray, *, valid: np.ndarray | None = None) -> np.ndarray:
    """How much restoring changed each pixel, from 0 to 1; from ``CLOUDY`` on it counts as changed: cloud or shadow.

    The root mean square over bands of the difference, itself averaged over 5 x 5 pixels before, so that noise does not
    count. What a model repaints on clear ground counts as well.

    Args:
        cloudy: (C, h, w) in [0, 1].
        restored: alike.
        valid: (h, w), False where there is no data; the score is 0 there.

    Returns:
        (h, w) float32.
    """
    if cloudy.shape != restored.shape:
        raise InputError(f"cloudy is {cloudy.shape} and restored {restored.shape}: expected the same")
    valid = np.ones(cloudy.shape[1:], bool) if valid is None else valid
    count = np.maximum(box_sum(valid.astype(np.float32), RADIUS), 1)
    squares = np.zeros(valid.shape, np.float32)
    for before, after in zip(cloudy, restored, strict=True):
        change = np.where(valid, after.astype(np.float32) - before.astype(np.float32), np.float32(0))
        squares += np.square(box_sum(change, RADIUS) / count)
    return np.where(valid, _ramp(np.sqrt(squares / np.float32(len(cloudy))), 0.0, 2 * _CHANGED), np.float32(0))


def _by_name(image: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The bands that matter, as float32, by what they are."""
    if image.ndim != 3 or len(names) not in (0, len(image)):
        raise InputError(f"an image {image.shape} with {len(names)} names: expected (bands, h, w), one name a band")
    if not any(names):
        names = {1: ("gray",), 3: ("red", "green", "blue")}.get(len(image), ("",) * len(image))
    found = {canonical(name).lower(): band.astype(np.float32) for name, band in zip(names, image, strict=True) if name}
    if len(found) == 1 and "gray" in found:
        return dict.fromkeys(("red", "green", "blue"), found["gray"])
    for colour, others in _SYNONYMS.items():
        here = [other for other in others if other in found]
        if colour not in found and here:
            found[colour] = found[here[0]]
    missing = [colour for colour in ("red", "green", "blue") if colour not in found]
    if missing:
        known = ", ".join(filter(None, names)) or "none"
        raise InputError(f"a cloud score needs red, green and blue (B4, B3, B2): {missing[0]} is not among {known}")
    return found


def _brightness_score(bands: dict[str, np.ndarray], look: _Look) -> np.ndarray:
    red, green, blue = bands["red"], bands["green"], bands["blue"]
    darkest, brightest = np.minimum(np.minimum(red, green), blue), np.maximum(np.maximum(red, green), blue)
    saturation = (brightest - darkest) / np.maximum(brightest, np.float32(1e-3))
    value = blue - red / 2 + np.float32(look.darkest) * darkest - np.float32(look.colourful) * saturation
    return _ramp(value, look.middle - look.span / 2, look.middle + look.span / 2)


def _index(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Normalised difference."""
    return np.asarray((first - second) / np.maximum(np.abs(first) + np.abs(second), np.float32(1e-4)))


def _ramp(values: np.ndarray, zero: float, one: float) -> np.ndarray:
    """Linear from 0 at ``zero`` to 1 at ``one``, float32; NaN is 0."""
    return np.asarray(np.nan_to_num(((values - np.float32(zero)) / np.float32(one - zero)).clip(0, 1), nan=0.0))
