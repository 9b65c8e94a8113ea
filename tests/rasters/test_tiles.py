"""Tiles cover every pixel, weights sum to one, only neighbours meet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emrdm.errors import InputError
from emrdm.rasters.tiles import Axis, Tile, TilePlan, common, inside
from emrdm.window import Window


@given(st.integers(1, 3000), st.sampled_from([(256, 64, 16), (64, 16, 8), (64, 16, 1), (52, 16, 2), (48, 1, 1)]))
def test_weights_sum_to_one_and_tiles_lie_inside(length, shape):
    axis = Axis(length, *shape)
    total = np.zeros(max(length, axis.tile))
    for i, origin in enumerate(axis.origins):
        assert origin >= 0
        assert origin + axis.tile <= max(length, axis.tile)
        total[origin : origin + axis.tile] += axis.weights(i)
    np.testing.assert_allclose(total, 1, atol=2e-7)
    assert all(origin % axis.align == 0 for origin in axis.origins[:-1])
    overlaps = [axis.tile - (b - a) for a, b in zip(axis.origins, axis.origins[1:], strict=False)]
    assert all(overlap >= axis.overlap for overlap in overlaps)


@given(st.integers(1, 1500), st.integers(0, 1499), st.integers(1, 400))
def test_touching_names_every_tile_with_a_weight_and_no_other(length, start, size):
    axis = Axis(length, 64, 16)
    start = min(start, length - 1)
    stop = start + size
    expected = []
    for i, origin in enumerate(axis.origins):
        weights = axis.weights(i)
        if any(weights[p - origin] > 0 for p in range(max(start, origin), min(stop, origin + 64))):
            expected.append(i)
    assert axis.touching(start, stop) == expected


def test_weights_are_smooth_and_vanish_at_the_border_of_a_tile():
    axis = Axis(1000, 256, 64)
    weights = axis.weights(1)
    assert weights[0] < 1e-3
    assert weights[-1] < 1e-3
    assert np.abs(np.diff(weights)).max() < 1.6 / 64


def test_a_plan_is_made_of_two_axes():
    plan = TilePlan.over(500, 300, (128, 256), 32)
    tiles = list(plan)
    assert len(tiles) == len(plan)
    total = np.zeros((500, 300))
    for tile in tiles:
        window = plan.window(tile)
        total[window.rows, window.columns] += plan.weights(tile)
    np.testing.assert_allclose(total, 1, atol=1e-6)
    window = Window(100, 40, 60, 60)
    assert set(plan.touching(window)) <= set(tiles)
    assert plan.touching(Window(0, 0, 1, 1)) == [Tile(0, 0)]


def test_an_image_smaller_than_a_tile_has_one():
    plan = TilePlan.over(10, 20, (64, 64), 16)
    assert list(plan) == [Tile(0, 0)]
    assert plan.window(Tile(0, 0)) == Window(0, 0, 64, 64)


def test_no_overlap_is_refused():
    with pytest.raises(InputError, match="overlap of 0"):
        Axis(100, 64, 0)
    with pytest.raises(InputError, match="overlap of 40"):
        Axis(100, 64, 40)


def test_windows_meet():
    a, b = Window(0, 0, 10, 10), Window(6, 8, 10, 10)
    assert common(a, b) == Window(6, 8, 4, 2)
    assert inside(common(a, b), b) == (slice(0, 4), slice(0, 2))
    assert common(a, Window(50, 0, 3, 3)).height == 0
