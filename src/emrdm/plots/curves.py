"""How a training went: loss, learning rate and validation scores against the step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from emrdm.errors import InputError
from emrdm.plots.figure import (
    DASHES,
    INK,
    PALETTE,
    PLAIN,
    SOFT,
    blank,
    matplotlib,
    nothing_in,
    number,
    save,
    shown,
    spread,
    styled,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = {"psnr": ("PSNR ↑", "dB", 2), "ssim": ("SSIM ↑", "", 4)}
_MOST = 2000  # points of a line: more than the pixels it is drawn on
_FEW = 5  # lines that are labelled where they end; more get a legend
_BAD = "#d55e00"


@final
@dataclass(frozen=True)
class _History:
    """A log in order of steps, the last row of a step being the one that counts: stopped trainings repeat some."""

    steps: np.ndarray
    losses: np.ndarray
    rates: np.ndarray
    scores: Mapping[int, Mapping[str, Mapping[str, Any]]]
    best: int | None

    @property
    def rate_changes(self) -> bool:
        rates = self.rates[np.isfinite(self.rates)]
        return bool(rates.size and np.ptp(rates) > 1e-9 * np.abs(rates).max())

    def curves(self, metric: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Steps and values of a metric by data set, where they are finite."""
        found: dict[str, list[tuple[int, float]]] = {}
        for step, by_set in self.scores.items():
            for name, scores in by_set.items():
                value = number(scores.get(metric))
                if math.isfinite(value):
                    found.setdefault(name, []).append((step, value))
        return {
            name: (np.array([step for step, _ in points]), np.array([value for _, value in points]))
            for name, points in found.items()
        }

    def sets(self) -> list[str]:
        """Data sets that were validated on."""
        return list(dict.fromkeys(name for by_set in self.scores.values() for name in by_set))

    def mean(self, metric: str, sets: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Steps and the mean of a metric over some data sets, where all of them have one."""
        found = {}
        for step, by_set in self.scores.items():
            values = [number(by_set.get(name, {}).get(metric)) for name in sets]
            if values and all(map(math.isfinite, values)):
                found[step] = sum(values) / len(values)
        return np.array(list(found), np.int64), np.array(list(found.values()), np.float64)

    def protocols(self) -> dict[str, str]:
        """The protocol of each data set's scores: the last one named."""
        return {
            name: str(scores["protocol"])
            for by_set in self.scores.values()
            for name, scores in by_set.items()
            if "protocol" in scores
        }


def training_curves(rows: Sequence[Mapping[str, Any]], path: Path, *, title: str = "") -> None:
    """Draw the parsed lines of a training log into a file, PNG or SVG by its suffix (see :func:`training_figure`)."""
    save(training_figure(rows, title=title), path)


@styled()
def training_figure(rows: Sequence[Mapping[str, Any]], *, title: str = "") -> Figure:
    """Panels that share their steps: loss, learning rate if it changes, PSNR and SSIM of each validation set.

    Args:
        rows: dictionaries with a ``kind``: "step" with ``step``, ``loss`` and ``lr``; "validation" with ``step``,
            ``scores`` (by data set, then by metric) and ``best``. Other kinds are passed over.
        title: what is written above, plain text.
    """
    history = _read(rows)
    metrics = [metric for metric in _PANELS if history.curves(metric)]
    heights = [2.5] * bool(history.steps.size) + [0.85] * history.rate_changes + [1.9] * len(metrics)
    if not heights:
        raise InputError("a training log without a step and without a validation score: expected one row at least")
    figure = blank(7.2, sum(heights) + 0.6 + 0.3 * bool(title.strip()), title)
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    left = iter(panels)
    if history.steps.size:
        _draw_loss(next(left), history)
    if history.rate_changes:
        _draw_rate(next(left), history)
    _set_steps(panels[-1], history)
    for metric in metrics:
        _draw_scores(next(left), history, metric)
    if metrics and len(history.curves(metrics[0])) > _FEW:
        _add_legend(figure, panels[-1])
    figure.align_ylabels(list(panels))
    return figure


@styled()
def compared_figure(runs: Mapping[str, Sequence[Mapping[str, Any]]], *, title: str = "") -> Figure:
    """Several trainings in one figure, a colour a run: loss, learning rate, and scores on what all were validated on.

    Args:
        runs: rows of each log by the run's name; see :func:`training_figure`.
        title: what is written above, plain text.
    """
    histories = {name: _read(rows) for name, rows in runs.items()}
    known = [set(history.sets()) for history in histories.values() if history.sets()]
    shared = sorted(set.intersection(*known)) if known else []  # means over other sets do not compare
    scores = {
        metric: {name: found for name, history in histories.items() if (found := history.mean(metric, shared))[0].size}
        for metric in _PANELS
    }
    metrics = [metric for metric, curves in scores.items() if curves]
    losses = any(np.isfinite(history.losses).any() for history in histories.values())
    rates = any(history.rate_changes for history in histories.values())
    heights = [2.5] * losses + [1.1] * rates + [1.9] * len(metrics)
    if not heights:
        raise InputError("training logs without a step and without a common validation set: expected one at least")
    figure = blank(5.4, sum(heights) + 0.9 + 0.3 * bool(title.strip()), title)
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    left = iter(panels)
    looks = {
        name: {"color": PALETTE[i % len(PALETTE)], "linestyle": DASHES[i // len(PALETTE) % len(DASHES)]}
        for i, name in enumerate(runs)
    }
    if losses:
        _compare_losses(next(left), histories, looks)
    if rates:
        axes = next(left)
        axes.set_ylabel("learning\nrate")
        for name, history in histories.items():
            axes.plot(*_thinned(history.steps, history.rates), linewidth=1.3, **looks[name])
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(matplotlib().ticker.MaxNLocator(3))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    for metric in metrics:
        label, unit, digits = _PANELS[metric]
        sets = shared[0] if len(shared) == 1 else f"mean of {len(shared)} sets"
        protocols = {history.protocols().get(name) for history in histories.values() for name in shared} - {None}
        notes = [*([unit] if unit else []), wrapped(sets, 24, lines=1), *sorted(map(str, protocols))]
        axes = next(left)
        axes.set_ylabel(f"{label}\n({wrapped(', '.join(notes), 28)})", **PLAIN)
        for name, curve in scores[metric].items():
            axes.plot(*curve, marker="o" if len(curve[0]) <= 40 else "", markersize=3, **looks[name])
        axes.margins(y=0.14)
        if len(scores[metric]) <= _FEW:
            ends = {name: float(curve[1][-1]) for name, curve in scores[metric].items()}
            _write_ends(axes, ends, {name: str(looks[name]["color"]) for name in ends}, digits)
    _set_steps(panels[-1], *histories.values())
    figure.align_ylabels(list(panels))
    line = matplotlib().lines.Line2D
    handles = [line([], [], label=wrapped(name, 28).lstrip("_") or "run", **look) for name, look in looks.items()]
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=min(len(runs), 3), labelcolor=INK)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def _write_ends(axes: Axes, ends: Mapping[str, float], colours: Mapping[str, str], digits: int) -> None:
    """The last values on the right of a panel, each beside its line."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)  # the labels hold for these limits
    heights = spread([(value - low) / (high - low) for value in ends.values()], 0.13)
    for (name, value), height in zip(ends.items(), heights, strict=True):
        look: dict[str, Any] = {"transform": axes.transAxes, "color": colours[name], "va": "center"}
        axes.text(1.012, height, shown(value, digits), fontweight="bold", fontsize=8, **look)


def _compare_losses(axes: Axes, histories: Mapping[str, _History], looks: Mapping[str, Mapping[str, Any]]) -> None:
    """The running means alone: single rows of several runs would hide each other."""
    axes.set_ylabel("loss, running mean")
    drawn = []
    for name, history in histories.items():
        good = np.isfinite(history.losses)
        if good.any():
            mean = _running_mean(history.losses[good], _window(int(good.sum())))
            axes.plot(*_thinned(history.steps[good], mean), **looks[name])
            drawn.append(mean)
    values = np.concatenate(drawn)
    if (values > 0).all():
        _set_log(axes, values)


def _read(rows: Sequence[Mapping[str, Any]]) -> _History:
    steps: dict[int, tuple[float, float]] = {}
    scores: dict[int, Mapping[str, Mapping[str, Any]]] = {}
    best: dict[int, bool] = {}
    for at, row in enumerate(rows, 1):
        kind, step = row.get("kind"), row.get("step")
        if kind not in ("step", "validation"):
            continue
        if not isinstance(step, int) or isinstance(step, bool):
            raise InputError(f"row {at} of the training log has step {step!r}: expected a whole number")
        if kind == "step":
            steps[step] = (number(row.get("loss")), number(row.get("lr")))
        else:
            found = row.get("scores") or {}
            if not isinstance(found, Mapping) or not all(
                isinstance(by_metric, Mapping) for by_metric in found.values()
            ):
                raise InputError(f"row {at} of the training log has scores {found!r}: expected numbers by data set")
            scores[step], best[step] = found, bool(row.get("best"))
    order = sorted(steps)
    ordered = {step: scores[step] for step in sorted(scores)}
    return _History(
        steps=np.array(order, np.int64),
        losses=np.array([steps[step][0] for step in order], np.float64),
        rates=np.array([steps[step][1] for step in order], np.float64),
        scores=ordered,
        best=max((step for step, is_best in best.items() if is_best), default=_highest(ordered)),
    )


def _highest(scores: Mapping[int, Mapping[str, Mapping[str, Any]]]) -> int | None:
    """The step of the highest mean PSNR, for logs that do not say which one was best."""
    means: dict[int, float] = {}
    for step, by_set in scores.items():
        values = [value for each in by_set.values() if math.isfinite(value := number(each.get("psnr")))]
        if values:
            means[step] = sum(values) / len(values)
    return max(means, key=means.__getitem__, default=None)


def _draw_loss(axes: Axes, history: _History) -> None:
    good = np.isfinite(history.losses)
    steps, losses, bad = history.steps[good], history.losses[good], history.steps[~good]
    axes.set_ylabel("loss")
    if losses.size:
        window = _window(len(losses))
        raw = _thinned(steps, losses)
        marker = "o" if len(losses) <= 40 else ""
        if window > 1:
            axes.plot(*raw, color=PALETTE[0], alpha=0.3, linewidth=0.7, label="each row", marker=marker, markersize=2.5)
            mean = _running_mean(losses, window)
            every = max(1, -(-len(mean) // _MOST))
            kept = np.unique([*range(0, len(mean), every), len(mean) - 1])
            axes.plot(steps[kept], mean[kept], color=PALETTE[0], linewidth=2, label=f"mean of {window} rows")
        else:
            axes.plot(*raw, color=PALETTE[0], label="each row", marker=marker)
        if (losses > 0).all():  # a loss that is zero somewhere has no place on a logarithmic axis
            _set_log(axes, losses)
    else:
        nothing_in(axes, "no finite loss")
    if bad.size:
        shown = bad[np.unique(np.linspace(0, len(bad) - 1, min(len(bad), _MOST)).round().astype(int))]
        axes.plot(
            shown,
            np.ones(len(shown)),
            transform=axes.get_xaxis_transform(),
            linestyle="",
            marker="|",
            markersize=9,
            markeredgewidth=1.4,
            color=_BAD,
            clip_on=False,
            label=f"not finite ({len(bad):,})",
        )
    if len(axes.lines) > 1 or bad.size:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.6)  # above: ticks hang inside


def _draw_rate(axes: Axes, history: _History) -> None:
    good = np.isfinite(history.rates)
    every = max(1, -(-int(good.sum()) // _MOST))
    axes.plot(history.steps[good][::every], history.rates[good][::every], color=SOFT, linewidth=1.3)
    axes.set_ylabel("learning\nrate")
    highest = float(history.rates[good].max())
    axes.set_ylim(0, 1.12 * highest)
    axes.set_yticks([0, highest], ["0", f"{highest:.3g}"])


def _draw_scores(axes: Axes, history: _History, metric: str) -> None:
    label, unit, digits = _PANELS[metric]
    curves, protocols = history.curves(metric), history.protocols()
    shared = set(protocols.values())
    names = {name: name if len(shared) < 2 else f"{name} ({protocols.get(name, '?')})" for name in curves}
    notes = [*([unit] if unit else []), *(shared if len(shared) == 1 else ())]  # a score is nothing without a protocol
    axes.set_ylabel(label + (f"\n({wrapped(', '.join(notes), 24)})" if notes else ""), **PLAIN)
    colours = {}
    for i, (name, (steps, values)) in enumerate(curves.items()):
        colours[name] = PALETTE[i % len(PALETTE)]
        kept = np.linspace(0, len(steps) - 1, min(len(steps), _MOST)).round().astype(int)
        axes.plot(
            steps[kept],
            values[kept],
            color=colours[name],
            linestyle=DASHES[i // len(PALETTE) % len(DASHES)],
            marker="o" if len(steps) <= 40 else "",
            markersize=3,
            label=wrapped(names[name], 28).lstrip("_"),  # matplotlib keeps names with a low line out of legends
        )
    axes.margins(y=0.14)
    marked = {} if history.best is None else _mark_best(axes, history.best, curves, colours)
    if len(curves) > _FEW:
        return
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)  # the labels hold for these limits
    ends = [(values[-1] - low) / (high - low) for _, values in curves.values()]
    for name, height in zip(curves, spread(ends, 0.19 if marked else 0.11), strict=True):
        text = wrapped(names[name], 22, lines=1)
        look: dict[str, Any] = {"transform": axes.transAxes, "color": colours[name], **PLAIN}
        axes.text(1.012, height, text, va="bottom" if name in marked else "center", **look)
        if name in marked:  # the dot is the one on the line
            axes.text(
                1.012, height, f"● {shown(marked[name], digits)}", va="top", fontweight="bold", fontsize=8, **look
            )


def _mark_best(
    axes: Axes, best: int, curves: Mapping[str, tuple[np.ndarray, np.ndarray]], colours: Mapping[str, str]
) -> dict[str, float]:
    """A line at the best step and dots where it meets the others; the values of the dots."""
    axes.axvline(best, color=SOFT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    left, right = axes.get_xlim()
    share = (best - left) / (right - left)
    axes.annotate(
        f"best: step {best:,}",
        (best, 1),
        (0, 3),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="left" if share < 0.1 else "right" if share > 0.9 else "center",
        va="bottom",
        color=SOFT,
        fontsize=8,
    )
    marked = {}
    for name, (steps, values) in curves.items():
        if (steps == best).any():
            marked[name] = float(values[steps == best][0])
            axes.plot(best, marked[name], "o", markersize=7, color=colours[name], markeredgecolor="white", zorder=4)
    return marked


def _set_steps(axes: Axes, *histories: _History) -> None:
    """The common axis; set before scores are drawn, as labels choose their side by it."""
    steps = [step for history in histories for step in (*history.steps.tolist(), *history.scores)]
    first, last = min(steps), max(steps)
    room = 0.015 * (last - first) or 1.0
    axes.set_xlim(first - room, last + room)
    axes.xaxis.set_major_locator(matplotlib().ticker.MaxNLocator(7, integer=True))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("step")


def _set_log(axes: Axes, values: np.ndarray) -> None:
    ticker = matplotlib().ticker
    axes.set_yscale("log")
    decades = math.log10(values.max() / values.min())
    subs = (1.0,) if decades > 2.5 else (1.0, 2.0, 5.0) if decades > 0.7 else tuple(np.arange(1, 10, 0.5))
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=subs) if decades > 0.2 else ticker.MaxNLocator(5))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.margins(y=0.1)


def _window(count: int) -> int:
    """Rows of the running mean, an odd number: a fiftieth of all, none for a handful."""
    return 1 if count < 20 else 2 * min(max(1, count // 100), 250) + 1


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Mean of the rows around each row, of those that exist at both ends.

    Each window is summed by itself: in a cumulative sum one loss of 1e20 would swallow all that follow.
    """
    ones = np.ones(window)
    mean: np.ndarray = np.convolve(values, ones, "same") / np.convolve(np.ones(len(values)), ones, "same")
    return mean


def _thinned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most ``_MOST`` points with the same outline: the lowest and highest of each stretch."""
    if len(steps) <= _MOST:
        return steps, values
    kept: set[int] = {0, len(values) - 1}
    for part in np.array_split(np.arange(len(values)), _MOST // 2 - 1):
        kept.update((int(part[values[part].argmin()]), int(part[values[part].argmax()])))
    at = sorted(kept)
    return steps[at], values[at]


def _add_legend(figure: Figure, axes: Axes) -> None:
    handles = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=4, labelcolor=INK)
    for text in legend.get_texts():
        text.set_parse_math(False)
