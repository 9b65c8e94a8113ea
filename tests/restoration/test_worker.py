"""A worker writes only what the run that asked for it wants, made of a state that was whole."""

from __future__ import annotations

import dataclasses
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from emrdm import EMRDM, open_scene
from emrdm.errors import EmrdmError, InputError
from emrdm.rasters.source import ArraySource
from emrdm.rasters.tiles import Tile
from emrdm.restoration import Inputs, Plan, Settings, worker
from emrdm.restoration.denoising import TileDenoiser


@pytest.fixture(scope="module")
def model():
    model = EMRDM.from_preset("tiny")
    with torch.no_grad():
        for parameter in model.network.parameters():
            if not parameter.any():  # a fresh network says nothing
                parameter.normal_(std=0.02, generator=torch.Generator().manual_seed(0))
    return model


@pytest.fixture
def denoiser(tmp_path, model):
    pixels = np.random.default_rng(0).integers(1, 255, (3, 90, 130)).astype(np.uint8)
    pixels[:, :, 90:] = 0  # tiles at the right have no data, and are never written
    inputs = Inputs(open_scene(ArraySource(pixels, nodata=0)), model.config)
    plan = Plan.of(90, 130, model, Settings(tile=32, overlap=8))
    denoiser = TileDenoiser(plan, inputs, model, tmp_path)
    for step in (1, 2):
        denoiser.state(0, step).create()
    return denoiser


@pytest.fixture
def ticket(denoiser):
    with worker.published(denoiser, cache=1 << 26, spread=False) as ticket:
        yield ticket
        worker.forget(ticket)


def _tiles(denoiser):
    return [tuple(tile) for tile in denoiser.plan.tiles]


def test_tiles_are_what_the_driver_would_have_made_of_them(denoiser, ticket):
    written = worker.do_tiles(ticket, 0, 0, _tiles(denoiser))
    assert 0 < len(written) < len(denoiser.plan.tiles)
    assert set(written) == set(denoiser.state(0, 1).done())
    worker.do_tiles(ticket, 0, 1, [written[3]])
    theirs = denoiser.state(0, 2).own(written[3])
    ours = denoiser.compute(0, 1, denoiser.load(0, 1, [written[3]]))[0]
    assert np.array_equal(theirs, ours.numpy())
    assert theirs.any()


def test_a_model_is_loaded_once_a_job(denoiser, ticket, monkeypatch):
    loads = []
    monkeypatch.setattr(worker.EMRDM, "load", lambda path, load=EMRDM.load: loads.append(path) or load(path))
    for tile in _tiles(denoiser)[:3]:
        worker.do_tiles(ticket, 0, 0, [tile])
    assert len(loads) == 1
    worker.forget(ticket)
    worker.do_tiles(ticket, 0, 0, [(0, 0)])
    assert len(loads) == 2


def test_few_jobs_are_remembered(denoiser):
    for _ in range(4):  # of drivers that were killed before they could say that they had ended
        with worker.published(denoiser, cache=1 << 26, spread=False) as ticket:
            worker.do_tiles(ticket, 0, 0, [(0, 0)])
    assert len(worker._works) == 2
    worker._works.clear()


def test_nothing_is_written_for_a_run_that_has_ended(denoiser, ticket):
    worker.do_tiles(ticket, 0, 0, [(0, 0)])  # the model is loaded: the job itself is not needed any more
    with (
        worker.published(denoiser, cache=1 << 26, spread=False),  # somebody begins anew
        pytest.raises(EmrdmError, match="has ended"),
    ):
        worker.do_tiles(ticket, 0, 0, [(0, 1)])
    assert set(denoiser.state(0, 1).done()) == {Tile(0, 0)}


def test_nothing_is_made_of_a_state_with_holes(denoiser, ticket):
    written = worker.do_tiles(ticket, 0, 0, _tiles(denoiser))
    before = denoiser.state(0, 1)
    before._path(written[0]).unlink()
    with pytest.raises(EmrdmError, match=re.escape(f"{before.folder} has no tile 0, 0, which was written before")):
        worker.do_tiles(ticket, 0, 1, [written[1]])
    assert not list(denoiser.state(0, 2).done())
    worker.do_tiles(ticket, 0, 1, [written[-1]])  # which is far from it


def test_the_folder_has_to_be_the_same_everywhere(denoiser, ticket, tmp_path):
    elsewhere = {**ticket, "job": str(tmp_path / "elsewhere" / "a.job")}
    with pytest.raises(InputError, match=r"a\.job cannot be read there: No such file .*storage that all workers see"):
        worker.check(elsewhere)
    with Path(ticket["job"]).open("ab") as file:
        file.write(b"x")
    with pytest.raises(InputError, match="is not what was written"):
        worker.check(ticket)


def test_weights_of_another_run_are_refused(denoiser, ticket):
    EMRDM.from_preset("tiny", seed=1).save(denoiser.folder / "model.safetensors")
    with pytest.raises(EmrdmError, match="is of another run"):
        worker.do_tiles(ticket, 0, 0, [(0, 0)])


@pytest.mark.parametrize("name", ["emrdm", "torch"])
def test_other_versions_are_refused(ticket, name):
    with pytest.raises(InputError, match=rf"^{name} is \S+ there: expected 0\.0\.7, as with the driver"):
        worker.check({**ticket, name: "0.0.7"})


def test_environments_that_change_bits_are_refused(ticket, monkeypatch):
    monkeypatch.setenv("EMRDM_EXACT", "1")
    with pytest.raises(InputError, match=r"^EMRDM_EXACT is 1 there: expected none"):
        worker.check(ticket)


def test_the_driver_says_which_numbers_are_computed_with(denoiser, tmp_path):
    for numbers in ("float32", "bfloat16"):
        denoiser.plan = dataclasses.replace(denoiser.plan, numbers=numbers)
        with worker.published(denoiser, cache=1 << 26, spread=False) as ticket:
            work = worker._work(ticket, 0)
            assert work._denoiser.model.numbers() == numbers
            worker.forget(ticket)
    denoiser.plan = dataclasses.replace(denoiser.plan, numbers="bfloat16", exact=True)
    with (
        worker.published(denoiser, cache=1 << 26, spread=False) as ticket,
        pytest.raises(InputError, match=r"computes in float32 .*: expected bfloat16"),
    ):
        worker.do_tiles(ticket, 0, 0, [(0, 0)])


def test_a_device_that_is_not_there_is_one_line(denoiser, ticket, monkeypatch):
    job = pickle.loads(worker.check(ticket))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="has no CUDA device"):
        worker._device(dataclasses.replace(job, device="cuda"), 0)


def test_workers_of_a_machine_share_out_its_gpus(ticket, monkeypatch):
    job = dataclasses.replace(pickle.loads(worker.check(ticket)), device="cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    spread = dataclasses.replace(job, spread=True)
    assert [worker._device(spread, number).index for number in range(4)] == [0, 1, 0, 1]
    assert [worker._device(job, number).index for number in range(2)] == [0, 0]


def test_nothing_is_left_of_a_job_when_it_ends(denoiser):
    with worker.published(denoiser, cache=1 << 26, spread=False):
        assert len(list(denoiser.folder.glob("*.job"))) == 1
    assert not list(denoiser.folder.glob("*.job"))
