"""Inputs that do not fit together: refused when they are opened, in one line that names the file and both values."""

import re
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from emrdm.errors import DataError, EmrdmError
from emrdm.rasters.bands import match

rasterio = pytest.importorskip("rasterio", reason="made-up GeoTIFFs are written by rasterio")
from tests.data import trees  # noqa: E402

from emrdm.rasters.scene import open_scene  # noqa: E402
from emrdm.rasters.source import ArraySource  # noqa: E402

NAMES = ("B4", "B3", "B2")
UTM = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500_000, 0, -10, 5_000_000)}


@pytest.fixture
def make(tmp_path):
    """Writes an image on the usual grid, with some things different."""

    def write(name, shape=(3, 24, 32), *, dtype="uint16", names=NAMES, **how):
        pixels = trees.texture(shape, 1, low=1, high=100, dtype=dtype)
        return trees.save_tiff(tmp_path / name, pixels, names=names, **{**UTM, **how})

    return write


def moved(columns=0.0, rows=0.0, *, turn=0.0, size=10.0):
    return rasterio.Affine(size, turn, 500_000 + 10 * columns, turn, -size, 5_000_000 - 10 * rows)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-300])
    return path


def emptied(path):
    path.write_bytes(b"")
    return path


# What is opened after a.tif of 2024-05-01, and what the line says.
FRAMES = {
    "another CRS": (lambda make: make("b.tif", crs="EPSG:32634"), "CRS EPSG:32634 against EPSG:32633"),
    "no CRS": (lambda make: make("b.tif", crs=None), "CRS none against EPSG:32633"),
    "half a pixel to the east": (lambda make: make("b.tif", transform=moved(0.5)), r"transform \(10, 0, 500005, .* against \(10, 0, 500000,"),
    "a tenth of a pixel to the south": (lambda make: make("b.tif", transform=moved(0, 0.1)), r"4999999\) against \(10, .*5000000\)"),
    "a row to the south": (lambda make: make("b.tif", transform=moved(0, 1)), r"4999990\) against"),
    "turned": (lambda make: make("b.tif", transform=moved(turn=1)), r"transform \(10, 1, 500000, .* against \(10, 0,"),
    "pixels a little larger": (lambda make: make("b.tif", transform=moved(size=10.05)), r"transform \(10.05, .* against \(10,"),
    "upside down": (lambda make: make("b.tif", transform=rasterio.Affine(10, 0, 500_000, 0, 10, 5_000_000)), r"10, 5000000\) against .*-10, 5000000"),
    "no place at all": (lambda make: make("b.tif", crs=None, transform=None), "CRS none against EPSG:32633"),
    "fewer rows": (lambda make: make("b.tif", (3, 23, 32)), "size 32 x 23 pixels against 32 x 24 pixels"),
    "more columns": (lambda make: make("b.tif", (3, 24, 33)), "size 33 x 24 pixels against 32 x 24 pixels"),
    "fewer bands": (lambda make: make("b.tif", (2, 24, 32), names=NAMES[:2]), "2 bands against 3"),
    "other names": (lambda make: make("b.tif", names=("B4", "B3", "B8")), "bands B4, B3, B8 against B4, B3, B2"),
    "names in another order": (lambda make: make("b.tif", names=NAMES[::-1]), "bands B2, B3, B4 against B4, B3, B2"),
    "no names": (lambda make: make("b.tif", names=()), r"bands \(no name\), .* against B4, B3, B2"),
    "another number type": (lambda make: make("b.tif", dtype="float32"), "numbers of float32 against uint16"),
    "the same day": (lambda make: make("b_20240501.tif"), "is of 2024-05-01, as is .*a_2024-05-01.tif: expected one image a day"),
    "the same file": (lambda make: make("a_2024-05-01.tif"), r"a_2024-05-01.tif is given twice: expected different images"),
    "a file cut off": (lambda make: truncated(make("b.tif")), r"b.tif is cut off: it has [\d,]+ bytes, and "),
    "an empty file": (lambda make: emptied(make("b.tif")), "b.tif is empty: expected an image"),
    "no file": (lambda make: Path("nowhere.tif"), "nowhere.tif cannot be read: No such file"),
    "complex numbers": (lambda make: make("b.tif", dtype="complex64"), "b.tif has numbers of type complex64: expected one real type"),
}  # fmt: skip

# What is opened beside a.tif and b.tif as radar or mask, and what the line says.
OTHERS = {
    "a mask on another grid": (lambda make: {"mask": make("m.tif", (1, 24, 32), names=("m",), transform=moved(0.5))}, r"m.tif does not fit .*a.tif: transform \(10, 0, 500005"),
    "a mask of another size": (lambda make: {"mask": make("m.tif", (1, 12, 16), names=("m",))}, r"m.tif does not fit .*a.tif: size 16 x 12 pixels against 32 x 24"),
    "a plain mask of another size": (lambda make: {"mask": make("m.tif", (1, 12, 16), names=("m",), crs=None, transform=None)}, "size 16 x 12 pixels against 32 x 24"),
    "a mask of two bands": (lambda make: {"mask": make("m.tif", (2, 24, 32), names=())}, "m.tif has 2 bands: expected 1 in a cloud mask"),
    "a frame as its mask": (lambda make: {"mask": make("a.tif", (1, 24, 32), names=("m",))}, "a.tif is given as image and as --mask: expected different images"),
    "radar on another grid": (lambda make: {"sar": make("s.tif", (2, 24, 32), names=(), crs="EPSG:4326")}, "s.tif does not fit .*a.tif: CRS EPSG:4326 against EPSG:32633"),
    "radar of another size": (lambda make: {"sar": make("s.tif", (2, 24, 31), names=())}, "size 31 x 24 pixels against 32 x 24 pixels"),
    "too many radar images": (lambda make: {"sar": [make(f"s{i}.tif", (2, 24, 32), names=()) for i in range(3)]}, "3 radar images for 2 frames: expected one, or one for each"),
    "radar images of different bands": (lambda make: {"sar": [make("s1.tif", (2, 24, 32), names=("VV", "VH")), make("s2.tif", (1, 24, 32), names=("VV",))]}, "s2.tif does not fit .*s1.tif: bands VV against VV, VH"),
    "too few dates": (lambda make: {"dates": ["2024-05-01"]}, "1 date for 2 images: expected one for each"),
    "a date that is none": (lambda make: {"dates": ["2024-05-01", "2024-02-30"]}, "date '2024-02-30': expected a day such as"),
    "the same date twice": (lambda make: {"dates": [date(2024, 5, 1), "20240501"]}, "b.tif is of 2024-05-01, as is .*a.tif"),
    "too few names": (lambda make: {"bands": ["B4", "B3"]}, "a.tif has 3 bands: 2 names given, B4, B3"),
    "nodata that cannot be": (lambda make: {"nodata": -9999.0}, "nodata -9999 for .*a.tif: expected a number that uint16 can have"),
}  # fmt: skip


def said(call):
    with pytest.raises(EmrdmError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_code == 2
    return message


@pytest.mark.parametrize("case", FRAMES)
def test_a_frame_that_does_not_fit(case, make):
    write, expected = FRAMES[case]
    first = make("a_2024-05-01.tif")
    second = write(make)
    message = said(lambda: open_scene(first, second))
    assert re.search(expected, message), message
    assert second.name in message


@pytest.mark.parametrize("case", OTHERS)
def test_something_else_that_does_not_fit(case, make):
    arguments, expected = OTHERS[case]
    first = make("a.tif", *([(1, 24, 32)] if case == "a frame as its mask" else []), names=() if case == "a frame as its mask" else NAMES)  # fmt: skip
    others = [] if case == "a frame as its mask" else [make("b.tif")]
    message = said(lambda: open_scene(first, *others, **arguments(make)))
    assert re.search(expected, message), message


@pytest.mark.parametrize(
    ("wanted", "own", "fill", "expected"),
    [
        (("B4", "B8"), NAMES, {}, r"x.tif has no band B8: it has B4, B3, B2; --bands .*--fill-band B8=0"),
        (("B4", "B8"), ("B4", "B04"), {}, "x.tif has B4 twice, bands 1 and 2"),
        (("B4", "B3", "B2"), ("", ""), {}, "x.tif has 2 bands without names: expected 3, B4, B3, B2$"),
        (("B4", "B3", "B2"), ("",), {}, "x.tif has 1 band without names: expected 3, B4, B3, B2$"),
        (("B4", "B3", "B2"), ("",) * 4, {}, "x.tif has 4 bands without names: expected 3, B4, B3, B2; --bands"),
        (("B4", "B3", "B2"), ("", "", ""), {"B2": 0.0}, "x.tif has 3 bands without names: expected 2, B4, B3"),
    ],
)
def test_bands_that_are_not_there(wanted, own, fill, expected):
    assert re.search(expected, said(lambda: match(wanted, own, source="x.tif", fill=fill)))


def test_nothing_to_open():
    assert said(open_scene) == "no image given: expected at least one"


def test_an_array_given_twice():
    array = ArraySource(np.ones((1, 4, 4), np.uint8), name="field")
    with pytest.raises(DataError, match="field is given twice: expected different images"):
        open_scene(array, array)
    with pytest.raises(DataError, match="field is given as image and as --sar: expected different images"):
        open_scene(array, sar=array)
    with pytest.raises(DataError, match="again is given twice, first by the name field: expected different images"):
        open_scene(array, array.replaced(name="again"))


def test_there_are_enough_cases():
    assert len(FRAMES) + len(OTHERS) >= 25


def test_what_fits_is_opened(make):
    """The refusals above are not of everything: small differences of transforms and other spellings of a CRS are fine."""
    first = make("a_2024-05-01.tif")
    second = make("b_2024-05-11.tif", transform=moved(0.01, 0.01), crs=rasterio.crs.CRS.from_epsg(32633).to_wkt())
    plain = make("m.tif", (1, 24, 32), names=(), crs=None, transform=None)
    scene = open_scene(second, first, mask=plain, sar=make("s.tif", (2, 24, 32), names=()))
    assert [frame.date for frame in scene.frames] == [date(2024, 5, 1), date(2024, 5, 11)]
    assert scene.mask is not None
    assert len(scene.sar) == 1
