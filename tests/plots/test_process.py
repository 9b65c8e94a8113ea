"""The design of a model as a figure."""

import math

import numpy as np
import pytest
import torch

from emrdm.config import SamplerConfig
from emrdm.diffusion import MeanReverting, Preconditioning, Process
from emrdm.errors import InputError
from emrdm.plots import process_figure

LEVELS = SamplerConfig(steps=5).schedule()


def figure(process=None, levels=LEVELS, **options):
    options = {"training": (-1.2, 1.2)} | options
    return process_figure(process or MeanReverting(3.0), Preconditioning(), levels, **options)


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


def test_the_lines_are_the_equations():
    shares, factors, density, steps = figure(title="a model").axes
    clear, cloudy, noise = shares.lines
    sigma = clear.get_xdata()
    assert np.allclose(clear.get_ydata(), 1 / (1 + 3 * sigma))
    assert np.allclose(cloudy.get_ydata(), 3 * sigma / (1 + 3 * sigma))
    assert np.allclose(noise.get_ydata(), sigma / (1 + 3 * sigma))
    expected = Preconditioning()(torch.from_numpy(sigma), 3 * torch.from_numpy(sigma))
    assert set(lines(factors)) == {"c_skip", "c_out", "c_in"}
    for name, line in lines(factors).items():
        assert np.allclose(line.get_ydata(), getattr(expected, name).numpy())
    top = lines(density)["training"]
    assert math.isclose(top.get_xdata()[top.get_ydata().argmax()], math.exp(-1.2), rel_tol=0.05)
    area = np.trapezoid(top.get_ydata(), np.log(top.get_xdata()))
    assert math.isclose(area, 1, rel_tol=1e-3)
    assert lines(density)["sampler"].get_xdata().tolist() == LEVELS[:-1]  # 0 has no place on the axis
    assert steps.lines[0].get_ydata().tolist() == LEVELS[:-1]
    assert steps.lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5]
    assert [axes.get_xscale() for axes in (shares, factors, density)] == ["log"] * 3


def test_more_frames_change_the_factors():
    one, three = (figure(frames=count).axes[1].lines[1].get_ydata() for count in (1, 3))
    assert (three < one).all()


def test_a_process_of_ones_own_is_drawn():
    class Exponential(Process):
        def s(self, t):
            return torch.exp(-t)

        def sigma(self, t):
            return torch.expm1(t)

    clear = figure(Exponential()).axes[0].lines[0]
    assert np.allclose(clear.get_ydata(), 1 / (1 + clear.get_xdata()))


def test_one_step_is_drawn():
    steps = figure(levels=[100.0, 0.0]).axes[3]
    assert steps.get_xlim() == (0.5, 1.5)


@pytest.mark.parametrize("levels", [[], [0.0], [1.0, -1.0]])
def test_levels_that_are_none_are_refused(levels):
    with pytest.raises(InputError, match="expected positive numbers"):
        figure(levels=levels)
