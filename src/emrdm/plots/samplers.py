"""Samplers compared, as a figure: how near each comes with how many calls of the network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from emrdm.errors import InputError
from emrdm.plots.figure import DASHES, PALETTE, PLAIN, blank, halo, matplotlib, nothing_in, numbers, styled, ticks_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P")

Points = Mapping[int, float | None]


@styled()
def samplers_figure(panels: Mapping[str, Mapping[str, Points]], *, title: str = "", note: str = "") -> Figure:
    """One panel a measure, one line a sampler, against the calls of the network that it took.

    Args:
        panels: by what is written at the axis, then by sampler: a value for each number of calls. None or NaN is a gap.
            A measure whose values are positive and span more than one decade gets a logarithmic axis.
        title: what is written above, plain text.
        note: a line below.
    """
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    if not names:
        raise InputError("a comparison of no samplers: expected one at least")
    figure = blank(5.4, 2.3 * len(panels) + 0.6 + 0.35 * bool(title.strip()), title)
    axes = list(figure.subplots(len(panels), 1, sharex=True, squeeze=False).flat)
    for panel, (label, lines) in zip(axes, panels.items(), strict=True):
        panel.set_ylabel(label, **PLAIN)
        for name, points in lines.items():
            _draw_line(panel, name, points, names.index(name))
        _set_scale(panel, [value for points in lines.values() for value in points.values()])
    tried = sorted({calls for lines in panels.values() for points in lines.values() for calls in points})
    axes[-1].set_xscale("log")
    ticks_at(axes[-1], tried, log=True)
    axes[-1].set_xlabel("calls of the network" + (f"\n{note}" if note else ""), **PLAIN)
    fullest = max(axes, key=lambda panel: len(panel.lines))
    legend = figure.legend(handles=list(fullest.lines), loc="outside lower center", ncols=min(len(names), 4))
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def _draw_line(axes: Axes, name: str, points: Points, place: int) -> None:
    calls = sorted(points)
    values = numbers([points[at] for at in calls], len(calls), name)
    colour, marker = PALETTE[place % len(PALETTE)], _MARKERS[place % len(_MARKERS)]
    dashes = DASHES[place // len(PALETTE) % len(DASHES)]
    axes.plot(calls, values, color=colour, linestyle=dashes, marker=marker, label=name)


def _set_scale(axes: Axes, values: Sequence[float | None]) -> None:
    found = np.array([value for value in values if value is not None and math.isfinite(value)])
    if not found.size:
        nothing_in(axes)
        return
    ticker = matplotlib().ticker
    axes.margins(y=0.12)
    logarithmic = found.min() > 0 and found.max() > 10 * found.min()
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(ticker.NullLocator())
    else:
        axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    best, middle = float(found.max()), float(np.median(found))
    lowest = middle - 4 * (best - middle or 1.0)
    if not logarithmic and found.min() < lowest:  # a run that failed would press all others into one line
        axes.set_ylim(lowest, best + 0.12 * (best - lowest))
        _mark_outside(axes, lowest)


def _mark_outside(axes: Axes, lowest: float) -> None:
    """Say where points lie below the panel, and how far."""
    look: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 7.5}
    for line in list(axes.lines):
        for at, value in np.asarray(line.get_xydata()).tolist():
            if value < lowest:
                axes.annotate(f"↓ {value:.3g}", (at, 0), (4, 2), color=line.get_color(), path_effects=halo(), **look)
