"""Neighbourhood attention as masked dense attention on tiles: pure PyTorch, any device, any size, with backward.

Each tile of queries shares one rectangle of keys, the union of its windows clamped into the image; a boolean mask
cuts each query's window out of it. With 8x8 tiles and kernel 7 that is 14x14 = 196 keys for 49 used, which matrix
units repay many times.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from emrdm.networks.neighborhood.windows import starts

TILE = 8
# Bytes of keys cut out at a time. On a CPU the working set should stay in the cache, and glibc returns blocks over
# 32 MB to the system at every free, which costs more than the attention itself. A GPU wants few, large launches.
CPU_BUDGET = 4 << 20
GPU_BUDGET = 64 << 20


class _Axis(NamedTuple):
    tiles: int
    span: int  # keys a tile sees
    keys: Tensor  # (tiles, span) index of each key
    mask: Tensor  # (tiles, TILE, span) which of them each query sees


def attend(q: Tensor, k: Tensor, v: Tensor, kernel: int, scale: float) -> Tensor:
    """(B, H, W, heads, d) each; see :func:`emrdm.networks.neighborhood.neighborhood_attention`."""
    batch, height, width, heads, channels = q.shape
    rows, columns = _axis(height, kernel, q.device), _axis(width, kernel, q.device)
    q = F.pad(q, (0, 0, 0, 0, 0, columns.tiles * TILE - width, 0, rows.tiles * TILE - height))
    k, v = (x.flatten(1, 2).contiguous() for x in (k, v))  # else every strip would copy all of a strided view

    bytes_a_row = batch * columns.tiles * rows.span * columns.span * heads * channels * k.element_size()
    rows_at_once = max(1, (CPU_BUDGET if q.device.type == "cpu" else GPU_BUDGET) // bytes_a_row)
    strips = []
    for first in range(0, rows.tiles, rows_at_once):
        count = min(rows_at_once, rows.tiles - first)
        row_keys, row_mask = rows.keys[first : first + count], rows.mask[first : first + count]
        index = (row_keys[:, None, :, None] * width + columns.keys[None, :, None, :]).flatten()
        mask = (
            (row_mask[:, None, :, None, :, None] & columns.mask[None, :, None, :, None, :])
            .flatten(4, 5)
            .flatten(2, 3)
            .flatten(0, 1)
        )

        def cut(x: Tensor, index: Tensor = index) -> Tensor:  # (B * tiles, heads, keys, d)
            regions = x.index_select(1, index).unflatten(1, (-1, rows.span * columns.span))
            return regions.flatten(0, 1).transpose(1, 2)

        queries = (
            q[:, first * TILE : (first + count) * TILE].unflatten(2, (columns.tiles, TILE)).unflatten(1, (count, TILE))
        )
        queries = queries.permute(0, 1, 3, 5, 2, 4, 6).reshape(-1, heads, TILE * TILE, channels)
        out = F.scaled_dot_product_attention(
            queries, cut(k), cut(v), attn_mask=mask[:, None].repeat(batch, 1, 1, 1), scale=scale
        )
        out = out.reshape(batch, count, columns.tiles, heads, TILE, TILE, channels)
        strips.append(
            out.permute(0, 1, 4, 2, 5, 3, 6).reshape(batch, count * TILE, columns.tiles * TILE, heads, channels)
        )
    return torch.cat(strips, dim=1)[:, :height, :width]


@lru_cache(maxsize=64)
def _axis(length: int, kernel: int, device: torch.device) -> _Axis:
    span = min(TILE + kernel - 1, length)
    tiles = -(-length // TILE)
    with torch.inference_mode(False):  # the cache outlives the mode it was filled in
        first = (torch.arange(tiles, device=device) * TILE - kernel // 2).clamp(0, length - span)
        keys = first[:, None] + torch.arange(span, device=device)
        queries = torch.arange(tiles * TILE, device=device).clamp(max=length - 1).reshape(tiles, TILE)
        window = starts(length, kernel, device)[queries][:, :, None]
        mask = (keys[:, None, :] >= window) & (keys[:, None, :] < window + kernel)
    return _Axis(tiles=tiles, span=span, keys=keys, mask=mask)
