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
from emrdm.noise import normal
from emrdm.rasters.tiles import Tile
from emrdm.restoration.inputs import Inputs
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

    def __init__(self, plan: Plan, inputs: Inputs, model: EMRDM, folder: Path, *, apart: bool = False) -> None:
        self.plan, self.inputs, self.model, self.folder, self.apart = plan, inputs, model, folder, apart
        self.process = MeanReverting(alpha=plan.alpha)

    def state(self, sample: int, step: int) -> StepState:
        """S of a sample after that many steps."""
        bands = len(self.model.config.bands)
        return StepState(self.folder / f"sample-{sample}" / f"step-{step}", self.plan.tiles, bands)

    def result(self, sample: int) -> StepState:
        """S of a sample after the last step."""
        return self.state(sample, len(self.plan.steps))

    def load(self, sample: int, step: int, tiles: Sequence[Tile]) -> Loaded:
        """Read what tiles need, and send it to the device."""
        device, parts = self.model.device, []
        before = self.state(sample, step)
        for tile in tiles:
            window = self.plan.tiles.window(tile)
            found = self.inputs.read(window)
            if not found.known.any():
                continue
            state = np.zeros(before.shape, np.float32)
            if step:
                state = before.own(tile) if self.apart else before.read(window)
                # What no date knows is as if the denoiser had always said what the gap was filled with.
                state = np.where(found.known, state, self.plan.settled[step] * found.fill[:, None, None])
            parts.append(
                Loaded(
                    tiles=(tile,),
                    cloudy=(torch.from_numpy(found.cloudy).to(device),),
                    aux=() if found.aux is None else (torch.from_numpy(found.aux).to(device),),
                    present=(torch.from_numpy(found.present),),
                    states=(torch.from_numpy(state.astype(np.float32, copy=False)).to(device),),
                )
            )
        return Loaded.together(parts)

    def compute(self, sample: int, step: int, loaded: Loaded) -> Tensor:
        """S of the tiles after the step, (B, C, H, W), on the device."""
        device, plan = self.model.device, self.plan.steps[step]
        cloudy, state, present = (torch.stack(x) for x in (loaded.cloudy, loaded.states, loaded.present))
        aux = torch.stack(loaded.aux) if loaded.aux else None
        frames, bands = cloudy.shape[1:3]

        def noise(draw: int) -> Tensor:
            key = self.plan.key(sample, draw)
            windows = [self.plan.tiles.window(tile) for tile in loaded.tiles]
            return torch.cat([normal(key, w, frames=frames, bands=bands, device=device) for w in windows])

        with torch.no_grad():
            denoise = self.model.denoiser(
                cloudy, aux, present=None if bool(present.all()) else present.to(device), exact=self.plan.exact
            )
            x = one_raster.frames(plan, state, cloudy, self.process, noise)
            return one_raster.advance(plan, state, denoise(x, torch_time(plan.t)))

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
