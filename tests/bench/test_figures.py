"""Figures of benchmarks."""

import sys

import pytest
from PIL import Image
from tests.bench.small import report

from emrdm.bench.figures import draw
from emrdm.errors import MissingDependencyError


def test_figures_are_drawn(tmp_path):
    written = draw(report(), tmp_path)
    assert [path.name for path in written] == ["ratios.png", "size.png", "frames.png"]
    for path in written:
        with Image.open(path) as image:
            assert image.size[0] > 600
            assert len(image.convert("L").getcolors()) > 20  # something is on it


def test_nothing_is_drawn_of_nothing(tmp_path):
    assert draw(report(rows=(), scalings=()), tmp_path) == []


def test_without_matplotlib_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match="plots need matplotlib"):
        draw(report(), tmp_path)
