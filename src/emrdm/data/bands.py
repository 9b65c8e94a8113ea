"""Bands of the data sets: names, units and the scaling of their recipes."""

from __future__ import annotations

from emrdm.config import Band
from emrdm.rasters.bands import SENTINEL2

__all__ = ["SENTINEL2", "backscatter", "colours", "eight_bit", "reflectance"]

_COLOURS = (("red", "green", "blue"), ("B4", "B3", "B2"))


def eight_bit(*names: str) -> tuple[Band, ...]:
    """Bands of pictures: 0 to 255."""
    return tuple(Band(name, "8-bit value", 0, 255, clip=False) for name in names)


def reflectance(*names: str, clip: bool = True) -> tuple[Band, ...]:
    """Optical bands of Sentinel-2: reflectance times 10000."""
    return tuple(Band(name, "reflectance x 10000", 0, 10000, clip=clip) for name in names)


def backscatter(*names: str) -> tuple[Band, ...]:
    """Radar bands of Sentinel-1 in dB."""
    return tuple(Band(name, "dB", -25, 0) for name in names)


def colours(bands: tuple[Band, ...]) -> tuple[int, int, int] | None:
    """Which bands are red, green and blue; None where a picture in true colour cannot be made."""
    names = [band.name for band in bands]
    for red, green, blue in _COLOURS:
        if {red, green, blue} <= set(names):
            return names.index(red), names.index(green), names.index(blue)
    return None
