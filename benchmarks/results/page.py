"""The page: the template with tables and figures filled in; what was not run yet is said to be so."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.results import card, learnt, lists, parts, store
from benchmarks.results.tables import bold_best, cell, heading, markdown, seconds

from emrdm.errors import InputError
from emrdm.evaluation.published import published_figures
from emrdm.evaluation.results import Published
from emrdm.files import atomic_path

DATASETS = {"rice1": "RICE1", "rice2": "RICE2"}
STANDARD, CUHK = ("psnr", "ssim", "mae", "sam", "lpips"), ("psnr", "ssim", "lpips", "rmse")
MISSING = "Not run yet."
PICTURES = "results-*.png"
_PRINTED = {"psnr": 2, "sam": 2}  # digits of figures that were written down; all others have three
_FIRST = ("rgb-small", "rgb")
_CAUTION = (
    "These figures are by other lists, sizes and protocols, and cannot be compared with the tables above, nor always "
    "with each other. PSNR of the luma alone, as some of them compute it, is 1.7 to 3.3 dB higher on the same images; "
    "SSIM computed for twice the data range is higher, too."
)


def page(arguments: argparse.Namespace) -> None:
    """Write the page and its figures; figures of parts that are gone go as well."""
    if not arguments.runs.is_dir():
        raise InputError(f"{arguments.runs} is not a folder: expected the results of the other verbs")
    images = arguments.docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    text, figures = build(arguments.runs)
    for old in images.glob(PICTURES):
        if old.name not in figures:
            old.unlink()
    for name, draw in figures.items():
        draw(images / name)
    for name, content in (("results.md", text), ("default-model.md", card.build(arguments.runs))):
        with atomic_path(arguments.docs / name) as temporary:
            temporary.write_text(content, "utf-8")
        print(arguments.docs / name)


def build(runs: Path) -> tuple[str, Mapping[str, parts.Draw]]:
    """The text of the page, and how to draw the figures that it shows, by name."""
    tests = sorted((store.read(path) for path in runs.glob("test-*.json")), key=lambda test: _place(test["name"]))
    sweeps = sorted((store.read(path) for path in runs.glob("sweep-*.json")), key=lambda sweep: _place(sweep["name"]))
    figures: dict[str, parts.Draw] = {}
    filled = {
        "standard": _tables(tests, "standard", STANDARD, measured=True),
        "cuhk": _tables(tests, "cuhk", CUHK, measured=False),
        "models": _models(tests),
        "regions": _regions(tests),
        "published": _published(),
        "commands": "\n".join(test["command"] for test in tests) or "python -m benchmarks.results score ...",
    }
    for name in ("steps", "churn", "methods"):
        filled[name] = _noted(parts.sampler(name, sweeps), figures)
    path = runs / "recipes.json"
    recipes = store.read(path) if path.exists() else None
    filled["recipes"] = _noted(None if recipes is None else parts.recipes(recipes), figures)
    filled["learnt"] = "" if recipes is None else learnt.table(recipes)
    chance = {} if recipes is None else learnt.chance(recipes)
    for name in ("alpha", "modules"):
        path = runs / f"study-{name}.json"
        filled[name] = _noted(parts.study(store.read(path), chance) if path.exists() else None, figures)
    path = runs / "lists.json"
    filled["lists"] = lists.text(store.read(path), DATASETS) if path.exists() else MISSING
    template = Template((Path(__file__).parent / "template.md").read_text("utf-8"))
    return template.substitute(filled), figures


def _place(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def _noted(part: parts.Part | None, figures: dict[str, parts.Draw]) -> str:
    """The text of a part; its figures are noted down."""
    if part is None:
        return MISSING
    figures |= part.figures
    return part.text


# ---------------------------------------------------------------- the test lists


def _tables(tests: Sequence[Mapping[str, Any]], protocol: str, metrics: Sequence[str], *, measured: bool) -> str:
    """A table a data set: what needs no training, the models, and what was measured with weights of others."""
    if not tests:
        return MISSING
    blocks = []
    for key, name in DATASETS.items():
        rows = [
            [title, cell(scores, metrics[0], interval=True), *(cell(scores, metric) for metric in metrics[1:]), count]
            for title, scores, count in _scored(tests, key, protocol)
        ]
        theirs = [row for row in published_figures(key) if row.protocol == protocol] if measured else []
        rows += [[row.method, *(_printed(row, metric) for metric in metrics), ""] for row in theirs]
        blocks.append(f"### {name}" if measured else f"**{name}**")
        blocks.append(markdown([["", *map(heading, metrics), "images"], *bold_best(rows, metrics)]))
        blocks += [f"*{row.method}: {row.source}; {row.note}.*" for row in theirs]
    notes = dict.fromkeys(note for test in tests for facts in test["datasets"].values() for note in facts["notes"])
    return "\n\n".join([*blocks, *(f"**Note:** {note}." for note in notes)])


def _scored(tests: Sequence[Mapping[str, Any]], key: str, protocol: str) -> list[tuple[str, Mapping[str, Any], str]]:
    """Rows of our own: title, scores, number of images; a baseline is taken from the first file that has it."""
    baselines: dict[str, tuple[str, Mapping[str, Any], str]] = {}
    ours = []
    for test in tests:
        facts = test["datasets"][key]
        for method, found in facts["methods"].items():
            row = found["title"], found["protocols"][protocol], str(facts["images"])
            if found["kind"] == "model":
                ours.append((f"`{test['name']}`", *row[1:]))
            else:
                baselines.setdefault(method, row)
    return [*baselines.values(), *ours]


def _printed(row: Published, metric: str) -> str:
    return f"{row.scores[metric]:.{_PRINTED.get(metric, 3)}f}" if metric in row.scores else "-"


def _models(tests: Sequence[Mapping[str, Any]]) -> str:
    if not tests:
        return MISSING
    rows = [["model", "parameters", "sampler", "an image takes", "on", "numbers", "digest of the weights", "emrdm"]]
    for test in tests:
        model, sampler = test["model"], test["sampler"]
        times = [seconds(facts["seconds_an_image"]) for facts in test["datasets"].values()]
        words = f"{sampler['method']}, N = {sampler['steps']}, churn {sampler['churn']:g}, noise {sampler['noise']:g}"
        where = f"{test['device']}, batches of {test['batch_size']}"
        rows.append([f"`{test['name']}`", f"{model['parameters']:,}", words, " / ".join(times), where])
        rows[-1] += [model["numbers"], f"`{model['digest'][:16]}`", test["emrdm"]]
    trained = [f"- `{test['name']}`: {test['model']['training'] or test['model']['source']}" for test in tests]
    return "\n\n".join([markdown(rows, left=8), "\n".join(trained)])


def _regions(tests: Sequence[Mapping[str, Any]]) -> str:
    """RICE2 has masks: what is restored under clouds, and what is left alone beside them."""
    if not tests:
        return MISSING
    metrics = ("psnr/cloudy", "ssim/cloudy", "psnr/clear", "ssim/clear")
    found = _scored(tests, "rice2", "standard")
    rows = [[title, *(cell(scores, metric) for metric in metrics)] for title, scores, _ in found]
    if all(row[1:] == ["-"] * len(metrics) for row in rows):
        return MISSING
    head = ["", "PSNR under clouds ↑", "SSIM under clouds ↑", "PSNR of clear pixels ↑", "SSIM of clear pixels ↑"]
    words = "RICE2 by its own masks (cloud, thin cloud and shadow against the rest), protocol `standard`:"
    return f"{words}\n\n{markdown([head, *bold_best(rows, ('psnr', 'ssim', 'psnr', 'ssim'))])}"


def _published() -> str:
    blocks = [_CAUTION]
    for key, name in DATASETS.items():
        theirs = [row for row in published_figures(key) if row.protocol != "standard"]
        rows = [["", "PSNR ↑", "SSIM ↑", "source", "protocol", "beware"]]
        for row in theirs:
            scores = [f"{row.scores[metric]:g}" for metric in ("psnr", "ssim")]
            rows.append([row.method, *scores, row.source, row.protocol, row.note])
        blocks += [f"**{name}**", markdown(rows)]
    return "\n\n".join(blocks)
