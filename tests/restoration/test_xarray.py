"""An xarray.DataArray in, a DataArray out, with its CRS and coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from emrdm import EMRDM, restore_scene
from emrdm.bench.paths import lively
from emrdm.restoration import Settings

xarray = pytest.importorskip("xarray")


def test_a_data_array_keeps_its_place():
    pytest.importorskip("rasterio")
    from rasterio.crs import CRS

    wkt = CRS.from_epsg(32632).to_wkt()
    pixels = np.random.default_rng(0).integers(1, 255, (3, 70, 80)).astype(np.float32)
    pixels[:, :10, :10] = np.nan
    cloudy = xarray.DataArray(
        pixels,
        dims=("band", "y", "x"),
        coords={
            "band": ["red", "green", "blue"],
            "y": 5e6 - 10 * np.arange(70) - 5,
            "x": 4e5 + 10 * np.arange(80) + 5,
            "spatial_ref": xarray.DataArray(0, attrs={"crs_wkt": wkt}),
        },
        attrs={"platform": "test"},
    )
    model = lively(EMRDM.from_preset("tiny"))
    clear = restore_scene(cloudy, model, settings=Settings(tile=64))
    assert isinstance(clear, xarray.DataArray)
    assert clear.dims == cloudy.dims
    for name in ("x", "y"):
        np.testing.assert_array_equal(clear[name], cloudy[name])
    assert clear.spatial_ref.attrs["crs_wkt"] == wkt
    assert list(clear.band.values) == ["red", "green", "blue"]
    assert np.array_equal(np.isnan(clear.values), np.isnan(pixels))
    assert not np.array_equal(clear.values, cloudy.values, equal_nan=True)
