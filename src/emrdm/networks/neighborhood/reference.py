"""Neighbourhood attention by its definition: gather the keys of every query. Slow; the oracle of the others."""

from __future__ import annotations

import torch
from torch import Tensor

from emrdm.networks.neighborhood.windows import starts


def attend(q: Tensor, k: Tensor, v: Tensor, kernel: int, scale: float) -> Tensor:
    """(B, H, W, heads, d) each; see :func:`emrdm.networks.neighborhood.neighborhood_attention`."""
    _, height, width, _, _ = q.shape
    offsets = torch.arange(kernel, device=q.device)
    rows = (starts(height, kernel, q.device)[:, None] + offsets)[:, None, :, None]  # (H, 1, kernel, 1)
    columns = (starts(width, kernel, q.device)[:, None] + offsets)[None, :, None, :]  # (1, W, 1, kernel)
    keys, values = k[:, rows, columns], v[:, rows, columns]  # (B, H, W, kernel, kernel, heads, d)
    logits = torch.einsum("bhwnd,bhwijnd->bhwnij", q, keys) * scale
    weights = logits.flatten(-2).softmax(-1).unflatten(-1, (kernel, kernel))
    return torch.einsum("bhwnij,bhwijnd->bhwnd", weights, values)
