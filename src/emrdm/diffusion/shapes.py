"""How numbers that belong to samples or frames meet images (B, L, ...)."""

from __future__ import annotations

from torch import Tensor


def per_sample(value: Tensor, like: Tensor) -> Tensor:
    """Give a scalar or (B,) tensor the trailing axes, the dtype and the device to multiply ``like`` (B, ...).

    A scalar stays where it is: torch hands it to the device with the product, and nothing waits for a copy.
    """
    if value.ndim == 0:
        return value.to(like.dtype)
    return value.to(device=like.device, dtype=like.dtype).reshape(value.shape + (1,) * (like.ndim - value.ndim))


def mean_over_frames(x: Tensor, present: Tensor | None) -> Tensor:
    """Mean of (B, L, ...) over the frames that exist, (B, L) bool; None means all."""
    if present is None:
        return x.mean(1) if x.shape[1] > 1 else x[:, 0]
    missing = ~present.reshape(present.shape + (1,) * (x.ndim - 2))
    # filled, not multiplied: whatever a missing frame holds must not matter, and NaN times 0 is NaN
    return x.masked_fill(missing, 0).sum(1) / per_sample(present.sum(1), x[:, 0])
