"""The quick start of ``make demo``, on a piece of its scene."""

import re
import sys

import numpy as np
import pytest
from tests import examples

from emrdm import EmrdmError
from emrdm.rasters.read import read
from emrdm.rasters.source import open_source

pytest.importorskip("rasterio")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def quickstart(tmp_path, monkeypatch):
    """The script, which finds a piece of 64 x 64 pixels for the example scene."""
    (tmp_path / "given").mkdir()
    files = examples.piece_files(tmp_path / "given", 100, 60, 64)
    module = examples.load("quickstart")
    monkeypatch.setattr(module, "example", lambda: files)
    return module


def run(module, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["quickstart.py", *map(str, words)])
    module.main()


def decibels(image, truth, where):
    return -10 * np.log10(np.square((image.astype(float) - truth) / 255)[:, where].mean())


def test_it_restores_scores_and_writes_an_image_and_a_picture(quickstart, tmp_path, monkeypatch, capsys):
    run(quickstart, monkeypatch, "--out", tmp_path / "demo")
    found = capsys.readouterr()
    assert "restoring: " in found.err  # progress
    cloudy, clear, clouds = examples.piece(100, 60, 64)
    with open_source(tmp_path / "demo" / "restored.tif") as restored, open_source(quickstart.example().cloudy) as given:
        assert restored.grid.difference(given.grid) is None
        assert restored.grid.georeferenced
        assert restored.names == ("red", "green", "blue")
    pixels = read(tmp_path / "demo" / "restored.tif").pixels
    every = np.ones_like(clouds)
    for name, image in (("cloudy", cloudy), ("restored", pixels)):
        (row,) = re.findall(rf"^{name} .*$", found.out, re.MULTILINE)
        shown = [float(number) for number in re.findall(r"PSNR ([\d.]+) dB", row)]
        assert shown == pytest.approx([decibels(image, clear, where) for where in (every, clouds)], abs=0.006)
    assert re.search(r"64 x 64 pixels, 2 samples: \d+ s on \d+ threads? of a CPU", found.out)
    with Image.open(tmp_path / "demo" / "before_after.png") as picture:
        assert picture.size == (858, 894)


def test_the_picture_may_go_elsewhere(quickstart, tmp_path, monkeypatch):
    run(quickstart, monkeypatch, "--out", tmp_path / "demo", "--picture", tmp_path / "images" / "demo.jpg")
    with Image.open(tmp_path / "images" / "demo.jpg") as picture:
        assert picture.format == "JPEG"
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["restored.tif"]


def test_a_broken_installation_is_told_in_one_line(quickstart, monkeypatch, capsys):
    def missing():
        raise EmrdmError("rgb-small.safetensors is missing")

    monkeypatch.setattr(quickstart, "example", missing)
    with pytest.raises(SystemExit) as caught:
        run(quickstart, monkeypatch)
    assert caught.value.code == 1
    assert capsys.readouterr().err == "rgb-small.safetensors is missing\n"
