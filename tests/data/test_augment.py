"""Augmentation: decided by the key alone, all images alike, every symmetry as often as it should be."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.samples import IMAGES, assert_same

from emrdm.data import Sample, augment
from emrdm.data.augment import thinned, toned
from emrdm.errors import DataError

KEYS = st.integers(0, 2**64 - 1)
KINDS = st.sampled_from(["none", "flips-and-turns", "dihedral"])


def numbered(height=5, width=7):
    """A sample whose pixels are numbered, the same numbers in every image."""
    places = torch.arange(height * width).reshape(height, width)
    return Sample(
        "x",
        cloudy=places.float().expand(2, 3, -1, -1) + torch.arange(6).reshape(2, 3, 1, 1) * 1000,
        target=places.float().expand(3, -1, -1).clone(),
        aux=places.float().expand(2, 1, -1, -1).clone(),
        classes=places.to(torch.uint8).expand(2, -1, -1).clone(),
        valid=places % 3 == 0,
        dates=("2020-01-01", "2020-01-02"),
        repaired={"nan": 2},
    )


def flipped_and_turned(x, flip, turns):
    """The published recipe, in numpy: a flip of rows, of columns or none, and then quarter turns."""
    x = np.asarray(x)
    x = x[::-1] if flip == 1 else x[:, ::-1] if flip == 2 else x
    return np.rot90(x, turns)


@given(key=KEYS, kind=KINDS, crop=st.none() | st.integers(1, 5))
@settings(deadline=None)
def test_all_images_of_a_sample_are_changed_alike(key, kind, crop):
    sample = numbered()
    found = augment(sample, key, kind=kind, crop=crop)
    places = found.target[0]
    for frame in range(2):
        for band in range(3):
            assert torch.equal(found.cloudy[frame, band], places + 1000 * (3 * frame + band))
        assert torch.equal(found.aux[frame, 0], places)
        assert torch.equal(found.classes[frame], places.to(torch.uint8))
    assert torch.equal(found.valid, places.long() % 3 == 0)
    assert (found.name, found.dates, found.repaired) == (sample.name, sample.dates, sample.repaired)
    for image in IMAGES:
        assert getattr(found, image).dtype == getattr(sample, image).dtype


@given(key=KEYS, kind=KINDS, crop=st.none() | st.integers(1, 5))
@settings(deadline=None)
def test_the_key_alone_decides(key, kind, crop):
    first = augment(numbered(), key, kind=kind, crop=crop)
    torch.manual_seed(key % 1000)
    state = torch.get_rng_state()
    assert_same(augment(numbered(), key, kind=kind, crop=crop), first)
    assert torch.equal(torch.get_rng_state(), state)


@given(key=KEYS, kind=st.sampled_from(["flips-and-turns", "dihedral"]))
@settings(deadline=None)
def test_nothing_is_lost_and_the_result_is_a_symmetry_of_the_rectangle(key, kind):
    found = augment(numbered(), key, kind=kind).target[0].numpy()
    plain = numbered().target[0]
    assert any(np.array_equal(found, flipped_and_turned(plain, flip, turns)) for flip in range(3) for turns in range(4))


def counted(kind, draws):
    plain = numbered(3, 3).target[0]
    sample = Sample("x", plain[None, None].clone())
    return Counter(augment(sample, key, kind=kind).cloudy[0, 0].numpy().tobytes() for key in range(draws))


def test_flips_and_turns_come_as_often_as_all_twelve_combinations_do():
    draws, plain = 6000, numbered(3, 3).target[0]
    expected = Counter(flipped_and_turned(plain, flip, turns).tobytes() for flip in range(3) for turns in range(4))
    assert sorted(expected.values()) == [1, 1, 1, 1, 2, 2, 2, 2]
    found = counted("flips-and-turns", draws)
    assert set(found) == set(expected)
    surprise = sum((found[k] - draws * n / 12) ** 2 / (draws * n / 12) for k, n in expected.items())
    assert surprise < 24.3  # chi-square with 7 degrees of freedom: once in a thousand


def test_the_eight_symmetries_come_equally_often():
    draws = 6000
    found = counted("dihedral", draws)
    assert len(found) == 8
    assert sum((n - draws / 8) ** 2 / (draws / 8) for n in found.values()) < 24.3


def test_crops_are_squares_from_everywhere_in_the_image():
    found = [augment(numbered(), key, kind="none", crop=3).target[0] for key in range(400)]
    assert {tuple(crop.shape) for crop in found} == {(3, 3)}
    corners = Counter(divmod(int(crop[0, 0]), 7) for crop in found)
    assert set(corners) == {(row, column) for row in range(3) for column in range(5)}
    assert min(corners.values()) > 8  # 27 each on average
    for crop in found:
        row, column = divmod(int(crop[0, 0]), 7)
        assert torch.equal(crop, numbered().target[0, row : row + 3, column : column + 3])


def test_nothing_is_changed_where_nothing_is_asked_for():
    assert_same(augment(numbered(), 5, kind="none"), numbered())


def test_images_that_are_not_there_stay_away():
    found = augment(Sample("x", torch.zeros(1, 1, 4, 4)), 5, crop=2)
    assert (found.target, found.aux, found.classes, found.valid) == (None,) * 4


@pytest.mark.parametrize("crop", [6, 100])
def test_an_image_smaller_than_the_crop_is_refused_by_name(crop):
    with pytest.raises(DataError, match=f"x is 7 x 5 pixels: expected {crop} x {crop} at least"):
        augment(numbered(), 1, crop=crop)


def test_thinner_clouds_lie_between_the_clear_and_the_cloudy_image():
    sample = numbered()
    amounts = []
    for key in range(2000):
        found = thinned(sample, key, share=0.25)
        if found is sample:
            continue
        amount = (found.cloudy - sample.target) / (sample.cloudy - sample.target)
        amounts.append(float(amount[-1, -1, 0, 0]))
        torch.testing.assert_close(found.cloudy, torch.lerp(sample.target, sample.cloudy, amounts[-1]))
        assert_same(dataclasses.replace(found, cloudy=sample.cloudy), sample)
    assert abs(len(amounts) / 2000 - 0.25) < 0.03
    counts, _ = np.histogram(amounts, bins=5, range=(0, 1))
    assert counts.sum() == len(amounts)
    assert counts.min() > 60


def test_clouds_stay_as_they_are_where_no_share_is_thinned_or_the_truth_is_unknown():
    sample = numbered()
    unknown = dataclasses.replace(sample, target=None)
    assert all(thinned(sample, key, share=0.0) is sample for key in range(50))
    assert all(thinned(unknown, key, share=1.0) is unknown for key in range(50))


def pictured(frames=2):
    """A sample of values in [-1, 1], black and white among them."""
    values = torch.linspace(-1, 1, 3 * 8 * 9).reshape(3, 8, 9)
    return Sample("x", cloudy=values.expand(frames, -1, -1, -1).clone(), target=values.flip(-1).clone(), aux=None)


def test_tones_change_alike_in_all_images_and_leave_black_and_white():
    sample = pictured()
    powers = []
    for key in range(300):
        found = toned(sample, key, strength=0.3)
        torch.testing.assert_close(found.cloudy, found.target.flip(-1).expand(2, -1, -1, -1))
        bands = found.target.flip(-1)
        assert bands[0].min() == -1
        assert bands[2].max() == 1
        assert (bands.flatten(1).diff() > 0).all()  # what was brighter stays brighter
        powers.append(
            [
                float(torch.log((b[4, 4] + 1) / 2) / torch.log((s[4, 4] + 1) / 2))
                for b, s in zip(bands, sample.cloudy[0], strict=True)
            ]
        )
    logs = torch.tensor(powers).log()
    common = logs.mean(1)
    assert abs(float(logs.std()) - 0.3 * 1.25**0.5) < 0.03
    assert abs(float(common.mean())) < 0.06
    assert abs(float((logs - common[:, None]).std()) - 0.15 * (2 / 3) ** 0.5) < 0.02


def test_without_strength_tones_stay():
    sample = pictured()
    assert toned(sample, 5, strength=0.0) is sample
    assert toned(pictured(), 5, strength=0.2).target is not None
    assert toned(dataclasses.replace(sample, target=None), 5, strength=0.2).target is None
