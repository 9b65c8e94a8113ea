"""Reading in windows: the same pixels and the same validity as of the whole file, from threads and processes."""

import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from emrdm.errors import DataError, InputError
from emrdm.window import Window

rasterio = pytest.importorskip("rasterio", reason="made-up GeoTIFFs are written by rasterio")
from rasterio.control import GroundControlPoint  # noqa: E402
from tests.data import trees  # noqa: E402

from emrdm.rasters import read  # noqa: E402
from emrdm.rasters.source import ArraySource, FileSource, open_source, set_cache  # noqa: E402

TILES = {"tiled": True, "blockxsize": 16, "blockysize": 16}
WHOLE = Window(0, 0, 40, 50)
WINDOWS = [WHOLE, Window(0, 0, 1, 1), Window(39, 49, 1, 1), Window(7, 11, 20, 30), Window(16, 16, 16, 16)]


@pytest.mark.parametrize("layout", [{}, TILES, {"interleave": "pixel"}, {"interleave": "pixel", **TILES}])
@pytest.mark.parametrize(("dtype", "nodata"), [("uint16", None), ("uint16", 0), ("int16", -9), ("float32", np.nan)])
def test_windows_are_parts_of_the_whole(layout, dtype, nodata, tmp_path):
    pixels = trees.texture((3, 40, 50), 1, low=0, high=4, dtype=dtype)
    if nodata is not None:
        pixels[:, 5:9, 12:20] = nodata
        pixels[1, 30, 30] = nodata
    path = trees.save_tiff(tmp_path / "x.tif", pixels, nodata=nodata, **layout)
    source, raster = open_source(path), read(path)
    valid = np.ones((40, 50), bool) if raster.valid is None else raster.valid
    for window in WINDOWS:
        for bands in (None, [2, 0], [1]):
            found, known = source.read(window, bands)
            part = pixels[bands or [0, 1, 2], window.rows, window.columns]
            np.testing.assert_array_equal(found, part)
            np.testing.assert_array_equal(known, valid[window.rows, window.columns])
            assert found.dtype == dtype


def test_a_band_that_is_not_asked_for_tells_where_there_is_data_too(tmp_path):
    pixels = np.ones((2, 4, 4), np.float32)
    pixels[1, 1, 1], pixels[1, 2, 2], pixels[0, 3, 3] = np.nan, np.inf, -np.inf
    source = open_source(trees.save_tiff(tmp_path / "x.tif", pixels))
    expected = np.ones((4, 4), bool)
    expected[[1, 2, 3], [1, 2, 3]] = False
    np.testing.assert_array_equal(source.read(Window(0, 0, 4, 4), [0])[1], expected)
    np.testing.assert_array_equal(ArraySource(pixels).read(Window(0, 0, 4, 4), [0])[1], expected)


def test_only_the_window_is_read_of_the_file(tmp_path):
    pixels = np.zeros((1, 2048, 4096), np.uint8)
    path = trees.save_tiff(tmp_path / "x.tif", pixels, compress="none", tiled=True, blockxsize=256, blockysize=256)
    counter = Path("/proc/self/io")
    if not counter.exists():
        pytest.skip("bytes that were read are counted on Linux")

    def bytes_read():
        return int(counter.read_text().split("rchar:")[1].split()[0])

    before = bytes_read()
    open_source(path).read(Window(1000, 2000, 100, 100))
    assert bytes_read() - before < 1 << 20 < path.stat().st_size // 4


def test_nodata_by_hand_goes_instead_of_the_files_own(tmp_path):
    pixels = np.array([[[1, 2, 3]], [[3, 3, 3]]], np.uint8)
    path = trees.save_tiff(tmp_path / "x.tif", pixels, nodata=1)
    assert open_source(path).read(Window(0, 0, 1, 3))[1].tolist() == [[False, True, True]]
    source = open_source(path, nodata=2)
    assert source.read(Window(0, 0, 1, 3))[1].tolist() == [[True, False, True]]
    assert source.nodata == 2


def test_a_nodata_value_that_the_type_cannot_have_is_none(tmp_path):
    """Programs write -9999 into files of unsigned numbers; rasterio would not, so the tag is put in by hand."""
    path = trees.save_tiff(tmp_path / "x.tif", np.ones((1, 2, 2), np.uint8), nodata=77, compress="none")
    path.write_bytes(path.read_bytes().replace(b"77\0", b"-9\0"))
    assert open_source(path).nodata is None


@pytest.mark.parametrize("kind", ["alpha", "alpha and nodata", "mask", "mask beside"])
def test_masks_and_transparency(kind, tmp_path):
    pixels = trees.texture((4, 24, 20), 1, low=1)
    known = np.ones((24, 20), bool)
    known[3:9, 4:7] = False
    pixels[3] = known * 255
    path = tmp_path / "x.tif"
    if kind.startswith("alpha"):
        nodata = 0 if "nodata" in kind else None
        trees.save_tiff(path, pixels, photometric="RGB", alpha="YES", nodata=nodata)
    else:
        trees.save_tiff(path, pixels[:3])
        with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=kind == "mask"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with rasterio.open(path, "r+") as file:
                file.write_mask(known)
        assert Path(f"{path}.msk").exists() == (kind == "mask beside")
    source = open_source(path)
    window = Window(2, 3, 10, 10)
    assert source.masked
    assert source.count == 3
    np.testing.assert_array_equal(source.read(window, [1])[1], known[window.rows, window.columns])
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(source)).read(window)[1], known[window.rows, window.columns]
    )


def test_a_fourth_band_that_only_is_called_transparency_is_data(tmp_path):
    pixels = trees.texture((4, 24, 20), 1)
    source = open_source(trees.save_tiff(tmp_path / "x.tif", pixels, photometric="RGB", alpha="YES"))
    assert (source.count, source.masked) == (4, False)
    assert source.read(Window(0, 0, 24, 20))[1].all()


def test_what_a_file_says_about_itself(tmp_path):
    path = trees.save_tiff(tmp_path / "S2_x.tif", np.ones((2, 4, 4), np.uint16), names=("B4", ""), nodata=0, crs="EPSG:32633", transform=rasterio.Affine(10, 0, 5, 0, -10, 7))  # fmt: skip
    with rasterio.open(path, "r+") as file:
        file.update_tags(ACQUISITION_DATE="2024-05-01T10:30:31Z", AREA_OR_POINT="Point", long="x" * 100_000)
        file.scales, file.offsets = (1e-4, 1e-4), (-0.1, -0.1)
    source = open_source(path)
    assert source.name == str(path)
    assert source.names == ("B4", "")
    assert (source.dtype, source.nodata, source.masked) == (np.uint16, 0, False)
    assert source.date == date(2024, 5, 1)
    assert source.tags == {"ACQUISITION_DATE": "2024-05-01T10:30:31Z", "AREA_OR_POINT": "Point"}
    assert (source.scales, source.offsets) == ((1e-4, 1e-4), (-0.1, -0.1))
    assert source.grid.transform == (10, 0, 5, 0, -10, 7)
    assert "32633" in source.grid.crs
    assert repr(source) == f"FileSource({str(path)!r}, 2 x 4 x 4 pixels, uint16)"


def test_ground_control_points_are_told(tmp_path):
    path = trees.save_tiff(tmp_path / "x.tif", np.ones((1, 4, 4), np.uint16))
    points = [GroundControlPoint(row, column, column * 2.0, row * 3.0) for row in (0, 4) for column in (0, 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "r+") as file:
            file.gcps = (points, rasterio.crs.CRS.from_epsg(4326))
    grid = open_source(path).grid
    assert grid.transform is None
    assert "4326" in grid.crs
    assert grid.gcps == ((0, 0, 0, 0, 0), (0, 4, 8, 0, 0), (4, 0, 0, 12, 0), (4, 4, 8, 12, 0))


@pytest.mark.parametrize(("suffix", "world"), [(".png", ".pgw"), (".jpg", ".jgw"), (".png", ".wld"), (".tif", ".tfw")])
def test_a_world_file_beside_an_image_gives_its_place(suffix, world, tmp_path):
    path = trees.save(tmp_path / f"2024_05_01{suffix}", trees.texture((3, 8, 8), 1))
    assert not open_source(path).grid.georeferenced
    path.with_suffix(world).write_text("10.0\n0\n0\n-10.0\n505.0\n1995.0\n")
    source = open_source(path)
    assert source.grid.transform == (10, 0, 500, 0, -10, 2000)
    assert source.date == date(2024, 5, 1)


def test_a_projection_file_beside_it_says_of_which_system(tmp_path):
    path = tmp_path / "x.png"
    Image.new("RGB", (6, 4)).save(path)
    path.with_suffix(".prj").write_text(rasterio.CRS.from_epsg(32633).to_wkt())
    assert open_source(path).grid.crs is None  # without a place there is nothing to say it of
    path.with_suffix(".pgw").write_text("10.0\n0\n0\n-10.0\n505.0\n1995.0\n")
    assert rasterio.CRS.from_wkt(open_source(path).grid.crs).to_epsg() == 32633
    path.with_suffix(".prj").write_text("no system")
    assert open_source(path).grid.crs is None


def test_a_picture_is_turned_as_its_camera_says(tmp_path):
    pixels = np.arange(24, dtype=np.uint8).reshape(4, 6)
    tags = Image.Exif()
    tags[0x0112] = 6  # the first row is on the right
    Image.fromarray(pixels).save(tmp_path / "x.png", exif=tags)
    found = open_source(tmp_path / "x.png")
    assert found.grid.size == "4 x 6 pixels"
    assert np.array_equal(found.read(Window(0, 0, 6, 4))[0][0], np.rot90(pixels, -1))
    (tmp_path / "x.pgw").write_text("10.0\n0\n0\n-10.0\n505.0\n1995.0\n")  # is about pixels as they are stored
    assert open_source(tmp_path / "x.png").grid.size == "6 x 4 pixels"


def test_a_mask_of_single_bits_has_one_band(tmp_path):
    Image.fromarray(np.eye(8) > 0).save(tmp_path / "m.png")
    found = open_source(tmp_path / "m.png")
    assert np.array_equal(found.read(Window(0, 0, 8, 8))[0], 255 * np.eye(8, dtype=np.uint8)[None])


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_colours_are_those_of_the_file(tmp_path):
    path = trees.save_tiff(tmp_path / "x.tif", trees.texture((3, 8, 8), 1, low=0, high=9, dtype="uint16"))
    assert open_source(path).colours == ()
    with rasterio.open(path, "r+") as file:
        file.colorinterp = [rasterio.enums.ColorInterp[name] for name in ("blue", "green", "red")]
    assert open_source(path).colours == ("blue", "green", "red")


@pytest.mark.parametrize("words", ["", "1 2 3", "a b c d e f", "0 0 0 0 0 0", "nan 0 0 1 1 1"])
def test_a_world_file_that_is_none_is_refused(words, tmp_path):
    path = trees.save(tmp_path / "x.png", trees.texture((3, 8, 8), 1))
    path.with_suffix(".pgw").write_text(words)
    with pytest.raises(DataError, match=r"x\.pgw (is no world file|has .*): expected six numbers"):
        open_source(path)


def test_transparent_pixels_of_a_picture_have_no_data(tmp_path):
    rgba = np.full((4, 6, 4), 255, np.uint8)
    rgba[1, 2, 3] = 0
    Image.fromarray(rgba).save(tmp_path / "x.png")
    source = open_source(tmp_path / "x.png")
    pixels, valid = source.read(Window(1, 1, 2, 3), [0, 2])
    assert source.masked
    assert pixels.shape == (2, 2, 3)
    assert valid.tolist() == [[True, False, True], [True, True, True]]


def test_threads_and_copies_read_the_same(tmp_path):
    pixels = trees.texture((2, 64, 64), 1)
    source = open_source(trees.save_tiff(tmp_path / "x.tif", pixels, nodata=3, **TILES))
    windows = [Window(row, column, 16, 16) for row in range(0, 48, 5) for column in range(0, 48, 5)]
    sources = (source, pickle.loads(pickle.dumps(source)), source.replaced(names=("a", "b")))
    with ThreadPoolExecutor(4) as pool:
        for one in sources:
            for window, (found, _) in zip(windows, pool.map(one.read, windows), strict=True):
                np.testing.assert_array_equal(found, pixels[:, window.rows, window.columns])


def test_a_forked_process_does_not_move_its_parents_place_in_the_file(tmp_path):
    pixels = trees.texture((1, 64, 64), 1)
    source = open_source(trees.save_tiff(tmp_path / "x.tif", pixels, **TILES))
    handle = source._file
    child = os.fork()
    if child == 0:
        good = (source.read(Window(0, 0, 64, 64))[0] == pixels).all() and source._file is not handle
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(source.read(Window(0, 0, 64, 64))[0], pixels)


def test_a_closed_source_opens_again_unless_the_file_has_changed(tmp_path):
    path = trees.save_tiff(tmp_path / "x.tif", np.ones((1, 4, 4), np.float32), nodata=np.nan)
    with open_source(path) as source:
        pass
    assert source.read(Window(0, 0, 4, 4))[1].all()
    source.close()
    trees.save_tiff(path, np.ones((1, 5, 4), np.float32), nodata=np.nan)
    with pytest.raises(DataError, match="has changed since it was opened: expected FileSource"):
        source.read(Window(0, 0, 4, 4))


def test_a_relative_path_is_found_after_moving_elsewhere(tmp_path, monkeypatch):
    trees.save_tiff(tmp_path / "x.tif", np.ones((1, 4, 4), np.uint8))
    monkeypatch.chdir(tmp_path)
    source = open_source("x.tif")
    monkeypatch.chdir("/")
    assert source.name == "x.tif"
    assert pickle.loads(pickle.dumps(source)).read(Window(0, 0, 4, 4))[0].sum() == 16


@pytest.mark.parametrize("window", [(-1, 0, 2, 2), (0, 0, 5, 1), (0, 0, 0, 1), (3, 3, 2, 2), (0, 4, 1, 1)])
def test_windows_beyond_the_image_are_refused(window):
    with pytest.raises(InputError, match="expected a window of its 4 x 4 pixels"):
        ArraySource(np.ones((1, 4, 4))).read(Window(*window))
    with pytest.raises(InputError, match="expected numbers below 1"):
        ArraySource(np.ones((1, 4, 4))).read(Window(0, 0, 1, 1), [1])


def test_several_pages_are_refused(tmp_path):
    pages = [Image.new("L", (8, 8), i) for i in range(3)]
    pages[0].save(tmp_path / "x.tif", save_all=True, append_images=pages[1:])
    with pytest.raises(DataError, match=r"x\.tif has 3 pages: expected one image a file"):
        open_source(tmp_path / "x.tif")


def test_a_large_bare_strip_is_read_in_parts(tmp_path):
    """Some programs write one strip for all; that is fine where it is not compressed."""
    path = trees.save_tiff(tmp_path / "x.tif", np.zeros((1, 13000, 11000), np.uint8), compress="none", blockysize=13000)
    assert open_source(path).read(Window(12_000, 5, 2, 2))[0].shape == (1, 2, 2)


def test_overviews_and_sparse_files_are_fine(tmp_path):
    path = tmp_path / "x.tif"
    shape = {"count": 3, "height": 40_000, "width": 30_000, "dtype": "uint16", "nodata": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "w", driver="GTiff", tiled=True, SPARSE_OK=True, **shape) as file:
            file.write(np.full((3, 256, 256), 7, np.uint16), window=((512, 768), (512, 768)))
    source = open_source(path)
    assert source.read(Window(512, 512, 2, 2))[1].all()
    assert not source.read(Window(30_000, 20_000, 2, 2))[1].any()


def test_the_cache_is_as_large_as_said():
    from rasterio.env import get_gdal_config

    before = get_gdal_config("GDAL_CACHEMAX")
    set_cache(50_000_000)
    assert get_gdal_config("GDAL_CACHEMAX") == 50_000_000
    set_cache(before)


def test_arrays_are_checked():
    for wrong, said in [
        ({"pixels": np.ones((1, 2, 2), complex)}, "complex128 of shape"),
        (
            {"pixels": np.ones((1, 2, 2)), "valid": np.ones((3, 2), bool)},
            r"mask of bool \(3, 2\): expected bool \(2, 2\)",
        ),
        ({"pixels": np.ones((1, 2, 2)), "names": ("a", "b")}, "array has 1 band: 2 names given"),
        ({"pixels": np.ones((1, 2, 2)), "scales": (1, 2)}, "array has 1 band: 2 scales given"),
        ({"pixels": np.ones((1, 2, 2), np.uint8), "nodata": 300}, "nodata 300 for array: expected a number that uint8"),
    ]:
        with pytest.raises(DataError, match=said):
            ArraySource(**wrong)


def test_a_source_is_of_the_file_whatever_its_name(tmp_path):
    path = trees.save_tiff(tmp_path / "x.tif", np.ones((1, 4, 4), np.uint8))
    (tmp_path / "y.tif").symlink_to(path)
    (tmp_path / "z.tif").hardlink_to(path)
    names = ("x.tif", "y.tif", "z.tif")
    assert len({FileSource(tmp_path / name).identity for name in names}) == 1
