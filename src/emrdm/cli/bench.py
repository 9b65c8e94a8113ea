"""``emrdm bench``: how fast a model is here, against the published way."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from emrdm.errors import EmrdmError, InputError, MissingDependencyError, printable

if TYPE_CHECKING:
    from emrdm.model import EMRDM
    from emrdm.presets import Preset

HELP = "measure how fast a model is here, and how exact"
DESCRIPTION = """\
Measure a model on this machine: the published-style path (eager PyTorch,
tf32 on GPUs, attention of plain PyTorch; on a CPU a gather) and the path that
users get, with the same weights and images: time, memory, and how far the
results are from float32. Less than 50 dB of agreement is a failure.

cases (those with * are measured without being asked for on a CPU, those with
+ on a GPU):
  forward *+    one call of the network
  sampling *+   an image restored with the model's own sampler
  best +        images a second at the best batch
  training +    one step of training, batch 4
  attention *+  each attention back-end alone
  size          sampling against the side of the image, 128 to 1024
  frames        sampling against the number of frames, 1 to 8"""
EXAMPLES = """\
examples:
  emrdm bench                                   a few minutes, nothing needed
  emrdm bench sen12ms-cr --device cuda --json speed.json
  emrdm bench weights.safetensors --cases sampling --steps 8 --size 512
  emrdm bench sen2-mtc-new --cases size,frames --plot figures/
"""
_STDOUT = Path("-")  # what --json alone means
_QUICK = (3, 1.0)  # repeats, and seconds for a measurement
_SECONDS = {"cpu": 4.0, "cuda": 10.0}


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.add_argument(
        "model",
        nargs="?",
        metavar="PRESET|WEIGHTS",
        help="what to measure (default: rgb-small on a CPU, sen12ms-cr on a GPU)",
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to measure (default: %(default)s)"
    )
    parser.add_argument("--cases", metavar="A,B,...", help="what to measure, see above")
    parser.add_argument("--steps", type=int, metavar="N", help="steps of the sampler (default: the model's own)")
    parser.add_argument(
        "--size", type=int, default=256, metavar="PIXELS", help="side of the image (default: %(default)s)"
    )
    parser.add_argument("--batch", type=int, default=1, metavar="B", help="images a call (default: %(default)s)")
    parser.add_argument(
        "--repeats", type=int, metavar="K", help="calls to time, fewer where they are slow (default: 20)"
    )
    parser.add_argument(
        "--baseline",
        choices=("gather", "tiled", "flex"),
        help="attention of the published-style path (default: the best on a GPU, gather on a CPU)",
    )
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=_STDOUT,
        metavar="FILE",
        help="print all numbers as JSON, for scripts; with FILE, print the table and write them there",
    )
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw figures into this folder, too")
    parser.add_argument("--quick", action="store_true", help="few repeats: a first impression")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    from emrdm.bench import Effort, Settings, as_json, as_text, bench, default_cases, read_cases, read_device
    from emrdm.files import atomic_path, make_folder

    device = read_device(arguments.device)
    names = read_cases(arguments.cases) if arguments.cases is not None else default_cases(device.type)
    _check_json(arguments.json)
    if arguments.plot is not None:
        make_folder(arguments.plot, "figures")
    name = arguments.model if arguments.model is not None else "sen12ms-cr" if device.type == "cuda" else "rgb-small"
    model, recipe, weights = _load(name)
    repeats = arguments.repeats if arguments.repeats is not None else _QUICK[0] if arguments.quick else 20
    settings = Settings(
        cases=tuple(names),
        size=arguments.size,
        batch=arguments.batch,
        steps=arguments.steps,
        effort=Effort(repeats, _QUICK[1] if arguments.quick else _SECONDS[device.type]),
        baseline=arguments.baseline,
    )
    watching = _Watching(silent=arguments.quiet)
    try:
        report = bench(
            Path(name).name if recipe is None else name,
            model,
            settings,
            device=device,
            recipe=recipe,
            weights=weights,
            command=_command(arguments, name, device.type),
            announce=watching,
        )
    finally:
        watching.end()
    only_json = arguments.json == _STDOUT
    print(as_json(report) if only_json else "\n".join(map(printable, as_text(report).split("\n"))))
    if arguments.json is not None and not only_json:
        with atomic_path(arguments.json) as temporary:
            temporary.write_text(as_json(report) + "\n", "utf-8")
    if arguments.plot is not None:
        from emrdm.bench.figures import draw

        try:
            written = draw(report, arguments.plot)
        except MissingDependencyError as error:
            print(f"emrdm bench: no figures: {error}", file=sys.stderr)
        else:
            if not arguments.quiet and not only_json:
                print(f"{arguments.plot}: {', '.join(path.name for path in written)}")
    if report.failures:
        raise EmrdmError("; ".join(report.failures))


def _check_json(target: Path | None) -> None:
    """Refuse a file that could not be written in the end, or that is the model behind --json."""
    if target is None or target == _STDOUT:
        return
    if target.suffix != ".json":
        raise InputError(f"--json {target}: expected a name ending in .json, or the model in front of --json")
    if not target.absolute().parent.is_dir():
        raise InputError(f"--json {target}: there is no folder {target.parent}")


def _load(name: str) -> tuple[EMRDM, Preset | None, str]:
    """A model by preset, weights file or the folder of a run; its recipe if there is one; which weights it has."""
    from emrdm.bench import lively
    from emrdm.model import EMRDM
    from emrdm.presets import load_preset, preset_names
    from emrdm.presets.reading import is_preset_file

    if not name:
        raise InputError("PRESET|WEIGHTS is empty: expected a preset or a file")
    if name in preset_names() or is_preset_file(name) or ("." not in name and "/" not in name):
        if name not in preset_names() and (inside := Path(name) / "model.safetensors").is_file():
            return EMRDM.load(inside), None, str(inside)
        recipe = load_preset(name)
        return lively(EMRDM.from_preset(name)), recipe, "random, seed 0, none of them zero"
    inside = Path(name) / "model.safetensors"
    path = inside if inside.is_file() else Path(name)
    return EMRDM.load(path), None, str(path)


def _command(arguments: argparse.Namespace, name: str, device: str) -> str:
    """A command that measures the same again, defaults of this machine spelt out."""
    words = ["emrdm", "bench", name, "--device", device]
    for option in ("cases", "steps", "size", "batch", "repeats", "baseline"):
        value = getattr(arguments, option)
        if value is not None and (option, value) not in (("size", 256), ("batch", 1)):
            words += [f"--{option}", str(value)]
    return shlex.join([*words, *(["--quick"] if arguments.quick else [])])


class _Watching:
    """Says what is being measured: in one line that stays on a terminal, in lines elsewhere."""

    def __init__(self, *, silent: bool) -> None:
        self.silent = silent
        self.width = 0

    def __call__(self, text: str) -> None:
        if self.silent:
            return
        text = printable(f"measuring {text}")
        if sys.stderr.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Take the line that stays away."""
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
        self.width = 0
