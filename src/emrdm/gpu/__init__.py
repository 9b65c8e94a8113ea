"""Whether Triton kernels can run on a device, and how launches are recorded. Knows nothing of what they compute."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

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
    return _trial(device)


def speaks_ptx() -> bool:
    """Whether kernels may hold instructions of NVIDIA's own."""
    return torch.version.cuda is not None and not interpreted()


@contextmanager
def recording(stream: Any, pool: Any) -> Iterator[Any]:
    """Record what is launched inside as a CUDA graph, on a stream of this GPU; whatever goes wrong, leave it in order.

    The stream is the caller's: torch would take one for all GPUs. Other threads, such as those that lock pages of
    memory for the next batch, may go on with their work.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        with (
            torch.cuda.stream(stream),  # restores the current one if the end of the recording fails
            torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
        ):
            yield graph
    except BaseException:
        with suppress(Exception):  # else the allocator may go on as if it still recorded
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
        raise


@lru_cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


@lru_cache
def _trial(device: torch.device) -> str | None:
    """Why the smallest of kernels does not run: Triton needs a compiler of C and Python's headers, for example."""
    try:
        from emrdm.gpu import trial

        trial.run(device)
    except Exception as error:
        first = str(error).strip().splitlines()[:1]
        return f"Triton cannot compile here ({type(error).__name__}: {' '.join(first)})"
    return None
