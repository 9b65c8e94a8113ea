"""One training step's loss, from images and keys alone (paper, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from emrdm.diffusion import log_normal_sigma
from emrdm.model import EMRDM
from emrdm.noise import Window, fold, normal, scalars
from emrdm.training.machine import send
from emrdm.training.samples import TrainingBatch
from emrdm.training.streams import NOISE, SIGMA


@final
class Objective(nn.Module):
    """The losses of a batch as a module: what wrappers for several processes want to see."""

    def __init__(self, model: EMRDM) -> None:
        super().__init__()
        self.network = model.network
        self._losses = model.losses

    def forward(
        self,
        clear: Tensor,
        cloudy: Tensor,
        aux: Tensor | None,
        sigma: Tensor,
        noise: Tensor,
        valid: Tensor | None,
    ) -> Tensor:
        """Loss of each sample, (B,)."""
        return self._losses(clear, cloudy, aux, sigma=sigma, noise=noise, valid=valid)


def draw_noise(model: EMRDM, batch: TrainingBatch, device: torch.device) -> tuple[Tensor, Tensor]:
    """Noise level (B,) and noise (B, L, C, H, W) of each sample, by its key alone, whatever else is in the batch."""
    spread = model.config.training_noise
    sigma = log_normal_sigma(scalars(_stream(batch.keys, SIGMA)), spread.p_mean, spread.p_std)
    _, frames, bands, height, width = batch.cloudy.shape
    window = Window(0, 0, height, width)
    return send(sigma, device), normal(_stream(batch.keys, NOISE), window, frames=frames, bands=bands, device=device)


def _stream(keys: Sequence[int], number: int) -> list[int]:
    return [fold(key, number) for key in keys]
