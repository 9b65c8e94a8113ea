"""What stays on the device gives the same bits as what is read from files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from emrdm import EMRDM, open_scene
from emrdm.bench.paths import lively
from emrdm.rasters.source import ArraySource
from emrdm.restoration import Inputs, Plan, Settings
from emrdm.restoration.denoising import TileDenoiser
from emrdm.restoration.nearby import Nearby
from emrdm.window import Window


@pytest.fixture(scope="module")
def parts():
    model = lively(EMRDM.from_preset("tiny"))
    pixels = np.random.default_rng(0).integers(0, 255, (3, 150, 170)).astype(np.uint8)
    gap = np.zeros((150, 170), bool)
    gap[:80, 100:] = True
    scene = open_scene(ArraySource(pixels, names=("red", "green", "blue"), valid=~gap))
    plan = Plan.of(150, 170, model, Settings(tile=64))
    return plan, Inputs(scene, model.config), model


def run(parts, folder, budget):
    denoiser = TileDenoiser(*parts, folder, nearby=Nearby(budget))
    torch.set_num_threads(1)
    for step in range(len(denoiser.plan.steps)):
        denoiser.state(0, step + 1).create()
        for tile in denoiser.plan.tiles:
            denoiser.run(0, step, [tile])
    return denoiser, denoiser.result(0).read(Window(0, 0, 150, 170))


@pytest.mark.parametrize("budget", [10**9, 400_000])
def test_the_same_bits_whatever_is_kept(parts, tmp_path, budget, monkeypatch):
    _, expected = run(parts, tmp_path / "files", 0)
    reads = []
    monkeypatch.setattr(
        Inputs, "read", lambda self, window, read=Inputs.read: reads.append(window) or read(self, window)
    )
    denoiser, found = run(parts, tmp_path / "kept", budget)
    assert np.array_equal(found, expected)
    assert denoiser.nearby.left >= 0
    tiles, steps = len(denoiser.plan.tiles), len(denoiser.plan.steps)
    if budget == 10**9:
        empty = (len(reads) - tiles) / (steps - 1)  # tiles without data are looked at again
        assert empty == int(empty) < 3
    else:
        assert tiles < len(reads) < tiles * steps


def test_states_of_steps_that_are_over_are_let_go():
    nearby, state = Nearby(10_000), torch.ones(1, 10, 10)
    from emrdm.rasters.tiles import Tile

    for step in range(1, 20):
        nearby.keep_state(0, step, Tile(0, 0), state)
        assert nearby.left >= 10_000 - 2 * state.nbytes
