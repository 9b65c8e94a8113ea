"""Writing GeoTIFFs: pixels, masks and places on the ground come back as they were."""

import numpy as np
import pytest
from tests.rasters.written import BANDS, PLACE, hole, names_in, texture, write

from emrdm.errors import InputError
from emrdm.rasters import read
from emrdm.rasters.grid import Grid
from emrdm.rasters.write import writing
from emrdm.window import Window

rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs are written by rasterio")

# ---------------------------------------------------------------- what was written is there


@pytest.mark.parametrize("kind", ["cog", "gtiff"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_pixels_and_what_is_said_of_them_come_back(kind, dtype, count, tmp_path):
    pixels, tags = texture((count, 60, 50), dtype), {"SEED": "7", "MODEL": "ünïcode, two\nlines"}
    scales, offsets = (1e-4,) * count, (-0.1,) * count
    path = tmp_path / "a.tif"
    write(path, pixels, bands=BANDS[:count], nodata=0, tags=tags, scales=scales, offsets=offsets, kind=kind)
    raster = read(path)
    np.testing.assert_array_equal(raster.pixels, pixels)
    assert (raster.pixels.dtype, raster.names, raster.valid) == (dtype, BANDS[:count], None)
    with rasterio.open(path) as file:
        assert (file.crs.to_epsg(), tuple(file.transform)[:6], file.nodata) == (32633, PLACE, 0)
        assert (file.scales, file.offsets) == (scales, offsets)
        assert tags.items() <= file.tags().items()
        assert file.compression.name == "deflate"
    assert names_in(tmp_path) == ["a.tif"]


def test_a_cloud_optimised_file_has_its_layout_and_overviews(tmp_path):
    path = write(tmp_path / "a.tif", texture((2, 1100, 1300)))
    with rasterio.open(path) as file:
        assert file.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert file.tags(ns="IMAGE_STRUCTURE")["PREDICTOR"] == "2"
        assert (file.block_shapes[0], file.overviews(1)) == ((512, 512), [2, 4])


@pytest.mark.parametrize("how", [{"nodata": 0}, {"nodata": 7}, {"masked": True}, {"masked": True, "nodata": 0}])
def test_overviews_are_means_of_what_has_data(how, tmp_path):
    pixels, valid = np.full((2, 700, 900), 1000, np.uint16), hole((700, 900))
    pixels[:, :, ::2] += 10
    valid[:, 450:] = True
    path = write(tmp_path / "a.tif", pixels, valid, **how)
    with rasterio.open(path, overview_level=0) as file:
        half, mask = file.read(), file.read_masks(1) > 0
    np.testing.assert_array_equal(mask, valid.reshape(350, 2, 450, 2).any((1, 3)))
    assert set(np.unique(half[:, mask])) <= set(range(1000, 1011))
    assert (half[:, :, 226:] == 1005).all()


@pytest.mark.parametrize("how", [{"nodata": 0}, {"nodata": 65535}, {"nodata": 40}, {"masked": True}])
@pytest.mark.parametrize("share", ["none", "some", "all"])
def test_the_mask_comes_back_as_it_was(how, share, tmp_path):
    valid = {"none": np.ones((530, 70), bool), "some": hole((530, 70)), "all": np.zeros((530, 70), bool)}[share]
    pixels = texture((2, 530, 70))
    pixels[0, 100:200] = how.get("nodata", 0)  # one band: data where nodata is 0
    pixels[:, 200:300] = how.get("nodata", 0)
    pixels[:, 300:400] = 65535
    raster = read(write(tmp_path / "a.tif", pixels, valid, **how))
    np.testing.assert_array_equal(np.ones_like(valid) if raster.valid is None else raster.valid, valid)
    assert np.abs(raster.pixels.astype(int) - pixels)[:, valid].max(initial=0) <= 1


@pytest.mark.parametrize("nodata", [-9999.0, 0.0, float("nan"), -3.4028234663852886e38])
def test_the_mask_of_real_numbers_as_gdal_sees_it(nodata, tmp_path):
    value = np.float32(nodata)
    pixels, valid = texture((1, 40, 50), "float32"), hole((40, 50))
    if abs(value) < 1e38:  # GDAL takes all that is large for equal to the largest number
        pixels[0, 30], pixels[0, 31] = value, np.nextafter(value, np.float32(1))
    with rasterio.open(write(tmp_path / "a.tif", pixels, valid, nodata=nodata)) as file:
        np.testing.assert_array_equal(file.read_masks(1) > 0, valid)
        assert repr(np.float32(file.nodata)) == repr(value)
        np.testing.assert_allclose(file.read()[:, valid], pixels[:, valid], rtol=2e-6, atol=1e-37)


def test_a_fourth_band_is_no_transparency(tmp_path):
    pixels = texture((4, 20, 30), "uint8")
    pixels[3] = 255
    pixels[3, :5] = 0
    raster = read(write(tmp_path / "a.tif", pixels))
    assert raster.valid is None
    np.testing.assert_array_equal(raster.pixels, pixels)


@pytest.mark.parametrize("name", ["mit Leerzeichen.tif", "云 ☁.TIFF", "a#b?c!d.tif", "zip+x:y.tif", "é" * 120 + ".tif"])
def test_names_of_all_kinds(name, tmp_path):
    folder = tmp_path / "neuer Ördner"
    path = write(folder / name, texture((1, 5, 6)))
    assert names_in(folder) == [name]
    np.testing.assert_array_equal(read(path).pixels, texture((1, 5, 6)))


def test_many_bands_are_in_blocks_of_bearable_size(tmp_path):
    path = write(tmp_path / "a.tif", texture((200, 300, 20), "float64"))
    with rasterio.open(path) as file:
        assert file.block_shapes[0] == (128, 128)
        assert file.overviews(1) == [2, 4]


# ---------------------------------------------------------------- places on the ground

CUSTOM = (
    'PROJCS["somewhere",GEOGCS["x",DATUM["d",SPHEROID["s",6371000,0]],PRIMEM["Greenwich",0],UNIT["degree",'
    '0.0174532925199433]],PROJECTION["Lambert_Azimuthal_Equal_Area"],PARAMETER["latitude_of_center",12.5],'
    'PARAMETER["longitude_of_center",-7.25],PARAMETER["false_easting",1000],PARAMETER["false_northing",2000],'
    'UNIT["metre",1]]'
)
SINUSOIDAL = "+proj=sinu +lon_0=0 +x_0=0 +y_0=0 +R=6371007.181 +units=m"
ROTATED = (8.66, 5.0, 499980.123456789, 5.0, -8.66, 5200020.987654321)
DEGREES = (1 / 3600, 0.0, 13.000000123, 0.0, -1 / 3600, 48.1)
POINTS = (
    (0.0, 0.0, 13.0, 48.0, 0.0),
    (0.0, 40.0, 13.1, 48.0, 5.0),
    (30.0, 0.0, 13.0, 47.9, 0.0),
    (30.0, 40.0, 13.2, 47.8, 1.5),
)
PLACES = {
    "UTM north": ("EPSG:32633", PLACE),
    "UTM south": ("EPSG:32733", PLACE),
    "arctic": ("EPSG:3413", (100.0, 0.0, -1e6, 0.0, -100.0, -5e5)),
    "antarctic": ("EPSG:3031", (100.0, 0.0, -1e6, 0.0, -100.0, -5e5)),
    "geographic": ("EPSG:4326", DEGREES),
    "geographic in 3D": ("EPSG:4979", DEGREES),
    "rotated": ("EPSG:32633", ROTATED),
    "south up": ("EPSG:32633", (10.0, 0.0, 0.0, 0.0, 10.0, 0.0)),
    "Albers": ("EPSG:5070", (30.0, 0.0, -2356125.0, 0.0, -30.0, 3172605.0)),
    "web mercator": ("EPSG:3857", (0.5971642834779395, 0.0, 1e6, 0.0, -0.5971642834779395, 6e6)),
    "feet": ("EPSG:2263", (2.0, 0.0, 9.8e5, 0.0, -2.0, 2e5)),
    "oblique": ("EPSG:2056", (10.0, 0.0, 2.6e6, 0.0, -10.0, 1.2e6)),
    "sinusoidal": (SINUSOIDAL, (463.312716528, 0.0, 0.0, 0.0, -463.312716528, 5559752.598333)),
    "custom": (CUSTOM, PLACE),
    "with heights": ("EPSG:32633+5773", PLACE),
    "transform without CRS": (None, PLACE),
    "CRS without transform": ("EPSG:32633", None),
    "nothing": (None, None),
    "identity": (None, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)),
    "points": ("EPSG:4326", POINTS),
    "points without CRS": (None, POINTS),
}


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("area", [None, "Area", "Point"])
@pytest.mark.parametrize("kind", ["cog", "gtiff"])
@pytest.mark.parametrize("place", PLACES)
def test_places_survive(place, kind, area, tmp_path):
    crs, where = PLACES[place]
    wkt = crs and rasterio.CRS.from_string(crs).to_wkt()
    grid = Grid(30, 40, wkt, gcps=where) if where == POINTS else Grid(30, 40, wkt, where)
    tags = {"AREA_OR_POINT": area} if area else {}
    path = write(tmp_path / "a.tif", texture((2, 30, 40)), grid=grid, kind=kind, tags=tags)
    with rasterio.open(path) as file:
        points, points_crs = file.gcps
        found = file.crs or points_crs
        assert (found is None) == (crs is None)
        assert crs is None or found == rasterio.CRS.from_string(crs)
        assert file.tags().get("AREA_OR_POINT") == ((where != POINTS and area) or "Area" if crs else None)
        if where == POINTS:
            np.testing.assert_allclose([(p.row, p.col, p.x, p.y, p.z) for p in points], POINTS, rtol=1e-12)
        else:
            expected = where or (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
            np.testing.assert_allclose(tuple(file.transform)[:6], expected, rtol=1e-12, atol=1e-9)
    assert names_in(tmp_path) == ["a.tif"]


@pytest.mark.parametrize(
    "crs",
    [
        "EPSG:4978",  # geocentric
        'LOCAL_CS["mine",UNIT["metre",1]]',
        'ENGCRS["e",EDATUM["d"],CS[Cartesian,2],AXIS["x",east],AXIS["y",north],LENGTHUNIT["metre",1]]',
        "+proj=ob_tran +o_proj=longlat +o_lat_p=39 +o_lon_p=0 +lon_0=18 +R=6371229",
        "+proj=isea",
        "nonsense",
    ],
)
def test_odd_places_survive_or_are_refused_before_any_work(crs, tmp_path):
    wkt = crs
    if not crs.startswith(("LOCAL", "ENG", "nonsense")):
        wkt = rasterio.CRS.from_string(crs).to_wkt()
    grid = Grid(30, 40, wkt, PLACE)
    path = tmp_path / "a.tif"
    try:
        with writing(path, grid, bands=("",), dtype="uint8") as image:
            image.write(Window(0, 0, 30, 40), texture((1, 30, 40), "uint8"), np.ones((30, 40), bool))
    except InputError as error:
        assert str(path) in str(error)  # noqa: PT017
        assert not names_in(tmp_path)
    else:
        with rasterio.open(path) as file:
            assert file.crs == rasterio.CRS.from_wkt(wkt)
