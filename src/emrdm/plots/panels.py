"""Pictures in rows under headings, as figures: what a sampler sees and makes of it, and what a network looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from emrdm.errors import InputError
from emrdm.plots.figure import PLAIN, SIGMA, SOFT, blank, matplotlib, styled, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 5.4  # inches of a figure: letters stay readable where a page shows it small
_WIDEST, _NARROWEST = 1.6, 0.85  # inches of a picture
_SCALE = "viridis"  # even steps to the eye, for colour-blind people too
_LETTERS = 15.0  # of small text, an inch
_LINE = 0.13  # inches of a line of it


class Panel(NamedTuple):
    """A picture (H, W, 3) uint8, or a map (H, W) from 0 to 1; what is written above it and below it."""

    pixels: np.ndarray
    above: str = ""
    below: str = ""


Rows = Mapping[str, Sequence[Panel | None]]


@styled()
def pictures_figure(rows: Rows, *, title: str = "", note: str = "", scale: str = "") -> Figure:
    """Pictures of one size in rows.

    Args:
        rows: pictures by what is written on their left; None leaves a place empty.
        title: what is written above, plain text.
        note: a line below.
        scale: what the colours of maps stand for, from 0 to 1; without it no scale is drawn.
    """
    pictures = [panel.pixels for row in rows.values() for panel in row if panel is not None]
    if not pictures:
        raise InputError("a figure of no pictures: expected one at least")
    if len({picture.shape[:2] for picture in pictures}) > 1:
        sizes = sorted({f"{picture.shape[1]} x {picture.shape[0]}" for picture in pictures})
        raise InputError(f"pictures are {', '.join(sizes)} pixels: expected all of one size")
    height, width = pictures[0].shape[:2]
    columns = max(len(row) for row in rows.values())
    side = min(max(_WIDTH / columns, _NARROWEST), _WIDEST)
    tall = side * height / width
    lines = sum(any(panel and panel[i] for panel in row) for row in rows.values() for i in (1, 2))
    total = len(rows) * (tall + 0.04) + _LINE * (lines + 2 * bool(title.strip()) + bool(note) + 2 * bool(scale))
    figure = blank(columns * side + 0.25, total, title)
    figure.set_layout_engine("constrained", w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.02)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for (name, row), line in zip(rows.items(), grid, strict=True):
        for axes, panel in zip(line, [*row, *[None] * (columns - len(row))], strict=True):
            _draw(axes, panel, int(side * _LETTERS))
        line[0].set_ylabel(wrapped(name, max(8, int(tall * 11))), fontsize=8, **PLAIN)
    if scale:
        _add_scale(figure, list(grid.flat), scale)
    if note:
        figure.supxlabel(note, fontsize=7, color=SOFT, **PLAIN)
    return figure


def trajectory_figure(
    levels: Sequence[float],
    states: Sequence[Sequence[np.ndarray]],
    estimates: Sequence[np.ndarray],
    *,
    cloudy: Sequence[np.ndarray] = (),
    truth: np.ndarray | None = None,
    scores: Sequence[str] = (),
    title: str = "",
    note: str = "",
) -> Figure:
    """How a sampler goes from noise to an image: what the denoiser sees at each noise level, and what it makes of it.

    Args:
        levels: noise level of each step, falling.
        states: by step, the noisy frames as pictures (H, W, 3) uint8.
        estimates: by step, the denoised image.
        cloudy: the frames that the run is about, shown behind the steps.
        truth: the clear image, shown there, too.
        scores: what is written below each estimate.
        title: what is written above.
        note: a line below.
    """
    counts = {len(levels), len(states), len(estimates), *([len(scores)] if scores else [])}
    frames = {len(frame) for frame in states} | ({len(cloudy)} if cloudy else set())
    if len(counts) != 1 or len(frames) != 1 or not levels:
        raise InputError(
            f"{len(levels)} noise levels, {len(states)} states of {sorted(frames)} frames, {len(estimates)} estimates: "
            "expected as many of each, and one at least"
        )
    rows: dict[str, list[Panel | None]] = {}
    for frame in range(frames.pop()):
        name = "noisy state" if len(states[0]) == 1 else f"noisy {frame + 1}"
        rows[name] = [
            Panel(state[frame], above="" if frame else f"{SIGMA} {level:.3g}")
            for level, state in zip(levels, states, strict=True)
        ]
        if cloudy:
            rows[name].append(Panel(cloudy[frame], above="" if frame else "cloudy"))
    texts = scores or [""] * len(levels)
    rows["estimate"] = [Panel(image, below=text) for image, text in zip(estimates, texts, strict=True)]
    if truth is not None:
        rows["estimate"].append(Panel(truth, below="truth"))
    return pictures_figure(rows, title=title, note=note)


def attention_figure(
    frames: Sequence[np.ndarray],
    masks: Mapping[str, np.ndarray],
    *,
    names: Sequence[str] = (),
    weights: bool = False,
    title: str = "",
    note: str = "",
) -> Figure:
    """Which cloudy frame a multi-temporal network looks at where: the frames, and below them masks, a row a head.

    As in the paper, every mask is stretched to [0, 1] by itself, which shows where a frame is preferred; what it
    counts at the least and at the most is written below it.

    Args:
        frames: cloudy frames as pictures (H, W, 3) uint8.
        masks: by what is written on their left, such as "head 0": (L, H, W) that sum to 1 over L.
        names: of the frames, such as dates.
        weights: show the weights themselves, from 0 to 1, instead of stretching each mask.
        title: what is written above.
        note: a line below.
    """
    expected = (len(frames), *(frames[0].shape[:2] if len(frames) else ()))
    for name, mask in masks.items():
        if mask.shape != expected:
            raise InputError(f"masks of {name} have shape {mask.shape}: expected {expected}, as the frames have")
    names = names or [f"frame {i + 1}" for i in range(len(frames))]
    rows: dict[str, list[Panel | None]] = {
        "cloudy": [Panel(frame, above=name) for frame, name in zip(frames, names, strict=True)]
    }
    for name, mask in masks.items():
        rows[name] = [
            Panel(layer, below=f"{layer.mean():.0%} on average")
            if weights
            else Panel(_stretched(layer), below=f"{layer.min():.0%} to {layer.max():.0%}")
            for layer in mask
        ]
    words = "weight of the frame" if weights else "weight of the frame, from the least to the most"
    return pictures_figure(rows, title=title, note=note, scale=words if masks else "")


def _stretched(mask: np.ndarray) -> np.ndarray:
    """A map brought to [0, 1]; a flat one is 0.5 everywhere, as it prefers nothing."""
    low, high = float(mask.min()), float(mask.max())
    return np.full_like(mask, 0.5) if high - low < 1e-6 else (mask - low) / (high - low)


def _draw(axes: Axes, panel: Panel | None, letters: int) -> None:
    axes.grid(visible=False)
    axes.set(xticks=[], yticks=[])
    if panel is None:
        axes.spines[:].set_visible(False)
        return
    axes.spines[:].set(visible=True, linewidth=0.5)  # an overcast date is white on white
    options: dict[str, Any] = {} if panel.pixels.ndim == 3 else {"cmap": _SCALE, "vmin": 0, "vmax": 1}
    axes.imshow(panel.pixels, interpolation="auto", **options)
    if panel.above:
        look: dict[str, Any] = {"loc": "center", "fontsize": 8, "pad": 2, "weight": "normal", **PLAIN}
        axes.set_title(wrapped(panel.above, letters, lines=1), **look)
    if panel.below:
        axes.set_xlabel(wrapped(panel.below, letters, lines=1), fontsize=8, labelpad=2, **PLAIN)


def _add_scale(figure: Figure, axes: Sequence[Axes], words: str) -> None:
    library = matplotlib()
    colours = library.cm.ScalarMappable(library.colors.Normalize(0, 1), _SCALE)
    bar = figure.colorbar(colours, ax=list(axes), location="bottom", aspect=40, pad=0.02, fraction=0.05, shrink=0.7)
    bar.outline.set_visible(False)
    bar.set_ticks([0, 0.5, 1])
    bar.ax.tick_params(length=0, labelsize=7)
    bar.set_label(words, fontsize=8)
