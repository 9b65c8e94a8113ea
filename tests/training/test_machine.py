"""Launchers, devices and what is said when they are not there."""

import builtins

import pytest
import torch

from emrdm.errors import InputError, MissingDependencyError
from emrdm.presets.recipe import TrainConfig
from emrdm.training.machine import Machine, _environment, launched, memory, numerics, start

TRAIN = TrainConfig(steps=1, batch_size=1)


@pytest.fixture(autouse=True)
def nothing_launched(monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_NNODES"):
        monkeypatch.delenv(name, raising=False)


def test_torchrun_and_slurm_are_recognised(monkeypatch):
    assert launched() is None
    monkeypatch.setenv("SLURM_PROCID", "3")
    assert launched() is None  # a shell on a node, one task
    monkeypatch.setenv("SLURM_NTASKS", "32")
    monkeypatch.setenv("SLURM_NNODES", "4")
    assert launched() == (8, 4)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("WORLD_SIZE", "6")
    assert launched() == (2, 3)


def test_another_number_than_the_launchers_is_refused(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="--devices is 3: the launcher has started 2"):
        start(Machine(device="cpu", processes=3), TRAIN)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_gpu_that_is_not_there_is_said():
    with pytest.raises(InputError, match="no CUDA device"):
        start(Machine(device="cuda"), TRAIN)


def test_without_fabric_one_line_says_how_to_get_it(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("lightning"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"pip install 'emrdm\[train\]'"):
        start(Machine(), TRAIN)


def test_rounding_and_determinism_last_as_long_as_the_run():
    before = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    with numerics(TrainConfig(steps=1, batch_size=1, precision="tf32", deterministic=True)):
        assert torch.get_float32_matmul_precision() == "high"
        assert torch.are_deterministic_algorithms_enabled()
    assert (torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()) == before


def test_memory_is_counted():
    assert memory(torch.device("cpu")) > 1e7


def test_who_starts_the_processes_is_decided_once(monkeypatch):
    """Fabric would take a shell on a SLURM node, one task, for one of several and start nothing."""
    assert type(_environment()).__name__ == "LightningEnvironment"
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "1")
    assert type(_environment()).__name__ == "LightningEnvironment"
    monkeypatch.setenv("SLURM_NTASKS", "2")
    monkeypatch.setenv("SLURM_NTASKS_PER_NODE", "")
    monkeypatch.delenv("SLURM_NTASKS_PER_NODE")  # as a plain srun -n 2 has it; put back to nothing afterwards
    assert type(_environment()).__name__ == "SLURMEnvironment"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert type(_environment()).__name__ == "TorchElasticEnvironment"
