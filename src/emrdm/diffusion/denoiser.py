"""The denoiser D: a network F between the preconditioning factors (paper, Eq. relation_D_and_F)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import torch
from torch import Tensor

from emrdm.diffusion.preconditioning import Factors, Preconditioning
from emrdm.diffusion.process import Process
from emrdm.diffusion.shapes import mean_over_frames, per_sample


class Network(Protocol):
    """F: any callable from scaled noisy frames (B, L, C, H, W) and c_noise (B,) to an image (B, C, H, W)."""

    def __call__(self, x: Tensor, c_noise: Tensor, /) -> Tensor:
        """Network output with unit variance."""
        ...


@final
@dataclass(frozen=True)
class Denoiser:
    """D(x; sigma(t)) = mean_l(c_skip x^l) + c_out F(c_in x; c_noise).

    Attributes:
        network: F; whatever else it sees (cloudy images, SAR, which frames exist) is bound into it.
        process: gives sigma(t) and k(t).
        preconditioning: gives the factors.
        present: (B, L) bool, which frames exist; None means all. Missing frames are left out of the mean and of L.
        levels_on_host: hand on a c_noise that is the same for all samples on the CPU, where the network wants to read
            it without waiting for the device.
    """

    network: Network
    process: Process
    preconditioning: Preconditioning
    present: Tensor | None = None
    levels_on_host: bool = False

    def factors(self, t: Tensor, frames: int) -> Factors:
        """Preconditioning factors at time ``t``, for the frames that exist."""
        count = frames if self.present is None else self.present.sum(1)
        return self.preconditioning(self.process.sigma(t), self.process.k(t), count)

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        """Denoised image (B, C, H, W) from noisy frames ``x`` (B, L, C, H, W) at time ``t``, a scalar or (B,).

        A scalar in double precision, as samplers give it, keeps that precision until it meets the images.
        """
        factors = self.factors(t.to(x.device) if t.ndim else t, x.shape[1])
        level = torch.float32 if x.dtype.itemsize < 4 else x.dtype
        c_noise = factors.c_noise.to(level).expand(len(x))
        if not self.levels_on_host:
            c_noise = c_noise.to(x.device, non_blocking=True)
        output = self.network(per_sample(factors.c_in, x) * x, c_noise)
        skipped = mean_over_frames(x, self.present)
        skipped = per_sample(factors.c_skip, skipped) * skipped
        if factors.c_out.ndim == 0 and not factors.c_out.requires_grad:
            return torch.add(skipped, output, alpha=float(factors.c_out))
        return skipped + per_sample(factors.c_out, output) * output
