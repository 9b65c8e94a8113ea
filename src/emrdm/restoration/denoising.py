"""One step for some tiles: read what they need, denoise, put away what they found.

A tile's result depends on the plan and the state before the step alone: not on which tiles are taken together, in which
order, by which worker, or how often.
"""

from __future__ import annotations

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
from emrdm.restoration.inputs import Inputs, Seen
from emrdm.restoration.plan import Plan, torch_time
from emrdm.restoration.state import StepState


@final
@dataclass(frozen=True)
class Loaded:
    """What some tiles need for a step. Tiles without a single known pixel are left out."""

    tiles: tuple[Tile, ...]
    seen: tuple[Seen, ...]
    states: tuple[np.ndarray, ...]


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
        """Read what tiles need."""
        kept, seen, states = [], [], []
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
            kept.append(tile)
            seen.append(found)
            states.append(state.astype(np.float32, copy=False))
        return Loaded(tuple(kept), tuple(seen), tuple(states))

    def compute(self, sample: int, step: int, loaded: Loaded) -> Tensor:
        """S of the tiles after the step, (B, C, H, W), on the device."""
        device, plan = self.model.device, self.plan.steps[step]

        def stacked(arrays: Sequence[np.ndarray]) -> Tensor:
            return torch.from_numpy(np.stack(arrays)).to(device, non_blocking=True)

        cloudy, state = stacked([seen.cloudy for seen in loaded.seen]), stacked(loaded.states)
        extra = [seen.aux for seen in loaded.seen if seen.aux is not None]
        aux = stacked(extra) if extra else None
        present = torch.from_numpy(np.stack([seen.present for seen in loaded.seen]))
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

    def store(self, sample: int, step: int, loaded: Loaded, states: np.ndarray) -> None:
        """Put away what tiles have found."""
        after = self.state(sample, step + 1)
        if not np.isfinite(states).all():
            raise EmrdmError("the network gave NaN or infinite values: the weights or the input are out of all bounds")
        for tile, values in zip(loaded.tiles, states, strict=True):
            after.write(tile, values)

    def run(self, sample: int, step: int, tiles: Sequence[Tile]) -> None:
        """All three."""
        loaded = self.load(sample, step, tiles)
        if loaded.tiles:
            self.store(sample, step, loaded, self.compute(sample, step, loaded).cpu().numpy())
