"""The model card of the default model: what is in its file and in the saved runs, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks.results import store
from benchmarks.results.tables import cell, heading, markdown, number, seconds

from emrdm import embedded
from emrdm.metrics.protocols import show
from emrdm.weights import read_header, stored_dtype

MISSING = "Not run yet."
_DATASETS = {"rice1": "RICE1", "rice2": "RICE2"}
_METRICS = ("psnr", "ssim", "mae", "sam", "lpips")
_TYPES = {"F16": "half precision", "F32": "single precision", "BF16": "bfloat16"}


def build(runs: Path) -> str:
    """The card's text."""
    template = Template((Path(__file__).parent / "card.md").read_text("utf-8"))
    tests = runs / f"test-{embedded.PRESET}.json"
    test = store.read(tests) if tests.exists() else None
    recipes = runs / "recipes.json"
    known = store.read(recipes)["runs"] if recipes.exists() else []
    trained = [run for run in known if run["name"].startswith(f"{embedded.PRESET}-")]
    return template.substitute(
        facts=_facts(embedded.default_weights(), test),
        scores=_scores(test) if test else MISSING,
        training=_training(trained) if trained else MISSING,
        tested="the test lists were scored when the weights were final." if test else "the test lists were not scored.",
    )


def _facts(path: Path, test: Mapping[str, Any] | None) -> str:
    header = read_header(path)
    config, cost, sampler = header.config, header.config.cost(), header.config.sampler
    rows = [
        ["", ""],
        ["takes and gives", "one image of " + ", ".join(band.name for band in config.bands) + ", 0 to 255, any size"],
        ["network", f"preset `{embedded.PRESET}`, {cost.parameters:,} parameters, {cost.macs / 1e9:.2f} G MACs a tile"],
        ["sampler", f"{sampler.method}, N = {sampler.steps}, churn {sampler.churn:g}"],
        ["file", f"{path.stat().st_size / 1e6:.1f} MB, {_TYPES[stored_dtype(path)]}"],
        ["weights", f"{header.card.source}; {header.card.training}"],
        ["licence", header.card.licence],
    ]
    if test is not None:
        times = [seconds(facts["seconds_an_image"]) for facts in test["datasets"].values()]
        rows.insert(4, ["a tile of 256 x 256 takes", f"{times[0]} ({test['device']})"])
    return markdown(rows, left=2)


def _scores(test: Mapping[str, Any]) -> str:
    rows = [["", "protocol", *map(heading, _METRICS), "images"]]
    for key, name in _DATASETS.items():
        facts = test["datasets"][key]
        for protocol in ("standard", "cuhk"):
            for method in ("cloudy-image", "model"):
                found = facts["methods"].get(method)
                if found is not None:
                    title = f"{name}, {'restored' if method == 'model' else 'the cloudy image'}"
                    scores = found["protocols"][protocol]
                    rows.append([title, f"`{protocol}`", *(cell(scores, m) for m in _METRICS), str(facts["images"])])
    return markdown(rows, left=2)


def _training(runs: Sequence[Mapping[str, Any]]) -> str:
    """What was done, one row a run, in order."""
    sets = list(dict.fromkeys(key for run in runs for key in run["end"]))
    head = ["run", "samples a step", "steps", "time", "steps/s", "on", *(f"{key}: PSNR ↑" for key in sets)]
    rows = [
        [
            f"`{run['name']}`",
            str(run["samples_a_step"]),
            f"{run['steps']:,}",
            seconds(run["seconds"]),
            f"{number(run['steps_a_second']):.3g}",
            str(run["device"]),
            *(_end(run, key) for key in sets),
        ]
        for run in runs
    ]
    words = "PSNR at the end, protocol `standard`, and on how many validation images: compare only what has as many."
    return f"{markdown([head, *rows])}\n\n{words}"


def _end(run: Mapping[str, Any], key: str) -> str:
    if key not in run["end"]:
        return "-"
    return f"{show('psnr', number(run['end'][key].get('psnr')))} ({run['images'][key]})"
