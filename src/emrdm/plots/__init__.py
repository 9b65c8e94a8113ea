"""Plots of numbers: how a training went, and the paper's studies beside what was measured here. Needs matplotlib."""

from emrdm.plots.curves import training_curves
from emrdm.plots.sweeps import bars, heatmaps, lines

__all__ = ["bars", "heatmaps", "lines", "training_curves"]
