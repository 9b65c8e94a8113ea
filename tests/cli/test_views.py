"""A part of a scene as a model sees it."""

import argparse

import numpy as np
import pytest

from emrdm import EMRDM, InputError, load_preset
from emrdm.cli import views

rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs of the tests are written by rasterio")

SENTINEL2 = tuple(band.name for band in load_preset("sen12ms-cr").model.bands)
_TINY = load_preset("tiny").model.network


def write(path, names, pixels, nodata=None):
    place = {"crs": "EPSG:32632", "transform": rasterio.Affine(10, 0, 0, 0, -10, 5e6)}
    shape = dict(zip(("count", "height", "width"), pixels.shape, strict=True))
    with rasterio.open(path, "w", driver="GTiff", dtype=pixels.dtype, nodata=nodata, **shape, **place) as file:
        file.write(pixels)
        file.descriptions = tuple(names)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cloudy", "truth"):
        write(tmp_path / f"{name}.tif", SENTINEL2, rng.integers(1, 3000, (13, 40, 60)).astype(np.uint16))
    write(tmp_path / "s1.tif", ("VV", "VH"), rng.uniform(-25, 0, (2, 40, 60)).astype(np.float32))
    names = ("patch", "widths", "depths", "hidden", "neighborhood_levels", "head_channels", "dropout")
    names = (*names, "mapping_depth", "mapping_width", "mapping_hidden")
    small = {f"model.network.{name}": getattr(_TINY, name) for name in names}
    EMRDM.fresh(load_preset("sen12ms-cr").replace(small).model).save(tmp_path / "w.safetensors")
    return tmp_path


def view(*words, side=32, **options):
    parser = argparse.ArgumentParser()
    views.add(parser, side=side)
    pairs = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return views.open_view(parser.parse_args([*map(str, words), *pairs]))


def test_radar_and_truth_are_read_with_the_image_from_the_middle(folder):
    files = {"model": folder / "w.safetensors", "sar": folder / "s1.tif", "truth": folder / "truth.tif"}
    found = view(folder / "cloudy.tif", "sampler.steps=3", **files)
    assert found.cloudy.shape == (1, 13, 32, 32)
    assert found.series.shape == (13, 32, 32)  # the model takes one image
    assert found.beside.shape == (2, 32, 32)
    assert found.truth.shape == (13, 32, 32)
    assert found.sampler.steps == 3
    assert found.names == ("cloudy",)
    with rasterio.open(folder / "truth.tif") as file:
        middle = file.read()[:, 4:36, 14:46]
    assert np.allclose(found.truth, middle / 5000.0 - 1, atol=1e-4)
    assert [found.model.config.bands[i].name for i in found.bands] == ["B4", "B3", "B2"]
    assert found.shown(found.truth).shape == (32, 32, 3)
    assert found.shown(found.truth).std() > 30  # reflectances are dark: they are stretched


def test_a_window_is_what_is_read(folder):
    found = view(folder / "cloudy.tif", model=folder / "w.safetensors", sar=folder / "s1.tif", window="2,3,10,20")
    with rasterio.open(folder / "cloudy.tif") as file:
        assert np.allclose(found.cloudy[0], file.read()[:, 2:12, 3:23] / 5000.0 - 1, atol=1e-4)
    assert found.truth is None


def test_dates_without_data_are_left_out(tmp_path):
    bands = load_preset("tiny-temporal").model.bands
    names = [band.name for band in bands]
    fill = {"fill-band": "nir=0"}
    for day, value in (("2024-05-01", 0), ("2024-05-11", 100)):
        write(tmp_path / f"{day}.tif", names, np.full((len(names), 20, 20), value, np.uint16), nodata=0)
    found = view(tmp_path / "2024-05-01.tif", tmp_path / "2024-05-11.tif", model="tiny-temporal", **fill)
    assert found.names == ("2024-05-11",)
    assert found.series.shape == (1, len(names), 20, 20)
    with pytest.raises(InputError, match="no image has data in 20 x 20 pixels"):
        view(tmp_path / "2024-05-01.tif", model="tiny-temporal", **fill)


def test_a_truth_needs_no_value_for_what_is_beside_the_restored_bands(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cloudy", "truth"):
        write(tmp_path / f"{name}.tif", ("", "", ""), rng.integers(1, 255, (3, 20, 20)).astype(np.uint8), nodata=0)
    words = {"model": "tiny-temporal", "truth": tmp_path / "truth.tif", "bands": "red,green,blue", "fill-band": "nir=9"}
    found = view(tmp_path / "cloudy.tif", **words)
    assert found.truth.shape == (3, 20, 20)
    assert np.ptp(found.beside) == 0
    with pytest.raises(InputError, match="--range auto with --truth: expected LOW:HIGH"):
        view(tmp_path / "cloudy.tif", range="auto", **words)
