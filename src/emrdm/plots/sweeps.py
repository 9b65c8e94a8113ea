"""The paper's studies as figures: scores against a number, of named rows, or over a grid of two numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emrdm.errors import InputError
from emrdm.plots.figure import (
    INK,
    PALETTE,
    PLAIN,
    SOFT,
    best_of,
    check_better,
    digits_for,
    grid,
    halo,
    label_of,
    matplotlib,
    nothing_in,
    numbers,
    save,
    shown,
    styled,
    ticks_at,
    wrapped,
)
from emrdm.wording import brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Sequence[float | None]
Cells = Mapping[tuple[float, float], float | None]

_OURS, _PAPER = PALETTE[0], PALETTE[1]
_PALE = {_OURS: "#a9cde4", _PAPER: "#f5cfb0"}
_HATCH = "#b8c0c9"
MOST_CELLS = 24  # of a side; the numbers in more of them could not be read


def lines(
    title: str,
    x_label: str,
    x: Sequence[float],
    series: Mapping[str, Values],
    path: Path,
    *,
    better: Mapping[str, str],
    paper: Mapping[str, Values] | None = None,
    log_x: bool = False,
    digits: Mapping[str, int] | None = None,
) -> None:
    """Draw scores against a number into a file, PNG or SVG by its suffix (see :func:`lines_figure`)."""
    save(lines_figure(title, x_label, x, series, better=better, paper=paper, log_x=log_x, digits=digits), path)


def bars(
    title: str,
    labels: Sequence[str],
    series: Mapping[str, Values],
    path: Path,
    *,
    better: Mapping[str, str],
    paper: Mapping[str, Values] | None = None,
    digits: Mapping[str, int] | None = None,
) -> None:
    """Draw scores of named rows into a file, PNG or SVG by its suffix (see :func:`bars_figure`)."""
    save(bars_figure(title, labels, series, better=better, paper=paper, digits=digits), path)


def heatmaps(
    title: str,
    x_label: str,
    x: Sequence[float],
    y_label: str,
    y: Sequence[float],
    series: Mapping[str, Cells],
    path: Path,
    *,
    better: Mapping[str, str],
    digits: Mapping[str, int] | None = None,
) -> None:
    """Draw scores over a grid into a file, PNG or SVG by its suffix (see :func:`heatmaps_figure`)."""
    save(heatmaps_figure(title, x_label, x, y_label, y, series, better=better, digits=digits), path)


@styled()
def lines_figure(
    title: str,
    x_label: str,
    x: Sequence[float],
    series: Mapping[str, Values],
    *,
    better: Mapping[str, str],
    paper: Mapping[str, Values] | None = None,
    log_x: bool = False,
    digits: Mapping[str, int] | None = None,
) -> Figure:
    """One panel a metric: our line, and the paper's on an axis of its own, for shapes are what can be compared.

    Args:
        title: what is written above, plain text.
        x_label: what was varied; may hold TeX between dollar signs.
        x: its values, in any order.
        series: scores by metric, one for each x; None or NaN is a gap.
        better: "higher" or "lower" by metric; of others no best point is marked.
        paper: the paper's scores in the same way; metrics that ``series`` does not have are passed over.
        log_x: whether x is drawn on a logarithmic axis.
        digits: digits after the point by metric; chosen by the spread of the values where not given.
    """
    order, values = _table(len(x), series, better), numbers(x, len(x), "x")
    if not np.isfinite(values).all() or (log_x and not (values > 0).all()):
        raise InputError(f"x is {brief(map(str, x))}: expected finite {'positive ' * log_x}numbers")
    at = np.argsort(values, kind="stable")
    theirs = _papers(len(x), paper, series)
    figure, panels = grid(len(series), 2 if len(series) == 4 else 3, (3.0 if theirs else 2.7, 2.25), title)
    for axes, (metric, scores) in zip(panels, order.items(), strict=True):
        axes.set_title(label_of(metric, better), **PLAIN)
        axes.set_xlabel(x_label)
        if log_x:
            axes.set_xscale("log")
        wanted = (digits or {}).get(metric)
        _draw_line(axes, values[at], scores[at], _OURS, better.get(metric, ""), digits_for(scores, wanted))
        if metric in theirs:
            right = axes.twinx()
            right.grid(visible=False)
            right.spines["right"].set(visible=True, color=_PAPER)
            right.tick_params(axis="y", colors=_PAPER)
            axes.tick_params(axis="y", colors=_OURS)
            axes.set_zorder(right.get_zorder() + 1)  # our line is on top
            axes.patch.set_visible(False)
            _draw_line(right, values[at], theirs[metric][at], _PAPER, better.get(metric, ""), None)
        if len(np.unique(values)) == 1:
            axes.set_xlim(
                values[0] * (0.5 if log_x else 1) - (not log_x), values[0] * (2 if log_x else 1) + (not log_x)
            )
        ticks_at(axes, sorted(set(values.tolist())), log=log_x)
    _add_line_legend(figure, paper=bool(theirs), best=any(better.get(metric) for metric in series))
    return figure


@styled()
def bars_figure(
    title: str,
    labels: Sequence[str],
    series: Mapping[str, Values],
    *,
    better: Mapping[str, str],
    paper: Mapping[str, Values] | None = None,
    digits: Mapping[str, int] | None = None,
) -> Figure:
    """One panel a metric, a row for each label: our bar, and below it the paper's, drawn to a scale of its own.

    Args:
        title: what is written above, plain text.
        labels: names of the rows, from the top down.
        series: scores by metric, one for each label; None or NaN is a row without a bar.
        better: "higher" or "lower" by metric; of others no best row is marked.
        paper: the paper's scores in the same way; metrics that ``series`` does not have are passed over.
        digits: digits after the point by metric; chosen by the spread of the values where not given.
    """
    ours = _table(len(labels), series, better)
    theirs = _papers(len(labels), paper, series)
    names = [wrapped(label, 26) for label in labels]
    columns = min(len(series), 5)
    widest = max(len(line) for name in names for line in (name.splitlines() or [""]))
    height = len(labels) * (0.46 if theirs else 0.32) + 0.35
    size = (1.55 + 0.075 * widest / columns, height)
    figure, panels = grid(len(series), columns, size, title, sharey=True)
    share, rows, any_cut = 0.36 if theirs else 0.62, np.arange(len(labels)), False
    for axes, (metric, scores) in zip(panels, ours.items(), strict=True):
        axes.set_title(label_of(metric, better), **PLAIN)
        pair = [scores, theirs[metric]] if metric in theirs else [scores]
        cut = _should_cut(pair)
        places, direction = digits_for(scores, (digits or {}).get(metric)), better.get(metric, "")
        for i, (given, colour) in enumerate(zip(pair, (_OURS, _PAPER), strict=False)):
            offset = (share / 2 + 0.02) * (2 * i - 1) if theirs else 0.0
            own = axes.twiny() if i else axes
            _draw_bars(own, rows + offset, given, share, colour, direction, places, cut=cut)
        axes.spines["left"].set_linestyle((0, (1, 1.5)) if cut else "-")
        any_cut |= cut
    panels[0].set_yticks(np.arange(len(labels)), names, color=INK, **PLAIN)
    panels[0].set_ylim(len(labels) - 0.45, -0.55)  # the first row on top, as in a table
    _add_bar_legend(figure, paper=bool(theirs), best=any(better.get(metric) for metric in series), cut=any_cut)
    return figure


@styled()
def heatmaps_figure(
    title: str,
    x_label: str,
    x: Sequence[float],
    y_label: str,
    y: Sequence[float],
    series: Mapping[str, Cells],
    *,
    better: Mapping[str, str],
    digits: Mapping[str, int] | None = None,
) -> Figure:
    """One panel a metric: a grid of two numbers (paper, figure 5). Darker is better, the best is framed.

    Cells that were left out, as those with S_tmin >= S_tmax are, stay blank and are hatched.

    Args:
        title: what is written above, plain text.
        x_label: what was varied from left to right; may hold TeX between dollar signs, as ``y_label`` may.
        x: its values; they are sorted, and all have the same width.
        y_label: what was varied from bottom to top.
        y: its values.
        series: by metric, scores by (x, y).
        better: "higher" or "lower" by metric; of others no best cell is framed.
        digits: digits after the point by metric; chosen by the spread of the values where not given.
    """
    check_better(better)
    across, up = sorted(set(x)), sorted(set(y))
    if not series or not across or not up:
        raise InputError("heat maps of nothing: expected a metric, and values of x and y")
    tables = {metric: _raster(metric, cells, across, up) for metric, cells in series.items()}
    places = {metric: digits_for(table, (digits or {}).get(metric)) for metric, table in tables.items()}
    written = max(len(across), len(up)) <= MOST_CELLS
    longest = max(len(shown(value, places[m])) for m, table in tables.items() for value in (0, *table[table == table]))
    wide, high = (0.062 * longest + 0.09, 0.28) if written else (0.12, 0.12)
    size = (max(len(across) * wide, 1.5) + (0.35 if written else 0.8), max(len(up) * high, 1.0) + 0.75)
    columns = max(1, min(3, int(13 / size[0])))
    figure, panels = grid(len(series), columns, size, title, sharey=True)
    for axes, (metric, table) in zip(panels, tables.items(), strict=True):
        axes.set_title(label_of(metric, better), **PLAIN)
        axes.set(xlabel=x_label, ylabel=y_label if panels.index(axes) % columns == 0 else "")
        _draw_cells(axes, table, better.get(metric, ""), places[metric], written=written)
        for axis, values in ((axes.xaxis, across), (axes.yaxis, up)):
            every = -(-len(values) // MOST_CELLS)
            axis.set_ticks(range(0, len(values), every), [f"{value:g}" for value in values[::every]])
    _add_cell_legend(figure, list(tables.values()), best=any(better.get(metric) for metric in series))
    return figure


def _table(count: int, series: Mapping[str, Values], better: Mapping[str, str]) -> dict[str, np.ndarray]:
    check_better(better)
    if not series or not count:
        raise InputError("a study of nothing: expected a metric and a point at least")
    return {metric: numbers(given, count, metric) for metric, given in series.items()}


def _papers(count: int, paper: Mapping[str, Values] | None, series: Mapping[str, Values]) -> dict[str, np.ndarray]:
    """The paper's scores of our metrics, where it has any."""
    given = {metric: numbers(paper[metric], count, f"paper {metric}") for metric in series if paper and metric in paper}
    return {metric: values for metric, values in given.items() if np.isfinite(values).any()}


def _draw_line(axes: Axes, x: np.ndarray, scores: np.ndarray, colour: str, direction: str, digits: int | None) -> None:
    """A line with its best point ringed; the best value is written if digits are given."""
    theirs = colour == _PAPER
    axes.plot(
        x,
        scores,
        color=colour,
        linestyle=(0, (4, 2)) if theirs else "-",
        linewidth=1.2 if theirs else 1.8,
        marker="s" if theirs else "o",
        markersize=3.2 if theirs else 4.2,
        markerfacecolor="white" if theirs else colour,
    )
    if not np.isfinite(scores).any():
        nothing_in(axes, height=0.92)  # the paper's line may be there
        return
    axes.margins(x=0.07, y=0.2)
    if np.nanmax(scores) == np.nanmin(scores):  # a flat line in the middle, and numbers that can be read at its axis
        middle = float(np.nanmax(scores))
        axes.set_ylim(middle - 0.05 * (abs(middle) or 1), middle + 0.05 * (abs(middle) or 1))
    axes.yaxis.set_major_locator(matplotlib().ticker.MaxNLocator(5))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.6g}")
    best = best_of(scores, direction)
    if best is None:
        return
    axes.plot(x[best], scores[best], "o", markersize=9, markerfacecolor="none", markeredgecolor=colour, label="best")
    if digits is not None:
        places = np.log(x) if axes.get_xscale() == "log" else x
        share = (places[best] - places[0]) / ((places[-1] - places[0]) or 1) if len(x) > 1 else 0.5
        side = "left" if share < 0.15 else "right" if share > 0.85 else "center"
        above = direction == "higher"  # the side where the line is not
        axes.annotate(
            shown(scores[best], digits),
            (x[best], scores[best]),
            ({"left": -4, "right": 4, "center": 0}[side], 7 if above else -7),
            textcoords="offset points",
            ha=side,
            va="bottom" if above else "top",
            color=colour,
            fontweight="bold",
            path_effects=halo(),
        )


def _should_cut(pair: Sequence[np.ndarray]) -> bool:
    """Whether bars would hide what differs if they began at zero, as all of them are long."""
    finite = [values[np.isfinite(values)] for values in pair if np.isfinite(values).any()]
    return all(values.min() > 0 for values in finite) and any(
        0 < np.ptp(values) < 0.5 * values.max() for values in finite
    )


def _draw_bars(
    axes: Axes,
    rows: np.ndarray,
    scores: np.ndarray,
    share: float,
    colour: str,
    direction: str,
    digits: int,
    *,
    cut: bool,
) -> None:
    """Bars with their values written behind them; cut ones begin a little below the smallest value."""
    finite = scores[np.isfinite(scores)]
    base = max(0.0, float(finite.min() - 0.7 * np.ptp(finite))) if cut and finite.size else 0.0
    low, high = min([base, *finite]), max([base, *finite])
    axes.set_xlim(low, high + 0.48 * ((high - low) or 1.0))
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.tick_params(axis="y", length=0)
    for side in ("bottom", "top", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set_visible(colour == _OURS)  # one line for both
    best = best_of(scores, direction)
    for row, score in zip(rows, scores, strict=True):
        found, is_best = math.isfinite(score), best is not None and score == scores[best]  # equals are all best
        if found:
            fill = colour if is_best or best is None else _PALE[colour]
            axes.barh(row, score - base, share, left=base, color=fill)
        axes.annotate(
            shown(score, digits) if found else "no value",
            (max(score, base) if found else base, row),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=INK if is_best else SOFT,
            fontweight="bold" if is_best else "normal",
        )


def _raster(metric: str, cells: Cells, across: Sequence[float], up: Sequence[float]) -> np.ndarray:
    """Cells as (y, x), NaN where there is none."""
    strange = [str(key) for key in cells if key[0] not in across or key[1] not in up]
    if strange:
        raise InputError(f"{metric} has scores at {brief(strange)}: expected pairs of the given x and y")
    return np.array([numbers([cells.get((i, j)) for i in across], len(across), metric) for j in up])


def _draw_cells(axes: Axes, table: np.ndarray, direction: str, digits: int, *, written: bool) -> None:
    library = matplotlib()
    colours = library.colormaps["YlGnBu_r" if direction == "lower" else "YlGnBu"]
    finite = table[np.isfinite(table)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    norm = library.colors.Normalize(*((low, high) if high > low else (low - 1, low + 1)))
    rows, columns = table.shape
    axes.grid(visible=False)
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(-0.5, rows - 0.5))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    edges = np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5
    mesh = axes.pcolormesh(*edges, np.ma.masked_invalid(table), cmap=colours, norm=norm)
    mesh.set(edgecolor="white" if written else "face", linewidth=0.8 if written else 0.1)
    best = best_of(table, direction)
    for (j, i), value in np.ndenumerate(table):
        if not math.isfinite(value):
            hatched = {"hatch": "////", "facecolor": "white", "edgecolor": _HATCH, "linewidth": 0}
            axes.add_patch(library.patches.Rectangle((i - 0.5, j - 0.5), 1, 1, gid="missing", **hatched))
            continue
        is_best = best is not None and value == table.flat[best]  # without noise to add, whole columns are equal
        if written:
            red, green, blue, _ = colours(norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            weight = "bold" if is_best else "normal"
            text = shown(value, digits)
            axes.text(i, j, text, ha="center", va="center", fontsize=7, color="white" if dark else INK, weight=weight)
        if is_best:
            frame: dict[str, Any] = {"fill": False, "clip_on": False, "zorder": 3, "joinstyle": "miter"}
            corner, side = (i - 0.46, j - 0.46), 0.92
            axes.add_patch(library.patches.Rectangle(corner, side, side, edgecolor="white", linewidth=3.4, **frame))
            axes.add_patch(
                library.patches.Rectangle(corner, side, side, edgecolor=_PAPER, linewidth=1.9, gid="best", **frame)
            )
    if high > low and not written:
        bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02, aspect=22, fraction=0.06)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, labelsize=7)
        bar.ax.yaxis.set_major_locator(library.ticker.MaxNLocator(4))
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.6g}")


def _add_line_legend(figure: Figure, *, paper: bool, best: bool) -> None:
    line = matplotlib().lines.Line2D
    handles = [line([], [], color=_OURS, marker="o", markersize=4.2, label="ours" + " (left axis)" * paper)]
    if paper:
        look = {"linestyle": (0, (4, 2)), "marker": "s", "markersize": 3.2, "markerfacecolor": "white"}
        handles.append(line([], [], color=_PAPER, linewidth=1.2, label="paper (right axis)", **look))
    if best:
        ring = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "markeredgecolor": SOFT}
        handles.append(line([], [], linestyle="", label="best", **ring))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)


def _add_bar_legend(figure: Figure, *, paper: bool, best: bool, cut: bool) -> None:
    library = matplotlib()
    patch = library.patches.Patch
    handles: list[Any] = [patch(color=_OURS, label="ours")]
    if paper:
        handles.append(patch(color=_PAPER, label="paper, to its own scale"))
    if best:
        handles.append(patch(color=SOFT, label="best in full colour"))
    if cut:
        base = {"color": "#98a3af", "linewidth": 0.8, "linestyle": (0, (1, 1.5))}
        handles.append(library.lines.Line2D([], [], label="dotted base: not zero", **base))
    figure.legend(handles=handles, loc="outside lower center", ncols=4)


def _add_cell_legend(figure: Figure, tables: Sequence[np.ndarray], *, best: bool) -> None:
    patch = matplotlib().patches.Patch
    handles = []
    if best:
        handles.append(patch(facecolor="white", edgecolor=_PAPER, linewidth=1.9, label="best (darker is better)"))
    if any(np.isnan(table).any() for table in tables):
        handles.append(patch(facecolor="white", edgecolor=_HATCH, hatch="////", linewidth=0, label="left out"))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
