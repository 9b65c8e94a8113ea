"""The figures of the page: panels by metric and data set, lines with intervals. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from emrdm.metrics import METRICS
from emrdm.plots.figure import DASHES, PALETTE, PLAIN, label_of, matplotlib, nothing_in, numbers, save, styled
from emrdm.plots.figure import grid as panels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BETTER = {metric: facts.better for metric, facts in METRICS.items()}
_SIZE = (2.9, 2.05)  # inches of a panel


@dataclass(frozen=True)
class Line:
    """Scores against x; ``half`` is half the width of an interval, for each of them or for none."""

    x: Sequence[float | str]
    y: Sequence[float | None]
    half: Sequence[float | None] = ()


@dataclass(frozen=True)
class Panel:
    """Lines by name, of one metric."""

    title: str
    metric: str
    lines: Mapping[str, Line] = field(default_factory=dict)


def draw(panels: Sequence[Panel], path: Path, *, columns: int, x_label: str, title: str, log_x: bool = False) -> None:
    """Draw panels row by row into a file; names that appear in several have one colour."""
    save(figure_of(panels, columns=columns, x_label=x_label, title=title, log_x=log_x), path)


@styled()
def figure_of(panels: Sequence[Panel], *, columns: int, x_label: str, title: str, log_x: bool = False) -> Figure:
    """As :func:`draw`, before it is written. Where x are words, they stand side by side in order of appearance."""
    figure, places = panels_of(len(panels), columns, _SIZE, title)
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    for i, (axes, panel) in enumerate(zip(places, panels, strict=True)):
        axes.set_title(f"{panel.title}: {label_of(panel.metric, _BETTER)}", **PLAIN)
        if i >= len(panels) - columns:
            axes.set_xlabel(x_label)
        _fill(axes, panel, names, log_x=log_x)
    if len(names) > 1:
        look = [
            matplotlib().lines.Line2D([], [], color=_colour(i), linestyle=_dash(i), marker="o", label=name)
            for i, name in enumerate(names)
        ]
        legend = figure.legend(handles=look, loc="outside lower center", ncols=min(4, len(names)))
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def _colour(i: int) -> str:
    return PALETTE[i % len(PALETTE)]


def _dash(i: int) -> str:
    return DASHES[i // len(PALETTE) % len(DASHES)]


def _fill(axes: Axes, panel: Panel, names: Sequence[str], *, log_x: bool) -> None:
    words = list(dict.fromkeys(x for line in panel.lines.values() for x in line.x if isinstance(x, str)))
    for name, line in panel.lines.items():
        i = names.index(name)
        x = np.array([words.index(v) if isinstance(v, str) else v for v in line.x], np.float64)
        y = numbers(line.y, len(x), panel.metric)
        half = numbers(line.half, len(x), "intervals") if line.half else None
        few = len(x) <= 20
        marker = "o" if few else ""
        axes.plot(x, y, color=_colour(i), linestyle=_dash(i), marker=marker, markersize=3.6, linewidth=1.5)
        if half is not None:
            axes.errorbar(x, y, np.nan_to_num(half), fmt="none", ecolor=_colour(i), elinewidth=0.9, capsize=2)
    if not panel.lines:
        nothing_in(axes)
        return
    if words:
        axes.set_xticks(range(len(words)), words, **PLAIN)
        axes.margins(x=0.12)
    else:
        values = sorted({float(v) for line in panel.lines.values() for v in line.x})
        if log_x:
            axes.set_xscale("log", base=2)
        if len(values) <= 8:
            axes.set_xticks(values, [f"{v:g}" for v in values])
            axes.set_xticks([], minor=True)
        else:
            axes.xaxis.set_major_locator(matplotlib().ticker.MaxNLocator(5, integer=True))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.margins(y=0.15)
    axes.yaxis.set_major_locator(matplotlib().ticker.MaxNLocator(5))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}")
