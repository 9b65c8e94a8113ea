"""Figures: how a training went, studies beside the paper's, samplers, uncertainty, a model's design, pictures in rows.

Each ``*_figure`` gives a matplotlib figure, made of plain numbers and pictures, and :func:`save` writes it. ``lines``,
``bars``, ``heatmaps``, ``reliability`` and ``training_curves`` do both at once. Needs matplotlib, when they are called.
"""

from emrdm.plots.curves import compared_figure, training_curves, training_figure
from emrdm.plots.figure import save
from emrdm.plots.panels import Panel, attention_figure, pictures_figure, trajectory_figure
from emrdm.plots.process import process_figure
from emrdm.plots.reliability import reliability, reliability_figure
from emrdm.plots.samplers import samplers_figure
from emrdm.plots.sweeps import bars, bars_figure, heatmaps, heatmaps_figure, lines, lines_figure

__all__ = [
    "Panel",
    "attention_figure",
    "bars",
    "bars_figure",
    "compared_figure",
    "heatmaps",
    "heatmaps_figure",
    "lines",
    "lines_figure",
    "pictures_figure",
    "process_figure",
    "reliability",
    "reliability_figure",
    "samplers_figure",
    "save",
    "training_curves",
    "training_figure",
    "trajectory_figure",
]
