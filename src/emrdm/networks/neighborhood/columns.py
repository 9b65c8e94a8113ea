"""Neighbourhood attention on tiles for restoring on CPUs: the fastest forward there, and no way back.

As in ``tiled``, the queries of a tile share one rectangle of keys, and a mask cuts each query's window out of it. Tiles
are 4x4 here, so for a kernel of 7 there are 10x10 keys, twice what is used and not four times. The image is cut into
columns as wide as a rectangle: in a column the rows of a rectangle are neighbours in memory, so that rectangles are
views of it that overlap, and it stays in the cache while its tiles are worked on. The way back would pay for small
tiles: with gradients ``tiled`` is faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from emrdm.networks.neighborhood.windows import starts

TILE = 4
BUDGET = (
    1 << 20
)  # bytes of keys up to which images are taken together: many small calls cost more than the work in them


class _Grid(NamedTuple):
    """Tiles along an axis. The keys of tile i begin at i * TILE - before; those outside the image are masked."""

    tiles: int
    rest: int  # queries of the last tile that are outside the image
    before: int  # keys in front of a tile
    span: int  # keys a tile sees
    after: int  # keys behind the image that the last tile sees
    mask: Tensor  # (tiles, TILE, span) which of them each query sees


def attend(q: Tensor, k: Tensor, v: Tensor, kernel: int, scale: float) -> Tensor:
    """(B, H, W, heads, d) each; see :func:`emrdm.networks.neighborhood.neighborhood_attention`. Without gradients."""
    batch, height, width, heads, channels = q.shape
    rows, columns = _grid(height, kernel), _grid(width, kernel)
    masks, kinds = _masks(height, width, kernel, q.dtype)
    if rows.rest or columns.rest:
        q = F.pad(q, (0, 0, 0, 0, 0, columns.rest, 0, rows.rest))
    out = q.new_empty(q.shape)
    at_once = max(1, BUDGET // (rows.tiles * rows.span * columns.span * heads * channels * k.element_size()))
    for first in range(0, batch, at_once):
        some = slice(first, first + at_once)
        cuts = zip(
            q[some].split(TILE, 2),
            _columns(k[some], rows, columns),
            _columns(v[some], rows, columns),
            out[some].split(TILE, 2),
            kinds,
            strict=True,
        )
        for queries, keys, values, place, kind in cuts:
            found = F.scaled_dot_product_attention(
                queries.unflatten(1, (-1, TILE)).flatten(2, 3).flatten(0, 1).transpose(1, 2),
                _rectangles(keys, rows.span),
                _rectangles(values, rows.span),
                attn_mask=masks[kind].expand(len(queries), -1, 1, -1, -1).flatten(0, 1),
                scale=scale,
            )
            place.copy_(found.transpose(1, 2).reshape(place.shape))
    return out[:, :height, :width]


def _columns(x: Tensor, rows: _Grid, columns: _Grid) -> Iterator[Tensor]:
    """(B, H, W, heads, d) -> for every column of tiles the keys it sees, (B, rows, span, heads, d), zeros around them.

    All in the same memory: one holds until the next is asked for.
    """
    batch, height, width, heads, channels = x.shape
    room = x.new_zeros(batch, rows.before + height + rows.after, columns.span, heads, channels)
    inner = room[:, rows.before : rows.before + height]
    for tile in range(columns.tiles):
        first = tile * TILE - columns.before
        begin, end = max(first, 0), min(first + columns.span, width)
        inner[:, :, begin - first : end - first] = x[:, :, begin:end]
        if end - first < columns.span:
            inner[:, :, end - first :] = 0
        yield room


def _rectangles(column: Tensor, span: int) -> Tensor:
    """(B, rows, columns, heads, d) -> (B * tiles, heads, span * columns, d), as a view where B is 1."""
    return column.unfold(1, span, TILE).movedim(-1, 2).flatten(2, 3).flatten(0, 1).transpose(1, 2)


@lru_cache(maxsize=64)
def _grid(length: int, kernel: int) -> _Grid:
    tiles = -(-length // TILE)
    rest = tiles * TILE - length
    # Windows slide inward: those of the last tile begin further in front, those of the first end further behind.
    before, behind = max(kernel // 2, kernel - TILE + rest), max(kernel // 2, kernel - TILE)
    span = before + TILE + behind
    with torch.inference_mode(False):  # the cache outlives the mode it was filled in
        keys = (torch.arange(tiles)[:, None] * TILE - before + torch.arange(span))[:, None, :]
        queries = torch.arange(tiles * TILE).clamp(max=length - 1).reshape(tiles, TILE)
        window = starts(length, kernel)[queries][:, :, None]
        mask = (keys >= window) & (keys < window + kernel)
    return _Grid(tiles, rest, before, span, rest + behind, mask)


@lru_cache(maxsize=32)
def _masks(height: int, width: int, kernel: int, dtype: torch.dtype) -> tuple[list[Tensor], list[int]]:
    """What to add to the logits of a column, (tiles, 1, queries, keys), for each kind of column; and their kinds."""
    rows, columns = _grid(height, kernel).mask, _grid(width, kernel).mask
    with torch.inference_mode(False):
        kinds, which = columns.flatten(1).unique(dim=0, return_inverse=True)
        masks = []
        for kind in kinds.unflatten(1, columns.shape[1:]):
            seen = (rows[:, :, None, :, None] & kind[:, None, :]).flatten(3, 4).flatten(1, 2)
            masks.append(torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, float("-inf"))[:, None])
    return masks, which.tolist()
