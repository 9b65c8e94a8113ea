"""``emrdm calibrate``: whether an uncertainty map can be believed."""

from __future__ import annotations

import argparse
import json
import math
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm.cli.outputs import check_new
from emrdm.cli.progress import Progress
from emrdm.errors import printable

if TYPE_CHECKING:
    from emrdm.restoration.calibration import Calibration
    from emrdm.restoration.comparison import Sample

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


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.add_argument("clear", type=Path, metavar="CLEAR", help="the restored image")
    parser.add_argument("truth", type=Path, metavar="TRUTH", help="what it should be, on the same grid")
    parser.add_argument(
        "--uncertainty", type=Path, required=True, metavar="STD", help="the map that was written with CLEAR"
    )
    parser.add_argument("--mask", type=Path, metavar="FILE", help="compare only where this is not zero: under clouds")
    parser.add_argument("--json", action="store_true", help="print all numbers of each band as JSON, for scripts")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="draw the curves, .png, .svg or .pdf")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Read, compare, tell, draw."""
    from emrdm.restoration.calibration import calibrate

    _check_output(arguments)
    names, samples, drawn = read_maps(arguments, silent=arguments.quiet or arguments.json)
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


def read_maps(arguments: argparse.Namespace, *, silent: bool) -> tuple[list[str], int | None, Sample]:
    """The bands of the map, how many samples it is of, and values of the image, the truth and the map."""
    from emrdm.rasters.source import open_source, set_cache
    from emrdm.restoration.comparison import Trio, bands_of, check_grids, draw, samples_of

    set_cache(_CACHE)
    with ExitStack() as files:
        paths = (arguments.clear, arguments.truth, arguments.uncertainty, arguments.mask)
        images = [files.enter_context(open_source(path)) for path in paths if path is not None]
        check_grids(images)
        trio = Trio(*images[:3])
        names, places = bands_of(trio)
        samples = samples_of(trio)
        return names, samples, draw(trio, places, images[3:], Progress("reading", unit="windows", silent=silent))


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse what could not be drawn in the end, before anything is read."""
    target = arguments.output
    if target is None:
        return
    from emrdm.plots.figure import FORMATS, matplotlib

    check_new(target, FORMATS, overwrite=arguments.overwrite)
    matplotlib()


# ---------------------------------------------------------------- telling


def _head(drawn: Sample, samples: int | None) -> list[str]:
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
