"""xarray.DataArray objects as images, and back."""

import pickle
from datetime import date

import numpy as np
import pytest

from emrdm.errors import DataError
from emrdm.rasters.dataarray import DataArraySource, sources_of, to_dataarray
from emrdm.rasters.scene import open_scene
from emrdm.window import Window

xarray = pytest.importorskip("xarray")
rasterio = pytest.importorskip("rasterio")

WKT = rasterio.crs.CRS.from_epsg(32633).to_wkt()


def image(dims=("band", "y", "x"), sizes=(2, 4, 5), **attributes):
    pixels = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    coords = {"y": 100 - 10.0 * np.arange(4) - 5, "x": 200 + 10.0 * np.arange(5) + 5, "band": ["B4", "B3"]}
    coords["time"] = np.array(["2024-05-11", "2024-05-01", "2024-05-21"], "datetime64[ns]")[: dict(zip(dims, sizes, strict=True)).get("time", 0)]  # fmt: skip
    coords = {key: value for key, value in coords.items() if key in dims}
    array = xarray.DataArray(pixels, coords, dims, "field", attributes)
    return array.assign_coords(spatial_ref=xarray.Variable((), 0, {"crs_wkt": WKT}))


def test_coordinates_give_the_place():
    (source,) = sources_of(image())
    assert source.grid.transform == (10, 0, 200, 0, -10, 100)
    assert "32633" in source.grid.crs
    assert (source.names, source.name, source.nodata, source.date) == (("B4", "B3"), "field", None, None)
    pixels, valid = source.read(Window(1, 2, 2, 3), [1])
    np.testing.assert_array_equal(pixels, image().values[1:, 1:3, 2:5])
    assert valid.all()


def test_a_slice_lies_where_it_was_cut():
    (source,) = sources_of(image()[:, 1:, 2:])
    assert source.grid.transform == (10, 0, 220, 0, -10, 90)


def test_several_times_are_several_frames_in_order():
    scene = open_scene(image(("time", "band", "y", "x"), (3, 2, 4, 5)))
    assert [frame.date for frame in scene.frames] == [date(2024, 5, 1), date(2024, 5, 11), date(2024, 5, 21)]
    assert scene.frames[0].name == "field[1]"
    assert scene.frames[0].read(Window(0, 0, 1, 1), [0])[0][0, 0, 0] == 40


@pytest.mark.parametrize("dims", [("y", "x"), ("x", "y"), ("y", "x", "band"), ("band", "x", "y")])
def test_dimensions_come_in_any_order(dims):
    lengths = {"band": 2, "y": 4, "x": 5}
    array = image(dims, tuple(lengths[dim] for dim in dims))
    (source,) = sources_of(array)
    assert (source.grid.height, source.grid.width) == (4, 5)
    assert source.count == (2 if "band" in dims else 1)
    assert source.read(Window(3, 0, 1, 1))[0][0, 0, 0] == array.isel(y=3, x=0).values.flat[0]


def test_a_written_transform_and_a_code_are_understood():
    array = image(crs="EPSG:4326").drop_vars(["x", "y", "spatial_ref"])
    assert sources_of(array)[0].grid.transform is None
    assert "4326" in sources_of(array)[0].grid.crs
    placed = array.assign_coords(spatial_ref=xarray.Variable((), 0, {"GeoTransform": "7 1 2 8 3 -4", "crs_wkt": WKT}))
    assert sources_of(placed)[0].grid.transform == (1, 2, 7, 3, -4, 8)


def test_nodata():
    array = image().astype("int16")
    array.attrs["_FillValue"] = 3
    assert not sources_of(array)[0].read(Window(0, 3, 1, 1))[1].any()
    assert sources_of(array, nodata=7)[0].read(Window(0, 3, 1, 1))[1].all()
    decoded = image()
    decoded.encoding["_FillValue"] = -9999
    assert np.isnan(sources_of(decoded)[0].nodata)


def test_names_by_descriptions():
    array = image(long_name=("red", "nir")).drop_vars("band")
    assert sources_of(array)[0].names == ("red", "nir")
    assert sources_of(array.assign_coords(band=[1, 2]))[0].names == ("red", "nir")
    assert sources_of(image().assign_coords(band=[1, 2]))[0].names == ("", "")


def test_there_and_back():
    array = image(units="1")
    (source,) = sources_of(array)
    result = to_dataarray(source.read(Window(0, 0, 4, 5))[0], array)
    xarray.testing.assert_identical(result, array)
    assert sources_of(result)[0].grid == source.grid


def test_gaps_and_other_bands_on_the_way_back():
    array = image(("time", "band", "y", "x"), (3, 2, 4, 5))
    valid = np.ones((4, 5), bool)
    valid[1, 2] = False
    result = to_dataarray(np.ones((3, 4, 5), np.float32), array, valid=valid, names=("a", "b", "c"))
    assert result.dims == ("band", "y", "x")
    assert result.band.values.tolist() == ["a", "b", "c"]
    assert np.isnan(result.values[:, 1, 2]).all()
    assert np.isnan(result.values).sum() == 3
    assert result.coords["time"].values == np.datetime64("2024-05-21")  # of the newest
    whole = array.isel(time=0).astype("int16")
    whole.attrs["_FillValue"] = -1
    assert (to_dataarray(np.ones((2, 4, 5), np.int16), whole, valid=valid).values[:, 1, 2] == -1).all()


def test_sources_travel():
    (source,) = sources_of(image())
    again = pickle.loads(pickle.dumps(source))
    assert isinstance(again, DataArraySource)
    np.testing.assert_array_equal(again.read(Window(0, 0, 4, 5))[0], source.read(Window(0, 0, 4, 5))[0])


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (image().rename(x="column"), r"dimensions \(band, y, column\): expected"),
        (image().isel(y=0), r"dimensions \(band, x\): expected"),
        (image().assign_coords(x=[0, 10, 20, 30, 50]), "coordinates x at uneven distances"),
        (image(crs="nonsense").drop_vars("spatial_ref"), "has the CRS 'nonsense': expected WKT or a code"),
        (image().astype(complex), "is complex64|is complex128"),
    ],
)
def test_what_is_no_image_is_refused(array, said):
    with pytest.raises(DataError, match=said):
        sources_of(array)
    with pytest.raises(DataError, match=said):
        open_scene(array)
