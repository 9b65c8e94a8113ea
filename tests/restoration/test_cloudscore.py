"""Where clouds are, from one image alone."""

import os
from pathlib import Path

import numpy as np
import pytest

from emrdm.errors import InputError
from emrdm.restoration.cloudscore import CLOUDY, RADIUS, change_score, cloud_score

SENTINEL = ("B2", "B3", "B4", "B8", "B10", "B11")
# reflectance at the top of the atmosphere
CLOUD = (0.55, 0.53, 0.52, 0.56, 0.002, 0.45)
FOREST = (0.09, 0.07, 0.04, 0.25, 0.001, 0.12)
WATER = (0.10, 0.07, 0.04, 0.03, 0.001, 0.01)
SOIL = (0.14, 0.16, 0.22, 0.27, 0.001, 0.36)
SNOW = (0.85, 0.84, 0.83, 0.75, 0.003, 0.08)
CIRRUS = (0.11, 0.09, 0.06, 0.26, 0.040, 0.13)


def flat(colours, size=(8, 9)):
    return np.broadcast_to(np.array(colours, np.float32)[:, None, None], (len(colours), *size)).copy()


@pytest.mark.parametrize(
    ("ground", "cloudy"),
    [(CLOUD, True), (CIRRUS, True), (FOREST, False), (WATER, False), (SOIL, False), (SNOW, False)],
)
def test_typical_spectra_of_sentinel_2(ground, cloudy):
    score = cloud_score(flat(ground), SENTINEL)
    assert (score.shape, score.dtype) == ((8, 9), np.float32)
    assert ((score >= CLOUDY) == cloudy).all()
    assert ((score >= 0) & (score <= 1)).all()


def test_fewer_bands_see_less():
    for ground, cloudy in ((CLOUD, True), (FOREST, False), (WATER, False), (SNOW, True), (CIRRUS, False)):
        assert ((cloud_score(flat(ground[:3]), SENTINEL[:3]) >= CLOUDY) == cloudy).all()


def test_bands_are_found_by_name_whatever_their_order_and_spelling():
    score = cloud_score(flat(SOIL), SENTINEL)
    assert np.array_equal(cloud_score(flat(SOIL[::-1]), SENTINEL[::-1]), score)
    assert np.array_equal(cloud_score(flat(SOIL), ("B02", "b03", "b4", "B08", "B10", "b11")), score)


@pytest.mark.parametrize("names", [(), ("red", "green", "blue"), ("", "", ""), ("Red", "Green", "Blue")])
def test_pictures(names):
    for colours, cloudy in (
        ((0.9, 0.9, 0.92), True),
        ((0.35, 0.36, 0.36), True),  # dim cloud over the sea
        ((0.12, 0.15, 0.2), False),  # sea
        ((0.35, 0.5, 0.2), False),  # fields
        ((0.8, 0.7, 0.6), False),  # sand
    ):
        assert ((cloud_score(flat(colours), names) >= CLOUDY) == cloudy).all()


def test_a_gray_picture_is_judged_by_brightness():
    assert (cloud_score(flat((0.9,))) >= CLOUDY).all()
    assert (cloud_score(flat((0.1,))) < CLOUDY).all()


def test_single_bright_pixels_are_no_cloud():
    image = flat(FOREST, (11, 11))
    image[:, 5, 5] = CLOUD
    assert (cloud_score(image, SENTINEL) < CLOUDY).all()
    image[:, 2:9, 2:9] = np.array(CLOUD)[:, None, None]
    assert cloud_score(image, SENTINEL)[5, 5] == 1


def test_where_there_is_no_data_there_is_no_cloud_and_no_influence():
    image = flat(CLOUD, (10, 10))
    valid = np.ones((10, 10), bool)
    valid[:, 6:] = False
    expected = np.where(valid, cloud_score(image, SENTINEL), 0)
    image[:, ~valid] = np.nan
    assert np.array_equal(cloud_score(image, SENTINEL, valid=valid), expected)
    image[:, ~valid] = 0
    assert np.array_equal(cloud_score(image, SENTINEL, valid=valid), expected)


@pytest.mark.parametrize("score", [lambda a, b: cloud_score(a, ("B4", "B3", "B2")), change_score])
def test_a_window_with_its_surroundings_gives_the_same_bits(score):
    first, second = np.random.default_rng(0).random((2, 3, 40, 50), np.float32) / 3
    whole = score(first, second)
    part = np.s_[:, 10 - RADIUS : 20 + RADIUS, 30 - RADIUS : 45 + RADIUS]
    found = score(first[part], second[part])[RADIUS:-RADIUS, RADIUS:-RADIUS]
    assert np.array_equal(found, whole[10:20, 30:45])
    assert len(np.unique(whole)) > 100


def test_mistakes_are_refused():
    with pytest.raises(InputError, match="blue is not among B4, B3"):
        cloud_score(flat((0.1, 0.1)), ("B4", "B3"))
    with pytest.raises(InputError, match="red is not among none"):
        cloud_score(flat(CLOUD))
    with pytest.raises(InputError, match="one name a band"):
        cloud_score(flat(CLOUD), ("B2", "B3"))
    with pytest.raises(InputError, match="expected the same"):
        change_score(flat(CLOUD), flat(CLOUD[:2]))


def test_change_is_what_noise_is_not():
    rng = np.random.default_rng(0)
    ground = flat(FOREST, (40, 40))
    noisy = ground + 0.02 * rng.normal(size=ground.shape)
    assert (change_score(ground, noisy) < CLOUDY).all()
    cloudy = ground.copy()
    cloudy[:, 10:30, 10:30] += 0.1
    changed = change_score(cloudy, noisy) >= CLOUDY
    assert changed[12:28, 12:28].all()
    assert not changed[:7].any()
    assert change_score(ground, ground).max() == 0
    shadow = ground * 0.3
    assert (change_score(shadow, ground) >= CLOUDY).all()


def test_real_clouds_are_found():
    """Held-out images; the numbers of the module's docstring."""
    root = os.environ.get("EMRDM_DATA", "")
    if not root or not (Path(root) / "rice256/RICE2/mask").is_dir():
        pytest.skip("needs RICE2 in the folder named by EMRDM_DATA")
    from emrdm.rasters import read

    folder = Path(root) / "rice256/RICE2"
    hit = called = there = 0
    for name in (folder / "test.txt").read_text().split()[::3]:
        red, green, blue = read(folder / "mask" / f"{name}.png").pixels > 127
        image = read(folder / "cloud" / f"{name}.webp").pixels / np.float32(255)
        sure = (red & green & blue) | ~(red | green | blue)  # other colours are shadow or thin cloud, mixed
        cloud = cloud_score(image, ("red", "green", "blue")) >= CLOUDY
        hit += (cloud & red & sure).sum()
        called += (cloud & sure).sum()
        there += (red & sure).sum()
    assert 2 * hit / (called + there) > 0.6
