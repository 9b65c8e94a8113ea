"""Figures of a model at work: each step of a sampler, attention over frames, samplers compared, its design."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm import embedded
from emrdm.cli import models, settings, views
from emrdm.cli.progress import Progress
from emrdm.errors import InputError
from emrdm.wording import many

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from emrdm.config import ModelConfig, SamplerConfig

_MOST_STEPS = 6  # columns of a trajectory; more could not be seen
_FEW_HEADS = 2  # are shown without being asked for more: those whose weights vary most
_MEAN = -1  # number of what is no head, the mean of all


def title(arguments: argparse.Namespace, text: str) -> str:
    """What is written above a figure, unless the user has other words."""
    return text if arguments.title is None else str(arguments.title)


def trajectory(arguments: argparse.Namespace) -> Figure:
    """Every step of a sampler."""
    import numpy as np
    import torch

    from emrdm import plots
    from emrdm.evaluation.trajectory import follow
    from emrdm.metrics.pixels import psnr

    view = views.open_view(arguments)
    found = follow(view.model, view.series, view.beside, seed=arguments.seed, sampler=view.sampler, scaled=True)
    count = len(found.levels)
    places = sorted({round(i) for i in np.linspace(0, count - 1, min(count, _MOST_STEPS))})
    scores: list[str] = []
    if view.truth is not None:
        estimates, clear = torch.from_numpy(found.estimates[places]), torch.from_numpy(view.truth)
        found_scores = psnr(estimates, clear.expand_as(estimates), data_range=2.0)
        scores = [f"{value:.1f} dB" for value in found_scores.tolist()]
    parts = [f"{view.sampler.method}, {many(count, 'step')}, seed {arguments.seed}"]
    parts += [f"{len(places)} of {count} steps shown"] * (len(places) < count)
    parts += ["PSNR to the truth, all bands"] * bool(scores)
    return plots.trajectory_figure(
        [found.levels[i] for i in places],
        [[view.shown(frame) for frame in found.states[i]] for i in places],
        [view.shown(found.estimates[i]) for i in places],
        cloudy=[view.shown(frame) for frame in view.cloudy],
        truth=None if view.truth is None else view.shown(view.truth),
        scores=scores,
        title=title(arguments, "From noise to the image"),
        note="; ".join(parts),
    )


def attention(arguments: argparse.Namespace) -> Figure:
    """Masks of the temporal fusion over the cloudy frames."""
    from emrdm import plots
    from emrdm.attention_maps import attention_maps
    from emrdm.plots.figure import SIGMA

    asked = [] if arguments.heads is None else _heads(arguments.heads)
    view = views.open_view(arguments)
    count, steps = view.model.config.network.temporal_heads, view.sampler.steps
    step = steps if arguments.step is None else arguments.step
    if not 1 <= step <= steps:
        raise InputError(f"--step is {step}: expected 1 to {steps}, the steps of the sampler")
    if max(asked, default=0) >= count > 0:
        raise InputError(f"--heads is {arguments.heads}: expected numbers from 0 to {count - 1}, the model's heads")
    maps = attention_maps(view.model, view.series, view.beside, seed=arguments.seed, sampler=view.sampler, scaled=True)
    layers = maps.enlarged(step - 1)
    telling = sorted(layers.std((1, 2, 3)).argsort()[::-1][:_FEW_HEADS].tolist())
    masks = {f"head {head}": layers[head] for head in asked or telling if head != _MEAN}
    if _MEAN in asked:
        masks["mean of heads"] = maps.mean(step - 1)
    return plots.attention_figure(
        [view.shown(frame) for frame in view.cloudy],
        masks,
        names=view.names,
        weights=arguments.weights,
        title=title(arguments, "Attention over the cloudy frames"),
        note=f"step {step} of {steps}, {SIGMA} {maps.levels[step - 1]:.3g}, seed {arguments.seed}; {count} heads",
    )


def samplers(arguments: argparse.Namespace) -> Figure:
    """Samplers against calls of the network, or what they make of the image."""
    from emrdm import plots
    from emrdm.evaluation.samplers import METHODS, compare_samplers

    calls = _numbers(arguments.calls, "--calls")
    methods = METHODS if arguments.methods is None else tuple(arguments.methods.split(","))
    view = views.open_view(arguments, method="stochastic")  # which has all settings; what is drawn is chosen here
    found = compare_samplers(
        view.model,
        view.series,
        view.beside,
        truth=view.truth,
        calls=calls,
        methods=methods,
        sampler=view.sampler,
        seed=arguments.seed,
        progress=Progress("sampling", unit="calls", silent=arguments.quiet),
    )
    note = f"all from the same noise, seed {arguments.seed}"
    words = title(arguments, "Samplers compared")
    if not arguments.pictures:
        panels = {f"distance from {found.reference.steps}\nsteps of heun (RMS) ↓": found.lines("distance")}
        if view.truth is not None:
            panels = {"PSNR to the truth\n(dB, all bands) ↑": found.lines("psnr")} | panels
        return plots.samplers_figure(panels, title=words, note=note)
    rows: dict[str, list[plots.Panel | None]] = {}
    for run_ in found.runs:
        score = "" if run_.psnr is None else f"{run_.psnr:.1f} dB"
        above = f"{run_.calls} call{'s' * (run_.calls > 1)}"
        row = rows.setdefault(found.name(run_.method), [])
        row.append(plots.Panel(view.shown(run_.restored), above=above, below=score))
    ends = [plots.Panel(view.shown(view.cloudy[0]), above="cloudy")]
    if view.truth is not None:
        ends.append(plots.Panel(view.shown(view.truth), above="truth"))
    for place, end in enumerate(ends):  # one at the end of each row, as far as there are rows
        list(rows.values())[min(place, len(rows) - 1)].append(end)
    return plots.pictures_figure(rows, title=words, note=note + "; PSNR to the truth, all bands" * (len(ends) > 1))


def process(arguments: argparse.Namespace) -> Figure:
    """A model's equations."""
    from emrdm import plots

    names, changes = settings.split(arguments.words)
    models.sampler_words(arguments.words)  # refuses settings of the sampler that do not say so
    if len(names) > 1:
        raise InputError(f"found {' '.join(names)!r}: expected one model")
    name = names[0] if names else embedded.DEFAULT
    config, sampler = _design(name, settings.full_keys(changes))
    return plots.process_figure(
        config.process,
        config.preconditioning,
        sampler.schedule(),
        training=(config.training_noise.p_mean, config.training_noise.p_std),
        frames=config.frames,
        title=title(arguments, f"{Path(name).name}: alpha {config.process.alpha:g}, {many(sampler.steps, 'step')}"),
    )


def _design(name: str, changes: dict[str, Any]) -> tuple[ModelConfig, SamplerConfig]:
    """What a model is and how it is sampled; of a preset without making its weights, which may be large."""
    from emrdm.presets import load_preset, preset_names
    from emrdm.presets.reading import is_preset_file

    made = name in preset_names() or is_preset_file(name)
    drawn = ("sampler", "process", "preconditioning", "training_noise") if made else ("sampler",)
    for key in changes:
        if not key.startswith(tuple(f"model.{part}." for part in drawn)):
            what = "this figure" if made else f"{name}, which is trained"
            raise InputError(f"{key} cannot be set for {what}: expected settings of {', '.join(drawn)}")
    if made:
        preset = load_preset(name).replace(changes)
        return preset.model, preset.model.sampler
    model = models.load(name)
    return model.config, models.sampler(model, {key.rpartition(".")[2]: value for key, value in changes.items()})


def _heads(text: str) -> list[int]:
    return [_MEAN if part.strip() == "mean" else _numbers(part, "--heads")[0] for part in text.split(",")]


def _numbers(text: str, option: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"{option} is {text!r}: expected whole numbers with commas between them, such as 1,2,4")
    return [int(part) for part in parts]
