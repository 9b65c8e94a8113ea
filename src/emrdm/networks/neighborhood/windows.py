"""Which keys a query sees.

Along an axis of ``length`` tokens, query i sees the ``kernel`` keys that start at clamp(i - kernel // 2, 0, length -
kernel): the window slides inward at the borders, nothing is padded, and every query has exactly kernel^2 keys in two
dimensions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from emrdm.errors import InputError


def starts(length: int, kernel: int, device: torch.device | str = "cpu") -> Tensor:
    """First key of each query along one axis, int64 (length,)."""
    return (torch.arange(length, device=device) - kernel // 2).clamp(0, length - kernel)


def check(q: Tensor, k: Tensor, v: Tensor, kernel: int) -> None:
    """Refuse shapes that neighbourhood attention is not defined for."""
    if q.ndim != 5 or q.shape != k.shape or q.shape != v.shape:
        raise InputError(
            f"neighbourhood attention got q, k, v of shapes {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}: "
            "expected three equal (B, H, W, heads, channels)"
        )
    if kernel < 1 or kernel % 2 == 0:
        raise InputError(f"neighbourhood kernel is {kernel}: expected a positive odd number")
    if min(q.shape[1:3]) < kernel:
        raise InputError(
            f"neighbourhood attention got {q.shape[1]}x{q.shape[2]} tokens: expected at least {kernel}x{kernel}"
        )
