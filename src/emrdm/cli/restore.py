"""``emrdm restore``: cloudy images in, a clear one out, on the same grid."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm import embedded
from emrdm.cli import jobs, models, terminal
from emrdm.cli.progress import Progress, duration
from emrdm.errors import EmrdmError, InputError, InterruptedRunError, printable
from emrdm.wording import many

if TYPE_CHECKING:
    from emrdm.model import EMRDM
    from emrdm.restoration import Restored

HELP = "remove the clouds from images of any size"
DESCRIPTION = """\
Remove the clouds from images of any size: GeoTIFF, PNG, JPEG or WebP. The
result has the same grid and number type, and the bands that the model knows,
in the same order. Without --model the one inside the package is used, for red,
green and blue. Several images and -o are one series of one place; with
--out-dir every image is restored by itself. A run that was stopped or killed
goes on when the same command is given again."""
EXAMPLES = """\
examples:
  emrdm restore cloudy.png -o clear.png
  emrdm restore cloudy.tif --model weights.safetensors -o clear.tif
  emrdm restore sentinel2.tif --range 0:3000 -o clear.tif
  emrdm restore 2024-05-01.tif 2024-05-11.tif --sar s1.tif --model W -o out.tif
  emrdm restore cloudy.tif -o clear.tif --samples 8 --uncertainty std.tif
  emrdm restore cloudy.tif -o clear.tif --mask clouds.tif --keep-clear
  emrdm restore scenes/*.tif --out-dir clear/ --resume
  emrdm restore big.tif -o clear.tif --workers 4
  emrdm restore cloudy.tif sampler.steps=8 -o clear.tif
"""


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.usage = "%(prog)s IMAGE ... [sampler.KEY=VALUE ...] -o FILE [options]"
    parser.add_argument(
        "words", nargs="+", metavar="IMAGE", help="cloudy images, and settings of the sampler (sampler.KEY=VALUE)"
    )
    where = parser.add_argument_group("output")
    where.add_argument("-o", "--output", type=Path, metavar="FILE", help="the clear image: .tif, .png, .jpg, .webp")
    where.add_argument("--out-dir", type=Path, metavar="FOLDER", help="restore every image by itself into this folder")
    where.add_argument("--uncertainty", type=Path, metavar="FILE", help="standard deviation of the samples, as GeoTIFF")
    where.add_argument("--quantiles", metavar="A,B", help="percent that the map shows as well, such as 5,95")
    where.add_argument("--dtype", metavar="TYPE", help="number type, such as float32 (default: the input's)")
    where.add_argument("--format", choices=("cog", "gtiff"), help="kind of GeoTIFF (default: cog)")
    where.add_argument("--overwrite", action="store_true", help="replace outputs, and what other options began")
    where.add_argument("--resume", action="store_true", help="leave out images whose output is there")
    where.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="unreadable images of several: stop, or leave them out and say so (default: %(default)s)",
    )
    where.add_argument("--json", action="store_true", help="print what was done as JSON, for scripts")

    what = parser.add_argument_group("model")
    what.add_argument(
        "--model",
        metavar="MODEL",
        help="weights file, folder of a training run, or preset "
        "(default: trained weights inside the package, for red, green and blue of 8 bits; see emrdm info default)",
    )
    what.add_argument("--samples", type=int, default=1, metavar="K", help="restorations to average (default: 1)")
    what.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the noise (default: 0)")
    what.add_argument("--exact", action="store_true", help="run the float32 network as it is, however slow")

    files = parser.add_argument_group("what the files hold")
    files.add_argument("--sar", action="append", metavar="FILE", help="radar image; one for all, or one for each image")
    files.add_argument(
        "--sar-unit", choices=("auto", "db", "linear"), default="auto", help="unit of radar (default: auto)"
    )
    files.add_argument("--bands", metavar="A,B", help="names of the images' bands, where the files have none")
    files.add_argument("--dates", metavar="A,B", help="days of the images, where neither tags nor names tell")
    files.add_argument("--nodata", type=float, metavar="X", help="the number that stands for no data")
    files.add_argument(
        "--offset", default="auto", metavar="N", help="Sentinel-2: auto, 0 or -1000 (default: by the file's baseline)"
    )
    files.add_argument("--range", metavar="LOW:HIGH", help="values that become the ends of the model's range, or auto")
    files.add_argument("--fill-band", action="append", metavar="NAME=X", help="a value for a band that is not there")

    keep = parser.add_argument_group("clear pixels")
    keep.add_argument("--mask", metavar="FILE", help="one band, not zero where there is cloud")
    keep.add_argument("--keep-clear", action="store_true", help="keep the clear pixels of the newest image as they are")
    keep.add_argument(
        "--clear-by",
        choices=("mask", "score", "change"),
        help="what is clear: by --mask, by a simple score of the colours (default without one), "
        "or where the model changes little",
    )
    keep.add_argument(
        "--feather",
        type=int,
        metavar="N",
        help="pixels over which restored ground is led up to kept ground (default: 16)",
    )
    keep.add_argument("--grow", type=int, metavar="N", help="pixels to widen clouds by (default: 0; score: 8)")

    how = parser.add_argument_group("how it is done")
    how.add_argument("--tile", type=int, default=256, metavar="N", help="pixels the network sees (default: 256)")
    how.add_argument(
        "--overlap",
        type=int,
        metavar="N",
        help="pixels tiles share, less than a third of a tile (default: a quarter of one)",
    )
    how.add_argument("--memory", default="4GB", metavar="SIZE", help="memory for the whole process (default: 4GB)")
    how.add_argument("--batch", type=int, metavar="N", help="tiles at one time, at most")
    how.add_argument("--device", metavar="NAME", help="cpu or cuda (default: cuda where there is one)")
    how.add_argument("--workers", type=int, metavar="N", help="processes on this machine, through Dask")
    how.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler, such as tcp://host:8786")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Restore, say what was done."""
    images, overrides = models.sampler_words(arguments.words)
    _check(arguments, images)
    from emrdm.restoration.memory import parse_size

    options = _options(arguments)
    options["memory"] = parse_size(arguments.memory)
    todo = jobs.find(arguments, images)  # what is wrong with a file is said before a model is loaded
    for line in todo.notes:
        _say(arguments, line)
    done, failed = _work(arguments, todo.jobs, overrides, options) if todo.jobs else ([], [])
    failed = [*todo.unreadable, *failed]
    if arguments.json:
        skipped = [str(path) for path in todo.done]
        print(json.dumps({"restored": done, "skipped": skipped, "failed": failed}, indent=2))
    if failed:
        raise EmrdmError(f"{len(failed)} of {len(todo.jobs) + len(todo.unreadable)} images were not restored")


def _work(
    arguments: argparse.Namespace,
    todo: list[jobs.Job],
    overrides: dict[str, Any],
    options: dict[str, Any],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Restore one scene after the other: what was done, and what failed."""
    name = embedded.DEFAULT if arguments.model is None else arguments.model
    model = models.load(name).to(models.device(arguments.device))
    if arguments.model is None:
        _note(arguments, f"  no --model: the one inside the package, {model.card.title}")
    sampler = models.sampler(model, overrides) if overrides else None
    done, failed = [], []
    for i, job in enumerate(todo):
        try:
            which = f"{i + 1}/{len(todo)} " if todo[1:] else ""
            done.append(_restore(arguments, model, job, sampler, options, which))
        except InterruptedRunError:
            raise  # by the one who waits for all of them
        except EmrdmError as error:
            if arguments.out_dir is None:
                raise
            failed.append(job.failure(error))
            terminal.complain("emrdm restore", str(error), plain=arguments.json)
    return done, failed


def _check(arguments: argparse.Namespace, images: list[str]) -> None:
    """Refuse what cannot work before anything is opened."""
    if not images:
        raise InputError("no image was given: expected one or more")
    if (arguments.output is None) == (arguments.out_dir is None):
        raise InputError("expected either -o FILE or --out-dir FOLDER")
    if arguments.out_dir is not None:
        for option in ("sar", "mask", "dates", "uncertainty"):
            if getattr(arguments, option) is not None:
                raise InputError(f"--{option} belongs to one place: expected -o with it, not --out-dir")
    inputs = {Path(name).resolve() for name in filter(None, (*images, *(arguments.sar or ()), arguments.mask))}
    for output in (arguments.output, arguments.uncertainty):
        if output is not None and output.resolve() in inputs:
            raise InputError(f"{output} is one of the inputs: expected another name for the output")
    for option in ("mask", "clear_by", "feather", "grow"):
        if getattr(arguments, option) is not None and not arguments.keep_clear:
            name = option.replace("_", "-")
            raise InputError(f"--{name} is about which pixels are clear: expected --keep-clear with it")
    if arguments.clear_by == "mask" and arguments.mask is None:
        raise InputError("--clear-by mask: expected --mask with it")
    if arguments.mask is not None and arguments.clear_by not in (None, "mask"):
        raise InputError(f"both --mask and --clear-by {arguments.clear_by} were given: expected one of them")
    if arguments.quantiles is not None and arguments.uncertainty is None:
        raise InputError("--quantiles are part of the uncertainty map: expected --uncertainty FILE with it")
    for option in ("batch", "workers"):
        if (value := getattr(arguments, option)) is not None and value < 1:
            raise InputError(f"--{option} is {value}: expected 1 or more")
    if arguments.workers is not None and arguments.cluster is not None:
        raise InputError("both --workers and --cluster were given: expected one of them")
    if arguments.dtype is not None:
        _check_dtype(arguments.dtype)


def _check_dtype(name: str) -> None:
    import numpy as np

    known = ("uint8", "uint16", "int16", "uint32", "int32", "float32", "float64")
    if name not in known or np.dtype(name).name != name:
        raise InputError(f"--dtype {name}: expected one of {', '.join(known)}")


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the function behind this verb takes, from what was typed."""
    from emrdm.restoration import Keeping, Reading, Writing

    by: Any = None
    if arguments.keep_clear:
        by = arguments.clear_by or ("score" if arguments.mask is None else "mask")
    feather = 16 if arguments.feather is None else arguments.feather
    grow = arguments.grow if arguments.grow is not None else 8 if by == "score" else 0
    return {
        "reading": Reading(
            offset=arguments.offset,
            range=read_span(arguments.range),
            fill=read_fills(arguments.fill_band),
            sar=arguments.sar_unit,
        ),
        "keeping": None if by is None else Keeping(by, feather=feather, grow=grow),
        "write": Writing(
            uncertainty=arguments.uncertainty,
            quantiles=_quantiles(arguments.quantiles),
            dtype=arguments.dtype,
            kind=arguments.format,
            overwrite=arguments.overwrite,
        ),
        "batch": arguments.batch,
        "workers": arguments.workers,
        "cluster": arguments.cluster,
    }


def read_span(text: str | None) -> tuple[float, float] | str | None:
    """The values that --range names."""
    if text is None or text == "auto":
        return text
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise InputError(f"--range {text}: expected LOW:HIGH, such as 0:10000, or auto") from None
    return low, high


def read_fills(given: list[str] | None) -> dict[str, float]:
    """The values that --fill-band gives to bands that are not there."""
    found = {}
    for word in given or ():
        name, _, text = word.partition("=")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"--fill-band {word}: expected NAME=NUMBER, such as B10=0")
        found[name] = value
    return found


def _quantiles(text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        shares = tuple(float(part) / 100 for part in text.split(","))
    except ValueError:
        shares = (-1.0,)
    if not all(0 <= share <= 1 for share in shares):
        raise InputError(f"--quantiles {text}: expected percent from 0 to 100, such as 5,95")
    if any(0 < share < 0.01 for share in shares):  # meant as shares, most likely
        raise InputError(f"--quantiles {text}: expected percent from 0 to 100, such as 5 for a share of 0.05")
    return shares


def _restore(
    arguments: argparse.Namespace,
    model: EMRDM,
    job: jobs.Job,
    sampler: Any,
    options: dict[str, Any],
    which: str,
) -> dict[str, Any]:
    from emrdm.restoration import Settings, restore_scene

    settings = Settings(
        tile=arguments.tile,
        overlap=arguments.overlap,
        seed=arguments.seed,
        samples=arguments.samples,
        sampler=sampler,
        exact=arguments.exact,
    )
    output = job.output
    shown = Progress(f"{which}restoring {output.name}", unit="tile steps", silent=arguments.quiet)
    kept = (0, 0)

    def progress(done: int, total: int) -> None:
        nonlocal kept
        kept = done, total
        shown(done, total)

    try:
        with job.open() as scene:
            found: Restored = restore_scene(
                scene,
                model,
                output,
                settings=settings,
                progress=progress,
                finishing=Progress(f"{which}writing {output.name}", unit="windows", silent=arguments.quiet),
                announce=lambda note: _note(arguments, f"  {note}"),
                **options,
            )
    except KeyboardInterrupt:
        raise InterruptedRunError(_interrupted(output, *kept)) from None
    _report(arguments, found, output)
    return {"input": [str(image) for image in job.images]} | _facts(arguments, found, output)


def _interrupted(output: Path, done: int, total: int) -> str:
    from emrdm.restoration.journal import run_folder

    if sys.stderr.isatty():
        print(file=sys.stderr)  # behind the line of progress
    if not (folder := run_folder(output)).is_dir():
        return "interrupted before a tile was finished; nothing is left behind"
    return f"interrupted; {done} of {total} tile steps are kept in {folder}: the same command goes on"


def _report(arguments: argparse.Namespace, found: Restored, output: Path) -> None:
    """One line of what was done."""
    done = found.summary
    parts = [
        f"{found.grid.width} x {found.grid.height} pixels, {many(len(found.names), 'band')}",
        f"{many(done.tiles, 'tile')} in {duration(done.seconds)} "
        f"({done.calls / max(done.seconds, 1e-3):.1f} tile steps/s)",
    ]
    if done.known < 1:
        parts.append(f"{100 * (1 - done.known):.1f} % without data")
    if done.clipped > 0:
        parts.append(f"{100 * done.clipped:.2f} % of the values clipped")
    if arguments.keep_clear:
        parts.append(f"{100 * (1 - done.replaced):.1f} % kept as they were")
    if done.resumed:
        parts.append("went on with an earlier run")
    _say(arguments, f"{output}: " + "; ".join(parts))


def _facts(arguments: argparse.Namespace, found: Restored, output: Path) -> dict[str, Any]:
    """The same as plain data: what --json prints of a scene."""
    done = found.summary
    return {
        "output": str(output),
        "uncertainty": None if arguments.uncertainty is None else str(arguments.uncertainty),
        "width": found.grid.width,
        "height": found.grid.height,
        "bands": list(found.names),
        "tiles": done.tiles,
        "tile_steps": done.calls,
        "seconds": round(done.seconds, 3),
        "resumed": done.resumed,
        "known": done.known,
        "clipped": done.clipped,
        "replaced": done.replaced,
        "notes": list(done.notes),
    }


def _say(arguments: argparse.Namespace, text: str) -> None:
    """A line for people: beside the JSON, where there is any."""
    if not arguments.quiet:
        print(printable(text), file=sys.stderr if arguments.json else sys.stdout)


def _note(arguments: argparse.Namespace, text: str) -> None:
    """A line on how the files are understood, which is no result."""
    if not arguments.quiet:
        print(printable(text), file=sys.stderr)
