"""Which band of a file is which of the model, and what its numbers mean: Sentinel-2's offset, radar's decibels."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from emrdm.errors import DataError, InputError
from emrdm.rasters.base import Source
from emrdm.wording import many

SENTINEL2 = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B10", "B11", "B12")
COLOURS = ("red", "green", "blue")
_SYNONYMS = {"red": "B4", "green": "B3", "blue": "B2", "nir": "B8"}
_LETTERS = {"r": "red", "g": "green", "b": "blue"}
_NUMBERED = re.compile(r"(?:band|b)[ _-]?0*(\d{1,2})(a?)(?:_\d0m)?", re.IGNORECASE)
_COUNTED = re.compile(r"band[ _-]?0*(\d+)", re.IGNORECASE)
_POLARISATIONS = {"vv", "vh", "hh", "hv"}
_RADAR_WORDS = {"db", "linear", "sigma0", "gamma0", "beta0"}
_OFFSET = -1000.0  # of Sentinel-2 products since baseline 04.00, January 2022, in numbers of the file
_BASELINE = re.compile(r"(?:^|_)N(\d{4})(?:_|$)")
_DECIBELS_BELOW = -1.0  # linear backscatter is below zero only by noise that was taken off
_LARGEST_LINEAR = 100.0
_FLOOR = 1e-6  # of linear backscatter: -60 dB


class UnfitError(DataError, InputError):
    """An image whose bands, or their units, are not those of the model: another image or another model would do."""


def canonical(name: str) -> str:
    """One spelling for names of bands: B4 for B04, B04_10m, Band 4 and "B4, central wavelength 665 nm"; red for Red.

    Radar bands become VV, VH, HH or HV whatever unit and calibration their name tells. Other names only lose capitals.
    """
    text = re.split(r"[,(]", name, maxsplit=1)[0].strip()
    numbered = _NUMBERED.fullmatch(text)
    if numbered:
        return f"B{int(numbered[1])}{numbered[2].upper()}"
    words = re.split(r"[ _-]", text.lower())
    kinds = [word for word in words if word in _POLARISATIONS]
    if len(kinds) == 1 and set(words) <= {kinds[0]} | _RADAR_WORDS:
        return kinds[0].upper()
    return text.lower()


def colour_of(name: str) -> str:
    """The colour that a band is shown in: red for red and Sentinel-2's B4; empty for most."""
    name = canonical(name)
    return next((word for word in COLOURS if name in (word, _SYNONYMS[word])), "")


def _only_counted(names: Sequence[str]) -> bool:
    """Whether names are "Band 1", "Band 2" and so on, which programs write where there are none."""
    found = [_COUNTED.fullmatch(name.strip()) for name in names]
    return all(match and int(match[1]) == i for i, match in enumerate(found, 1))


def match(
    wanted: Sequence[str],
    source_names: Sequence[str],
    *,
    source: str,
    fill: Mapping[str, float],
    colours: Sequence[str] = (),
) -> tuple[tuple[int | None, ...], str]:
    """Where each wanted band stands in a file, None for one to be filled; and words on a guess, empty without one.

    Bands are found by name. Red, green, blue and nir stand for Sentinel-2's B4, B3, B2 and B8 where there is no band of
    the very name. In a file without any names, but for numbers, colours are found by what it says of them; else it has
    to have as many bands as are wanted and not filled, in their order, or the thirteen of Sentinel-2. Other names are
    suggested for files that have enough bands.

    Args:
        wanted: names of the model's bands.
        source_names: names of the file's bands, empty texts where unknown.
        source: the file, for messages.
        fill: values for bands that the file does not have.
        colours: which of its bands are red, green and blue, as the file says.
    """
    filled, words = {canonical(name) for name in fill}, ""
    if not any(source_names) or _only_counted(source_names):
        if any(colours) and not _in_order(wanted, colours, filled):
            numbers = ", ".join(str(list(colours).index(colour) + 1) for colour in COLOURS)
            words = f"{source}: {', '.join(COLOURS)} are bands {numbers}, as its colour interpretation says"
            source_names = colours
        elif len(source_names) != len(SENTINEL2) or len(wanted) == len(SENTINEL2):
            return _by_order(wanted, len(source_names), source, filled)
        else:
            source_names, words = SENTINEL2, f"{source}: its 13 bands have no names and are taken for Sentinel-2's"
    own = [canonical(name) for name in source_names]
    if set(_LETTERS) <= set(own):  # b alone may be anything
        own = [_LETTERS.get(name, name) for name in own]
    places = tuple(_place(name, own, source) for name in wanted)
    missing = [
        name for name, place in zip(wanted, places, strict=True) if place is None and canonical(name) not in filled
    ]
    if missing:
        has = ", ".join(name or "(no name)" for name in source_names)
        needed = sum(canonical(name) not in filled for name in wanted)
        names = "--bands gives the bands other names, " if len(source_names) >= needed else ""
        raise UnfitError(
            f"{source} has no band {', '.join(missing)}: it has {has}; "
            f"{names}--fill-band {missing[0]}=0 puts a number there"
        )
    other = {
        name: source_names[place]
        for name, place in zip(wanted, places, strict=True)
        if place is not None and canonical(name) != own[place]
    }
    if other and not words:
        words = f"{source}: " + ", ".join(f"{name} is {there}" for name, there in other.items())
    return places, words


def _in_order(wanted: Sequence[str], colours: Sequence[str], filled: set[str]) -> bool:
    """Whether a file with as many bands as are needed has its colours where they are expected."""
    needed = [canonical(name) for name in wanted if canonical(name) not in filled]
    return len(needed) == len(colours) and all(
        not colour or colour in (name, colour_of(name)) for name, colour in zip(needed, colours, strict=True)
    )


def _by_order(wanted: Sequence[str], count: int, source: str, filled: set[str]) -> tuple[tuple[int | None, ...], str]:
    needed = [name for name in wanted if canonical(name) not in filled]
    if len(needed) != count:
        names = "; --bands says which ones they are" if count > len(needed) else ""
        raise UnfitError(
            f"{source} has {many(count, 'band')} without names: expected {len(needed)}, {', '.join(needed)}{names}"
        )
    numbers = iter(range(count))
    places = tuple(None if canonical(name) in filled else next(numbers) for name in wanted)
    return places, f"{source}: its bands have no names and are taken for {', '.join(needed)}"


def _place(name: str, own: Sequence[str], source: str) -> int | None:
    wanted = canonical(name)
    twins = {wanted, _SYNONYMS.get(wanted, wanted), *(word for word, band in _SYNONYMS.items() if band == wanted)}
    for spellings in ({wanted}, twins):
        found = [i for i, other in enumerate(own) if other in spellings]
        if len(found) > 1:
            numbers = " and ".join(str(i + 1) for i in found[:2])
            raise DataError(f"{source} has {name} twice, bands {numbers}: expected one; --bands gives them other names")
        if found:
            return found[0]
    return None


# ---------------------------------------------------------------- Sentinel-2


def sentinel2_offset(source: Source, asked: str) -> tuple[float, str]:
    """What to add to the numbers of a Sentinel-2 file, and why; empty words where the question does not arise.

    Products since baseline 04.00 have 1000 added to all numbers. ``asked`` is "0", "-1000" or "auto", which goes by the
    file's own offsets, then by its PROCESSING_BASELINE tag or the N0400 in its name, and takes 0 without any of them.
    """
    if asked not in ("auto", "0", "-1000"):
        raise InputError(f"offset {asked!r}: expected auto, 0 or -1000")
    if asked != "auto":
        return float(asked), "as asked"
    own = [i for i, name in enumerate(source.names) if canonical(name) in SENTINEL2]
    if not own and any(source.names):
        return 0.0, ""
    offsets = {_in_numbers(source.offsets[i], source.scales[i]) for i in own or range(source.count)}
    if len(offsets) > 1 and _OFFSET in offsets:
        listed = ", ".join(f"{number:g}" for number in sorted(offsets))
        raise DataError(f"{source.name} has offsets {listed}: expected the same for all bands, or --offset 0 or -1000")
    if _OFFSET in offsets:
        return _OFFSET, "the file's own offset"
    baseline = _baseline(source)
    if baseline is None:
        return (0.0, "nothing in the file says otherwise") if own else (0.0, "")
    return (_OFFSET if baseline >= 400 else 0.0), f"baseline {baseline // 100:02}.{baseline % 100:02}"


def _in_numbers(offset: float, scale: float) -> float:
    """An offset of physical values as one of the file's numbers; -0.1 is -1000 where the scale is 0.0001."""
    if not np.isfinite([offset, scale]).all() or scale == 0:
        return 0.0
    return float(round(offset / scale, 3))


def _baseline(source: Source) -> int | None:
    """Processing baseline of a Sentinel-2 product: 400 for 04.00."""
    tag = next((value for key, value in source.tags.items() if key.upper() == "PROCESSING_BASELINE"), "").strip()
    dotted = re.fullmatch(r"(\d{1,2})\.(\d{2})", tag)
    if dotted:
        return int(dotted[1]) * 100 + int(dotted[2])
    found = re.fullmatch(r"N?(\d{4})", tag) or _BASELINE.search(Path(source.name).stem)
    return int(found[1]) if found else None


# ---------------------------------------------------------------- radar


def is_linear(source: Source, asked: str = "auto") -> bool:
    """Whether a radar file has linear backscatter, rather than decibels, by a sample of its pixels if ``auto``."""
    if asked not in ("auto", "db", "linear"):
        raise InputError(f"radar unit {asked!r}: expected auto, db or linear")
    if asked != "auto":
        return asked == "linear"
    values = source.some_values()
    middle = float(np.median(values)) if values.size else -math.inf
    if middle < _DECIBELS_BELOW:  # by the middle: gaps may be -9999 without a tag
        return False
    if middle > _LARGEST_LINEAR:
        raise DataError(
            f"{source.name} has values around {middle:g}: expected radar backscatter, linear (around 0.1) or in dB"
        )
    return True


def to_decibels(pixels: np.ndarray) -> np.ndarray:
    """Linear backscatter as decibels, float32; what is zero or below becomes -60."""
    values = np.nan_to_num(np.asarray(pixels, np.float32), nan=_FLOOR, posinf=float(np.finfo(np.float32).max))
    return np.asarray(10 * np.log10(np.maximum(values, np.float32(_FLOOR))), np.float32)


def sar_to_db(pixels: np.ndarray, unit: str) -> np.ndarray:
    """Backscatter as decibels; ``unit`` is "db", "linear", or "auto" by these pixels alone."""
    if unit not in ("auto", "db", "linear"):
        raise InputError(f"radar unit {unit!r}: expected auto, db or linear")
    finite = pixels[np.isfinite(pixels)]
    linear = unit == "linear" or (unit == "auto" and finite.size > 0 and finite.min() >= _DECIBELS_BELOW)
    return to_decibels(pixels) if linear else np.asarray(pixels, np.float32)
