"""Reading one image file: the numbers that are in it, or one line that names it."""

import os
import struct
import sys
import time
import warnings

import numpy as np
import pytest
from PIL import Image

from emrdm.errors import DataError, MissingDependencyError
from emrdm.rasters import SUFFIXES, read

rasterio = pytest.importorskip("rasterio", reason="made-up GeoTIFFs are written by rasterio")
from tests.data import trees  # noqa: E402

PICTURES = (".png", ".webp", ".jpg")


def refused(path, match):
    with pytest.raises(DataError, match=match) as caught:
        read(path)
    message = str(caught.value)
    assert message.count("\n") == 0
    return message


def attempted(path):
    """The pixels, or what was said."""
    try:
        return read(path).pixels
    except DataError as error:
        message = str(error)
    assert message.isprintable()
    return message


def save_image(path, image, **options):
    image.save(path, **options)
    return path


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"])
@pytest.mark.parametrize("count", [1, 3, 13])
def test_a_geotiff_comes_back_as_it_was_written(dtype, count, tmp_path):
    pixels = trees.texture((count, 5, 7), 1, high=100, dtype=dtype)
    raster = read(trees.save_tiff(tmp_path / "x.tif", pixels))
    assert raster.pixels.dtype == dtype
    np.testing.assert_array_equal(raster.pixels, pixels)
    assert (raster.valid, raster.names) == (None, ("",) * count)


@pytest.mark.parametrize(
    "options", [{"tiled": True, "blockxsize": 16, "blockysize": 16}, {"interleave": "pixel"}, {"compress": "lzw"}]
)
def test_however_a_geotiff_is_laid_out(options, tmp_path):
    pixels = trees.texture((3, 40, 50), 1, high=9000, dtype="uint16")
    np.testing.assert_array_equal(read(trees.save_tiff(tmp_path / "x.TIFF", pixels, **options)).pixels, pixels)


@pytest.mark.parametrize("suffix", [".png", ".webp"])
def test_a_picture_comes_back_as_it_was_written(suffix, tmp_path):
    pixels = trees.texture((3, 5, 7), 1)
    np.testing.assert_array_equal(read(trees.save_picture(tmp_path / f"x{suffix}", pixels)).pixels, pixels)


def test_a_jpeg_comes_back_nearly(tmp_path):
    pixels = np.broadcast_to(np.arange(16, dtype=np.uint8) * 10, (3, 16, 16)).copy()
    raster = read(trees.save_picture(tmp_path / "x.JPEG", pixels, quality=95))
    np.testing.assert_allclose(raster.pixels.astype(int), pixels.astype(int), atol=4)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_gray_pictures_have_one_band(dtype, tmp_path):
    pixels = trees.texture((1, 5, 7), 1, high=np.iinfo(dtype).max, dtype=dtype)
    raster = read(trees.save_picture(tmp_path / "x.png", pixels))
    assert raster.pixels.dtype == dtype
    np.testing.assert_array_equal(raster.pixels, pixels)


def test_black_and_white_and_palettes_are_read_by_their_colours(tmp_path):
    colours = trees.texture((3, 4, 4), 1)
    palette = Image.fromarray(colours.transpose(1, 2, 0)).quantize(16)
    np.testing.assert_array_equal(
        read(save_image(tmp_path / "p.png", palette)).pixels, np.asarray(palette.convert("RGB")).transpose(2, 0, 1)
    )
    bits = Image.fromarray(np.eye(4, dtype=bool))
    assert read(save_image(tmp_path / "b.png", bits)).pixels[0].tolist() == (np.eye(4, dtype=int) * 255).tolist()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_have_no_data(mode, tmp_path):
    rgba = trees.texture((4, 4, 6), 1)
    rgba[3] = 255
    rgba[3, 1, 2] = 0
    image = Image.fromarray(np.ascontiguousarray(rgba.transpose(1, 2, 0)))
    if mode == "P":
        image = image.quantize(20)
    raster = read(save_image(tmp_path / "x.png", image.convert(mode)))
    assert len(raster.pixels) == (1 if mode == "LA" else 3)
    assert (~raster.valid).nonzero() == (np.array([1]), np.array([2]))
    if mode == "RGBA":
        np.testing.assert_array_equal(raster.pixels, rgba[:3])


def test_a_picture_that_is_opaque_all_over_is_all_valid(tmp_path):
    image = Image.new("RGBA", (4, 4), (1, 2, 3, 255))
    assert read(save_image(tmp_path / "x.png", image)).valid is None


@pytest.mark.parametrize(("nodata", "dtype"), [(0, "uint16"), (-9999, "int16"), (np.nan, "float32")])
def test_pixels_without_data_in_any_band_are_told(nodata, dtype, tmp_path):
    pixels = trees.texture((3, 4, 6), 1, low=1, high=100, dtype=dtype)
    pixels[:, 1, 2] = nodata
    pixels[0, 2, 3] = nodata  # other bands have data there
    valid = np.ones((4, 6), bool)
    valid[1, 2] = False
    valid[2, 3] = nodata == 0  # dark water is zero in a band or two
    np.testing.assert_array_equal(read(trees.save_tiff(tmp_path / "x.tif", pixels, nodata=nodata)).valid, valid)
    assert read(trees.save_tiff(tmp_path / "y.tif", np.ones((1, 4, 6), dtype), nodata=nodata)).valid is None


def test_names_of_bands_are_those_of_the_file(tmp_path):
    pixels = np.ones((3, 4, 4), np.uint16)
    assert read(trees.save_tiff(tmp_path / "x.tif", pixels, names=("B4", "", "B2"))).names == ("B4", "", "B2")
    assert read(trees.save_picture(tmp_path / "x.png", np.ones((3, 4, 4), np.uint8))).names == ("", "", "")


@pytest.mark.parametrize("name", ["a b!c?.tif", "zip+x.tif", "a\nb\x1b[31m.tif", "ä€.png", "\udcff.png"])
def test_files_may_have_any_name(name, tmp_path):
    pixels = trees.texture((3, 4, 4), 1)
    plain = trees.save(tmp_path / f"plain{name[-4:]}", pixels)
    plain.rename(tmp_path / name)
    np.testing.assert_array_equal(read(tmp_path / name).pixels, pixels)
    (tmp_path / name).write_bytes(b"no image")
    refused(tmp_path / name, "is not a whole")


# ---------------------------------------------------------------- refusals


def test_a_geotiff_whose_name_is_no_text_is_refused_in_a_line(tmp_path):
    """GDAL takes names in UTF-8 alone."""
    path = trees.save_tiff(tmp_path / "x.tif", np.ones((1, 4, 4), np.uint8)).rename(tmp_path / "\udcff.tif")
    assert r"\udcff.tif" in refused(path, "is not a whole GeoTIFF: 'utf-8' codec")


@pytest.mark.parametrize("colour", [2, 4, 6])
def test_sixteen_bit_colours_are_refused_and_not_cut_to_eight(colour, tmp_path):
    refused(trees.deep_png(tmp_path / "x.png", colour=colour), "16-bit colour PNG: expected 8-bit colour")


def test_sixteen_bit_gray_is_fine(tmp_path):
    assert read(trees.deep_png(tmp_path / "x.png", colour=0)).pixels.dtype == np.uint16


def test_inks_are_refused(tmp_path):
    refused(save_image(tmp_path / "x.jpg", Image.new("CMYK", (8, 8))), "colour mode CMYK: expected gray or RGB")


def test_complex_numbers_are_refused(tmp_path):
    refused(trees.save_tiff(tmp_path / "x.tif", np.ones((1, 4, 4), np.complex64)), "type complex64: expected one real")


def test_a_recipe_renamed_to_tif_is_not_followed(tmp_path):
    """A VRT names other files, wherever they are."""
    secret = trees.save_tiff(tmp_path / "secret.tif", np.ones((1, 4, 4), np.uint8))
    source = f"<SimpleSource><SourceFilename>{secret}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>"
    band = f'<VRTRasterBand dataType="Byte" band="1">{source}</VRTRasterBand>'
    (tmp_path / "x.tif").write_text(f'<VRTDataset rasterXSize="4" rasterYSize="4">{band}</VRTDataset>')
    refused(tmp_path / "x.tif", "not a whole GeoTIFF")


@pytest.mark.parametrize("written", [".png", ".tif", ".webp"])
@pytest.mark.parametrize("named", [".png", ".tif", ".webp", ".jpg"])
def test_a_file_is_what_its_suffix_says_or_refused(written, named, tmp_path):
    path = trees.save(tmp_path / f"a{written}", trees.texture((3, 4, 4), 1)).rename(tmp_path / f"b{named}")
    if written == named:
        read(path)
    else:
        kind = {".png": "PNG", ".tif": "TIFF", ".webp": "WebP"}[written]
        refused(path, rf"is not a whole .*: it looks like a {kind}: rename it to \{written}$")
        path.write_bytes(b"no image")
        refused(path, r"is not a whole .*: it is not a (PNG|TIFF|WebP|JPEG) file$")


def tiff_header(width, height, *, rows=None):
    """A TIFF that promises this size and has 8 bytes of pixels."""
    entries = [
        (256, width),
        (257, height),
        (258, 8),
        (259, 1),
        (262, 1),
        (273, 200),
        (277, 1),
        (278, rows or height),
        (279, 8),
    ]
    body = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
    return (b"II*\0" + struct.pack("<IH", 8, len(entries)) + body + b"\0" * 4).ljust(208, b"\0")


@pytest.mark.parametrize("size", [(100_000, 100_000), (2**31 - 1, 2**31 - 1), (2**31 - 1, 1), (40_000, 30_000)])
def test_a_tiff_that_promises_too_much_is_refused_at_once(size, tmp_path):
    (tmp_path / "x.tif").write_bytes(tiff_header(*size))
    start = time.perf_counter()
    refused(tmp_path / "x.tif", "expected at most 1,073,741,824 numbers|is not a whole GeoTIFF")
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("side", [10_000, 20_000, 60_000, 2**31 - 1])
def test_a_png_that_promises_too_much_is_refused_at_once_and_without_warnings(side, tmp_path):
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    (tmp_path / "x.png").write_bytes(trees.png(("IHDR", header), ("IDAT", b"\0" * 8), ("IEND", b"")))
    start = time.perf_counter()
    refused(tmp_path / "x.png", "expected at most|is not a whole PNG")
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("suffix", [*PICTURES, ".tif"])
def test_a_file_cut_anywhere_is_refused_or_whole(suffix, tmp_path):
    """A few bytes at the end of a PNG say nothing about pixels."""
    pixels = trees.texture((3, 16, 20), 1)
    content = trees.save(tmp_path / f"a{suffix}", pixels).read_bytes()
    expected = read(tmp_path / f"a{suffix}").pixels
    path, whole = tmp_path / f"b{suffix}", []
    for length in {*range(1, len(content), max(1, len(content) // 40)), len(content) - 1, len(content) - 20}:
        path.write_bytes(content[:length])
        found = attempted(path)
        if isinstance(found, str):
            assert str(path) in found
        else:
            np.testing.assert_array_equal(found, expected)
            whole.append(length)
    assert all(length >= len(content) - 20 for length in whole)


@pytest.mark.parametrize("suffix", [*PICTURES, ".tif"])
def test_bytes_changed_anywhere_never_end_in_anything_but_pixels_or_a_line(suffix, tmp_path):
    content = trees.save(tmp_path / f"a{suffix}", trees.texture((3, 16, 20), 1)).read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / f"b{suffix}"
    for attempt in range(150):
        changed = bytearray(content)
        reach = len(content) if attempt % 2 else min(200, len(content))
        for place in rng.integers(0, reach, 3):
            changed[place] = rng.integers(0, 256)
        path.write_bytes(bytes(changed))
        found = attempted(path)
        assert str(path) in found if isinstance(found, str) else found.ndim == 3


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_no_file_is_refused(suffix, tmp_path):
    refused(tmp_path / f"none{suffix}", r"none\.\w+ cannot be read: No such file or directory")
    (tmp_path / f"empty{suffix}").touch()
    refused(tmp_path / f"empty{suffix}", r"empty\.\w+ is empty: expected an image")
    (tmp_path / f"folder{suffix}").mkdir()
    refused(tmp_path / f"folder{suffix}", "it is not a file")
    os.mkfifo(tmp_path / f"pipe{suffix}")
    refused(tmp_path / f"pipe{suffix}", "it is not a file")
    (tmp_path / f"link{suffix}").symlink_to(tmp_path / "nowhere")
    refused(tmp_path / f"link{suffix}", "No such file")


@pytest.mark.parametrize("name", ["x.gif", "x", "x.vrt", "x.png.txt"])
def test_other_suffixes_are_refused(name, tmp_path):
    (tmp_path / name).write_bytes(b"x")
    refused(tmp_path / name, r"expected a name ending in \.png, ")


@pytest.mark.parametrize(("suffix", "module", "extra"), [(".png", "PIL", "pictures"), (".tif", "rasterio", "geo")])
def test_a_missing_package_is_named_with_how_to_install_it(suffix, module, extra, tmp_path, monkeypatch):
    path = trees.save(tmp_path / f"x{suffix}", trees.texture((3, 4, 4), 1))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf"pip install 'emrdm\[{extra}\]'"):
        read(path)


def test_transparency_and_a_mask_inside_the_file_are_told(tmp_path):
    pixels = trees.texture((4, 4, 6), 1)
    pixels[3] = 255
    pixels[3, 1, 2] = 0
    known = np.ones((4, 6), bool)
    known[1, 2] = False
    raster = read(trees.save_tiff(tmp_path / "alpha.tif", pixels, photometric="RGB", alpha="YES"))
    assert raster.pixels.shape == (3, 4, 6)
    np.testing.assert_array_equal(raster.valid, known)
    pixels[3] = trees.texture((1, 4, 6), 2)[0]  # near infrared that a program called transparency
    raster = read(trees.save_tiff(tmp_path / "nir.tif", pixels, photometric="RGB", alpha="YES"))
    np.testing.assert_array_equal(raster.pixels, pixels)
    assert raster.valid is None
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        path = trees.save_tiff(tmp_path / "mask.tif", pixels[:3])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has no georeference, which is not the point
            with rasterio.open(path, "r+") as file:
                file.write_mask(known)
    np.testing.assert_array_equal(read(path).valid, known)
