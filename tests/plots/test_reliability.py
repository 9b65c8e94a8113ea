"""Whether predicted standard deviations are right, as a figure."""

import sys

import numpy as np
import pytest
from PIL import Image

from emrdm.errors import InputError, MissingDependencyError
from emrdm.plots.reliability import reliability, reliability_figure

CURVE = [(1.0, 2.0), (2.0, 3.0), (4.0, 5.0)]
COVERAGE = {0.95: 0.7, 0.5: 0.4}


def test_the_curve_the_diagonal_and_the_shares_are_drawn():
    figure = reliability_figure("map", CURVE, COVERAGE, note="ratio 0.8")
    left, right = figure.axes
    lines = {line.get_gid(): line for line in left.lines}
    assert lines["found"].get_xydata().tolist() == [[1, 2], [2, 3], [4, 5]]
    assert (lines["right"].get_xdata() == lines["right"].get_ydata()).all()
    assert left.get_xlim() == left.get_ylim()
    assert left.get_xlim()[0] == 0
    assert left.get_title("left") == "Reliability: ratio 0.8"
    assert [label.get_text() for label in right.get_xticklabels()] == ["50%", "95%"]
    assert [bar.get_height() for bar in right.patches] == [0.4, 0.7]
    assert [line.get_ydata()[0] for line in right.lines] == [0.5, 0.95]
    assert [text.get_text() for text in right.texts] == ["40.0%", "70.0%"]


@pytest.mark.parametrize(
    ("curve", "scale"),
    [([(0.01, 0.1), (1.0, 2.0)], "log"), ([(0.0, 0.1), (1.0, 2.0)], "linear"), ([(0.0, 0.0)], "linear")],
)
def test_axes_fit_the_numbers(curve, scale):
    left = reliability_figure("", curve, COVERAGE).axes[0]
    assert (left.get_xscale(), left.get_yscale()) == (scale, scale)
    low, high = left.get_xlim()
    assert low <= np.min(curve)
    assert high > np.max(curve)


def test_numbers_that_are_none_leave_an_empty_panel():
    left = reliability_figure("", [(np.nan, 1.0)], COVERAGE).axes[0]
    assert [text.get_text() for text in left.texts] == ["no values"]


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    for suffix in (".png", ".svg"):
        paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
        for path in paths:
            reliability("a $title$ of a_user", CURVE, COVERAGE, path, note="$")
        assert paths[0].read_bytes() == paths[1].read_bytes()
    with Image.open(tmp_path / "a.png") as image:
        assert image.size[0] == 1440


@pytest.mark.parametrize(("curve", "coverage"), [([], COVERAGE), (CURVE, {})])
def test_nothing_is_refused(curve, coverage):
    with pytest.raises(InputError, match="a calibration of nothing"):
        reliability_figure("", curve, coverage)


def test_without_matplotlib_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'emrdm\[plots\]'"):
        reliability("", CURVE, COVERAGE, tmp_path / "a.png")
