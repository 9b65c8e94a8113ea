"""What the clear image is thought to be after a step: an image like any other, made of the states when it is read."""

from __future__ import annotations

from typing import final

import numpy as np

from emrdm.rasters.base import Source
from emrdm.rasters.convert import saturate
from emrdm.restoration.denoising import TileDenoiser
from emrdm.window import Window


@final
class Estimate(Source):
    """The denoiser's answer D in one step of one sample, on the scene's grid, in the newest date's numbers.

    The state is S' = r S + (1 - r) D, so D = (S' - r S) / (1 - r): nothing more needs to be kept, and of a large scene
    only what is looked at is read.

    Attributes:
        sample: which one, from 0.
        step: which one, from 0.
        steps: how many there are.
    """

    def __init__(self, denoiser: TileDenoiser, sample: int, step: int) -> None:
        self.sample, self.step, self.steps = sample, step, len(denoiser.plan.steps)
        self._inputs, self._ratio = denoiser.inputs, denoiser.plan.steps[step].ratio
        self._before = denoiser.state(sample, step) if step else None  # S is zero at first
        self._after = denoiser.state(sample, step + 1)
        like, places = self._inputs.scene.frames[-1], self._inputs.places
        self.name = f"step {step + 1} of {self.steps}"
        self.grid, self.names = self._inputs.scene.grid, self._inputs.names
        self.dtype, self.date, self.tags = like.dtype, like.date, {}
        self.scales = tuple(like.scales[i] for i in places)
        self.offsets = tuple(like.offsets[i] for i in places)

    def _read(self, window: Window, bands: list[int]) -> tuple[np.ndarray, np.ndarray]:
        denoised = self._after.read(window)
        if self._before is not None:
            denoised -= self._ratio * self._before.read(window)
        denoised /= 1 - self._ratio
        numbers = self._inputs.to_file_numbers(denoised[list(self._inputs.kept)])
        return saturate(numbers[bands], self.dtype), self._inputs.known(window)
