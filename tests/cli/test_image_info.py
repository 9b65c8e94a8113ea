"""emrdm info of images: what is in the file, and what the default model makes of it."""

import json

import numpy as np
import pytest
from PIL import Image

from emrdm.cli import main


def output(capsys, *arguments):
    assert main(["info", *map(str, arguments)]) == 0
    return capsys.readouterr().out


@pytest.fixture
def scene(tmp_path):
    """Four bands of Sentinel-2 with names, a date, a place, and a corner without data."""
    rasterio = pytest.importorskip("rasterio")
    pixels = np.full((4, 70, 90), 1000, np.uint16)
    pixels[:, 30:, :] = 3000
    pixels[:, :10, :10] = 0
    pixels[0, 69, 89] = 9000
    path = tmp_path / "S2_20240501.tif"
    options = {"driver": "GTiff", "height": 70, "width": 90, "count": 4, "dtype": "uint16", "nodata": 0}
    with rasterio.open(
        path, "w", crs="EPSG:32632", transform=rasterio.Affine(10, 0, 4e5, 0, -20, 5e6), **options
    ) as file:
        file.write(pixels)
        file.descriptions = ("B2", "B3", "B4", "B8")
    return path


def test_a_scene_says_what_it_holds_and_where_it_lies(scene, capsys):
    text = " ".join(output(capsys, scene).split())
    for part in (
        "size 90 x 70 pixels",
        "bands 4, B2, B3, B4, B8",
        "numbers uint16",
        "nodata 0",
        "CRS EPSG:32632",
        "pixel size 10 x 20 in units of the CRS",
        "date 2024-05-01",
        "B2 1000, 3000, 9000; B3 1000, 3000, 3000;",
        "the default model cannot take it:",
        "--range LOW:HIGH or --range auto says what they mean",
    ):
        assert part in text


def test_the_same_as_json(scene, capsys):
    facts = json.loads(output(capsys, scene, "--json"))
    assert (facts["width"], facts["height"], facts["dtype"], facts["nodata"]) == (90, 70, "uint16", 0)
    assert facts["bands"][0] == {"name": "B2", "smallest": 1000, "middle": 3000, "largest": 9000}
    assert (facts["crs"], facts["pixel_size"], facts["date"]) == ("EPSG:32632", [10, 20], "2024-05-01")
    assert facts["default_model"]["fits"] is False
    assert "\n" not in facts["default_model"]["reason"]


@pytest.mark.parametrize("suffix", [".png", ".JPG", ".webp"])
def test_a_picture_fits_the_default_model(suffix, tmp_path, capsys):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)).save(tmp_path / f"a{suffix}")
    text = " ".join(output(capsys, tmp_path / f"a{suffix}").split())
    assert "bands 3, without names" in text
    assert "CRS none pixel size unknown date unknown" in text
    assert "the default model sees red from band 1, green from band 2, blue from band 3" in text
    assert "its bands have no names and are taken for red, green, blue" in text
    facts = json.loads(output(capsys, tmp_path / f"a{suffix}", "--json"))
    assert facts["default_model"]["bands"] == {"red": "band 1", "green": "band 2", "blue": "band 3"}
    assert facts["crs"] is facts["pixel_size"] is facts["date"] is facts["nodata"] is None


def test_an_image_without_any_data_is_told_too(tmp_path, capsys):
    Image.fromarray(np.zeros((40, 50, 4), np.uint8)).save(tmp_path / "a.png")
    facts = json.loads(output(capsys, tmp_path / "a.png", "--json"))
    assert facts["masked"] is True
    assert facts["bands"][0] == {"name": None, "smallest": None, "middle": None, "largest": None}
    assert "band 1 no data" in output(capsys, tmp_path / "a.png")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("missing.tif", [], "missing.tif cannot be read: No such file or directory"),
        ("text.png", [], "text.png"),
        ("missing.tif", ["--device"], "missing.tif is an image: expected a model"),
        ("", [], " is a folder without model.safetensors: expected that of a finished run, or a file"),
    ],
)
def test_what_cannot_be_told_is_one_line(name, options, message, tmp_path, capsys):
    (tmp_path / "text.png").write_text("no picture")
    assert main(["info", str(tmp_path / name), *options]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert message in said


def test_folders_are_refused_alike_however_they_are_written(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    for name in ("t", "t/", "./t", "a.b/../t"):
        (tmp_path / "a.b").mkdir(exist_ok=True)
        assert main(["info", name]) == 2
        assert f"{name} is a folder without model.safetensors" in capsys.readouterr().err
