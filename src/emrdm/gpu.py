"""Whether Triton kernels can run on a device. Knows nothing of what they compute."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache

import torch

SWITCH = "EMRDM_TRITON"  # environment variable: 0 does without kernels
_OLDEST = (8, 0)  # Ampere: the first with bfloat16 in its matrix units


def interpreted() -> bool:
    """Whether Triton was told to run kernels step by step on the CPU: slow, for tests."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def usable(device: torch.device) -> bool:
    """Whether kernels run there."""
    return why_not(device) is None


def why_not(device: torch.device) -> str | None:
    """What keeps kernels from running there, in words; None where they run."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0"
    if device.type == "cpu" and interpreted() and _installed():
        return None
    if device.type != "cuda":
        return f"no kernels for a {device.type}"
    if not _installed():
        return "Triton is not installed"
    if torch.version.hip is None and torch.cuda.get_device_capability(device) < _OLDEST:
        return "kernels need compute capability 8.0"
    return None


def speaks_ptx() -> bool:
    """Whether kernels may hold instructions of NVIDIA's own."""
    return torch.version.cuda is not None and not interpreted()


@lru_cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None
