"""TIFF directories read by hand: honest files pass, whatever their layout."""

import pytest
from tests.rasters import tiffs
from tests.rasters.tiffs import tags, tiff, write

from emrdm.errors import DataError
from emrdm.rasters.header import check_directories


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders_and_both_lengths(big, order, tmp_path):
    content = tiffs.gray(big=big, order=order)
    check_directories(write(tmp_path / "x.tif", content))
    for cut in range(2, len(content), 7):
        with pytest.raises(DataError, match=r"x\.tif is (cut off|not a whole GeoTIFF)"):
            check_directories(write(tmp_path / "x.tif", content[:cut]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xd8\xff\xe0 and more", "it looks like a JPEG: rename it to .jpg"),
        (b"\x89PNG\r\n\x1a\n and more", "it looks like a PNG: rename it to .png"),
        (b"RIFF\n\0\0\0WEBPVP8 ", "it looks like a WebP: rename it to .webp"),
        (b"RIFF\n\0\0\0WAVEfmt ", "it is not a TIFF file"),
        (b"II\x07\0 and more", "it is not a TIFF file"),
        (b"\xff", "it is not a TIFF file"),
    ],
)
def test_what_is_no_tiff_is_said_without_its_bytes(content, words, tmp_path):
    with pytest.raises(DataError) as caught:
        check_directories(write(tmp_path / "x.tif", content))
    assert str(caught.value) == f"{tmp_path / 'x.tif'} is not a whole GeoTIFF: {words}"


def test_strips_and_tiles(tmp_path):
    check_directories(write(tmp_path / "x.tif", tiff(tags(16, 20, tag_278=8), [bytes(128)] * 3)))
    check_directories(
        write(tmp_path / "x.tif", tiff(tags(40, 20, tag_322=16, tag_323=16), [bytes(256)] * 6, tiled=True))
    )
    with pytest.raises(DataError, match="has 5 blocks of pixels: expected 6"):
        check_directories(
            write(tmp_path / "x.tif", tiff(tags(40, 20, tag_322=16, tag_323=16), [bytes(256)] * 5, tiled=True))
        )


def test_bands_apart_have_blocks_of_their_own(tmp_path):
    apart = tags(16, 16, tag_277=3, tag_284=2, tag_258=[8, 8, 8])
    check_directories(write(tmp_path / "x.tif", tiff(apart, [bytes(256)] * 3)))
    with pytest.raises(DataError, match="has 1 block of pixels: expected 3"):
        check_directories(write(tmp_path / "x.tif", tiff(apart, [bytes(256)])))


def test_blocks_of_no_bytes_are_left_out_by_intent(tmp_path):
    check_directories(write(tmp_path / "x.tif", tiff(tags(16, 20, tag_278=8, tag_273=[0] * 3, tag_279=[0] * 3))))


def test_lengths_may_be_left_out(tmp_path):
    """By one old program or another, for one block that is not compressed."""
    content = tiff(tags(16, 16), [bytes(256)])
    place = content.index(b"\x17\x01\x04\0")
    check_directories(write(tmp_path / "x.tif", content[:place] + b"\x18\x01" + content[place + 2 :]))
