"""Box sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emrdm.restoration.blurring import box_sum, smooth_sum


@settings(deadline=None)
@given(st.integers(0, 20), st.integers(1, 9), st.integers(1, 9))
def test_it_is_the_sum_over_the_square_around_each_pixel(radius, height, width):
    image = np.random.default_rng(0).integers(0, 100, (2, height, width)).astype(np.float32)  # sums are exact
    found = box_sum(image, radius)
    for row in range(height):
        for column in range(width):
            near = image[:, max(0, row - radius) : row + radius + 1, max(0, column - radius) : column + radius + 1]
            assert (found[:, row, column] == near.sum((1, 2))).all()


@pytest.mark.parametrize("radius", [1, 2, 5, 8])
def test_a_window_with_its_surroundings_gives_the_same_bits(radius):
    image = np.random.default_rng(0).normal(size=(60, 70)).astype(np.float32)
    rows, columns = slice(20, 41), slice(17, 50)
    far = 2 * radius
    part = image[max(0, 20 - far) : 41 + far, max(0, 17 - far) : 50 + far]
    inner = smooth_sum(part, radius)[min(20, far) :, min(17, far) :][:21, :33]
    assert np.array_equal(inner, smooth_sum(image, radius)[rows, columns])
