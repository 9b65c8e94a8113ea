"""Writing pictures: what they can hold comes back, the rest is refused."""

import numpy as np
import pytest
from PIL import Image
from tests.rasters.written import PLACE, UTM, digest, hole, names_in, refused, texture, tiles, write

from emrdm.errors import EmrdmError, InputError
from emrdm.rasters import read
from emrdm.rasters.grid import Grid

ROTATED = (8.66, 5.0, 499980.123456789, 5.0, -8.66, 5200020.987654321)


@pytest.mark.parametrize(("suffix", "count"), [(".png", 1), (".png", 3), (".webp", 3), (".jpg", 1), (".JPEG", 3)])
def test_a_picture_comes_back(suffix, count, tmp_path):
    pixels = np.broadcast_to(np.arange(60, dtype=np.uint8) * 4, (count, 50, 60)).copy()
    path = write(tmp_path / f"a{suffix}", pixels, grid=Grid(50, 60))
    assert names_in(tmp_path) == [path.name]
    tolerance = 6 if suffix.lower().startswith(".jp") else 0
    np.testing.assert_allclose(read(path).pixels.astype(int), pixels.astype(int), atol=tolerance)
    again = write(tmp_path / f"b{suffix}", pixels, grid=Grid(50, 60), windows=tiles(Grid(50, 60), 7, 9)[::-1])
    assert digest(path) == digest(again)


@pytest.mark.parametrize(("suffix", "count"), [(".png", 1), (".png", 3), (".webp", 3)])
def test_transparency_says_where_there_is_no_data(suffix, count, tmp_path):
    pixels, valid = texture((count, 50, 60), "uint8"), hole((50, 60))
    raster = read(write(tmp_path / f"a{suffix}", pixels, valid, grid=Grid(50, 60), masked=True))
    np.testing.assert_array_equal(raster.valid, valid)
    np.testing.assert_array_equal(raster.pixels[:, valid], pixels[:, valid])


@pytest.mark.parametrize(
    ("suffix", "world"), [(".png", ".pgw"), (".jpg", ".jgw"), (".jpeg", ".jgw"), (".webp", ".wpw")]
)
def test_the_place_of_a_picture_is_beside_it(suffix, world, tmp_path):
    from emrdm.rasters.picture import world_file

    path = write(tmp_path / f"a{suffix}", texture((3, 5, 6), "uint8"), grid=Grid(5, 6, None, ROTATED))
    assert names_in(tmp_path) == sorted([f"a{suffix}", f"a{world}"])
    np.testing.assert_allclose(world_file(path), ROTATED, rtol=1e-14)
    write(path, texture((3, 5, 6), "uint8"), grid=Grid(5, 6), overwrite=True)
    assert names_in(tmp_path) == [f"a{suffix}"]  # the old place is not that of the new picture


def test_a_world_file_alone_is_not_overwritten(tmp_path):
    (tmp_path / "a.pgw").write_text("mine")
    refused(InputError, r"a\.pgw is there already", tmp_path / "a.png", texture((1, 5, 6), "uint8"), grid=Grid(5, 6))
    assert (tmp_path / "a.pgw").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "pixels", "options", "match"),
    [
        ("a.png", texture((3, 5, 6)), {}, "3 bands of uint16: expected 1 or 3 of uint8"),
        ("a.png", texture((13, 5, 6), "uint8"), {}, "13 bands of uint8: expected 1 or 3 of uint8"),
        ("a.webp", texture((1, 5, 6), "uint8"), {}, "1 band of uint8: expected 3 of uint8 for WEBP"),
        ("a.jpg", texture((3, 5, 6), "uint8"), {"masked": True}, "cannot say where there is no data"),
        ("a.png", texture((3, 5, 6), "uint8"), {"grid": Grid(5, 6, UTM, PLACE)}, "cannot hold the CRS EPSG:32633"),
        (
            "a.png",
            texture((3, 5, 6), "uint8"),
            {"grid": Grid(5, 6, gcps=((0.0, 0.0, 13.0, 48.0, 0.0),))},
            "cannot hold ground control points",
        ),
        ("a.webp", texture((3, 5, 6), "uint8"), {"grid": Grid(5, 20000)}, "expected sides of at most 16,383 for WEBP"),
        ("a.gif", texture((3, 5, 6), "uint8"), {}, r"expected a name ending in \.png"),
        ("a.png", texture((3, 5, 6), "uint8"), {"kind": "cog"}, r"expected a name ending in \.tif"),
    ],
)
def test_what_a_picture_cannot_hold(name, pixels, options, match, tmp_path):
    refused(InputError, match, tmp_path / name, pixels, **{"grid": Grid(5, 6), **options})
    assert not names_in(tmp_path)


def test_a_picture_that_did_not_reach_the_disk_is_noticed(tmp_path, monkeypatch):
    from emrdm.rasters import write_picture

    monkeypatch.setattr(write_picture, "sync", lambda path: path.write_bytes(path.read_bytes()[:-9]))
    refused(
        EmrdmError, "did not read back", tmp_path / "a.png", texture((3, 5, 6), "uint8"), grid=Grid(5, 6, None, PLACE)
    )
    assert not names_in(tmp_path)


def test_a_large_picture_is_read_back_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    write(tmp_path / "a.png", texture((1, 50, 30), "uint8"), grid=Grid(50, 30))
