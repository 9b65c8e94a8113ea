"""Arrays as pictures, and sheets of them."""

import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from emrdm import pictures
from emrdm.errors import InputError, MissingDependencyError


def tile(height=4, width=6, label="x", value=200):
    return pictures.Tile(label, np.full((height, width, 3), value, np.uint8))


# ---------------------------------------------------------------- colours


@settings(deadline=None)
@example(np.full((4, 2, 3), 3e38, np.float32), [0, 1, 2, 3], 0.25)
@given(
    arrays.arrays(np.float32, (4, 2, 3), elements=st.floats(width=32)), st.permutations(range(4)), st.floats(0.1, 1e4)
)
def test_three_bands_become_a_picture_and_values_outside_saturate(image, order, white):
    found = pictures.colour(image, order[:3], (-1.0, white))
    assert (found.shape, found.dtype) == ((2, 3, 3), np.uint8)
    for channel, band in enumerate(order[:3]):
        for x, y in zip(image[band].ravel().tolist(), found[..., channel].ravel().tolist(), strict=True):
            expected = 0 if np.isnan(x) else min(max((x + 1) / (white + 1), 0), 1) * 255
            assert abs(y - expected) <= 0.5 + 1e-3


def test_one_band_is_gray():
    image = np.linspace(-1, 1, 12).reshape(1, 3, 4)
    found = pictures.colour(image, (0,))
    assert (found == found[..., :1]).all()
    assert (found.min(), found.max()) == (0, 255)


def test_limits_leave_a_share_at_each_end_and_one_contrast_for_all_bands():
    rng = np.random.default_rng(1)
    image = np.stack([rng.uniform(0, 1, (50, 50)), rng.uniform(5, 8, (50, 50))])
    low, high = pictures.limits(image)
    np.testing.assert_allclose(low.ravel(), [np.quantile(band, 0.02) for band in image])
    np.testing.assert_allclose((high - low).ravel(), np.ptp(np.quantile(image[1], (0.02, 0.98))))
    below = (image < low).mean((1, 2))
    np.testing.assert_allclose(below, 0.02, atol=0.002)


@pytest.mark.parametrize("image", [np.full((3, 2, 2), np.nan), np.zeros((3, 0)), np.full((3, 2, 2), 7.0)])
def test_limits_of_images_of_nothing_are_no_division_by_zero(image):
    low, high = pictures.limits(image)
    assert np.all(np.asarray(high) > np.asarray(low))


def test_values_that_are_not_finite_have_no_say():
    image = np.linspace(0, 1, 100).reshape(1, 10, 10)
    plain = pictures.limits(image)
    spoilt = np.concatenate((image.reshape(1, -1), [[np.nan, np.inf, -np.inf]]), axis=1)
    for a, b in zip(pictures.limits(spoilt), plain, strict=True):
        np.testing.assert_allclose(a, b)


def test_every_class_has_its_own_colour():
    found = pictures.classes(np.array([[0, 1, 2], [3, 255, 0]]))
    assert len(np.unique(found.reshape(-1, 3), axis=0)) == 5


# ---------------------------------------------------------------- sheets


@settings(deadline=None, max_examples=25)
@given(
    rows=st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(any),
    side=st.integers(1, 60),
    size=st.tuples(st.integers(1, 80), st.integers(1, 80)),
    label=st.text(max_size=40),
    title=st.text(max_size=80),
)
def test_a_sheet_is_as_large_as_its_rows_and_columns_whatever_it_says(rows, side, size, label, title):
    page = pictures.sheet([[tile(*size, label)] * count for count in rows], side=side, title=title)
    top = 30 if title else 6
    assert page.size == (max(rows) * (side + 6) + 6, top + len(rows) * (side + 24))


def test_pictures_lie_where_their_row_and_column_are():
    rows = [[tile(value=10), tile(value=20)], [tile(value=30)]]
    page = np.asarray(pictures.sheet(rows, side=24))
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            y, x = 6 + i * 48 + 18, 6 + j * 30
            assert (page[y : y + 16, x : x + 24] == entry.pixels[0, 0, 0]).all()  # 4 x 6, four times as large
    assert (page[78:94, 36:60] == 255).all()


def test_names_with_line_breaks_stay_on_their_line():
    plain, odd = (pictures.sheet([[tile(label=label)]], side=100) for label in (r"a\nb", "a\nb"))
    assert np.array_equal(np.asarray(plain), np.asarray(odd))
    pictures.sheet([[tile(label="\udcff\x1b[31m\u202e")]], title="a\nb\udcff")


def test_long_labels_are_cut_in_the_middle():
    from PIL import ImageDraw, ImageFont

    draw, font = ImageDraw.Draw(Image.new("RGB", (1, 1))), ImageFont.load_default(11)
    text = "ROIs1158_spring_106_p12345 of a very long name indeed"
    short = pictures._fitting(draw, text, font, 100)
    assert draw.textlength(short, font=font) <= 100
    start, end = short.split("...")
    assert text.startswith(start)
    assert text.endswith(end)
    assert min(len(start), len(end)) > 4
    assert pictures._fitting(draw, "short", font, 100) == "short"


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_a_sheet_of_nothing_is_refused(rows):
    with pytest.raises(InputError, match="one picture at least"):
        pictures.sheet(rows)


def test_a_sheet_that_no_memory_holds_is_refused_at_once():
    with pytest.raises(InputError, match=r"would be 1000012 x 1000030 pixels: expected fewer rows or smaller"):
        pictures.sheet([[tile()]], side=1_000_000)


@pytest.mark.parametrize(
    ("size", "side", "expected"),
    [((100, 50), 20, (10, 20)), ((4, 6), 24, (24, 16)), ((7, 7), 20, (14, 14)), ((300, 1), 30, (1, 30))],
)
def test_large_pictures_shrink_and_small_ones_grow_by_whole_numbers(size, side, expected):
    assert pictures.shrunk(tile(*size).pixels, side).size == expected


def test_enlarging_repeats_pixels():
    pixels = np.random.default_rng(1).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    found = np.asarray(pictures.shrunk(pixels, 12))
    assert np.array_equal(found, pixels.repeat(3, 0).repeat(3, 1))


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".jpeg", ".webp", ".PNG"])
def test_a_picture_is_written_by_its_suffix(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    pictures.save(Image.new("RGB", (8, 4), (200, 10, 10)), path)
    with Image.open(path) as image:
        assert image.format == pictures.FORMATS[suffix.lower()]
        assert np.abs(np.asarray(image.convert("RGB")).astype(int) - (200, 10, 10)).max() < 12
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["x.gif", "x", "x.tif"])
def test_an_unknown_suffix_is_refused(name, tmp_path):
    with pytest.raises(InputError, match=r"expected a name ending in \.png, \.jpg"):
        pictures.save(Image.new("RGB", (2, 2)), tmp_path / name)


def test_without_pillow_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'emrdm\[pictures\]'"):
        pictures.sheet([[tile()]])


@pytest.mark.parametrize(("name", "width"), [("x.webp", 16384), ("x.jpg", 65501)])
def test_a_side_that_the_format_cannot_have_is_refused_and_nothing_is_left(name, width, tmp_path):
    with pytest.raises(InputError, match=rf"would be {width} x 1 pixels: expected {width - 1} at most"):
        pictures.save(Image.new("RGB", (width, 1)), tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    pictures.save(Image.new("RGB", (width - 1, 1)), tmp_path / name)


def test_what_is_brighter_than_land_can_still_be_told_apart():
    land = np.linspace(0, 1, 300, dtype=np.float32).reshape(3, 10, 10)
    black_white = pictures.limits(land)
    clouds = np.stack([np.linspace(1.5, 8, 100, dtype=np.float32).reshape(10, 10)] * 3)
    shown = pictures.colour(clouds, (0, 1, 2), black_white).astype(int)
    assert len(np.unique(shown)) > 15
    assert (np.diff(shown.reshape(-1, 3)[:, 0]) >= 0).all()
    assert pictures.colour(clouds, (0, 1, 2)).min() == 255  # plain limits saturate
