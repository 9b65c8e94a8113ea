"""A study as a figure: lines over one number, heat maps over two, bars for presets and whatever is no number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emrdm import plots
from emrdm.ablation.findings import Findings
from emrdm.errors import InputError
from emrdm.metrics import METRICS
from emrdm.plots.sweeps import MOST_CELLS
from emrdm.presets import load_preset, preset_names

_NAMES = {
    "model.process.alpha": r"$\alpha$",
    "model.sampler.sigma_max": r"$\sigma_\mathrm{max}$",
    "model.sampler.steps": "sampling steps $N$",
    "model.frames": "sequence length $L$",
    "model.sampler.churn": r"$S_\mathrm{churn}$",
    "model.sampler.noise": r"$S_\mathrm{noise}$",
    "model.sampler.t_min": r"$S_\mathrm{tmin}$",
    "model.sampler.t_max": r"$S_\mathrm{tmax}$",
}
_LOGARITHMIC = ("model.sampler.sigma_max",)
_WIDE = 100  # times the least value is too much for a linear axis
_SAID_BY_OTHERS = ("rmse",)  # PSNR says the same, and the paper prints that one
_CONFIG = "config-"


def draw(findings: Findings, path: Path, *, metrics: Sequence[str] = ()) -> None:
    """Draw a study into a file, PNG, SVG or PDF by its suffix; the paper's scores are drawn to a scale of their own.

    Args:
        findings: what was found.
        path: where to.
        metrics: those to draw; all but those that others say by default.
    """
    unknown = [metric for metric in metrics if metric not in findings.metrics]
    if unknown:
        raise InputError(f"metric {unknown[0]!r}: expected some of {', '.join(findings.metrics)}")
    metrics = metrics or [metric for metric in findings.metrics if metric not in _SAID_BY_OTHERS] or findings.metrics
    better = {metric: METRICS[metric].better for metric in metrics}
    title = f"{findings.title}: {findings.caption['data']}, protocol {findings.protocol}"
    series = {metric: [_or_none(result.mean(metric)) for result in findings.results] for metric in metrics}
    paper = {metric: [result.paper.get(metric) for result in findings.results] for metric in metrics}
    axes = [[result.point[key] for result in findings.results] for key in findings.axes]
    if not all(_are_numbers(values) for values in axes):
        axes = []
    if len(axes) == 2 and max(len(set(values)) for values in axes) <= MOST_CELLS:
        x, y = axes
        cells = {metric: dict(zip(zip(x, y, strict=True), values, strict=True)) for metric, values in series.items()}
        plots.heatmaps(title, *_named(findings.axes[0], x), *_named(findings.axes[1], y), cells, path, better=better)
    elif len(axes) == 1:
        options: dict[str, Any] = {"better": better, "paper": paper, "log_x": _logarithmic(findings.axes[0], axes[0])}
        plots.lines(title, *_named(findings.axes[0], axes[0]), series, path, **options)
    else:
        labels = [_letter(result.label) for result in findings.results]
        plots.bars(title, labels, series, path, better=better, paper=paper)


def _named(key: str, values: Any) -> tuple[str, Any]:
    return _NAMES.get(key, key.rpartition(".")[2]), values


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _logarithmic(key: str, values: Sequence[float]) -> bool:
    """Whether a number is drawn to a logarithmic scale: on another one, learning rates would lie in one place."""
    return key in _LOGARITHMIC or (min(values) > 0 and max(values) >= _WIDE * min(values))


def _letter(label: str) -> str:
    """config-b -> "B: + corrupted images": the letter of the paper's table, and what it stands for."""
    if not label.startswith(_CONFIG):
        return label
    letter = label.removeprefix(_CONFIG).upper()
    words = load_preset(label).title.partition(": ")[2] if label in preset_names() else ""
    return f"{letter}: {words}" if words else letter


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
