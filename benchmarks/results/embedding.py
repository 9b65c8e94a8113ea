"""The model inside the package, from a finished run: half precision, its sampler, its card with the scores."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from benchmarks.results import store

from emrdm import weights
from emrdm.card import ModelCard, Results
from emrdm.cli import models
from emrdm.model import EMRDM

LICENCE = "Apache-2.0"
SHOWN = ("psnr", "ssim", "mae", "sam", "lpips")
_DATA = {"rice1": "RICE1 test list", "rice2": "RICE2 test list"}


def embed(arguments: argparse.Namespace) -> None:
    """Write the weights as they are shipped; where their test scores are known, with these."""
    name = store.check_name(arguments.name)
    model = EMRDM.load(_file(arguments.model))
    overrides = dict(models.sampler_words([f"sampler.{word}" for word in arguments.sampler])[1])
    config = replace(model.config, sampler=models.sampler(model, overrides))
    path = arguments.runs / f"test-{name}.json"
    scores = _scores(store.read(path)) if path.exists() else ()
    card = replace(_card(model.card, _earlier(arguments.runs, name)), results=(*scores, *model.card.results))
    weights.save(arguments.out, config, card, model.network.state_dict(), dtype=torch.float16)
    print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes, {len(scores)} scores of test lists in its card")


def _file(given: Path) -> Path:
    return given / "model.safetensors" if given.is_dir() else given


def _card(card: ModelCard, earlier: str) -> ModelCard:
    """The run's, with what a run cannot know."""
    return replace(
        card,
        title="Clouds in RGB pictures, one image: the default model",
        licence=LICENCE,
        training=f"{card.training}{earlier}; the images of RICE are by Lin et al. 2019, without a stated licence",
    )


def _earlier(runs: Path, name: str) -> str:
    """What came before the last of several runs that follow each other: a run knows the digest of its start alone."""
    path = runs / "recipes.json"
    known = store.read(path)["runs"] if path.exists() else []
    chain = [run for run in known if run["name"].startswith(f"{name}-")]
    steps, minutes = sum(run["steps"] for run in chain), sum(run["seconds"] for run in chain) / 60
    on = ", ".join(dict.fromkeys(run["device"] for run in chain))
    said = f", the last of {len(chain)} runs in a row: {steps:,} steps, {minutes:.0f} min on {on} in all"
    return said if len(chain) > 1 else ""


def _scores(facts: dict[str, Any]) -> tuple[Results, ...]:
    """Those of the test lists."""
    return tuple(
        Results(
            dataset=_DATA[key],
            protocol=protocol,
            source=f"measured by this project on {found['images']} images of 256 x 256",
            scores={metric: means[metric]["mean"] for metric in SHOWN if metric in means},
        )
        for key, found in facts["datasets"].items()
        for protocol, means in found["methods"]["model"]["protocols"].items()
    )
