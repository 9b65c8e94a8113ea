"""Samples as rows of pictures."""

import numpy as np
import pytest
import torch
from tests.data import trees

from emrdm.data import CLEAR, THICK, Sample, open_dataset
from emrdm.data.bands import backscatter, eight_bit, reflectance
from emrdm.data.preview import display_limits, tiles, visible

RGB = eight_bit("red", "green", "blue")


def sample(**changes):
    torch.manual_seed(1)
    parts = {"cloudy": torch.rand(2, 3, 4, 6) * 2 - 1, "target": torch.rand(3, 4, 6) - 1}
    return Sample("lake", **parts | changes)


def labels(row):
    return [tile.label for tile in row]


def test_frames_masks_and_target_in_order():
    classes = torch.tensor([CLEAR, THICK], dtype=torch.uint8)[:, None, None].expand(2, 4, 6)
    row = tiles(sample(classes=classes), RGB, ())
    assert labels(row) == ["lake  frame 1", "mask", "frame 2", "mask", "target"]
    assert all(tile.pixels.shape == (4, 6, 3) and tile.pixels.dtype == np.uint8 for tile in row)
    assert len(np.unique(row[1].pixels.reshape(-1, 3), axis=0)) == 1
    assert row[3].pixels.min() > row[1].pixels.max()


def test_every_auxiliary_band_is_shown_once_after_its_frame():
    row = tiles(sample(aux=torch.rand(2, 2, 4, 6)), RGB, backscatter("VV", "VH"))
    assert labels(row) == ["lake  frame 1", "VV", "VH", "frame 2", "VV", "VH", "target"]
    assert not np.array_equal(row[1].pixels, row[2].pixels)


def test_dates_are_the_labels_where_they_are_known():
    row = tiles(sample(dates=("2020-01-01", "2020-02-01"), target=None), RGB, ())
    assert labels(row) == ["lake  2020-01-01", "2020-02-01"]


def test_eight_bit_pictures_are_shown_as_they_are():
    given = sample()
    row = tiles(given, RGB, ())
    expected = ((given.target.numpy() + 1) / 2 * 255).round().transpose(1, 2, 0)
    np.testing.assert_allclose(row[-1].pixels, expected, atol=1)


def test_bands_are_shown_as_red_green_and_blue_by_name():
    assert visible(reflectance("B2", "B3", "B8", "B4")) == (3, 1, 0)
    assert visible(reflectance("B8", "B11")) == (0,)


def test_other_pictures_take_black_and_white_from_the_clear_image():
    bands = reflectance("B4", "B3", "B2")
    given = sample(cloudy=torch.full((1, 3, 4, 6), 1.0), target=torch.linspace(-1, -0.8, 72).reshape(3, 4, 6))
    row = tiles(given, bands, ())
    assert row[0].pixels.min() == 255
    assert row[1].pixels.max() - row[1].pixels.min() > 200
    low, high = display_limits(given, bands)
    assert np.all(low >= -1)
    assert np.all(high < 0)


def test_pixels_without_data_have_no_say_in_black_and_white():
    bands = reflectance("B4", "B3", "B2")
    target = torch.linspace(-0.5, 0.0, 72).reshape(3, 4, 6)
    plain = display_limits(sample(target=target[:, 1:], cloudy=torch.zeros(1, 3, 3, 6)), bands)
    valid = torch.ones(4, 6, dtype=torch.bool)
    valid[0] = False
    spoilt = target.clone()
    spoilt[:, 0] = -1
    for found, expected in zip(display_limits(sample(target=spoilt, valid=valid), bands), plain, strict=True):
        np.testing.assert_allclose(found, expected)


def test_without_a_clear_image_the_darkest_frame_decides():
    bands = reflectance("B4", "B3", "B2")
    dark = torch.linspace(-1, -0.5, 72).reshape(1, 3, 4, 6)
    found = display_limits(sample(cloudy=torch.cat((torch.ones(1, 3, 4, 6), dark)), target=None), bands)
    expected = display_limits(sample(cloudy=dark, target=None), bands)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("case", ["rice2", "sen12ms-cr", "sen2-mtc-new", "pairs", "series", "synthetic"])
def test_samples_of_every_data_set_can_be_shown(case, built):
    entry = trees.CASES[case]
    dataset = open_dataset(entry.dataset, built(case), split="all", **entry.options)
    row = tiles(dataset[0], dataset.bands, dataset.aux)
    frames = len(dataset[0].cloudy)
    masks = dataset[0].classes is not None
    assert len(row) == frames * (1 + len(dataset.aux) + masks) + 1
    assert len({tile.pixels.shape for tile in row}) == 1
