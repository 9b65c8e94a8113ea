"""One step for some tiles: read what they need, denoise, put away what they found.

A tile's result depends on the plan and the state before the step alone: not on which tiles are taken together, in which
order, by which worker, or how often.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from emrdm.diffusion import MeanReverting, one_raster
from emrdm.errors import EmrdmError
from emrdm.model import EMRDM
from emrdm.noise import normal, split_keys
from emrdm.rasters.tiles import Tile
from emrdm.restoration.inputs import Inputs
from emrdm.restoration.nearby import Condition, Nearby
from emrdm.restoration.plan import Plan, torch_time
from emrdm.restoration.state import StepState


@final
@dataclass(frozen=True)
class Loaded:
    """What some tiles need for a step, on the device. Tiles without a single known pixel are left out.

    Attributes:
        tiles: which.
        cloudy: (L, C, H, W) of each.
        aux: (L, A, H, W) of each, or nothing.
        present: (L,) bool of each: which dates have data.
        states: S of each, (C, H, W), before the step.
    """

    tiles: tuple[Tile, ...]
    cloudy: tuple[Tensor, ...]
    aux: tuple[Tensor, ...]
    present: tuple[Tensor, ...]
    states: tuple[Tensor, ...]

    @classmethod
    def together(cls, parts: Sequence[Loaded]) -> Loaded:
        """Tiles that were loaded one by one."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: tuple(item for part in parts for item in getattr(part, name)) for name in names})


@final
class TileDenoiser:
    """Runs steps of a plan. ``apart`` keeps tiles from seeing each other until the end, to show what that costs."""

    def __init__(
        self,
        plan: Plan,
        inputs: Inputs,
        model: EMRDM,
        folder: Path,
        *,
        apart: bool = False,
        nearby: Nearby | None = None,
    ) -> None:
        self.plan, self.inputs, self.model, self.folder, self.apart = plan, inputs, model, folder, apart
        self.nearby = nearby or Nearby()
        self.process = MeanReverting(alpha=plan.alpha)
        self._keys: dict[tuple[int, int], Tensor] = {}

    def state(self, sample: int, step: int) -> StepState:
        """S of a sample after that many steps."""
        bands = len(self.model.config.bands)
        return StepState(self.folder / f"sample-{sample}" / f"step-{step}", self.plan.tiles, bands)

    def result(self, sample: int) -> StepState:
        """S of a sample after the last step."""
        return self.state(sample, len(self.plan.steps))

    def load(self, sample: int, step: int, tiles: Sequence[Tile]) -> Loaded:
        """Read what tiles need, and send it to the device."""
        parts = []
        for tile in tiles:
            found = self._condition(tile)
            if found is None:
                continue
            parts.append(
                Loaded(
                    tiles=(tile,),
                    cloudy=(found.cloudy,),
                    aux=() if found.aux is None else (found.aux,),
                    present=(found.present,),
                    states=(self._before(sample, step, tile, found),),
                )
            )
        return Loaded.together(parts)

    def _condition(self, tile: Tile) -> Condition | None:
        """Images of a tile; None where not one of its pixels is known."""
        kept = self.nearby.condition(tile)
        if kept is not None:
            return kept
        device, seen = self.model.device, self.inputs.read(self.plan.tiles.window(tile))
        if not seen.known.any():
            return None
        found = Condition(
            cloudy=torch.from_numpy(seen.cloudy).to(device),
            aux=None if seen.aux is None else torch.from_numpy(seen.aux).to(device),
            present=torch.from_numpy(seen.present),
            known=None if seen.known.all() else torch.from_numpy(seen.known).to(device),
            fill=torch.from_numpy(seen.fill[:, None, None]).to(device),
        )
        self.nearby.keep_condition(tile, found)
        return found

    def _before(self, sample: int, step: int, tile: Tile, condition: Condition) -> Tensor:
        """S in the window of a tile before a step, (C, H, W)."""
        before, device = self.state(sample, step), self.model.device
        if step == 0:
            return torch.zeros(before.shape, device=device)
        if self.apart:
            state = torch.from_numpy(before.own(tile)).to(device)
        else:
            found = self.nearby.blended(sample, step, tile, self.plan.tiles)
            state = torch.from_numpy(before.read(self.plan.tiles.window(tile))).to(device) if found is None else found
        if condition.known is None:
            return state
        # What no date knows is as if the denoiser had always said what the gap was filled with.
        return torch.where(condition.known, state, self.plan.settled[step] * condition.fill)

    def compute(self, sample: int, step: int, loaded: Loaded) -> Tensor:
        """S of the tiles after the step, (B, C, H, W), on the device."""
        device, plan = self.model.device, self.plan.steps[step]
        cloudy, state, present = (torch.stack(x) for x in (loaded.cloudy, loaded.states, loaded.present))
        aux = torch.stack(loaded.aux) if loaded.aux else None
        frames, bands = cloudy.shape[1:3]

        def noise(draw: int) -> Tensor:
            words = self._words(sample, draw)
            windows = [self.plan.tiles.window(tile) for tile in loaded.tiles]
            return torch.cat([normal(words, window, frames=frames, bands=bands) for window in windows])

        with torch.no_grad():
            # Said for every series, not only where a date is missing: a tile's bits must not depend on its batch.
            several = present.to(device) if frames > 1 else None
            denoise = self.model.denoiser(cloudy, aux, present=several, exact=self.plan.exact)
            x = one_raster.frames(plan, state, cloudy, self.process, noise)
            after = one_raster.advance(plan, state, denoise(x, torch_time(plan.t)))
        for tile, found in zip(loaded.tiles, after, strict=True):
            self.nearby.keep_state(sample, step + 1, tile, found)
        return after

    def _words(self, sample: int, draw: int) -> Tensor:
        """The key of a draw, on the device; sent once, since a GPU finishes all it was told before it takes a copy."""
        if (sample, draw) not in self._keys:
            self._keys[sample, draw] = split_keys([self.plan.key(sample, draw)], self.model.device)
        return self._keys[sample, draw]

    def store(self, sample: int, step: int, tiles: Sequence[Tile], states: Tensor) -> None:
        """Put away what tiles have found, (B, C, H, W)."""
        after, values = self.state(sample, step + 1), states.cpu().numpy()
        if not np.isfinite(values).all():
            raise EmrdmError("the network gave NaN or infinite values: the weights or the input are out of all bounds")
        for tile, found in zip(tiles, values, strict=True):
            after.write(tile, found)

    def run(self, sample: int, step: int, tiles: Sequence[Tile]) -> None:
        """All three."""
        loaded = self.load(sample, step, tiles)
        if loaded.tiles:
            self.store(sample, step, loaded.tiles, self.compute(sample, step, loaded))
