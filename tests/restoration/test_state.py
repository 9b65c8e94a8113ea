"""State between steps: tiles are blended when they are read, whole or absent, and Zarr reads them."""

from __future__ import annotations

import numpy as np
import pytest

from emrdm.rasters.tiles import Tile, TilePlan
from emrdm.restoration.state import StepState
from emrdm.window import Window

PLAN = TilePlan.over(150, 100, (64, 64), 16)


@pytest.fixture
def image():
    return np.random.default_rng(0).normal(size=(3, 150, 100)).astype(np.float32)


@pytest.fixture
def state(tmp_path, image):
    state = StepState(tmp_path / "step", PLAN, bands=3)
    state.create()
    for tile in PLAN:
        window = PLAN.window(tile)
        state.write(tile, image[:, window.rows, window.columns])
    return state


def test_tiles_of_one_image_are_read_as_that_image(state, image):
    np.testing.assert_allclose(state.read(Window(0, 0, 150, 100)), image, atol=1e-6)
    np.testing.assert_allclose(state.read(Window(31, 17, 60, 50)), image[:, 31:91, 17:67], atol=1e-6)


def test_a_window_reads_the_same_bits_as_the_whole(state):
    whole = state.read(Window(0, 0, 150, 100))
    for window in (Window(5, 6, 90, 80), Window(100, 50, 50, 50), Window(40, 0, 1, 100)):
        assert np.array_equal(state.read(window), whole[:, window.rows, window.columns])


def test_a_tile_that_was_left_out_counts_as_zero(state, image):
    tile = Tile(0, 0)
    (state.folder / "c/0/0/0/0/0").unlink()
    assert not state.has(tile)
    assert not state.own(tile).any()
    assert not state.read(Window(0, 0, 20, 20)).any()
    np.testing.assert_allclose(state.read(Window(100, 70, 20, 20)), image[:, 100:120, 70:90], atol=1e-6)


def test_half_a_tile_is_no_tile(state):
    path = state.folder / "c/1/0/0/0/0"
    path.write_bytes(path.read_bytes()[:100])
    assert not state.has(Tile(1, 0))
    assert len(list(state.done())) == len(PLAN) - 1


def test_zarr_reads_it(state, image):
    zarr = pytest.importorskip("zarr")
    array = zarr.open(state.folder, mode="r")
    assert array.shape == (3, 2, 3, 64, 64)
    np.testing.assert_array_equal(array[0, 0], image[:, :64, :64])


def test_nothing_is_left_when_the_disk_is_full(tmp_path):
    state = StepState(tmp_path / "step", PLAN, bands=3)  # without folders, writing fails
    with pytest.raises(Exception, match="cannot be written"):
        state.write(Tile(0, 0), np.zeros(state.shape, np.float32))
    assert not list(tmp_path.rglob("*.partial"))
