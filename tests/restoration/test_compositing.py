"""Clear pixels kept, restored ones led up to them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import distance_transform_edt, gaussian_filter

from emrdm.errors import InputError
from emrdm.restoration.compositing import grow, halo, keep_clear


def scene(seed=0, size=(96, 110), bands=2):
    """Original, restored, cloud and valid; the model's ground is off by a field that varies slowly."""
    rng = np.random.default_rng(seed)
    truth = gaussian_filter(rng.normal(size=(bands, *size)), (0, 2, 2))
    off = 0.5 + 3 * gaussian_filter(rng.normal(size=(bands, *size)), (0, 12, 12))
    cloud = gaussian_filter(rng.normal(size=size), 8) > 0.01
    valid = np.ones(size, bool)
    valid[:, -9:] = False
    original = np.where(cloud, 50.0, truth + 0.02 * rng.normal(size=truth.shape))
    original[:, ~valid] = np.nan
    return original.astype(np.float32), (truth + off).astype(np.float32), cloud, valid


def steps_at_the_border(image, cloud, valid):
    """Mean step between neighbours, across the border of the cloud and elsewhere."""
    steps = np.abs(np.diff(image, axis=2)).mean(0)
    both = valid[:, 1:] & valid[:, :-1]
    border = cloud[:, 1:] != cloud[:, :-1]
    return steps[both & border].mean() / steps[both & ~border].mean()


# ---------------------------------------------------------------- keep_clear


@pytest.mark.parametrize("feather", [0, 1, 5, 16])
def test_clear_pixels_keep_their_bits(feather):
    original, restored, cloud, valid = scene()
    found = keep_clear(original, restored, cloud, valid, feather=feather)
    kept = ~(cloud & valid)
    assert found.dtype == np.float32
    assert np.array_equal(found[:, kept].view(np.uint32), original[:, kept].view(np.uint32))
    assert np.isfinite(found[:, valid]).all()


def test_without_feather_it_is_cut_and_pasted():
    original, restored, cloud, valid = scene()
    found = keep_clear(original, restored, cloud, valid, feather=0)
    assert np.array_equal(found, np.where(cloud & valid, restored, original), equal_nan=True)
    assert halo(0) == 0


def test_no_seam_is_left():
    original, restored, cloud, valid = scene(size=(300, 300))
    cut, led = (keep_clear(original, restored, cloud, valid, feather=feather) for feather in (0, 16))
    assert steps_at_the_border(cut, cloud, valid) > 2
    assert steps_at_the_border(led, cloud, valid) < 1.05


def test_nothing_of_the_cloud_or_of_missing_data_is_mixed_in():
    original, restored, cloud, valid = scene()
    expected = keep_clear(original, restored, cloud, valid, feather=9)
    original[:, cloud & valid] = np.nan
    restored[:, ~valid] = np.inf
    found = keep_clear(original, restored, cloud, valid, feather=9)
    assert np.array_equal(found, expected, equal_nan=True)


def test_far_from_clear_ground_it_is_the_restored_image():
    original, restored, cloud, valid = scene()
    found = keep_clear(original, restored, cloud, valid, feather=6)
    far = valid & (distance_transform_edt(~(valid & ~cloud)) > 7 * 2**0.5)
    assert far.sum() > 500
    assert np.array_equal(found[:, far], restored[:, far])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 9), st.integers(0, 60), st.integers(0, 70), st.integers(1, 36), st.integers(1, 40))
def test_a_window_with_its_halo_gives_the_bits_of_the_whole(feather, row, column, height, width):
    original, restored, cloud, valid = scene()
    whole = keep_clear(original, restored, cloud, valid, feather=feather)
    far = halo(feather)
    top, left = max(0, row - far), max(0, column - far)
    part = np.s_[..., top : row + height + far, left : column + width + far]
    found = keep_clear(original[part], restored[part], cloud[part], valid[part], feather=feather)
    found = found[:, row - top :, column - left :][:, :height, :width]
    assert np.array_equal(found, whole[:, row : row + height, column : column + width], equal_nan=True)


def test_a_halo_that_is_too_small_would_show():
    original, restored, cloud, valid = scene()
    far = halo(9)
    moved = original.copy()
    clear = np.argwhere(valid & ~cloud)
    row, column = clear[len(clear) // 2]
    moved[:, row, column] += 1e6
    changed = keep_clear(moved, restored, cloud, valid, feather=9) != keep_clear(
        original, restored, cloud, valid, feather=9
    )
    rows, columns = np.nonzero((changed & (cloud & valid)).any(0))
    reach = max(np.abs(rows - row).max(), np.abs(columns - column).max())
    assert 9 <= reach <= far


def test_without_cloud_and_under_full_cover():
    original, restored, cloud, valid = scene()
    assert np.array_equal(
        keep_clear(original, restored, np.zeros_like(cloud), valid, feather=5), original, equal_nan=True
    )
    covered = keep_clear(original, restored, np.ones_like(cloud), valid, feather=5)
    assert np.array_equal(covered[:, valid], restored[:, valid])


def test_the_input_is_not_written_to():
    inputs = scene()
    copies = [array.copy() for array in inputs]
    keep_clear(*inputs, feather=5)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(inputs, copies, strict=True))


def test_mistakes_are_refused():
    original, restored, cloud, valid = scene()
    with pytest.raises(InputError, match="feathered over -1"):
        keep_clear(original, restored, cloud, valid, feather=-1)
    with pytest.raises(InputError, match=r"expected \(C, h, w\) twice"):
        keep_clear(original, restored[:1], cloud, valid, feather=1)
    with pytest.raises(InputError, match=r"expected \(C, h, w\) twice"):
        keep_clear(original, restored, cloud[1:], valid, feather=1)


# ---------------------------------------------------------------- grow


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(1, 20), st.integers(1, 20), st.integers(0, 5))
def test_a_mask_grows_by_a_disc(pixels, height, width, seed):
    mask = np.random.default_rng(seed).random((height, width)) < 0.03
    mask[0, 0] = True
    before = mask.copy()
    assert np.array_equal(grow(mask, pixels), distance_transform_edt(~mask) <= pixels)
    assert np.array_equal(mask, before)


def test_nothing_grows_from_nothing_and_not_backwards():
    assert not grow(np.zeros((5, 6), bool), 3).any()
    with pytest.raises(InputError, match="-2 pixels"):
        grow(np.zeros((5, 6), bool), -2)
