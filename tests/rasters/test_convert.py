"""Numbers of a network as numbers of a file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from emrdm.rasters.convert import avoiding, halved, saturate
from emrdm.rasters.validity import with_data

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32")
ODD = (
    -5.0,
    70000.0,
    float("nan"),
    float("inf"),
    float("-inf"),
    -0.5,
    0.5,
    1.5,
    254.5,
    255.5,
    65535.5,
    2.0**31,
    2.0**33,
)


def values_of(dtype):
    width = np.dtype(dtype).itemsize * 8
    number = st.one_of(st.sampled_from(ODD), st.floats(width=width), st.floats(-70000, 70000, width=width))
    return hnp.arrays(dtype, hnp.array_shapes(min_dims=3, max_dims=3, max_side=4), elements=number)


def by_hand(value, dtype):
    """One number in exact arithmetic; Python rounds halves to even, too."""
    ends = np.iinfo(dtype)
    if np.isnan(value):
        return 0
    return int(min(max(value, ends.min), ends.max)) if np.isinf(value) else min(max(round(value), ends.min), ends.max)


@pytest.mark.parametrize("dtype", INTEGERS)
@given(values=st.one_of(values_of("float32"), values_of("float64")))
def test_integers_saturate_and_never_wrap(dtype, values):
    result = saturate(values, dtype)
    assert result.dtype == dtype
    assert (
        result.tolist() == np.array([by_hand(x, dtype) for x in values.ravel().tolist()]).reshape(values.shape).tolist()
    )


@given(values=st.one_of(values_of("float32"), values_of("float64")))
def test_floats_stay_what_they_are_as_far_as_they_fit(values):
    result = saturate(values, "float32")
    assert result.dtype == np.float32
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(result), kind(values))
    fits = np.isfinite(values) & (np.abs(values) <= np.finfo(np.float32).max)
    np.testing.assert_array_equal(result[fits], values[fits].astype(np.float32))


def test_what_is_given_is_not_changed():
    values = np.array([[[np.nan, 300.0, -1.0]]], np.float32)
    saturate(values, "uint8")
    np.testing.assert_array_equal(values, np.array([[[np.nan, 300.0, -1.0]]], np.float32))


@pytest.mark.parametrize("nodata", [0, 255, 7, -1, 7.5, None])
@given(pixels=hnp.arrays("uint8", (2, 3, 3), elements=st.sampled_from([0, 1, 6, 7, 8, 254, 255])))
def test_no_pixel_with_data_becomes_nodata_and_the_others_stay(nodata, pixels):
    result = avoiding(pixels, nodata)
    was = np.ones((3, 3), bool) if nodata not in (0, 7, 255) else with_data(pixels, nodata)
    np.testing.assert_array_equal(result[:, was], pixels[:, was])
    assert np.abs(result.astype(int) - pixels).max() <= 1
    if nodata in (0, 7, 255):
        assert with_data(result, nodata).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("nodata", [-9999.0, 0.0, 1e-3, -3.4028234663852886e38, 3.4028234663852886e38])
def test_floats_close_to_nodata_are_moved_a_little(dtype, nodata):
    value = np.dtype(dtype).type(nodata)
    near = np.nextafter(value, np.dtype(dtype).type(0)) if nodata else value
    pixels = np.array([[[value, near, 1.0, np.inf]]], dtype)
    result = avoiding(pixels, nodata)
    distance = np.abs(result[..., :2].astype(np.longdouble) - np.longdouble(value))
    assert (distance > 4 * np.finfo(dtype).eps * abs(np.longdouble(value))).all()
    np.testing.assert_allclose(result, pixels, rtol=2e-6, atol=1e-37)
    np.testing.assert_array_equal(result[..., 2:], pixels[..., 2:])


@pytest.mark.parametrize("nodata", [None, float("nan"), float("inf")])
def test_nodata_that_no_pixel_with_data_can_be(nodata):
    pixels = np.array([[[0.0, 1.0]]], np.float32)
    assert avoiding(pixels, nodata) is pixels


@given(
    pixels=hnp.arrays("uint16", hnp.array_shapes(min_dims=3, max_dims=3, max_side=5)),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_half_is_the_mean_of_what_has_data(pixels, seed):
    _, height, width = pixels.shape
    valid = np.random.default_rng(seed).random((height, width)) < 0.6
    half, known = halved(pixels, valid)
    assert half.dtype == pixels.dtype
    assert half.shape == (len(pixels), -(-height // 2), -(-width // 2))
    for i, j in np.ndindex(known.shape):
        mask = valid[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        assert known[i, j] == mask.any()
        if mask.any():
            square = pixels[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2][:, mask].astype(float)
            np.testing.assert_array_equal(half[:, i, j], np.rint(square.mean(1)))
