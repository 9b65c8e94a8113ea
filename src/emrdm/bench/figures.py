"""A benchmark as figures: cost against size and against the number of frames. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from emrdm.bench.results import Measured, Report, Scaling
from emrdm.bench.scaling import argument
from emrdm.plots.figure import PALETTE, PLAIN, SOFT, grid, matplotlib, nothing_in, save, styled, ticks_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OURS, _THEIRS, _LINEAR, _GLOBAL = PALETTE[0], PALETTE[1], PALETTE[2], PALETTE[3]
_NAMES = {"size": "size.png", "frames": "frames.png"}


def draw(report: Report, folder: Path) -> list[Path]:
    """Draw everything there is to draw into a folder."""
    written = []
    if any(row.ratio is not None for row in report.rows):
        save(ratios_figure(report), folder / "ratios.png")
        written.append(folder / "ratios.png")
    for scaling in report.scalings:
        path = folder / _NAMES[scaling.axis]
        save(scaling_figure(report, scaling), path)
        written.append(path)
    return written


@styled()
def ratios_figure(report: Report) -> Figure:
    """How many times faster ours is, a bar for every row that has both paths."""
    rows = [row for row in report.rows if row.ratio is not None]
    title = f"{report.model}: times faster than {report.baseline_name}"
    figure, (axes,) = grid(1, 1, (7.2, 0.34 * len(rows) + 0.5), title)
    places = np.arange(len(rows))
    ratios = [row.ratio or 0.0 for row in rows]
    axes.barh(places, ratios, 0.62, color=_OURS)
    axes.axvline(1, color=_THEIRS, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.set_yticks(places, [row.label.strip() for row in rows], **PLAIN)
    axes.invert_yaxis()
    axes.set_xlim(0, max([*ratios, 1.0]) * 1.12)
    axes.grid(visible=False)
    axes.set_xlabel(report.machine, color=SOFT, **PLAIN)
    for place, ratio in zip(places, ratios, strict=True):
        axes.annotate(f"{ratio:.1f}x", (ratio, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    return figure


@styled()
def scaling_figure(report: Report, scaling: Scaling) -> Figure:
    """Left: time of both paths with the linear part of ours. Right: time a pixel or frame, which shows the bend."""
    by_size = scaling.axis == "size"
    figure, (left, right) = grid(2, 2, (4.6, 3.3), f"{report.model}: {scaling.label}")
    values = [point.value for point in scaling.points]
    theirs = [point.baseline for point in scaling.points]
    ours = [point.ours for point in scaling.points]
    _line(left, values, theirs, _THEIRS, f"{report.baseline_name}")
    _line(left, values, ours, _OURS, "ours")
    x = np.array([argument(scaling, point) for point in scaling.points], np.float64)
    if scaling.fit is not None:
        constant, linear, _ = scaling.fit
        words = "ours without its quadratic part"
        left.plot(values, 1e3 * (constant + linear * x), color=_LINEAR, linestyle=":", linewidth=1.4, label=words)
    left.set_ylabel("ms a call")
    if by_size:
        left.set(xscale="log", yscale="log")
    else:
        left.set_ylim(bottom=0)
    each = [None if one is None else one.seconds / at for one, at in zip(ours, x, strict=True)]
    _each(right, values, each, by_size=by_size)
    doubled = [value for value in values if value & (value - 1) == 0] if by_size else []
    for axes in (left, right):
        axes.set_xlabel("side of the image in pixels" if by_size else "frames $L$")
        ticks_at(axes, doubled or values, log=by_size)
    if by_size:
        share = [100 * point.macs_global / point.macs for point in scaling.points]
        beside = right.twinx()
        beside.plot(values, share, color=_GLOBAL, linestyle="--", linewidth=1.2, marker="s", markersize=3)
        beside.set(ylim=(0, 100), ylabel="% of MACs in global attention")
        beside.yaxis.label.set_color(_GLOBAL)
        beside.grid(visible=False)
        for axes in (right, beside):
            axes.minorticks_off()
    left.minorticks_off()
    left.legend(loc="upper left")
    figure.supxlabel(report.machine, fontsize=7, color=SOFT, **PLAIN)
    return figure


def _line(axes: Axes, x: Sequence[int], measured: Sequence[Measured | None], colour: str, label: str) -> None:
    found = [(at, 1e3 * one.seconds) for at, one in zip(x, measured, strict=True) if one is not None]
    if found:
        axes.plot(*zip(*found, strict=True), color=colour, marker="o", label=label)


def _each(axes: Axes, x: Sequence[int], each: Sequence[float | None], *, by_size: bool) -> None:
    factor, unit = (1e9, "ns a pixel, ours") if by_size else (1e3, "ms a frame, ours")
    found = [(at, factor * one) for at, one in zip(x, each, strict=True) if one is not None]
    if not found:
        nothing_in(axes)
        return
    if by_size:
        axes.set_xscale("log")
    axes.plot(*zip(*found, strict=True), color=_OURS, marker="o")
    axes.set_ylim(0, 1.15 * max(value for _, value in found))
    axes.set_ylabel(unit)
    axes.yaxis.set_major_locator(matplotlib().ticker.MaxNLocator(5))
