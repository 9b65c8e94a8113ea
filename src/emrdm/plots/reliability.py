"""Whether predicted standard deviations are right, as a figure: the error they came with, and the truth they held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emrdm.errors import InputError
from emrdm.plots.figure import INK, PALETTE, PLAIN, SOFT, blank, halo, matplotlib, nothing_in, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FOUND, _RIGHT = PALETTE[0], PALETTE[1]
_WIDE = 20.0  # times the smallest: from there on, points on a plain axis would lie on top of each other


def reliability(
    title: str,
    curve: Sequence[tuple[float, float]],
    coverage: Mapping[float, float],
    path: Path,
    *,
    note: str = "",
) -> None:
    """Draw a calibration into a file, PNG or SVG by its suffix (see :func:`reliability_figure`)."""
    save(reliability_figure(title, curve, coverage, note=note), path)


@styled()
def reliability_figure(
    title: str, curve: Sequence[tuple[float, float]], coverage: Mapping[float, float], *, note: str = ""
) -> Figure:
    """Two panels: the error against the standard deviation, and the share of the truth inside of each interval.

    Args:
        title: what is written above, plain text.
        curve: predicted standard deviation and error found, of values alike; on the diagonal is right.
        coverage: share of the truth inside, from 0 to 1, by level, alike; the level itself is right.
        note: a few words above the first panel.
    """
    points = np.array(curve, np.float64).reshape(-1, 2)
    if not coverage or not points.size:
        raise InputError("a calibration of nothing: expected a curve and a coverage")
    figure = blank(7.2, 3.4 + 0.35 * bool(title.strip()), title)
    left, right = figure.subplots(1, 2)
    _draw_curve(left, points[np.isfinite(points).all(1)], note)
    _draw_coverage(right, coverage)
    return figure


def _draw_curve(axes: Axes, points: np.ndarray, note: str) -> None:
    axes.set_title(f"Reliability: {note}" if note else "Reliability", **PLAIN)
    axes.set(xlabel="predicted standard deviation", ylabel="error found (RMS)")
    if not points.size:
        nothing_in(axes)
        return
    low, high = float(points.min()), float(points.max())
    if low > 0 and high > _WIDE * low:
        axes.set(xscale="log", yscale="log")
        ends = (low / 1.3, high * 1.3)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        ends = (0.0, 1.08 * high or 1.0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(matplotlib().ticker.MaxNLocator(5))
    axes.set(xlim=ends, ylim=ends, aspect="equal")
    axes.plot(ends, ends, "--", color=_RIGHT, linewidth=1.2, gid="right")
    axes.plot(*points.T, "o-", color=_FOUND, gid="found")
    for words, side in (("overconfident", 1), ("too cautious", -1)):  # along the diagonal, below the curve
        look: dict[str, Any] = {"color": SOFT, "fontstyle": "italic", "transform": axes.transAxes, "zorder": 1}
        axes.text(0.8 - 0.03 * side, 0.8 + 0.03 * side, words, rotation=45, ha="center", va="center", **look)


def _draw_coverage(axes: Axes, coverage: Mapping[float, float]) -> None:
    axes.set_title("Truth inside of the interval")
    axes.set(xlabel="interval", ylim=(0, 1.12), yticks=np.arange(0, 1.01, 0.25))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(visible=False, axis="x")
    for at, (level, share) in enumerate(sorted(coverage.items())):
        axes.bar(at, share, 0.6, color=_FOUND, label="found" if at == 0 else None)
        axes.plot((at - 0.4, at + 0.4), (level, level), color=_RIGHT, linewidth=2, label="right" if at == 0 else None)
        top = max(level, share) if abs(level - share) < 0.1 else share
        axes.annotate(
            f"{share:.1%}", (at, top), (0, 3), textcoords="offset points", ha="center", color=INK, path_effects=halo()
        )
    axes.set_xticks(range(len(coverage)), [f"{level:.0%}" for level in sorted(coverage)])
    axes.figure.legend(loc="outside lower center", ncols=2)
