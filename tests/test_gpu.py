"""Whether kernels can run, and why not."""

import sys
from types import SimpleNamespace

import torch

from emrdm import gpu

CPU = torch.device("cpu")


def test_cpus_have_no_kernels_unless_these_are_interpreted(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.delenv(gpu.SWITCH, raising=False)
    assert gpu.why_not(CPU) == "no kernels for a cpu"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(gpu, "_installed", lambda: True)
    assert gpu.usable(CPU)
    monkeypatch.setenv(gpu.SWITCH, "0")
    assert gpu.why_not(CPU) == "EMRDM_TRITON=0"


def test_a_gpu_needs_triton_and_some_youth(monkeypatch):
    monkeypatch.delenv(gpu.SWITCH, raising=False)
    monkeypatch.setattr(gpu, "_installed", lambda: False)
    assert gpu.why_not(torch.device("cuda")) == "Triton is not installed"
    monkeypatch.setattr(gpu, "_installed", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.version, "hip", None)
    assert gpu.why_not(torch.device("cuda")) == "kernels need compute capability 8.0"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(gpu, "_trial", lambda device: None)
    assert gpu.usable(torch.device("cuda"))


def test_where_no_kernel_compiles_none_is_used(monkeypatch):
    """Triton needs a compiler of C, which slim containers lack."""
    monkeypatch.setitem(sys.modules, "emrdm.gpu.trial", SimpleNamespace(run=broken))
    gpu._trial.cache_clear()
    assert gpu._trial(CPU) == "Triton cannot compile here (RuntimeError: Failed to find C compiler.)"
    gpu._trial.cache_clear()


def broken(device):
    raise RuntimeError("Failed to find C compiler.\nPlease specify one")
