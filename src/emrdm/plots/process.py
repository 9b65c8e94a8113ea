"""The design of a model as a figure: its process, the factors around its network, and the noise levels it meets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from emrdm.errors import InputError
from emrdm.plots.figure import PALETTE, PLAIN, SIGMA, SOFT, grid, matplotlib, number, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 400
_LOOKS = ("-", "--", "-.")


class _Process(Protocol):
    """What is asked of a process: see ``emrdm.diffusion.Process``."""

    def s(self, t: Any, /) -> Any: ...

    def k(self, t: Any, /) -> Any: ...

    def t(self, sigma: Any, /) -> Any: ...


class _Preconditioning(Protocol):
    """What is asked of a preconditioning: see ``emrdm.diffusion.Preconditioning``."""

    def __call__(self, sigma: Any, k: Any, frames: int, /) -> Any: ...


@styled()
def process_figure(
    process: _Process,
    preconditioning: _Preconditioning,
    levels: Sequence[float],
    *,
    training: tuple[float, float],
    frames: int = 1,
    title: str = "",
) -> Figure:
    """Four panels: what the state is made of, the factors, noise in training and in sampling, and the sampler's steps.

    Args:
        process: gives s, k and t, functions on tensors.
        preconditioning: gives c_in, c_skip and c_out from sigma, k and the number of frames.
        levels: noise levels of the sampler, falling; a last one of 0 is its end and not on a logarithmic axis.
        training: mean and standard deviation of ln sigma in training.
        frames: number of cloudy frames.
        title: what is written above, plain text.
    """
    import torch

    mean, deviation = training
    steps = [number(level) for level in levels if level != 0]
    if not steps or not all(step > 0 for step in steps) or not deviation > 0:
        raise InputError(f"noise levels are {list(levels)}, deviation {deviation}: expected positive numbers")
    low, high = (math.exp(mean + sign * 3.5 * deviation) for sign in (-1, 1))
    sigma = np.geomspace(min(low, *steps) / 1.5, max(high, *steps) * 1.5, _POINTS)
    times = process.t(torch.from_numpy(sigma))
    s, k = process.s(times), process.k(times)
    factors = preconditioning(torch.from_numpy(sigma), k, frames)

    figure, panels = grid(4, 2, (2.9, 2.25), title)
    clear, cloudy = s.numpy(), (s * k).numpy()
    shares = {"clear, s": clear, "cloudy, s k": cloudy, f"noise, s {SIGMA}": clear * sigma}
    _draw(panels[0], sigma, shares, "What the state is made of")
    named = {"c_skip": factors.c_skip, "c_out": factors.c_out, "c_in": factors.c_in}
    _draw(panels[1], sigma, {name: value.numpy() for name, value in named.items()}, "Factors around the network")
    density = np.exp(-(((np.log(sigma) - mean) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
    _draw_density(panels[2], sigma, density, steps)
    _draw_steps(panels[3], steps)
    for axes in panels[:3]:
        axes.set(xscale="log", xlim=(sigma[0], sigma[-1]), xlabel=f"noise level {SIGMA}")
    for axis in [axes.xaxis for axes in panels[:3]] + [panels[3].yaxis]:
        axis.set_major_locator(matplotlib().ticker.LogLocator(numticks=6))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_locator(matplotlib().ticker.NullLocator())
    return figure


def _draw(axes: Axes, sigma: np.ndarray, lines: dict[str, np.ndarray], title: str) -> None:
    axes.set_title(title)
    for (name, values), colour, look in zip(lines.items(), PALETTE, _LOOKS, strict=False):
        axes.plot(sigma, values, look, color=colour, label=name)
    every = np.concatenate(list(lines.values()))
    axes.set_ylim(min(0.0, 1.08 * float(every.min())), 1.25 * float(every.max()))  # room for the legend
    axes.set_yticks([tick for tick in axes.get_yticks() if tick <= 1.05 * float(every.max())])
    legend = axes.legend(loc="upper center", ncols=3, handlelength=1.5, handletextpad=0.5, columnspacing=0.9)
    for text in legend.get_texts():
        text.set(parse_math=False, fontsize=7.5)


def _draw_density(axes: Axes, sigma: np.ndarray, density: np.ndarray, steps: Sequence[float]) -> None:
    axes.set_title("Noise in training and sampling")
    axes.fill_between(sigma, density, color=PALETTE[0], alpha=0.25, linewidth=0)
    axes.plot(sigma, density, color=PALETTE[0], label="training")
    axes.set(ylim=(0, 1.3 * float(density.max())), yticks=[])
    places: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "linestyle": "", "marker": "|", "clip_on": False}
    axes.plot(
        steps, [0.04] * len(steps), color=PALETTE[1], markersize=9, markeredgewidth=1.6, label="sampler", **places
    )
    axes.legend(loc="upper right", handlelength=1.2, ncols=2, columnspacing=1.0)


def _draw_steps(axes: Axes, steps: Sequence[float]) -> None:
    axes.set_title("The sampler's steps")
    axes.plot(range(1, len(steps) + 1), steps, "o-", color=PALETTE[1])
    axes.set(yscale="log", ylabel=f"noise level {SIGMA}")
    axes.set_xlabel("call of the network", **PLAIN)
    axes.xaxis.set_major_locator(matplotlib().ticker.MaxNLocator(6, integer=True))
    axes.margins(x=0.08)
    if len(steps) == 1:
        axes.set_xlim(0.5, 1.5)
    axes.annotate(
        "then 0", (len(steps), steps[-1]), (-4, 0), textcoords="offset points", ha="right", va="center", color=SOFT
    )
