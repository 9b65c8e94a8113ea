"""What this CPU is good at: found out once a process, when a network first runs on it."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, final

import torch
from torch import Tensor

from emrdm.networks.choices import keep, known
from emrdm.networks.fused import processor

_ADVANTAGE = 1.2  # what bfloat16 has to gain before float32 is given up
_INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}  # of Intel, AMD and ARM
_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # microseconds a period, and the period, of all processes of a container


@final
class Choice(NamedTuple):
    """The number type to compute in, and why."""

    dtype: torch.dtype
    why: str


@lru_cache(maxsize=1)
def faster_dtype() -> Choice:
    """bfloat16 where the CPU has instructions for it; others imitate them, slowly.

    Results should not depend on what else a machine is doing, so the CPU's own word is taken where there is one. Else a
    small block is timed in both, and what was found is kept: another trial might find the opposite.
    """
    features = _features()
    if features is not None:
        has = bool(features & _INSTRUCTIONS)
        words = f"this CPU has {'' if has else 'no '}instructions for bfloat16"
        return Choice(torch.bfloat16 if has else torch.float32, words)
    key = f"{platform.processor() or platform.machine()}, torch {torch.__version__}, bfloat16 against float32"
    ratio = known(key)
    if ratio is None:
        ratio = _trial()
        keep(key, ratio)
    words = f"bfloat16 is {ratio:.1f} times as fast as float32 here"
    return Choice(torch.bfloat16 if ratio >= _ADVANTAGE else torch.float32, words)


def _trial() -> float:
    """How many times as fast bfloat16 is."""
    blocks = [_block(dtype) for dtype in (torch.float32, torch.bfloat16)]
    times = [math.inf, math.inf]
    with torch.no_grad():
        for repeat in range(5):
            for i, block in enumerate(blocks):
                began = time.perf_counter()
                block()
                if repeat:  # the first one prepares
                    times[i] = min(times[i], time.perf_counter() - began)
    return times[0] / times[1]


def _features() -> set[str] | None:
    """What the CPU says that it can do; None where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.lower().startswith(("flags", "features"))), None)
    return None if found is None else set(found.partition(":")[2].split())


def _block(dtype: torch.dtype, side: int = 20, width: int = 192, heads: int = 3) -> Callable[[], Tensor]:
    """A block of the network on an image of that many tokens; what it computes does not matter."""
    x, gain, scale = torch.ones(1, side, side, width, dtype=dtype), torch.ones(width), torch.ones(heads)
    qkv, out, up, down = (
        torch.full(shape, 1e-3, dtype=dtype)
        for shape in ((3 * width, width), (width, width), (4 * width, width), (width, 2 * width))
    )
    angles = processor.angles(torch.zeros(side, side, 2), torch.ones(heads, width // heads // 8))

    def run() -> Tensor:
        seen = processor.attention(processor.heads(x, gain, qkv, scale, angles), heads, kernel=7)
        return processor.feed_forward(processor.linear(seen, out, add=x), gain, up, down)

    return run


@lru_cache(maxsize=1)
def settle_threads() -> None:
    """Lower torch's number of threads to the CPUs this process may use, unless OMP_NUM_THREADS says otherwise.

    In a container torch may see all cores of the host: threads then wait for each other at every operation.
    """
    if "OMP_NUM_THREADS" not in os.environ and (count := usable_cpus()) < torch.get_num_threads():
        torch.set_num_threads(count)


def usable_cpus() -> int:
    """CPUs this process may use: by its affinity and by the limit of its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text(encoding="ascii").split()
        return min(count, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or "max": no limit
        return count
