"""Before and after in one picture."""

import datetime
import logging

import numpy as np
import pytest

from emrdm.errors import InputError
from emrdm.pictures import Tile
from emrdm.rasters.grid import Grid
from emrdm.rasters.source import ArraySource
from emrdm.restoration import overview
from emrdm.restoration.overview import draw
from emrdm.window import Window

GAP, LABEL = 6, 18  # of a sheet


def image(value, size=(40, 60), *, bands=3, dtype=np.uint8, **options):
    return ArraySource(np.full((bands, *size), value, dtype), **options)


def tile(page, number, side, shape):
    """The pixels of a picture in the first row, without its border."""
    left, top = GAP + number * (side + GAP), GAP + LABEL
    return np.asarray(page)[top : top + shape[0], left : left + shape[1]]


def test_dates_come_first_and_the_clear_image_last():
    page = draw(image(10), [image(200), image(100)], size=300)
    side = 60  # as large as the images: 92 pixels are not enough to double them
    assert page.size == (3 * (side + GAP) + GAP, GAP + LABEL + 40 + GAP)
    for number, value in enumerate((200, 100, 10)):
        assert (tile(page, number, side, (40, 60)) == value).all()


def test_small_images_are_enlarged_by_whole_numbers():
    page = draw(image(10), [image(200)], size=600)
    assert page.width == 2 * (4 * 60 + GAP) + GAP
    assert (tile(page, 1, 240, (160, 240)) == 10).all()


def test_many_dates_take_several_rows():
    page = draw(image(10), [image(20 * i) for i in range(1, 9)], size=600)
    assert page.height == GAP + 3 * (180 + LABEL + GAP) - 60
    assert page.width == 3 * (180 + GAP) + GAP


def test_contrast_is_that_of_the_clear_image():
    rng = np.random.default_rng(0)
    ground = rng.integers(800, 1200, (3, 64, 64)).astype(np.uint16)
    clear, cloudy = ArraySource(ground), ArraySource((ground + 6000).astype(np.uint16))
    page = draw(clear, [cloudy, clear], size=220)
    before, same, after = (tile(page, number, 64, (64, 64)).astype(float) for number in range(3))
    assert (same == after).all()
    assert after.mean() == pytest.approx(118, abs=10)
    assert after.std() > 40
    assert before.min() > after.max() - 30


def test_pixels_without_data_are_checkered():
    pixels = np.full((3, 64, 64), 10, np.uint8)
    pixels[:, :, 32:] = 0
    page = draw(ArraySource(pixels, nodata=0), [image(99, (64, 64))], size=150)
    found = tile(page, 1, 64, (64, 64))
    assert (found[:, :32] == 10).all()
    assert set(np.unique(found[:, 32:])) == {150, 190}
    assert (tile(page, 0, 64, (64, 64)) == 99).all()


def test_a_window_is_cut_out():
    pixels = np.zeros((1, 100, 200), np.uint8)
    pixels[:, 30:94, 70:134] = 77
    source = ArraySource(pixels)
    page = draw(source, [source], window=Window(30, 70, 64, 64), size=150)
    assert (tile(page, 0, 64, (64, 64)) == 77).all()


# ---------------------------------------------------------------- large images


class Recorded(overview.Source):
    """Remembers the windows that were read."""

    def __init__(self, inner):
        self.inner, self.windows = inner, []
        for key in ("name", "grid", "names", "dtype", "scales", "offsets", "date"):
            setattr(self, key, getattr(inner, key))

    def _read(self, window, bands):
        self.windows.append(window)
        return self.inner.read(window, bands)


def test_large_images_are_read_in_pieces_each_pixel_once(monkeypatch):
    monkeypatch.setattr(overview, "_PIECE", 50)
    rng = np.random.default_rng(0)
    source = Recorded(ArraySource(rng.integers(0, 99, (1, 333, 457)).astype(np.uint8)))
    seen = np.zeros((333, 457), int)
    steps = []
    draw(source, [image(1, (333, 457))], size=150, progress=lambda done, total: steps.append((done, total)))
    for window in source.windows:
        assert max(window.height, window.width) <= 50
        seen[window.rows, window.columns] += 1
    assert (seen == 1).all()
    assert steps[0] == (0, 2 * len(source.windows))
    assert steps[-1] == (2 * len(source.windows),) * 2


@pytest.mark.parametrize("piece", [16, 50, 1024])
def test_a_small_image_is_the_mean_of_squares_whatever_the_pieces(monkeypatch, piece):
    monkeypatch.setattr(overview, "_PIECE", piece)
    rng = np.random.default_rng(0)
    pixels, valid = rng.integers(1, 9999, (2, 53, 47)).astype(np.uint16), rng.random((53, 47)) < 0.6
    source = ArraySource(pixels, valid, scales=(0.5, 1.0), offsets=(0.0, -10.0))
    window, factor = Window(5, 3, 45, 40), 7
    found = overview._Reading(window, factor, 1, lambda _done, _total: None).small(source, (1, 0))
    assert found.image.shape == (2, 7, 6)
    for row in range(7):
        for column in range(6):
            part = np.s_[5 + 7 * row : min(12 + 7 * row, 50), 3 + 7 * column : min(10 + 7 * column, 43)]
            expected = pixels[:, *part][:, valid[part]].mean(1)
            assert found.image[:, row, column] == pytest.approx([expected[1] - 10, expected[0] / 2], rel=1e-5)
    assert found.valid.all()


def test_a_large_image_fits_the_size():
    page = draw(image(10, (900, 1700)), [image(200, (900, 1700))], size=700)
    assert 690 <= page.width <= 700
    assert (tile(page, 1, 341, (181, 341)) == 10).all()


# ---------------------------------------------------------------- bands


@pytest.mark.parametrize(
    ("names", "asked", "expected"),
    [
        (("B2", "B3", "B4", "B8"), (), (2, 1, 0)),
        (("B02", "B03", "B04"), (), (2, 1, 0)),
        (("blue", "green", "red"), (), (2, 1, 0)),
        (("", "", ""), (), (0, 1, 2)),
        (("",) * 13, (), (3, 2, 1)),
        (("VV", "VH"), (), (0,)),
        (("", "", "", ""), (), (0,)),
        (("B2", "B3", "B4", "B8"), ("b08", "B4", "B3"), (3, 2, 1)),
        (("B2", "B3", "B4", "B8"), ("B8",), (3,)),
        (("", "", "", ""), ("4", "2", "1"), (3, 1, 0)),
    ],
)
def test_bands_to_show(names, asked, expected):
    assert overview._bands(image(1, bands=len(names), names=names), asked) == expected


def test_a_guess_at_sentinel_2_is_told(caplog):
    with caplog.at_level(logging.INFO):
        overview._bands(image(1, bands=13), ())
    assert "taken for Sentinel-2's" in caplog.text


def test_colours_are_in_place():
    pixels = np.stack([np.full((64, 64), value, np.uint8) for value in (10, 20, 30)])
    source = ArraySource(pixels, names=("B2", "B3", "B4"))
    page = draw(source, [source], size=150)
    assert (tile(page, 0, 64, (64, 64)) == (30, 20, 10)).all()


def test_gray_beside_colour():
    gray = ArraySource(np.arange(4096, dtype=np.uint16).reshape(1, 64, 64))
    colours = ArraySource(np.arange(3 * 4096, dtype=np.uint16).reshape(3, 64, 64))
    page = draw(colours, [gray], size=150)
    assert tile(page, 0, 64, (64, 64)).std() > 50


# ---------------------------------------------------------------- uncertainty


def test_uncertainty_has_a_scale_with_its_range():
    spread = np.tile(np.linspace(0, 100, 64, dtype=np.float32), (2, 64, 1))
    plain = draw(image(9, (64, 64)), [image(9, (64, 64)), image(9, (64, 64))], size=220)
    page = draw(image(9, (64, 64)), [image(9, (64, 64))], uncertainty=ArraySource(spread), size=220)
    assert page.height == plain.height + 34
    assert page.width == plain.width
    found = tile(page, 2, 64, (64, 64)).astype(int)
    assert (found[0, 0] == (68, 1, 84)).all()
    assert (found[0, -1] == (253, 231, 37)).all()
    assert (np.diff(found[0].sum(-1)) > -4).all()  # never darker again
    legend = np.asarray(page)[plain.height :]
    assert (legend == (68, 1, 84)).all(-1).any()
    assert (legend < 90).all(-1).any()  # the words


def test_several_bands_of_uncertainty_count_together_and_outliers_do_not_set_the_scale():
    spread = np.stack([np.full((64, 64), 3, np.float32), np.full((64, 64), 4, np.float32)])
    spread[:, 0, 0] = 1e6
    _, highest = overview._in_colours(overview._Part(spread, np.ones((64, 64), bool)))
    assert highest == pytest.approx(12.5**0.5)
    _, none = overview._in_colours(overview._Part(spread, np.zeros((64, 64), bool)))
    assert none == 0


# ---------------------------------------------------------------- labels and mistakes


def test_labels_tell_the_date_once():
    day = datetime.date(2024, 5, 1)
    assert overview._label(image(1, name="/a/scene.tif", date=day)) == "before: 2024-05-01, scene.tif"
    assert overview._label(image(1, name="2024-05-01.tif", date=day)) == "before: 2024-05-01.tif"
    assert overview._label(image(1, name="scene.tif")) == "before: scene.tif"


def test_names_stand_above_in_order(monkeypatch):
    above = []
    monkeypatch.setattr(overview.pictures, "Tile", lambda title, pixels: above.append(title) or Tile(title, pixels))
    draw(
        image(1, name="truth.tif"), [image(2, name="a.tif"), image(3, name="b.tif")], names=["ours", "theirs", "truth"]
    )
    assert above == ["ours", "theirs", "truth"]


@pytest.mark.parametrize(
    ("cloudy", "options", "message"),
    [
        (image(1, (40, 61)), {}, "not on the same grid"),
        (image(1), {"window": Window(0, 0, 41, 60)}, r"0,0,41,60: expected a part of the 60 x 40 pixels of \w+$"),
        (image(1), {"window": Window(-1, 0, 4, 6)}, "expected a part"),
        (image(1), {"window": Window(0, 0, 0, 6)}, "expected a part"),
        (image(1), {"bands": ("B9",)}, "no band 'B9': it has no names; numbers go from 1 to 3"),
        (image(1), {"bands": ("1", "2")}, "expected three, or one"),
        (image(1), {"bands": ("4",)}, "no band '4'"),
        (image(1), {"size": 100}, "expected 146"),
        (image(1), {"names": ["ours"]}, "1 name for 2 images: expected one each"),
        (image(1), {"uncertainty": image(1, (3, 3))}, "not on the same grid"),
    ],
)
def test_mistakes_are_refused(cloudy, options, message):
    with pytest.raises(InputError, match=message):
        draw(image(1), [cloudy], **options)


def test_another_place_is_refused_but_a_picture_may_not_know_its_own():
    here, there = (Grid(40, 60, None, (10.0, 0.0, east, 0.0, -10.0, 0.0)) for east in (0.0, 70.0))
    with pytest.raises(InputError, match="not on the same grid"):
        draw(image(1, grid=here), [image(1, grid=there)])
    draw(image(1), [image(1, grid=there)], size=200)


def test_one_image_as_a_picture_and_another_with_its_contrast():
    draw = np.random.default_rng(0)
    clear = ArraySource(draw.uniform(0, 3000, (3, 90, 61)).astype(np.float32), names=("B4", "B3", "B2"))
    found, contrast = overview.picture(clear, size=32)
    assert found.shape == (30, 21, 3)
    again, same = overview.picture(clear, size=32, black_white=contrast)
    np.testing.assert_array_equal(found, again)
    assert same is contrast
    bright = ArraySource(np.full((3, 90, 61), 20000, np.float32), names=("B4", "B3", "B2"))
    assert overview.picture(bright, size=32, black_white=contrast)[0].min() > 200


def test_colours_lie_over_a_picture_where_something_is_known():
    deviations = np.zeros((3, 40, 40), np.float32)
    deviations[:, :, 20:] = 7
    valid = np.ones((40, 40), bool)
    valid[:10] = False
    share, highest = overview.spread(ArraySource(deviations, valid), size=40)
    assert highest == pytest.approx(7)
    assert np.isnan(share[:10]).all()
    picture = np.full((40, 40, 3), (90, 120, 30), np.uint8)
    found = overview.overlaid(picture, share)
    np.testing.assert_array_equal(found[:10], picture[:10])
    assert (found[10:, :20] == 80).all()  # nothing to be seen but gray
    assert np.ptp(found[10:, 20:].astype(int), axis=-1).min() > 100
