"""``emrdm preview``: before and after, side by side."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from emrdm.cli.outputs import check_new
from emrdm.cli.progress import Progress
from emrdm.errors import InputError, printable

if TYPE_CHECKING:
    from emrdm.window import Window

HELP = "draw before and after side by side"
DESCRIPTION = """\
Draw a scene before and after clouds were removed, side by side, with the same
contrast, in true colour where its bands allow it. Large scenes are read piece
by piece. Where there is no data, the picture is checkered."""
EXAMPLES = """\
examples:
  emrdm preview clear.tif cloudy.tif -o before_after.png
  emrdm preview clear.tif may.tif june.tif july.tif -o series.jpg
  emrdm preview clear.tif cloudy.tif --uncertainty std.tif -o with_std.png
  emrdm preview clear.tif cloudy.tif --window 2048,512,600,800 -o detail.png
  emrdm preview clear.tif cloudy.tif --bands B8,B4,B3 -o false_colour.png
  emrdm preview truth.tif a.tif b.tif --names ours,theirs,truth -o methods.png
"""
_CACHE = 256 << 20  # bytes of decoded blocks: GDAL would take a twentieth of the memory


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.add_argument("clear", type=Path, metavar="CLEAR", help="the restored image")
    parser.add_argument(
        "cloudy", type=Path, nargs="+", metavar="CLOUDY", help="what it was made from, one date or more"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=".png, .jpg or .webp to write")
    parser.add_argument("--uncertainty", type=Path, metavar="STD", help="also show this map of standard deviations")
    parser.add_argument(
        "--size", type=int, default=1600, metavar="PIXELS", help="width of the picture (default: %(default)s)"
    )
    parser.add_argument("--window", metavar="ROW,COLUMN,HEIGHT,WIDTH", help="show this part only, in pixels")
    parser.add_argument(
        "--bands", metavar="NAMES", help="bands to show: three, such as B8,B4,B3, or one; numbers count from 1"
    )
    parser.add_argument("--names", metavar="A,B", help="what to write above the images, from left to right")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Read, draw, write."""
    from emrdm import pictures
    from emrdm.rasters.source import open_source, set_cache
    from emrdm.restoration.overview import draw

    _check_output(arguments)
    window = read_window(arguments.window)
    set_cache(_CACHE)
    with ExitStack() as files:
        clear, *cloudy = (files.enter_context(open_source(path)) for path in (arguments.clear, *arguments.cloudy))
        spread = arguments.uncertainty
        page = draw(
            clear,
            cloudy,
            uncertainty=None if spread is None else files.enter_context(open_source(spread)),
            window=window,
            bands=[] if arguments.bands is None else [name.strip() for name in arguments.bands.split(",")],
            names=[] if arguments.names is None else [name.strip() for name in arguments.names.split(",")],
            size=arguments.size,
            progress=Progress("reading", unit="pieces", silent=arguments.quiet),
        )
    pictures.save(page, arguments.output)
    if not arguments.quiet:
        print(printable(f"{arguments.output}: {page.width} x {page.height} pixels"))


def _check_output(arguments: argparse.Namespace) -> None:
    from emrdm import pictures

    target = arguments.output
    check_new(target, pictures.FORMATS, overwrite=arguments.overwrite)
    if not 1 <= arguments.size <= 16_000:
        raise InputError(f"--size is {arguments.size}: expected 1 to 16000 pixels")


def read_window(text: str | None) -> Window | None:
    """The part of an image that --window names; None for all of it."""
    from emrdm.window import Window

    if text is None:
        return None
    numbers = text.split(",")
    if len(numbers) != 4 or not all(number.strip().isdecimal() for number in numbers):
        raise InputError(f"--window is {text!r}: expected ROW,COLUMN,HEIGHT,WIDTH in pixels, such as 0,0,512,512")
    return Window(*map(int, numbers))
