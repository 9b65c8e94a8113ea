"""Tiles of the Triton kernels: which there are, what they cover, and which is the fastest on this GPU.

The fastest is found once, by trying, and written to the user's cache; where results must not vary, the first is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from emrdm.networks import choices

_LOG = logging.getLogger(__name__)
Direction = Literal["forward", "backward"]
_ENOUGH = 1 << 15  # tokens times heads: with less, launching takes longer than running


class Tile(NamedTuple):
    """A rectangle of queries, and how a GPU runs it."""

    height: int
    width: int
    warps: int
    stages: int

    def covering(self, height: int, width: int) -> int:
        """How many cover an image."""
        return -(-height // self.height) * -(-width // self.width)


CANDIDATES: dict[Direction, tuple[Tile, ...]] = {
    "forward": (Tile(8, 8, 4, 3), Tile(8, 8, 4, 4), Tile(16, 8, 4, 3), Tile(16, 8, 8, 3)),
    "backward": (Tile(8, 8, 4, 2), Tile(8, 8, 4, 3), Tile(16, 8, 8, 2)),
}
# Exact products are made of single operations, unrolled: larger tiles take minutes to compile.
FLOAT32: dict[Direction, Tile] = {"forward": Tile(8, 8, 4, 2), "backward": Tile(8, 8, 4, 1)}


def keys_seen(length: int, tile: int, kernel: int) -> int:
    """Keys along an axis that a tile of queries sees together."""
    return min(tile + kernel - 1, length)


@lru_cache(maxsize=256)
def queries_seeing(length: int, tile: int, kernel: int) -> int:
    """Queries along an axis that see any key of a tile, at most."""
    most = 0
    for first in range(0, length, tile):
        last = min(first + tile, length) - 1
        low = 0 if first < kernel else first - kernel // 2
        high = length - 1 if last >= length - kernel else last + kernel // 2
        most = max(most, high - low + 1)
    return most


def choose(direction: Direction, q: Tensor, kernel: int, launch: Callable[[Tile], None]) -> Tile:
    """The fastest tile for tensors like ``q`` (B, H, W, heads, d), tried out at the first meeting on this machine."""
    if q.dtype == torch.float32:
        return FLOAT32[direction]
    candidates = CANDIDATES[direction]
    if not q.is_cuda or torch.are_deterministic_algorithms_enabled():
        return candidates[0]
    tokens = q.numel() // q.shape[-1]
    name = torch.cuda.get_device_name(q.device)
    key = f"{name}, torch {torch.__version__}, {direction}, {q.dtype}, {q.shape[-1]} channels, kernel {kernel}, tiles"
    chosen = choices.known(key)
    if chosen in range(len(candidates)):
        return candidates[int(chosen or 0)]
    if tokens < _ENOUGH or torch.cuda.is_current_stream_capturing():  # nothing to be told apart, or no time to try
        return candidates[0]
    times = [_milliseconds(launch, tile) for tile in candidates]
    best = times.index(min(times))
    _LOG.info("attention tiles for %s: %s", key, candidates[best])
    choices.keep(key, best)
    return candidates[best]


def _milliseconds(launch: Callable[[Tile], None], tile: Tile) -> float:
    """Time of a launch; infinite where the GPU lacks the registers or the shared memory."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    try:
        for _ in range(3):
            launch(tile)
        start.record()
        for _ in range(10):
            launch(tile)
        end.record()
        end.synchronize()
    except Exception as error:  # Triton has its own for every lack, and another tile will do
        _LOG.info("tile %s: %s", tile, error)
        return float("inf")
    return start.elapsed_time(end) / 10
