"""How much is done at once: as much as a budget of memory allows, or a line that says what it must be."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch

from emrdm.errors import InputError
from emrdm.model import EMRDM
from emrdm.networks.fused.cpu import usable_cpus
from emrdm.restoration.plan import Plan

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 1 << 20, "GIB": 1 << 30}
_STATM = Path("/proc/self/statm")
_DEFAULT = 4 * 10**9
_MOST_READERS = 4  # more of them wait for each other in Python
_LARGEST_BATCH = 16  # more is hardly faster
_COPIES = 8  # of a tile's images at one time: as read, scaled, noise, state, and what is made of them
_OTHER = 200 * 10**6  # of Python, torch's libraries at work, and fragments
_CACHE = (64 << 20, 512 << 20)  # bytes of decoded blocks that GDAL keeps, least and most


@final
@dataclass(frozen=True)
class Room:
    """What fits.

    Attributes:
        budget: bytes for the whole process.
        tiles: that are worked on at one time.
        readers: threads that read ahead, and as many that write, on a GPU.
        cache: bytes of decoded blocks that GDAL may keep.
        nearby: bytes of images and states that a GPU keeps between steps.
    """

    budget: int
    tiles: int
    readers: int
    cache: int
    nearby: int = 0

    @classmethod
    def within(cls, budget: int | None, plan: Plan, model: EMRDM, frames: int, *, batch: int | None = None) -> Room:
        """What fits into a budget, beside what this process has already."""
        budget = budget or _DEFAULT
        used, tile = _in_use(), tile_bytes(plan, model, frames)
        cache = int(min(max(budget / 8, _CACHE[0]), _CACHE[1]))
        on_gpu = model.device.type == "cuda"
        images = image_bytes(plan, model, frames)
        each = 2 * images if on_gpu else tile + images  # a GPU's batches are read ahead, worked on, and written
        fits = math.floor((budget - used - cache - _OTHER) / each)
        if fits < 1:
            needed = used + cache + _OTHER + each
            raise InputError(f"--memory {_as_typed(budget)}: expected {_words(needed)} at least for tiles of this size")
        if not on_gpu:
            return cls(budget, min(fits, batch or fits, usable_cpus()), 1, cache)
        free = torch.cuda.mem_get_info(model.device)[0]
        tiles = max(1, min(fits, math.floor(0.4 * free / (tile + images)), batch or _LARGEST_BATCH))
        return cls(budget, tiles, min(_MOST_READERS, usable_cpus()), cache, nearby=int(0.5 * free))


def image_bytes(plan: Plan, model: EMRDM, frames: int) -> int:
    """Of the images of one tile, with copies."""
    pixels = plan.tiles.rows.tile * plan.tiles.columns.tile
    return _COPIES * 4 * pixels * frames * (len(model.config.bands) + len(model.config.aux))


def tile_bytes(plan: Plan, model: EMRDM, frames: int) -> int:
    """Working memory of the network for one tile."""
    return model.config.cost(plan.tiles.rows.tile, plan.tiles.columns.tile).activation_bytes * max(
        1, math.ceil(frames / model.config.frames)
    )


def state_bytes(plan: Plan, bands: int) -> int:
    """Of files between two steps, at their most: both states of a step and the samples before."""
    one = 4 * len(plan.tiles) * bands * plan.tiles.rows.tile * plan.tiles.columns.tile
    return one * (plan.samples + (1 if len(plan.steps) > 1 else 0))


def parse_size(text: str) -> int:
    """Bytes of "4GB", "500 MB", "2GiB" or a plain number."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None or float(found[1]) <= 0:
        raise InputError(f"--memory {text!r}: expected a size such as 4GB or 500MB")
    return int(float(found[1]) * unit)


def _in_use() -> int:
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _as_typed(count: int) -> str:
    """A size in the largest unit that says it without rounding: 10MB, 2GiB; one that has none is rounded."""
    for unit in ("TB", "GB", "GiB", "MB", "MiB", "KB"):
        size = _UNITS[unit.upper()]
        if count >= size and 1000 * count % size == 0:
            return f"{count / size:g}{unit}"
    return _words(count)


def _words(count: float) -> str:
    return f"{math.ceil(count / 1e8) / 10:g}GB"
