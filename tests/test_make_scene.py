"""The script that made the example scene."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from tests import examples

from emrdm.embedded import example
from emrdm.rasters.read import read
from emrdm.rasters.source import open_source

rasterio = pytest.importorskip("rasterio")
DATA = Path(os.environ.get("EMRDM_DATA") or Path(__file__).parents[1].parent / "shared" / "data")


def run(monkeypatch, scene, folder):
    monkeypatch.setattr(sys, "argv", ["make_scene.py", str(scene), str(folder)])
    examples.load("make_scene").main()
    return folder / "example_clear.tif", folder / "example_cloudy.tif"


def landsat(path, *, gap=False):
    """A made-up scene large enough for the piece."""
    numbers = np.random.default_rng(0).integers(5900, 9500, (3, 800, 750)).astype(np.uint16)
    numbers[:, 300:310, 300:310] = 0 if gap else 6000
    with rasterio.open(
        path, "w", driver="GTiff", count=3, height=800, width=750, dtype="uint16", nodata=0,
        crs="EPSG:32621", transform=rasterio.Affine(30, 0, 7e5, 0, -30, -2.7e6),
    ) as file:  # fmt: skip
        file.write(numbers)
    return path, numbers


def test_the_files_of_the_package_come_from_it(tmp_path, monkeypatch):
    scenes = sorted((DATA / "landsat8_scene").glob("*.tif"))
    if not scenes:
        pytest.skip("no folder landsat8_scene: set EMRDM_DATA to where the real data is")
    clear, cloudy = run(monkeypatch, scenes[0], tmp_path)
    np.testing.assert_array_equal(read(clear).pixels, read(example().clear).pixels)
    np.testing.assert_allclose(read(cloudy).pixels.astype(int), read(example().cloudy).pixels, atol=1)  # by CPU
    with open_source(clear) as made, open_source(example().clear) as ours:
        assert made.grid.difference(ours.grid) is None
        assert dict(made.tags) == dict(ours.tags)


def test_numbers_are_stretched_in_place_and_the_same_every_time(tmp_path, monkeypatch):
    scene, numbers = landsat(tmp_path / "landsat.tif")
    first = run(monkeypatch, scene, tmp_path / "first")
    again = run(monkeypatch, scene, tmp_path / "again")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    clear, cloudy = (read(path) for path in first)
    assert clear.names == cloudy.names == ("red", "green", "blue")
    red = numbers[0, 270:782, 215:727]
    assert set(clear.pixels[0][red <= 6000]) == {0}
    assert set(clear.pixels[0][red >= 8950]) == {217}  # 0.85 of 255
    assert clear.pixels[0][red == 7475].max() == round(217 * 0.5 ** (1 / 1.4))
    assert (cloudy.pixels.mean((1, 2)) > clear.pixels.mean((1, 2))).all()
    with rasterio.open(first[0]) as file:
        assert file.crs.to_epsg() == 32621
        assert (file.transform.c, file.transform.f) == (7e5 + 30 * 215, -2.7e6 - 30 * 270)


def test_a_scene_with_a_gap_is_refused_in_one_line(tmp_path, monkeypatch, capsys):
    scene, _ = landsat(tmp_path / "landsat.tif", gap=True)
    with pytest.raises(SystemExit) as caught:
        run(monkeypatch, scene, tmp_path / "out")
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert "expected a georeferenced scene with data" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
