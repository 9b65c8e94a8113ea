"""``emrdm train``: train a model, or go on with a run."""

from __future__ import annotations

import argparse
import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm import embedded
from emrdm.cli import models, settings
from emrdm.cli.live import Live
from emrdm.errors import InputError, InterruptedRunError
from emrdm.wording import many

if TYPE_CHECKING:
    from emrdm.presets import Preset
    from emrdm.training import Machine, Outcome

HELP = "train a model, or go on with a run that was stopped"
DESCRIPTION = """\
Train a preset, a recipe of your own (.yaml or .toml), or go on with a run.
The same command goes on where it was stopped, bit for bit. The folder gets
checkpoints, a log (JSONL and TensorBoard), a picture sheet a validation, and
in the end model.safetensors and README.md, its model card."""
EXAMPLES = """\
examples:
  emrdm train cuhk-cr1 --data ROOT -o runs/cuhk
  emrdm train rgb-small --data rice1=ROOT1 --data rice2=ROOT2 optimizer.lr=2e-4
  emrdm train my.yaml --max-minutes 9           stops with a checkpoint
  emrdm train runs/cuhk                         goes on with a run
  torchrun --nproc-per-node 8 -m emrdm train sen12ms-cr --data ROOT

all settings: docs/training.md
"""


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.usage = "%(prog)s RECIPE [--data [NAME=]ROOT] [KEY=VALUE ...] [options]"
    parser.add_argument(
        "words",
        nargs="+",
        metavar="RECIPE [KEY=VALUE ...]",
        help="preset, .yaml or .toml file, or folder of a run; settings such as optimizer.lr=2e-4",
    )
    run = parser.add_argument_group("run")
    run.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="folder of the run (default: runs/RECIPE)")
    run.add_argument("--from", dest="start_from", type=Path, metavar="WEIGHTS", help='start from these, or "default"')
    old = run.add_mutually_exclusive_group()
    old.add_argument("--resume", action="store_true", help="go on with the run in the folder; refuse if there is none")
    old.add_argument("--overwrite", action="store_true", help="forget the run in the folder")
    run.add_argument("--allow-changes", action="store_true", help="go on although the recipe has changed")
    run.add_argument("--max-minutes", type=float, metavar="M", help="stop with a checkpoint after M minutes")
    add_data(parser)
    add_machine(parser)
    parser.add_argument("--json", action="store_true", help="print how it ended as JSON, for scripts")
    return []


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare what to train on."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data", action="append", metavar="[NAME=]ROOT", help="folder to train on, may be repeated (emrdm data list)"
    )
    data.add_argument("--rule", metavar="RULE", help="how the data set's own lists are read (emrdm data list NAME)")
    data.add_argument("--bands", metavar="NAMES", help="names of the bands of your own images, such as B4,B3,B2")
    data.add_argument("--range", metavar="LOW:HIGH", help="black and white of your own images, such as 0:10000")
    data.add_argument(
        "--clouds", choices=("thin", "thick", "mixed", "varied"), help="kind of clouds that synthetic draws"
    )


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Declare where to train."""
    machine = parser.add_argument_group("machine")
    machine.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train (default: %(default)s)"
    )
    machine.add_argument("--devices", type=int, metavar="N", help="devices of this machine (torchrun and SLURM say it)")
    machine.add_argument(
        "--strategy",
        choices=("auto", "ddp", "fsdp"),
        default="auto",
        help="for several devices: copy the model (ddp) or spread it (fsdp)",
    )
    machine.add_argument("--workers", type=int, metavar="N", help="processes that read ahead (default: by the machine)")
    machine.add_argument("--cache", metavar="memory|FOLDER", help="keep decoded images in memory or in a folder")


def run(arguments: argparse.Namespace) -> None:
    """Train, and say how it ended."""
    name, overrides = settings.words(arguments.words, expected="RECIPE [KEY=VALUE ...]")
    folder = _folder(arguments, name)
    recipe = read_recipe(name, arguments, overrides)
    machine = read_machine(arguments)

    from emrdm.training import RunFolder, train
    from emrdm.training.log import plain
    from emrdm.training.machine import leave
    from emrdm.training.together import bow_out

    if arguments.resume and not RunFolder(folder).begun():
        raise InputError(f"{folder} has no run to go on with: leave out --resume to begin one")
    live = Live(name, silent=arguments.quiet)
    for handler in logging.getLogger().handlers:  # warnings stand on lines of their own
        handler.addFilter(live.make_way)
    try:
        outcome = train(
            recipe,
            folder,
            machine=machine,
            start_from=weights_of(arguments.start_from),
            allow_changes=arguments.allow_changes,
            overwrite=arguments.overwrite,
            max_minutes=arguments.max_minutes,
            listener=live,
        )
    finally:
        live.end()
        for handler in logging.getLogger().handlers:
            handler.removeFilter(live.make_way)
    leave()
    if outcome.reason == "signal":
        if not outcome.first:  # one of several is enough to say it
            bow_out(InterruptedRunError.exit_code)
        where = f"step {outcome.place.step:,} of {outcome.steps:,}"
        raise InterruptedRunError(f"{outcome.signal or 'a signal'} at {where}: saved; the same command goes on")
    if outcome.first and arguments.json:
        print(json.dumps(plain(_facts(outcome)), indent=2))
    elif outcome.first and not arguments.quiet:
        print(_ending(outcome))


def _folder(arguments: argparse.Namespace, name: str) -> Path:
    """The folder of the run: the one that is named, or one named after the recipe."""
    if arguments.output is not None:
        output: Path = arguments.output
        return output
    return Path(name) if _is_run(name) else Path("runs") / Path(name).stem


def _is_run(name: str) -> bool:
    """Whether a recipe is the folder of a run; the name of a preset is that, whatever folders there are."""
    from emrdm.presets import preset_names

    return name not in preset_names() and Path(name).is_dir()


def read_recipe(name: str, arguments: argparse.Namespace, overrides: dict[str, Any]) -> Preset:
    """The recipe a user means: a preset, a file or a run's, with what the command line changes."""
    from emrdm.presets import load_preset
    from emrdm.presets.reading import is_preset_file
    from emrdm.training import RunFolder

    if not _is_run(name) and not is_preset_file(name) and ("/" in name or os.sep in name):  # no preset has such a name
        what = "is a file" if Path(name).exists() else "does not exist"
        raise InputError(f"{name} {what}: expected the folder of a run, a preset, or a recipe's .yaml or .toml file")
    recipe = RunFolder(Path(name)).recipe() if _is_run(name) else load_preset(name)
    recipe = recipe.replace(settings.full_keys(overrides))
    sources = settings.sources(arguments, name, recipe)
    return recipe.replace({"data": sources}) if sources else recipe


def weights_of(path: Path | None) -> Path | None:
    """A weights file, also by the folder of the run that made it; "default" is what lies in the package."""
    if path is None:
        return None
    if str(path) == embedded.DEFAULT and not path.exists():
        return embedded.default_weights()
    return models.weights_file(path)


def read_machine(arguments: argparse.Namespace) -> Machine:
    """Where to train."""
    import torch

    from emrdm.training import Machine

    workers = arguments.workers
    if workers is None:  # a CPU that trains has no core to spare
        share = (os.cpu_count() or 1) // max(1, torch.cuda.device_count())
        workers = min(8, share) if arguments.device != "cpu" and torch.cuda.is_available() else 0
    if workers < 0:
        raise InputError(f"--workers is {workers}: expected 0 or more")
    if arguments.devices is not None and arguments.devices < 1:
        raise InputError(f"--devices is {arguments.devices}: expected 1 or more")
    cache: Any = arguments.cache
    return Machine(
        device=arguments.device,
        processes=arguments.devices,
        strategy=arguments.strategy,
        workers=workers,
        cache=cache if cache in (None, "memory") else Path(cache),
    )


def _ending(outcome: Outcome) -> str:
    place, folder = outcome.place, outcome.folder
    if outcome.reason == "time":
        return f"time is up at step {place.step:,} of {outcome.steps:,}: saved; the same command goes on"
    best = ""
    if place.best is not None and place.best["step"] == place.exported:
        best = f", the best of {many(len(place.validations), 'validation')}, step {place.exported:,}"
    skipped = f"; {many(len(place.skipped), 'step')} skipped" if place.skipped else ""
    left_out = f"; {many(len(place.quarantine), 'sample')} left out" if place.quarantine else ""
    return (
        f"finished {place.step:,} steps{skipped}{left_out}\n"
        f"{folder.model}: the weights{best}\n{folder.card}: the model card"
    )


def _facts(outcome: Outcome) -> dict[str, Any]:
    place = outcome.place
    return {
        "reason": outcome.reason,
        "step": place.step,
        "steps": outcome.steps,
        "best": place.best,
        "skipped": len(place.skipped),
        "quarantine": place.quarantine,
        "model": str(outcome.folder.model) if outcome.folder.model.exists() else None,
    }
