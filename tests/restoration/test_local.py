"""The two ways to go through tiles on one machine give the same; what goes wrong in a thread is heard."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from emrdm import EMRDM, EmrdmError, open_scene
from emrdm.bench.paths import lively
from emrdm.rasters.source import ArraySource
from emrdm.restoration import Inputs, Plan, Settings, local
from emrdm.restoration.denoising import TileDenoiser
from emrdm.restoration.memory import Room, parse_size
from emrdm.restoration.nearby import Nearby
from emrdm.window import Window


@pytest.fixture(scope="module")
def parts():
    model = lively(EMRDM.from_preset("tiny"))
    pixels = np.random.default_rng(0).integers(0, 255, (3, 150, 170)).astype(np.uint8)
    scene = open_scene(ArraySource(pixels, names=("red", "green", "blue")))
    return Plan.of(150, 170, model, Settings(tile=64)), Inputs(scene, model.config), model


@pytest.mark.parametrize("nearby", [0, 10**9])
def test_batches_with_readers_and_writers_give_what_single_tiles_give(parts, tmp_path, nearby):
    room, seen = Room(budget=10**9, tiles=5, readers=3, cache=10**7), []
    before = torch.get_num_threads()
    results = []
    for name, way in (("one by one", local._on_cpu), ("in batches", local._on_gpu)):
        denoiser = TileDenoiser(*parts, tmp_path / name, nearby=Nearby(nearby))
        torch.set_num_threads(1)
        try:
            local.all_steps(denoiser, way(denoiser, room), lambda done, total: seen.append((done, total)))
        finally:
            torch.set_num_threads(before)
        results.append(denoiser.result(0).read(Window(0, 0, 150, 170)))
        assert seen[-1] == (parts[0].calls, parts[0].calls)
        assert sorted(seen) == seen
        seen.clear()
    assert np.array_equal(*results)
    assert np.abs(results[0]).max() > 0


@pytest.mark.parametrize("way", [local._on_cpu, local._on_gpu])
@pytest.mark.parametrize("method", ["load", "compute", "store"])
def test_a_failure_in_a_thread_ends_the_run(parts, tmp_path, way, method, monkeypatch):
    def fail(self, *_):
        raise EmrdmError("no more")

    monkeypatch.setattr(TileDenoiser, method, fail)
    denoiser = TileDenoiser(*parts, tmp_path)
    room = Room(budget=10**9, tiles=4, readers=2, cache=10**7)
    with pytest.raises(EmrdmError, match="no more"):
        local.all_steps(denoiser, way(denoiser, room), lambda *_: None)


def test_a_budget_that_is_too_small_says_what_is_needed(parts):
    plan, _, model = parts
    for typed, said in (("100MB", "100MB"), ("10MB", "10MB"), ("0.05GB", "50MB"), ("64MiB", "64MiB"), ("7", "0.1GB")):
        with pytest.raises(EmrdmError, match=rf"--memory {said}: expected .*GB at least"):
            Room.within(parse_size(typed), plan, model, 1)
    few, many = (Room.within(budget, plan, model, 1) for budget in (2 * 10**9, 16 * 10**9))
    assert 1 <= few.tiles <= many.tiles


@pytest.mark.parametrize(("text", "expected"), [("4GB", 4 * 10**9), ("500 mb", 5 * 10**8), ("1.5GiB", 3 << 29)])
def test_sizes_are_read_as_people_write_them(text, expected):
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "4 apples", "-1GB", "0"])
def test_other_sizes_are_refused(text):
    with pytest.raises(EmrdmError, match="expected a size"):
        parse_size(text)
