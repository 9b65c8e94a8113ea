"""Launchers, devices and what is said when they are not there."""

import builtins
from types import SimpleNamespace

import pytest
import torch
from tests.training.little import SMALL

from emrdm import EMRDM, load_preset
from emrdm.errors import InputError, MissingDependencyError
from emrdm.presets.recipe import TrainConfig
from emrdm.training import machine
from emrdm.training.machine import (
    Machine,
    _environment,
    compile_blocks,
    compiles,
    launched,
    memory,
    numerics,
    send,
    start,
)

TRAIN = TrainConfig(steps=1, batch_size=1)
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


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


# ---------------------------------------------------------------- compiling


@pytest.fixture
def kernels(monkeypatch):
    """Sets whether kernels can be used, whatever this machine has."""

    def there(usable):
        monkeypatch.setattr(machine, "gpu", SimpleNamespace(usable=lambda _: usable))
        monkeypatch.setattr(machine, "choose", lambda _: "triton" if usable else "tiled")

    return there


@pytest.mark.parametrize(
    ("asked", "steps", "device", "usable", "expected"),
    [
        (None, 300, CUDA, True, True),
        (None, 299, CUDA, True, False),  # over before it pays
        (None, 300, CUDA, False, False),
        (None, 300, CPU, True, False),  # Triton's interpreter
        (True, 1, CPU, False, True),
        (False, 10**6, CUDA, True, False),
    ],
)
def test_a_run_is_compiled_where_it_is_asked_for_or_pays(kernels, asked, steps, device, usable, expected):
    kernels(usable)
    assert compiles(TrainConfig(steps=steps, batch_size=1, compile=asked), device) is expected


def compiled(preset, monkeypatch):
    """The modules that are compiled, and their kinds."""
    from torch._dynamo import config

    options = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **given: options.append((self, given)))
    network = EMRDM.fresh(load_preset(preset).replace(SMALL if preset == "tiny" else {}).model).network
    with config.patch(recompile_limit=8):
        compile_blocks(network, CPU)
        assert config.recompile_limit > 8  # images of a few shapes, on every level
    assert all(given == {"dynamic": False} for _, given in options)
    return sorted({type(module).__name__ for module, _ in options}), [module for module, _ in options]


def test_whole_blocks_are_compiled_where_attention_is_a_kernel(kernels, monkeypatch):
    kernels(True)
    assert compiled("tiny", monkeypatch)[0] == ["Block"]
    assert compiled("tiny-temporal", monkeypatch)[0] == ["Block", "TemporalBlock"]


def test_elsewhere_attention_to_a_neighbourhood_is_left_alone(kernels, monkeypatch):
    kernels(False)
    kinds, modules = compiled("tiny", monkeypatch)
    assert kinds == ["FeedForward", "SelfAttention"]
    assert not any(getattr(module, "kernel", None) for module in modules)


def test_what_is_sent_arrives():
    x = torch.arange(3.0)
    assert torch.equal(send(x, CPU), x)
