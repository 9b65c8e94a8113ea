"""``emrdm calibrate``: whether an uncertainty map can be believed."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from emrdm.cli.progress import Progress
from emrdm.errors import InputError, printable
from emrdm.window import Window
from emrdm.wording import brief, many

if TYPE_CHECKING:
    from emrdm.rasters.source import Source
    from emrdm.restoration.calibration import Calibration

HELP = "check an uncertainty map against the truth"
DESCRIPTION = """\
Compare the standard deviations that emrdm restore --uncertainty wrote with the
errors that were made, where the truth is known: how often it lies inside of the
intervals, and whether the error grows as the map says. Files are read piece by
piece; of large ones an even sample of pixels is compared."""
EXAMPLES = """\
examples:
  emrdm calibrate clear.tif truth.tif --uncertainty std.tif
  emrdm calibrate clear.tif truth.tif --uncertainty std.tif --mask clouds.tif
  emrdm calibrate clear.tif truth.tif --uncertainty std.tif -o calibration.png
  emrdm calibrate clear.tif truth.tif --uncertainty std.tif --json
"""
_CACHE = 256 << 20  # bytes of decoded blocks: GDAL would take a twentieth of the memory
_PIECE = 512  # pixels along a side of what is read at once
_MOST = 4_000_000  # values that are compared, over pixels and bands: they have to be in memory, and sorted
_SEED = 0
_STD = "_std"  # what the map's bands are called behind the image's
_ORIGIN = ("EMRDM_MODEL_DIGEST", "EMRDM_INPUTS", "EMRDM_SAMPLER", "EMRDM_SAMPLES", "EMRDM_SEED")


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.add_argument("clear", type=Path, metavar="CLEAR", help="the restored image")
    parser.add_argument("truth", type=Path, metavar="TRUTH", help="what it should be, on the same grid")
    parser.add_argument(
        "--uncertainty", type=Path, required=True, metavar="STD", help="the map that was written with CLEAR"
    )
    parser.add_argument("--mask", type=Path, metavar="FILE", help="compare only where this is not zero: under clouds")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts, with all numbers of each band")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="draw the curves, .png or .svg")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Read, compare, tell, draw."""
    from emrdm.rasters.source import open_source, set_cache
    from emrdm.restoration.calibration import calibrate

    _check_output(arguments)
    set_cache(_CACHE)
    with ExitStack() as files:
        paths = (arguments.clear, arguments.truth, arguments.uncertainty, arguments.mask)
        images = [files.enter_context(open_source(path)) for path in paths if path is not None]
        _check_grids(images)
        trio = _Trio(*images[:3])
        names, places = _bands(trio)
        samples = _samples(trio)
        drawn = _draw(
            trio, places, images[3:], Progress("reading", unit="windows", silent=arguments.quiet or arguments.json)
        )
    clear, truth, spread = drawn.values()
    found = calibrate(clear, spread, truth, samples=samples)
    by_band = {name: calibrate(clear[i], spread[i], truth[i], samples=samples) for i, name in enumerate(names)}
    if arguments.json:
        sizes = {"samples": samples, "pixels": drawn.seen, "compared": drawn.kept}
        bands = {name: part.as_dict() for name, part in by_band.items()}
        print(json.dumps(_plain({**sizes, **found.as_dict(), "bands": bands}), indent=2))
    else:
        print("\n".join(map(printable, [*_head(drawn, samples), *found.lines(), *_table(by_band)])))
    if arguments.output is not None:
        _plot(arguments, found)


# ---------------------------------------------------------------- what fits together


class _Trio(NamedTuple):
    clear: Source
    truth: Source
    spread: Source


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse what could not be drawn in the end, before anything is read."""
    target = arguments.output
    if target is None:
        return
    from emrdm.plots.figure import FORMATS, matplotlib

    if target.suffix.lower() not in FORMATS:
        raise InputError(f"OUTPUT {target}: expected a name ending in {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise InputError(f"OUTPUT folder {target.parent} does not exist")
    if target.exists() and not arguments.overwrite:
        raise InputError(f"OUTPUT {target} exists: add --overwrite to replace it")
    matplotlib()


def _check_grids(images: Sequence[Source]) -> None:
    """The same size; the same place, too, where both know where they are, as a picture does not. No file twice."""
    clear = images[0]
    for i, image in enumerate(images[1:], 1):
        if any(image.identity == other.identity for other in images[:i]):
            raise InputError(f"{image.name} is given twice: expected different images")
        same_size = (clear.grid.height, clear.grid.width) == (image.grid.height, image.grid.width)
        located = clear.grid.georeferenced and image.grid.georeferenced
        difference = image.grid.difference(clear.grid) if located or not same_size else None
        if difference:
            raise InputError(f"{image.name} and {clear.name} are not on the same grid: {difference}")
    if len(images) > 3 and images[3].count != 1:
        raise InputError(f"{images[3].name} has {images[3].count} bands: expected 1 in a cloud mask")


def _bands(trio: _Trio) -> tuple[list[str], list[list[int]]]:
    """Names of the map's bands, and where each image has them."""
    from emrdm.rasters.bands import canonical

    clear, truth, spread = trio
    maps = [i for i, name in enumerate(spread.names) if name.endswith(_STD)]
    names = [spread.names[i].removesuffix(_STD) for i in maps]
    if not names:
        raise InputError(
            f"{spread.name} has bands {_listed(spread.names)}: "
            f"expected NAME{_STD}, as emrdm restore --uncertainty writes them"
        )
    known = {canonical(name) for name in names}
    without = [f"{name}{_STD}" for name in clear.names if name and canonical(name) not in known]
    if without:
        raise InputError(f"{spread.name} has no band {brief(without)}: expected one for each band of {clear.name}")
    places = [_places(image, names) for image in (clear, truth)]
    for name, ours, theirs in zip(names, *places, strict=True):
        meant = [(image.scales[at], image.offsets[at]) for image, at in ((truth, theirs), (clear, ours))]
        if meant[0] != meant[1]:
            texts = [f"scale {scale:g} and offset {offset:g}" for scale, offset in meant]
            raise InputError(f"{truth.name} does not fit {clear.name}: band {name} has {texts[0]} against {texts[1]}")
    return names, [*places, maps]


def _places(image: Source, names: Sequence[str]) -> list[int]:
    """Where an image has these bands: by name, or in this order if it has no names at all."""
    from emrdm.rasters.bands import canonical

    if not any(image.names):
        if image.count != len(names):
            raise InputError(
                f"{image.name} has {many(image.count, 'band')} without names: expected {len(names)}, {_listed(names)}"
            )
        return list(range(image.count))
    own = [canonical(name) for name in image.names]
    missing = [name for name in names if canonical(name) not in own]
    if missing:
        raise InputError(f"{image.name} has no band {brief(missing)}: it has {_listed(image.names)}")
    twice = [name for name in names if own.count(canonical(name)) > 1]
    if twice:
        raise InputError(f"{image.name} has band {twice[0]} twice: expected one")
    return [own.index(canonical(name)) for name in names]


def _listed(names: Sequence[str]) -> str:
    return brief([name or "(no name)" for name in names], 15)


def _samples(trio: _Trio) -> int | None:
    """How many samples image and map come from, as their tags say; None where they do not."""
    clear, _, spread = trio
    for key in _ORIGIN:
        ours, theirs = clear.tags.get(key), spread.tags.get(key)
        if ours is not None and theirs is not None and ours != theirs:
            raise InputError(f"{spread.name} was not written with {clear.name}: {key} is {theirs} against {ours}")
    text = clear.tags.get("EMRDM_SAMPLES", spread.tags.get("EMRDM_SAMPLES"))
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 2:
        raise InputError(f"{clear.name} has EMRDM_SAMPLES {text}: expected 2 or more, one has no spread")
    return int(text)


# ---------------------------------------------------------------- reading


@final
class _Sample:
    """An even sample of pixels of which nobody knows how many will come.

    Every pixel draws a lot between 0 and 1, and those below a bound stay; the bound is halved whenever they are too
    many. A stride would do as well, were it not for tiles, whose seams come at a stride, too.
    """

    def __init__(self, most: int) -> None:
        self.most, self.bound, self.seen, self.kept = most, 1.0, 0, 0
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, values: np.ndarray, lots: np.ndarray) -> None:
        """Take (..., n) values of n pixels, and their lots."""
        self.seen += lots.size
        self._parts.append(self._below(lots, values))
        self.kept += self._parts[-1][0].size
        while self.kept > self.most:
            self.bound /= 2
            self._parts = [self._below(*part) for part in self._parts]
            self.kept = sum(part.size for part, _ in self._parts)

    def _below(self, lots: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        stays = lots < self.bound
        return lots[stays], values[..., stays]

    def values(self) -> np.ndarray:
        """(..., n) values of those that stayed."""
        return np.concatenate([values for _, values in self._parts], -1)


def _draw(
    trio: _Trio, places: Sequence[Sequence[int]], mask: Sequence[Source], progress: Callable[[int, int], None]
) -> _Sample:
    """(3, C, n) values of the image, the truth and the map, where all have data and the mask has cloud."""
    sample = _Sample(max(1, _MOST // len(places[0])))
    pieces = list(_pieces(trio.clear))
    for done, piece in enumerate(pieces):
        progress(done, len(pieces))
        usable = np.ones((piece.height, piece.width), bool)
        for image in mask:
            pixels, known = image.read(piece)
            usable &= known & (pixels[0] != 0)
        if not usable.any():
            continue
        values = []
        for image, bands in zip(trio, places, strict=True):
            pixels, known = image.read(piece, bands)
            usable &= known
            values.append(pixels)
        lots = np.random.default_rng((_SEED, piece.row, piece.column)).random(usable.sum())
        sample.add(np.stack([pixels[:, usable].astype(np.float64) for pixels in values]), lots)
    progress(len(pieces), len(pieces))
    if not sample.kept:
        clouds = f" and cloud in {mask[0].name}" if mask else ""
        raise InputError(f"no pixel has data in {', '.join(image.name for image in trio)}{clouds}: expected one")
    return sample


def _pieces(image: Source) -> Iterator[Window]:
    height, width = image.grid.height, image.grid.width
    for row in range(0, height, _PIECE):
        for column in range(0, width, _PIECE):
            yield Window(row, column, min(_PIECE, height - row), min(_PIECE, width - column))


# ---------------------------------------------------------------- telling


def _head(drawn: _Sample, samples: int | None) -> list[str]:
    """What was compared."""
    part = "all compared" if drawn.kept == drawn.seen else f"an even sample of {drawn.kept:,} compared"
    few = "number unknown: no allowance for few" if samples is None else f"{samples}, std x {_room(samples):.3f}"
    return [f"pixels          {drawn.seen:,}, {part}", f"samples         {few}"]


def _room(samples: int) -> float:
    """What the truth is further away from a mean of few samples."""
    return math.sqrt(1 + 1 / samples)


def _table(by_band: dict[str, Calibration]) -> list[str]:
    """A line for each band; one band alone has been told already."""
    if len(by_band) == 1:
        return []
    width = max(14, *map(len, by_band))
    return ["", f"{'band':{width}}  {'RMSE':>9}  spread / skill  in 95 %  ranking"] + [
        f"{name:{width}}  {part.rmse:9.4g}  {part.spread_skill:14.3f}  {part.coverage[0.95]:7.1%}  "
        f"{part.sparsification:.3f} of {part.unranked:.3f}"
        for name, part in by_band.items()
    ]


def _plain(facts: Any) -> Any:
    """Without infinity, which JSON does not have."""
    if isinstance(facts, dict):
        return {key: _plain(value) for key, value in facts.items()}
    if isinstance(facts, list):
        return [_plain(value) for value in facts]
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts


def _plot(arguments: argparse.Namespace, found: Calibration) -> None:
    from emrdm.plots.reliability import reliability

    where = "" if arguments.mask is None else ", under clouds"
    reliability(
        f"{arguments.uncertainty.name} against {arguments.truth.name}{where}",
        [(part.predicted, part.error) for part in found.reliability],
        found.coverage,
        arguments.output,
        note=f"spread / skill {found.spread_skill:.3f}",
    )
    if not arguments.quiet and not arguments.json:
        print(printable(f"{arguments.output}: drawn"))
