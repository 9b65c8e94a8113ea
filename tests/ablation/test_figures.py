"""Plots and sheets of studies: the kind that fits the axes, and one line where a package is missing."""

import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image
from tests.ablation.test_tables import found

from emrdm import load_study, plots, study_names
from emrdm.ablation import Result, write_report
from emrdm.ablation.figures import draw
from emrdm.ablation.plan import spread_over
from emrdm.errors import InputError

KINDS = {"modules": "bars", "churn": "heatmaps", "churn-range": "heatmaps"}


def results_of(name):
    study = load_study(name)
    scores = ({"psnr": 30.0, "rmse": 0.1, "ssim": 0.9},)
    return study, tuple(Result(case.label, case.point, case.scores or {}, scores) for case in study.cases())


@pytest.fixture
def drawn(monkeypatch):
    """What was asked of the plots."""
    asked = []
    for kind in ("lines", "bars", "heatmaps"):
        monkeypatch.setattr(plots, kind, lambda *values, kind=kind, **options: asked.append((kind, values, options)))
    return asked


@pytest.mark.parametrize("name", study_names())
def test_the_axes_of_a_study_choose_the_kind_of_plot(name, drawn, tmp_path):
    study, results = results_of(name)
    draw(found(name=name, title=study.title, axes=study.axes, results=results), tmp_path / "plot.png")
    ((kind, values, options),) = drawn
    assert kind == KINDS.get(name, "lines")
    assert "rice1" in values[0]  # the title says whose numbers these are
    if kind == "lines":
        assert options["log_x"] == (name == "sigma-max")
        assert options["paper"]["psnr"] == [result.paper["psnr"] for result in results]
        assert len(values[2]) == len(results)
    if kind == "bars":
        assert [label.partition(":")[0] for label in values[1]] == ["A", "B", "C", "D", "E"]
    if kind == "heatmaps":
        assert len(values[5]["psnr"]) == len(results)
        assert values[5]["psnr"][results[0].point[study.axes[0]], results[0].point[study.axes[1]]] == 30


def test_rmse_is_not_drawn_since_psnr_says_the_same(drawn, tmp_path):
    study, results = results_of("alpha")
    draw(found(axes=study.axes, results=results), tmp_path / "plot.png")
    assert list(drawn[0][1][3]) == ["psnr", "ssim"]


def test_metrics_can_be_chosen(drawn, tmp_path):
    study, results = results_of("alpha")
    study_found = found(axes=study.axes, results=results)
    draw(study_found, tmp_path / "plot.png", metrics=["rmse"])
    assert list(drawn[0][1][3]) == ["rmse"]
    with pytest.raises(InputError, match="metric 'fid': expected some of psnr"):
        draw(study_found, tmp_path / "plot.png", metrics=["fid"])


def pictured(**changes):
    image = np.full((16, 16, 3), 120, np.uint8)
    pictures = {"alpha 1": {"x": ("30.00 dB", image)}, "alpha 3": {"x": ("31.00 dB", image)}}
    return found(pictures=pictures, frames={"x": [("x  cloudy", image), ("target", image)]}, **changes)


def test_files_are_written_whole_and_can_be_read(tmp_path):
    written, missing = write_report(pictured(), tmp_path)
    assert [path.name for path in written] == [
        "table.md",
        "table.csv",
        "table.json",
        "plot.png",
        "plot.svg",
        "sheet.png",
    ]
    assert missing == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in written)
    with Image.open(tmp_path / "plot.png") as plot, Image.open(tmp_path / "sheet.png") as sheet:
        assert plot.size[0] > 500
        assert sheet.size[0] > 4 * 224  # cloudy, two cases, clear
    assert ET.parse(tmp_path / "plot.svg").getroot().tag.endswith("svg")


def test_tables_are_written_where_matplotlib_or_pillow_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    written, missing = write_report(pictured(), tmp_path)
    assert [path.name for path in written] == ["table.md", "table.csv", "table.json"]
    assert missing == [
        "no plot: plots need matplotlib: pip install 'emrdm[plots]'",
        "no picture sheet: pictures need pillow: pip install 'emrdm[pictures]'",
    ]


def test_a_sheet_shows_few_of_many_cases_with_both_ends():
    labels = [str(i) for i in range(48)]
    shown = spread_over(labels, 10)
    assert len(shown) == 10 == len(set(shown))
    assert (shown[0], shown[-1]) == ("0", "47")
    assert spread_over(labels[:3], 10) == labels[:3]
