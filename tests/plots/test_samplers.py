"""Samplers against calls of the network, as a figure."""

import pytest

from emrdm.errors import InputError
from emrdm.plots import samplers_figure

DISTANCE = {"euler": {1: 0.5, 4: 0.05}, "heun": {1: 0.5, 3: 0.001}}
PSNR = {"euler": {1: 20.0, 4: 22.0}, "heun": {1: 20.0, 3: 21.0}}


def test_one_panel_a_measure_and_one_line_a_sampler():
    figure = samplers_figure({"PSNR": PSNR, "distance": DISTANCE}, title="both", note="seed 0")
    high, low = figure.axes
    assert (high.get_ylabel(), low.get_ylabel()) == ("PSNR", "distance")
    assert [line.get_label() for line in low.lines] == ["euler", "heun"]
    assert low.lines[0].get_xydata().tolist() == [[1, 0.5], [4, 0.05]]
    assert high.lines[0].get_color() == low.lines[0].get_color()
    assert len({line.get_marker() for line in low.lines}) == 2  # colour is not all that tells them apart
    assert (high.get_yscale(), low.get_yscale()) == ("linear", "log")
    assert low.get_xscale() == "log"
    assert [tick.get_text() for tick in low.get_xticklabels()] == ["1", "3", "4"]
    assert low.get_xlabel() == "calls of the network\nseed 0"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["euler", "heun"]


def test_a_run_that_failed_is_told_and_does_not_press_the_others_flat():
    (axes,) = samplers_figure({"PSNR": {"a": {1: 20.0, 2: 21.0, 3: 22.0}, "b": {1: 20.0, 2: -33.0, 3: 21.0}}}).axes
    assert axes.get_ylim()[0] > 0
    assert [text.get_text() for text in axes.texts] == ["↓ -33"]
    assert axes.texts[0].get_color() == axes.lines[1].get_color()


def test_values_that_are_none_leave_gaps():
    (axes,) = samplers_figure({"PSNR": {"a": {1: None, 2: float("nan")}}}).axes
    assert [text.get_text() for text in axes.texts] == ["no values"]


def test_nothing_is_refused():
    with pytest.raises(InputError, match="a comparison of no samplers"):
        samplers_figure({})
