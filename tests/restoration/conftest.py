"""A small scene and model, and the file that nobody disturbed the making of."""

import time

import pytest
import torch
from tests.restoration import small
from tests.training import runs

from emrdm import EMRDM
from emrdm.networks.fused import cpu


@pytest.fixture(scope="module")
def settled():
    """One thread, in numbers that do not depend on how busy the machine is."""
    before, choice = torch.get_num_threads(), cpu.faster_dtype
    torch.set_num_threads(1)
    small.settle()
    yield
    torch.set_num_threads(before)
    cpu.faster_dtype = choice


@pytest.fixture(scope="session")
def given(tmp_path_factory):
    """The scene and the model."""
    folder = tmp_path_factory.mktemp("given")
    return small.scene(folder / "scene.tif"), small.weights(folder / "weights.safetensors")


@pytest.fixture(scope="module")
def model(given):
    """That model."""
    return EMRDM.load(given[1])


@pytest.fixture(scope="session")
def reference(given, tmp_path_factory):
    """The output of the plain command, undisturbed."""
    output = tmp_path_factory.mktemp("reference") / "out" / "clear.tif"
    log = output.parent.with_suffix(".log")
    runs.Command(["info"], output.parent.with_suffix(".first")).code()  # until all is imported
    command = runs.Command(small.words(*given, output), output.parent, before=small.watch, given=(log,))
    assert command.code() == 0, command.errors
    assert small.counts(log) == (small.TILE_STEPS, small.TILE_STEPS)
    return small.Reference(output, small.digest(output), time.monotonic() - command.began)
