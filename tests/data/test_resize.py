"""Halving as MATLAB's imresize does, against loops over the published taps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emrdm.data.resize import halve


def by_loops(image):
    """Output pixel i weighs input pixels 2i - 3 to 2i + 4, mirrored with the edge repeated; rows, then columns."""
    taps = [-3 / 256, -9 / 256, 29 / 256, 111 / 256, 111 / 256, 29 / 256, -9 / 256, -3 / 256]

    def rows(x):
        length = len(x)
        result = np.zeros((length // 2, *x.shape[1:]))
        for i in range(length // 2):
            for k, tap in enumerate(taps):
                j = 2 * i - 3 + k
                j = -1 - j if j < 0 else 2 * length - 1 - j if j >= length else j
                result[i] += tap * x[j]
        return result

    return np.stack([rows(rows(band).T).T for band in image.astype(np.float64)])


@settings(deadline=None, max_examples=30)
@given(height=st.integers(4, 12), width=st.integers(4, 12), seed=st.integers(0, 1000))
def test_halving_against_loops(height, width, seed):
    image = np.random.default_rng(seed).integers(0, 256, (2, 2 * height, 2 * width), dtype=np.uint8)
    found = halve(image)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_loops(image), rtol=0, atol=2e-5)


def test_a_flat_image_stays_as_bright_as_it_was():
    np.testing.assert_allclose(halve(np.full((1, 16, 8), 255, np.uint8)), 255, rtol=1e-7)


def test_edges_overshoot_and_are_not_clipped():
    image = np.zeros((1, 16, 16), np.uint8)
    image[:, :, 8:] = 255
    found = halve(image)
    assert found.min() < -2
    assert found.max() > 257


@pytest.mark.parametrize("shape", [(1, 9, 16), (1, 16, 9), (1, 6, 16)])
def test_a_side_that_cannot_be_halved_is_refused(shape):
    with pytest.raises(ValueError, match="cannot be halved"):
        halve(np.zeros(shape))
