"""What a run leaves behind: the card inside the weights, and a model card for people, with curves and pictures."""

from __future__ import annotations

import logging
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import emrdm
from emrdm import weights
from emrdm.card import ModelCard, Results
from emrdm.data import Dataset
from emrdm.errors import InputError, MissingDependencyError
from emrdm.files import atomic_path
from emrdm.metrics import METRICS, PROTOCOLS
from emrdm.metrics.protocols import show
from emrdm.model import EMRDM
from emrdm.plots import training_curves
from emrdm.presets import Preset
from emrdm.training import checkpoint
from emrdm.training.folder import RECIPE, RunFolder
from emrdm.training.log import read_log
from emrdm.training.place import Place
from emrdm.training.sources import sizes, summary
from emrdm.wording import many

_LOG = logging.getLogger(__name__)


def scores_in_words(dataset: str, scores: Mapping[str, Any]) -> str:
    """The two scores that people look at first, with their protocol."""
    return f"{dataset}: {show('psnr', scores['psnr'])} dB, SSIM {show('ssim', scores['ssim'])} ({scores['protocol']})"


def model_card(
    recipe: Preset, place: Place, data: str, samples_a_step: int, *, start: str | None = None, live: bool = False
) -> ModelCard:
    """Where the weights of this step come from: travels in their file.

    Args:
        recipe: of the run.
        place: where it is.
        data: what it is trained on, in words.
        samples_a_step: over all processes.
        start: digest of the weights it started from.
        live: the weights are those of the step itself, not their average: it is the average that was scored.
    """
    optimizer, step = recipe.optimizer, place.step
    scored: Mapping[str, Any] = next((row["scores"] for row in reversed(place.validations) if row["step"] == step), {})
    results = tuple(
        Results(
            dataset=f"{name}, validation",
            protocol=scores["protocol"],
            source=f"measured in training on {many(scores['images'], 'validation image')}, step {step:,}",
            scores={key: value for key, value in scores.items() if key in METRICS and math.isfinite(value)},
        )
        for name, scores in ({} if live else scored).items()
    )
    kind = "live" if live else "averaged"
    return ModelCard(
        title=recipe.title,
        source=f"trained with emrdm {emrdm.__version__}, {kind} weights at step {step:,} of {recipe.train.steps:,}",
        training=(
            f"{data}; {samples_a_step} samples a step, "
            f"{optimizer.title} lr {optimizer.lr:g} ({optimizer.schedule}), weight decay {optimizer.weight_decay:g}, "
            f"EMA {optimizer.ema_decay:g}, {recipe.train.precision}, "
            f"seed {recipe.train.seed}" + (f"; started from weights {start[:16]}" if start else "")
        ),
        results=results,
    )


def of_checkpoint(path: Path, *, live: bool = False) -> EMRDM:
    """The model of a run's checkpoint, by the recipe in the run's folder: averaged weights, or the live ones."""
    tensors, state = checkpoint.load(path)
    folder = RunFolder(path.absolute().parent.parent)
    if not folder.begun():
        raise InputError(f"{path} is a checkpoint without its run: expected it in RUN/checkpoints, beside {RECIPE}")
    recipe, facts, place = folder.recipe(), folder.facts(), Place.of(state)
    data = summary([(part["dataset"], part["images"]) for part in facts["samples"].values()])
    card = model_card(recipe, place, data, facts["samples_a_step"], start=facts["start"], live=live)
    model = EMRDM.fresh(recipe.model, card=card)
    averaged = set() if live else {name for name, _ in model.network.named_parameters()}  # buffers are not
    names = {name: f"{'average' if name in averaged else 'model'}.{name}" for name in model.network.state_dict()}
    shapes = {name: tuple(tensors[stored].shape) for name, stored in names.items() if stored in tensors}
    weights.check_state(f"{path}", recipe.model, shapes)
    model.network.load_state_dict({name: tensors[stored] for name, stored in names.items()})
    return model


def write_card(
    folder: RunFolder, recipe: Preset, place: Place, datasets: Sequence[Dataset], samples_a_step: int
) -> Path:
    """Write the model card as Markdown, with the curves beside it."""
    rows = read_log(folder.log)
    pictures = _draw(folder, rows, recipe.title, place.exported)
    sections = [
        f"# {recipe.title}",
        _use(folder, recipe),
        pictures,
        _scores(place),
        _recipe(recipe, place, datasets, samples_a_step, rows),
        _limits(recipe),
    ]
    with atomic_path(folder.card) as temporary:
        temporary.write_text("\n\n".join(section for section in sections if section) + "\n", "utf-8")
    return folder.card


def _draw(folder: RunFolder, rows: Sequence[Mapping[str, Any]], title: str, exported: int | None) -> str:
    """The curves, and the sheet of the exported weights."""
    parts = []
    try:
        training_curves(rows, folder.curves, title=title)
        parts.append(f"![Loss and validation scores against the step]({folder.curves.name})")
    except MissingDependencyError as error:
        _LOG.warning("no curves in the model card: %s, then give the same command again", error)
    except InputError as error:  # somebody has removed the log
        _LOG.warning("no curves in the model card: %s", error)
    sheets = sorted(folder.sheets.glob("step-*.png")) if folder.sheets.is_dir() else []
    wanted = folder.sheets / f"step-{exported or 0:08}.png"
    chosen = wanted if wanted in sheets else sheets[-1] if sheets else None
    if chosen is not None:
        parts.append(
            f"![Validation images: cloudy, restored, clear]({chosen.parent.name}/{chosen.name})\n\n"
            "Validation images, from left to right: cloudy, restored, clear. The model has not been trained on them."
        )
    return "\n\n".join(parts)


def _use(folder: RunFolder, recipe: Preset) -> str:
    bands = ", ".join(band.name for band in recipe.model.bands)
    low, high = recipe.model.bands[0].low, recipe.model.bands[0].high
    seen = f" It also sees {', '.join(band.name for band in recipe.model.aux)}." if recipe.model.aux else ""
    frames = f" from {recipe.model.frames} dates of one place" if recipe.model.frames > 1 else ""
    aux = ", aux=aux" if recipe.model.aux else ""
    return (
        f"Removes clouds: gives {bands} ({recipe.model.bands[0].unit}, {low:g} to {high:g}){frames}.{seen}\n\n"
        f"```python\nimport emrdm\n\nmodel = emrdm.EMRDM.load({folder.model.name!r})\n"
        f"clear = model.restore(cloudy{aux}, seed=0)\n```"
    )


def _scores(place: Place) -> str:
    if not place.validations:
        return "## Scores\n\nNone: there were no validation images."
    scored = any(row["step"] == place.exported for row in place.validations)
    which = "the step in bold" if scored else f"step {place.exported or place.step:,}"
    lines = [
        "## Scores",
        "",
        f"On validation images, by the average of the weights; the weights of {which} are in the file.",
    ]
    names = list(place.validations[-1]["scores"])
    for name in names:
        protocol = place.validations[-1]["scores"][name]["protocol"]
        shown = [metric for metric in PROTOCOLS[protocol].metrics if metric != "zero_pixels"]
        lines += ["", f"{name}, protocol `{protocol}`:", ""]
        lines += [
            f"| step | {' | '.join(METRICS[metric].label for metric in shown)} |",
            "| ---: " * (len(shown) + 1) + "|",
        ]
        untouched = place.validations[-1]["scores"][name].get("untouched")
        if untouched:
            rest = " | ".join("" for _ in shown[1:])
            lines.append(f"| {untouched['what']} | {show('psnr', untouched['psnr'])} | {rest} |")
        for row in _few(place):
            mark = "**" if row["step"] == place.exported else ""
            cells = [f"{row['step']:,}", *(show(metric, row["scores"][name].get(metric)) for metric in shown)]
            lines.append(f"| {' | '.join(f'{mark}{cell}{mark}' for cell in cells)} |")
    return "\n".join(lines)


def _few(place: Place) -> list[dict[str, Any]]:
    """A dozen validations, evenly spread, and that of the exported weights."""
    rows = place.validations
    chosen = {round(i * (len(rows) - 1) / 11) for i in range(12)} if len(rows) > 12 else set(range(len(rows)))
    return [row for i, row in enumerate(rows) if i in chosen or row["step"] == place.exported]


def _recipe(
    recipe: Preset, place: Place, datasets: Sequence[Dataset], samples_a_step: int, rows: Sequence[Mapping[str, Any]]
) -> str:
    optimizer, train, cost = recipe.optimizer, recipe.train, recipe.model.cost()
    noise, starts = recipe.model.training_noise, [row for row in rows if row["kind"] == "start"]
    facts = {
        "data": summary(sizes(datasets)),
        "network": f"{cost.parameters:,} parameters, {cost.macs / 1e9:.2f} G multiply-accumulates at 256 x 256 pixels",
        "steps": f"{place.step:,} of {samples_a_step} samples",
        "optimiser": f"{optimizer.title}, learning rate {optimizer.lr:g} ({optimizer.schedule}), "
        f"betas {optimizer.betas}, weight decay {optimizer.weight_decay:g}, parameter groups: {optimizer.groups}",
        "average": f"EMA {optimizer.ema_decay:g}",
        "noise levels": f"ln sigma ~ N({noise.p_mean:g}, {noise.p_std:g}^2), alpha {recipe.model.process.alpha:g}",
        "precision": train.precision + _compiled(recipe, starts),
        "augmentation": f"{train.augmentation or 'as the data set says'}"
        + (f", crops of {train.crop}" if train.crop else "")
        + (f", clouds of {train.thinning:.0%} of the samples made thinner" if train.thinning else "")
        + (f", tones varied by {train.tones:g}" if train.tones else ""),
        "seed": str(train.seed),
        "time": f"{place.seconds / 60:.1f} minutes of training",
        "device": ", ".join(dict.fromkeys(str(row.get("device")) for row in starts)),
        "software": f"emrdm {emrdm.__version__}, torch {torch.__version__}, Python {platform.python_version()}",
    }
    starts_from = next((str(row["start"]) for row in starts if row.get("start")), None)
    if starts_from:
        facts["started from"] = f"weights with digest {starts_from[:16]}"
    changed = [change for row in starts for change in row.get("changes", [])]
    if changed:
        facts["changed on the way"] = "; ".join(changed)
    if place.skipped:
        facts["skipped"] = f"{many(len(place.skipped), 'step')} whose loss or gradient was not finite"
    if place.quarantine:
        facts["left out"] = f"{many(len(place.quarantine), 'sample')}: {'; '.join(place.quarantine.values())}"
    table = "\n".join(f"| {name} | {text} |" for name, text in facts.items())
    return f"## Recipe\n\n| | |\n| --- | --- |\n{table}\n\nThe whole of it is in `recipe.json`."


def _compiled(recipe: Preset, starts: Sequence[Mapping[str, Any]]) -> str:
    """Whether the steps were made by compiled layers: what the log says, or the recipe where the log says nothing."""
    worked = [row for row in starts if row["step"] < row["steps"]]
    found = {bool(row.get("compiled", recipe.train.compile)) for row in worked} or {bool(recipe.train.compile)}
    return ", compiled in part" if len(found) > 1 else ", compiled" if found == {True} else ""


def _limits(recipe: Preset) -> str:
    lines = [
        "## Limits",
        "",
        "- What is under thick cloud in every image it is given is invention: plausible, not observed.",
        "- The scores are of validation images, which the choice of the weights has seen; test images are for "
        "`emrdm evaluate`.",
    ]
    if recipe.model.frames == 1:
        lines.append("- It sees one date: it cannot know what another date would have shown.")
    return "\n".join(lines)
