"""What stays on a GPU between steps, as far as there is room: images and states of tiles.

A GPU denoises tiles many times as fast as they are read, scaled and blended on the host. With this, all but the first
step find their images where they are needed, and states are blended there: by the same products and sums in the same
order as :meth:`~emrdm.restoration.state.StepState.read`, so to the same bits.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from emrdm.rasters.tiles import Axis, Tile, TilePlan, common, inside


@final
@dataclass(frozen=True)
class Condition:
    """What a tile's images are for the network, on the device; the same in every step.

    Attributes:
        cloudy: (L, C, H, W).
        aux: (L, A, H, W), or None.
        present: (L,) bool, on the CPU: which dates have data.
        known: (H, W) bool: where some date has data; None where all of it has.
        fill: (C, 1, 1): what other pixels were filled with.
    """

    cloudy: Tensor
    aux: Tensor | None
    present: Tensor
    known: Tensor | None
    fill: Tensor

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(x.nbytes for x in (self.cloudy, self.aux, self.known) if x is not None)


@final
class Nearby:
    """Keeps conditions and the states of one step until its bytes are spent; 0 keeps nothing."""

    def __init__(self, budget: int = 0) -> None:
        self.left = budget
        self._conditions: dict[Tile, Condition] = {}
        self._states: dict[tuple[int, int], dict[Tile, Tensor]] = {}
        self._sent: dict[tuple[Axis, int, torch.device], Tensor] = {}
        self._lock = threading.Lock()

    def condition(self, tile: Tile) -> Condition | None:
        """What was kept of a tile."""
        return self._conditions.get(tile)

    def keep_condition(self, tile: Tile, found: Condition) -> None:
        """Keep it, if there is room; states come first, since there are two of them for a while."""
        with self._lock:
            if self.left >= found.nbytes:
                self.left -= found.nbytes
                self._conditions[tile] = found

    def keep_state(self, sample: int, step: int, tile: Tile, state: Tensor) -> None:
        """Keep S of a tile after a step; those of steps that are over are let go."""
        with self._lock:
            for key in [key for key in self._states if key not in ((sample, step), (sample, step - 1))]:
                self.left += sum(x.nbytes for x in self._states.pop(key).values())
            if self.left >= state.nbytes:
                self.left -= state.nbytes
                self._states.setdefault((sample, step), {})[tile] = state

    def blended(self, sample: int, step: int, tile: Tile, tiles: TilePlan) -> Tensor | None:
        """S in the window of a tile, or None where a tile that has something to say there was not kept."""
        kept = self._states.get((sample, step), {})
        window = tiles.window(tile)
        around = tiles.touching(window)
        if not all(other in kept for other in around):
            return None
        result = torch.zeros_like(kept[tile])
        for other in around:
            whole = tiles.window(other)
            part = common(window, whole)
            there, here = inside(part, whole), inside(part, window)
            rows = self._weights(tiles.rows, other.row, result.device)[there[0]]
            columns = self._weights(tiles.columns, other.column, result.device)[there[1]]
            result[:, *here] += torch.outer(rows, columns) * kept[other][:, *there]
        return result

    def _weights(self, side: Axis, index: int, device: torch.device) -> Tensor:
        """Of a row or column of tiles; sent once, since a GPU finishes all it was told before it takes a copy."""
        key = side, index, device
        if key not in self._sent:
            self._sent[key] = torch.from_numpy(side.weights(index).copy()).to(device)
        return self._sent[key]
