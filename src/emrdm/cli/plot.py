"""``emrdm plot``: figures of a model at work, of its design, and of what other verbs found."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm.cli import at_work, views
from emrdm.cli.at_work import title
from emrdm.cli.outputs import check_new
from emrdm.errors import InputError, printable
from emrdm.files import make_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HELP = "figures of a model, of its training, of what was found"
DESCRIPTION = "Draw a model at work, its design, or what other verbs found, as PNG, SVG or PDF."
EXAMPLES = """\
examples:
  emrdm plot trajectory cloudy.tif --truth clear.tif -o trajectory.png
  emrdm plot attention may.tif june.tif july.tif --model W -o attention.png
  emrdm plot samplers cloudy.tif --truth clear.tif -o samplers.png
  emrdm plot process sen12ms-cr -o process.pdf
  emrdm plot curves runs/a runs/b -o curves.svg
  emrdm plot sweep studies/alpha -o alpha.png
  emrdm plot calibration calibration.json -o calibration.png
  emrdm plot scaling speed.json --of frames -o frames.png
"""
_DESCRIPTIONS = {
    "trajectory": """\
Restore a part of an image and show every step: above, the noisy state that the
denoiser sees; below, what it makes of it. The first state is the cloudy image
under noise, the last estimate is the result. sigma is the noise level.""",
    "attention": """\
Show which cloudy frame a multi-temporal model looks at where: the masks of its
temporal fusion over the frames, as the paper's figure does, each stretched to
[0, 1] by itself; the least and the most that a frame counts are written below.""",
    "samplers": """\
Restore a part of an image with every sampler and several numbers of calls of
the network, all from the same noise: how far each result is from where the
equation leads with many steps, and how near to the truth. The stochastic
sampler adds noise of its own, and leads elsewhere. Takes a few minutes.""",
    "process": """\
Draw the design of a model, from its configuration alone: what the noisy state
is made of, the factors around the network (Eqs. of section 3.4), the noise
levels of training beside those of the sampler, and the sampler's steps.""",
    "curves": """\
Draw how trainings went: loss, learning rate, and the scores of validation. Of
several runs, scores are means over the data sets that all were validated on.""",
    "sweep": """\
Draw a study of emrdm ablate again, from the table in its folder: lines, heat
maps or bars as its axes need them, with the paper's scores beside ours.""",
    "calibration": """\
Draw whether an uncertainty map is right: the error that was made against the
standard deviation that was predicted, and how often the truth lies inside of
the intervals. From the JSON of emrdm calibrate, or from the images.""",
    "scaling": """\
Draw what emrdm bench measured: time against the size of the image or the
number of frames, with the part that is linear, or times faster, as bars.""",
}
_EXAMPLES = {
    "trajectory": """\
  emrdm plot trajectory cloudy.tif -o trajectory.png
  emrdm plot trajectory cloudy.tif --truth clear.tif sampler.steps=4 -o t.png
  emrdm plot trajectory may.tif june.tif --model W --window 0,0,256,256 -o t.png
""",
    "attention": """\
  emrdm plot attention may.tif june.tif july.tif --model W -o attention.png
  emrdm plot attention a.tif b.tif --model W --heads 0,15 --step 1 -o heads.png
  emrdm plot attention a.tif b.tif --model W --heads mean --weights -o mean.png
""",
    "samplers": """\
  emrdm plot samplers cloudy.tif -o samplers.png
  emrdm plot samplers cloudy.tif --truth clear.tif --calls 1,2,4,8 -o s.png
  emrdm plot samplers cloudy.tif --truth clear.tif --pictures -o pictures.png
""",
    "process": """\
  emrdm plot process -o process.png                  the model of the package
  emrdm plot process sen2-mtc-new sampler.steps=10 -o process.pdf
  emrdm plot process sen2-mtc-new process.alpha=0 -o vanilla.png
""",
    "curves": """\
  emrdm plot curves runs/rice -o curves.png
  emrdm plot curves runs/a runs/b runs/c -o compared.svg
""",
    "sweep": """\
  emrdm plot sweep studies/alpha -o alpha.pdf
  emrdm plot sweep studies/churn --metrics psnr -o churn.png
""",
    "calibration": """\
  emrdm calibrate clear.tif truth.tif --uncertainty std.tif --json > found.json
  emrdm plot calibration found.json -o calibration.png
  emrdm plot calibration clear.tif truth.tif std.tif -o calibration.png
""",
    "scaling": """\
  emrdm bench sen2-mtc-new --cases size,frames --json speed.json
  emrdm plot scaling speed.json -o size.png
  emrdm plot scaling speed.json --of frames -o frames.png
""",
}


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments; the parsers of the kinds."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", title="kinds", required=True)

    def kind(name: str, words: str) -> argparse.ArgumentParser:
        return kinds.add_parser(
            name,
            help=words,
            description=_DESCRIPTIONS[name],
            epilog=f"examples:\n{_EXAMPLES[name]}",
        )

    one = kind("trajectory", "from noise to the image: each step of the sampler")
    views.add(one, side=256)
    two = kind("attention", "which cloudy frame counts where, by temporal fusion")
    views.add(two, side=256, truth=False)
    two.add_argument("--heads", metavar="A,B", help="heads to show, from 0, or mean (default: two that vary most)")
    two.add_argument("--step", type=int, metavar="N", help="step of the sampler, from 1 (default: the last)")
    two.add_argument("--weights", action="store_true", help="weights on one scale, instead of each mask stretched")
    three = kind("samplers", "how near samplers come, by calls of the network")
    views.add(three, side=128)
    three.add_argument(
        "--calls", default="1,2,3,5,9,15,25", metavar="A,B", help="of the network (default: %(default)s)"
    )
    three.add_argument("--methods", metavar="A,B", help="samplers (default: euler,heun,multistep,stochastic)")
    three.add_argument("--pictures", action="store_true", help="what they make of the image, instead of lines")
    four = kind("process", "s, k, factors around the network, noise levels")
    four.add_argument(
        "words",
        nargs="*",
        metavar="MODEL",
        help="weights, folder of a run, or preset (default: the package's), and settings: of the sampler, of a preset "
        "also process, preconditioning and training_noise",
    )
    five = kind("curves", "training: loss, learning rate, scores, of some runs")
    five.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs, or their log.jsonl")
    six = kind("sweep", "a study of emrdm ablate")
    six.add_argument("study", type=Path, metavar="STUDY", help="folder of a study, or its table.json")
    six.add_argument("--metrics", metavar="A,B", help="draw these only, such as psnr,ssim (default: all)")
    seven = kind("calibration", "whether an uncertainty map is right")
    seven.add_argument("inputs", nargs="+", type=Path, metavar="INPUT", help="JSON, or CLEAR TRUTH STD, three images")
    seven.add_argument("--mask", type=Path, metavar="FILE", help="compare images only where this is not zero")
    eight = kind("scaling", "speed against size or frames")
    eight.add_argument("report", type=Path, metavar="JSON", help="what emrdm bench --json wrote")
    eight.add_argument(
        "--of", choices=("size", "frames", "ratios"), help="what to draw (default: the first of them that was measured)"
    )
    found = [one, two, three, four, five, six, seven, eight]
    for each in found:
        each.add_argument(
            "-o", "--output", type=Path, required=True, metavar="FILE", help=".png, .svg or .pdf to write"
        )
        if each is not six and each is not eight:  # these have titles that say what was measured
            each.add_argument("--title", metavar="TEXT", help="what is written above; '' for nothing")
        each.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    return found


def run(arguments: argparse.Namespace) -> None:
    """Draw and write."""
    from emrdm.plots.figure import FORMATS, matplotlib, save

    check_new(arguments.output, FORMATS, overwrite=arguments.overwrite, makes_folder=True)
    matplotlib()  # before any work
    make_folder(arguments.output.parent, "the figure")
    figure = _KINDS[arguments.kind](arguments)
    if figure is not None:
        save(figure, arguments.output)
    if not arguments.quiet:
        print(printable(f"{arguments.output}: drawn"))


# ---------------------------------------------------------------- what other verbs found


def _curves(arguments: argparse.Namespace) -> Figure:
    from emrdm import plots
    from emrdm.training.log import LOG, read_log

    found = {}
    for run_ in arguments.runs:
        log = run_ / LOG if run_.is_dir() else run_
        if not log.is_file():
            raise InputError(f"{run_} has no {LOG}: expected the folder of a run that emrdm train has begun")
        rows = read_log(log)
        if not any(row["kind"] in ("step", "validation") for row in rows):
            raise InputError(f"{log} has no step and no validation: expected the log of a run")
        name = (log.parent if log.name == LOG else log).absolute().with_suffix("").name
        if name in found:
            name = str(run_)
        if name in found:
            raise InputError(f"{run_} is given twice: expected different runs")
        found[name] = rows
    if len(found) == 1:
        ((name, rows),) = found.items()
        return plots.training_figure(rows, title=title(arguments, name))
    return plots.compared_figure(found, title=title(arguments, "Trainings compared"))


def _sweep(arguments: argparse.Namespace) -> None:
    from emrdm.ablation import read
    from emrdm.ablation.figures import draw

    findings = read(arguments.study)
    if not findings.metrics:
        raise InputError(f"{arguments.study} has no scores yet: expected a study with one finished case at least")
    metrics = [] if arguments.metrics is None else [name.strip() for name in arguments.metrics.split(",")]
    draw(findings, arguments.output, metrics=metrics)


def _calibration(arguments: argparse.Namespace) -> Figure:
    from emrdm import plots
    from emrdm.cli.calibrate import read_maps

    inputs = arguments.inputs
    if len(inputs) == 3:
        from emrdm.restoration.calibration import calibrate

        arguments.clear, arguments.truth, arguments.uncertainty = inputs
        _, samples, drawn = read_maps(arguments, silent=arguments.quiet)
        clear, truth, spread = drawn.values()
        facts = calibrate(clear, spread, truth, samples=samples).as_dict()
        words = f"{inputs[2].name} against {inputs[1].name}" + ", under clouds" * (arguments.mask is not None)
    elif len(inputs) == 1:
        if arguments.mask is not None:
            raise InputError("--mask belongs to images: expected CLEAR TRUTH STD with it, not JSON")
        facts, words = _read_json(inputs[0]), inputs[0].stem
    else:
        raise InputError(f"{len(inputs)} files were given: expected one JSON file, or CLEAR TRUTH STD")
    try:
        curve = [(float(part["predicted"]), float(part["error"])) for part in facts["reliability"]]
        coverage = {float(level): float(share) for level, share in facts["coverage"].items()}
        ratio = facts["spread_skill"]
        note = "" if ratio is None else f"spread / skill {float(ratio):.3f}"
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{inputs[0]} is no calibration: expected JSON that emrdm calibrate --json printed") from None
    return plots.reliability_figure(title(arguments, words), curve, coverage, note=note)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path} is no JSON: expected what emrdm calibrate --json printed") from None


def _scaling(arguments: argparse.Namespace) -> Figure:
    from emrdm.bench import read
    from emrdm.bench.figures import ratios_figure, scaling_figure

    report = read(arguments.report)
    drawn: dict[str, Callable[[], Figure]] = {
        scaling.axis: functools.partial(scaling_figure, report, scaling) for scaling in report.scalings
    }
    if any(row.ratio is not None for row in report.rows):
        drawn["ratios"] = lambda: ratios_figure(report)
    wanted = arguments.of or next(iter(drawn), "size")
    if wanted not in drawn:
        has = ", ".join(drawn) or "none of them"
        raise InputError(f"{arguments.report} has {has}, not {wanted}: expected emrdm bench --cases size,frames")
    return drawn[wanted]()


_KINDS: dict[str, Callable[[argparse.Namespace], Figure | None]] = {
    "trajectory": at_work.trajectory,
    "attention": at_work.attention,
    "samplers": at_work.samplers,
    "process": at_work.process,
    "curves": _curves,
    "sweep": _sweep,
    "calibration": _calibration,
    "scaling": _scaling,
}
