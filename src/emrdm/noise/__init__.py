"""Gaussian noise as a pure function of a key and a position.

The value at (key, frame, band, row, column) never depends on the window it is asked for, on the batch, on the
number of workers, on the device or on what was drawn before. Tiles, restarts and GPUs therefore agree bit for bit.

``philox.py`` says what the numbers are, in torch; ``kernel.py`` computes the same bits in one launch on a GPU. Draw
noise outside of ``torch.compile``: a compiler may fuse a product and a sum into one rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from emrdm import gpu
from emrdm.noise import philox
from emrdm.noise.philox import fold, split_keys
from emrdm.window import Window

__all__ = ["Window", "fold", "normal", "scalars", "split_keys"]


def normal(
    keys: int | Sequence[int] | Tensor,
    window: Window,
    *,
    frames: int = 1,
    bands: int = 1,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Standard normal noise, one independent field a key.

    Args:
        keys: one 64-bit key a sample of the batch (see :func:`fold`), or what :func:`split_keys` made of them.
        window: which pixels; values depend on absolute row and column only.
        frames: L, number of time points.
        bands: C.
        device: where to compute; the bits are the same everywhere.

    Returns:
        float32, (B, L, C, H, W).
    """
    words = keys if isinstance(keys, Tensor) else split_keys([keys] if isinstance(keys, int) else list(keys), device)
    if gpu.usable(words.device):
        from emrdm.noise import kernel  # imports Triton, which not every host has

        return kernel.draw(words, window, frames, bands)
    return philox.draw(words, window, frames, bands)


def scalars(keys: Sequence[int], *, device: torch.device | str = "cpu") -> Tensor:
    """One standard normal number a key, float32, (B,): for the noise levels of a training batch."""
    return normal(keys, Window(0, 0, 1, 1), device=device).reshape(len(keys))
