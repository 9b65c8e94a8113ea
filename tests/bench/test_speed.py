"""benchmarks/speed.py: parts that do not take each other down, and figures from their files."""

import importlib.util
import sys
from pathlib import Path

import pytest
from tests.bench.small import measured, report

from emrdm.bench import as_json, read
from emrdm.bench.results import Difference, Row

PATH = Path(__file__).parents[2] / "benchmarks" / "speed.py"


@pytest.fixture
def speed(monkeypatch):
    spec = importlib.util.spec_from_file_location("speed", PATH)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "speed", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SIZE", 16)
    parts = {"broken": module.Part("none", ("sampling",), "cpu"), "works": module.Part("tiny", ("sampling",), "cpu")}
    monkeypatch.setattr(module, "PARTS", parts)
    return module


def call(speed, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["speed.py", *map(str, words)])
    return speed.main()


def test_a_part_that_fails_does_not_lose_the_others(speed, monkeypatch, tmp_path, capsys):
    assert call(speed, monkeypatch, "--device", "cpu", "--out", tmp_path, "--repeats", 1) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["works.json"]
    assert read(tmp_path / "works.json").rows[0].ratio > 0
    out = capsys.readouterr().out
    assert "broken failed" in out
    assert "unknown preset 'none'" in out
    assert "repeat: python benchmarks/speed.py --device cpu --parts works" in out


def test_figures_and_a_summary_come_from_the_files(speed, monkeypatch, tmp_path, capsys):
    (tmp_path / "works.json").write_text(as_json(report()))
    assert call(speed, monkeypatch, "--plot", tmp_path) == 0
    assert sorted(path.name for path in (tmp_path / "figures" / "works").iterdir()) == [
        "frames.png",
        "ratios.png",
        "size.png",
    ]
    assert "## works" in (tmp_path / "summary.md").read_text()
    assert "size.png" in capsys.readouterr().out


def test_mistakes_are_one_line(speed, monkeypatch, tmp_path, capsys):
    assert call(speed, monkeypatch, "--plot", tmp_path) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert call(speed, monkeypatch, "--device", "cpu", "--parts", "wroks") == 1
    assert capsys.readouterr().err == "speed: --parts: unknown wroks: expected some of broken, works\n"


def test_bounds_are_held_against_what_was_measured(speed):
    rows = (
        Row("sampling", "x", measured(0.1), measured(0.01), difference=Difference(49.0, 0.1)),
        Row("best", "x", measured(0.1), measured(0.05, items=4), unit="rate"),
    )
    found = [bound.line(report(rows=rows)) for bound in speed.BOUNDS if bound.part in ("sen12ms-cr", "best")]
    assert [line.rpartition("|")[0].rpartition("|")[2].strip() for line in found] == ["yes", "yes", "no", "no"]
    assert found[0].startswith("| sen12ms-cr, N = 5, batch 1, an image | 10 ms | <= 12 ms |")
    assert "not measured" in speed.BOUNDS[-1].line(report(rows=()))
