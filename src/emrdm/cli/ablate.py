"""``emrdm ablate``: a study of the paper or of one's own, from training to its table, plot and pictures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm.cli import settings
from emrdm.cli.live import Live
from emrdm.cli.progress import Progress
from emrdm.cli.train import add_data, add_machine, read_machine
from emrdm.errors import InputError, printable

if TYPE_CHECKING:
    from emrdm.ablation import Findings
    from emrdm.presets import Preset
    from emrdm.presets.studies import Study

HELP = "run a study, the paper's or your own: table, plot"
DESCRIPTION = """\
Run one of the paper's ablations: train every case alike, or one model for all
settings of the sampler, score all on the same images, and write a table, a
plot and a sheet of pictures, with the paper's scores beside ours. The same
command goes on where it was stopped. Without STUDY, the studies are listed.

A study of your own is a .toml or .yaml file: base names the preset (or --base
does), [grid] has a list of values for every setting that is varied, [set] what
all cases have. Settings of the sampler alone share one model."""
EXAMPLES = """\
examples:
  emrdm ablate                                  list the studies
  emrdm ablate modules --data ROOT -o study/    as in the paper (days)
  emrdm ablate modules --base rgb-small --data rice1=ROOT train.steps=2000
  emrdm ablate steps --model weights.safetensors --data rice1=ROOT
  emrdm ablate alpha --base tiny --data rice1=ROOT train.steps=300 --seeds 3
  emrdm ablate my-study.toml --data rice1=ROOT
"""


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.usage = "%(prog)s STUDY --data [NAME=]ROOT [KEY=VALUE ...] [options]"
    parser.add_argument(
        "words",
        nargs="*",
        metavar="STUDY [KEY=VALUE ...]",
        help="name of a study, or a file of your own; settings that all cases get, such as train.steps=300",
    )
    study = parser.add_argument_group("study")
    study.add_argument("--list", action="store_true", help="list the studies")
    study.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="its folder (default: studies/STUDY)")
    study.add_argument("--base", metavar="PRESET", help="study this preset or recipe instead of the study's")
    study.add_argument("--model", type=Path, metavar="WEIGHTS", help="sample these instead of training a model")
    study.add_argument("--seeds", type=int, default=1, metavar="K", help="train with K seeds (default: %(default)s)")
    again = study.add_mutually_exclusive_group()
    again.add_argument("--overwrite", action="store_true", help="forget the study in the folder, models and all")
    again.add_argument("--rescore", action="store_true", help="forget its scores and keep its models")
    study.add_argument("--max-minutes", type=float, metavar="M", help="stop after M minutes; what is done is kept")
    add_data(parser)
    scoring = parser.add_argument_group("scoring")
    scoring.add_argument(
        "--split",
        choices=("train", "val", "test", "all"),
        help="images to score on (default: test where there is one, else val)",
    )
    scoring.add_argument("--limit", type=int, metavar="N", help="score N images only, evenly spread")
    scoring.add_argument(
        "--batch-size", type=int, default=4, metavar="N", help="images scored at a time (default: %(default)s)"
    )
    add_machine(parser)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON, for scripts")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Run the study, or list them all."""
    if arguments.list or not arguments.words:
        _list_studies(as_json=arguments.json)
        return
    name, overrides = settings.words(arguments.words, expected="STUDY [KEY=VALUE ...]")

    from emrdm.presets.reading import is_preset_file
    from emrdm.presets.studies import load_study

    study = load_study(name)
    if not study.base and not arguments.base and not arguments.model:
        raise InputError(f'{name} names no base: expected base = "tiny", or another preset, in it, or --base')
    base, changes = _changes(study, arguments, settings.full_keys(overrides))
    folder = arguments.output or Path("studies") / (Path(name).stem if is_preset_file(name) else name)

    from emrdm.ablation import Scoring, ablate, as_json, as_text, write_report

    scoring = Scoring(split=arguments.split, limit=arguments.limit, batch_size=arguments.batch_size)
    listener = _Watching(silent=arguments.quiet)
    try:
        findings = ablate(
            name,
            folder,
            base=base,
            changes=changes,
            model=arguments.model,
            seeds=arguments.seeds,
            scoring=scoring,
            machine=read_machine(arguments),
            max_minutes=arguments.max_minutes,
            overwrite=arguments.overwrite,
            rescore=arguments.rescore,
            listener=listener,
        )
    finally:
        listener.end()
    if not findings.metrics:  # the time was up before the first case was scored
        print(as_json(findings) if arguments.json else _ending(findings, folder))
        return
    written, missing = write_report(findings, folder)
    for line in missing:
        print(f"emrdm ablate: {line}", file=sys.stderr)
    print(as_json(findings) if arguments.json else "\n".join(map(printable, as_text(findings).split("\n"))))
    if not arguments.quiet and not arguments.json:
        print(f"\n{folder}: {', '.join(path.name for path in written)}")
        print(_ending(findings, folder))


def _changes(
    study: Study, arguments: argparse.Namespace, overrides: dict[str, Any]
) -> tuple[Preset | None, dict[str, Any]]:
    """Another base than the paper's, if there is one, and what is changed in all cases, data among it."""
    from emrdm.presets import load_preset

    base = None if arguments.base is None else load_preset(arguments.base)
    name = arguments.base or study.base
    # Weights need no base; "tiny" then stands for one that is made for no data set.
    sources = settings.sources(arguments, name or str(arguments.model), base or load_preset(name or "tiny"))
    return base, {**overrides, **({"data": sources} if sources else {})}


class _Watching:
    """Shows a line a case, and how training and scoring go on."""

    def __init__(self, *, silent: bool) -> None:
        self.silent = silent
        self.live: Live | None = None
        self.progress: Progress | None = None

    def case(self, number: int, count: int, label: str) -> None:
        self.end()
        if not self.silent:
            print(f"case {number} of {count}: {printable(label)}", file=sys.stderr, flush=True)
        self.progress = None

    def trains(self, name: str) -> None:
        self.live = Live(name, silent=self.silent)

    def training(self, row: Mapping[str, Any]) -> None:
        if self.live is not None:
            self.live(row)

    def scoring(self, done: int, total: int) -> None:
        self.end()
        self.progress = self.progress or Progress("scoring", unit="images", silent=self.silent)
        self.progress(done, total)

    def end(self) -> None:
        """Leave the line that stays."""
        if self.live is not None:
            self.live.end()
        self.live = None


def _ending(findings: Findings, folder: Path) -> str:
    if not findings.left:
        return f"finished {len(findings.results)} cases"
    return f"time is up; left are {'; '.join(findings.left)}: the same command goes on in {folder}"


def _list_studies(*, as_json: bool) -> None:
    from emrdm.presets.studies import load_study, study_names

    rows = []
    for name in study_names():
        study = load_study(name)
        count = len(list(study.cases()))
        trains = "a model a case" if study.retrain else "one model"
        rows.append({"study": name, "title": study.title, "cases": count, "trains": trains, "paper": study.source})
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    columns = [[key, *(str(row[key]) for row in rows)] for key in rows[0]]
    widths = [max(map(len, column)) for column in columns]
    for line in zip(*columns, strict=True):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
