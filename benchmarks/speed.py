"""Measure everything that the speed of this package is judged by, part by part, each with a file of its own.

python benchmarks/speed.py --out FOLDER               all parts, on the GPU where there is one
python benchmarks/speed.py --parts attention,training only those
python benchmarks/speed.py --plot FOLDER              figures and a summary of what is in the folder

Results are printed and written as they come: a run that is cut off keeps what it has. ``emrdm bench`` measures a single
model; this is the same with the presets and bounds of the project.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from emrdm.bench import Effort, Report, Settings, as_json, as_text, bench, lively, read, read_device
from emrdm.errors import EmrdmError, MissingDependencyError
from emrdm.files import atomic_path, make_folder
from emrdm.model import EMRDM
from emrdm.presets import load_preset

SIZE = 256


@dataclass(frozen=True)
class Part:
    """Some cases of a preset."""

    preset: str
    cases: tuple[str, ...]
    device: str = "cuda"
    steps: int | None = None
    baseline: str | None = None


PARTS = {
    "attention": Part("sen12ms-cr", ("attention",)),
    "sen12ms-cr": Part("sen12ms-cr", ("forward", "sampling")),
    "training": Part("cuhk-cr1", ("training",)),
    "cuhk-cr1": Part("cuhk-cr1", ("forward", "sampling")),
    "sen2-mtc-new": Part("sen2-mtc-new", ("forward", "sampling")),
    # flex attention would be compiled anew for every batch, side and number of frames
    "best": Part("sen12ms-cr", ("best",), baseline="tiled"),
    "size": Part("sen12ms-cr", ("size",), baseline="tiled"),
    "frames": Part("sen2-mtc-new", ("frames",), baseline="tiled"),
    "cpu": Part("rgb-small", ("forward", "sampling", "attention"), device="cpu", steps=5),
    "cpu-size": Part("rgb-small", ("size",), device="cpu"),
}


@dataclass(frozen=True)
class Bound:
    """What a part has to show on an H200: text, how it is read off, the bound, and whether more is better."""

    part: str
    words: str
    value: Callable[[Report], float | None]
    bound: float
    unit: str
    more: bool = False

    def line(self, report: Report) -> str:
        """As a row of a Markdown table."""
        found = self.value(report)
        sign = ">=" if self.more else "<="
        if found is None:  # left out there, such as training without lightning-fabric
            return f"| {self.words} | - | {sign} {self.bound:g} {self.unit} | not measured |"
        met = found >= self.bound if self.more else found <= self.bound
        return (
            f"| {self.words} | {found:.3g} {self.unit} | {sign} {self.bound:g} {self.unit} | {'yes' if met else 'no'} |"
        )


def milliseconds(case: str) -> Callable[[Report], float | None]:
    """Of our path."""
    return lambda report: next((1e3 * r.ours.seconds for r in report.rows if r.case == case and r.ours), None)


def rate(report: Report) -> float | None:
    """Images a second of our path."""
    return next((1 / row.ours.each for row in report.rows if row.case == "best" and row.ours), None)


def ratio(case: str, number: int = 0) -> Callable[[Report], float | None]:
    """Of the published-style path to ours, in the row of that number."""

    def found(report: Report) -> float | None:
        rows = [row for row in report.rows if row.case == case]
        return rows[number].ratio if len(rows) > number else None

    return found


def accuracy(report: Report) -> float | None:
    """The worst agreement with float32; the largest number there is where all of it is the same to the bit."""
    gaps = [row.difference for row in report.rows if row.difference is not None]
    return min((sys.float_info.max if gap.psnr is None else gap.psnr for gap in gaps), default=None)


def memory_share(report: Report) -> float | None:
    """Of a training step, in percent of the published-style path's."""
    for row in report.rows:
        if row.case == "training" and row.baseline and row.ours and row.baseline.memory and row.ours.memory:
            return 100 * row.ours.memory / row.baseline.memory
    return None


BOUNDS = (
    Bound("sen12ms-cr", "sen12ms-cr, N = 5, batch 1, an image", milliseconds("sampling"), 12, "ms"),
    Bound("sen12ms-cr", "the same against the published-style path", ratio("sampling"), 8, "x", more=True),
    Bound("best", "the same, best batch", rate, 120, "images/s", more=True),
    Bound("sen12ms-cr", "the same, PSNR against float32", accuracy, 50, "dB", more=True),
    Bound("cuhk-cr1", "cuhk-cr1, N = 4, batch 1, an image", milliseconds("sampling"), 10, "ms"),
    Bound("cuhk-cr1", "the same, PSNR against float32", accuracy, 50, "dB", more=True),
    Bound("sen2-mtc-new", "sen2-mtc-new, L = 3, N = 5, batch 1, a series", milliseconds("sampling"), 14, "ms"),
    Bound("sen2-mtc-new", "the same, PSNR against float32", accuracy, 50, "dB", more=True),
    Bound("training", "training step, cuhk-cr1, batch 4", milliseconds("training"), 80, "ms"),
    Bound("training", "the same against the published-style path", ratio("training"), 5, "x", more=True),
    Bound("training", "its memory in percent of the published-style path's", memory_share, 70, "%"),
    Bound("attention", "attention against flex, 256 x 256 x 2, forward", ratio("attention", 0), 5, "x", more=True),
    Bound("attention", "the same with backward", ratio("attention", 1), 4, "x", more=True),
)


def measure(name: str, device: torch.device, effort: Effort) -> Report:
    """One part."""
    part = PARTS[name]
    settings = Settings(cases=part.cases, size=SIZE, steps=part.steps, effort=effort, baseline=part.baseline)
    return bench(
        part.preset,
        lively(EMRDM.from_preset(part.preset)),
        settings,
        device=device,
        recipe=load_preset(part.preset),
        weights="random, seed 0, none of them zero",
        command=f"python benchmarks/speed.py --device {device.type} --parts {name}",
        announce=lambda text: print(f"  {text}", file=sys.stderr, flush=True),
    )


def summary(reports: dict[str, Report]) -> str:
    """All tables that there are, and the bounds of an H200."""
    lines = ["| what | measured | bound on an H200 | met |", "| --- | ---: | ---: | --- |"]
    lines += [bound.line(reports[bound.part]) for bound in BOUNDS if bound.part in reports]
    parts = ["\n".join(lines)] if len(lines) > 2 else []
    parts += [f"## {name}\n\n```\n{as_text(report)}\n```" for name, report in reports.items()]
    return "\n\n".join(parts) + "\n"


def show(folder: Path) -> None:
    """Write summary.md and the figures from the files of a folder."""
    from emrdm.bench.figures import draw

    reports = {name: read(folder / f"{name}.json") for name in PARTS if (folder / f"{name}.json").is_file()}
    if not reports:
        raise EmrdmError(f"{folder} has no results: expected files such as attention.json")
    (folder / "summary.md").write_text(summary(reports), "utf-8")
    print(summary(reports))
    for name, report in reports.items():
        try:
            make_folder(folder / "figures" / name, "figures")
            for path in draw(report, folder / "figures" / name):
                print(path)
        except MissingDependencyError as error:
            print(f"no figures: {error}", file=sys.stderr)
            return


def names_of(text: str | None, device: str) -> list[str]:
    """The parts that were asked for, or all for a device."""
    if text is None:
        return [name for name, part in PARTS.items() if part.device == device]
    asked = text.split(",")
    if unknown := [name for name in asked if name not in PARTS]:
        raise EmrdmError(f"--parts: unknown {', '.join(unknown)}: expected some of {', '.join(PARTS)}")
    return asked


def main() -> int:
    """Measure the parts that were asked for; the number of those that failed decides the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--parts", help=f"separated by commas, of {', '.join(PARTS)} (default: all for the device)")
    parser.add_argument("--out", type=Path, default=Path("speed"), help="folder for JSON files (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0, help="for one measurement (default: %(default)s)")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="only draw what is in this folder")
    arguments = parser.parse_args()
    try:
        if arguments.plot is not None:
            show(arguments.plot)
            return 0
        device = read_device(arguments.device)
        asked = names_of(arguments.parts, device.type)
        make_folder(arguments.out, "results")
    except EmrdmError as error:
        print(f"speed: {error}", file=sys.stderr)
        return error.exit_code
    failed = 0
    for name in asked:
        began = time.monotonic()
        try:
            report = measure(name, device, Effort(arguments.repeats, arguments.seconds))
            with atomic_path(arguments.out / f"{name}.json") as temporary:
                temporary.write_text(as_json(report) + "\n", "utf-8")
        except Exception:  # the next part may work
            failed += 1
            print(f"\n{name} failed:\n{traceback.format_exc()}", flush=True)
            continue
        failed += bool(report.failures)
        print(f"\n== {name}, {time.monotonic() - began:.0f} s\n{as_text(report)}", flush=True)
        for bound in BOUNDS:
            if bound.part == name and device.type == "cuda":
                print(bound.line(report), flush=True)
        for line in report.failures:
            print(f"NOT ACCURATE: {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
