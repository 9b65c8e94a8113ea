"""The fused operations in torch, for CPUs. Tokens are (B, h, w, C), contiguous; nothing here has gradients.

A CPU computes faster than it reads and writes: rows are taken some thousands at a time, so that all that happens to
them happens in the cache. The residual stays in place: ``add``, ``skip`` and the x of ``feed_forward`` are overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from emrdm.networks.layers import EPSILON, depth_to_space, global_attention, space_to_depth
from emrdm.networks.neighborhood import choose, columns, neighborhood_attention

_CACHE = 2 << 20  # bytes of rows for each thread; less is a matter of calls, more of memory


def linear(x: Tensor, weight: Tensor, *, add: Tensor | None = None, geglu: bool = False, wide: bool = False) -> Tensor:
    """Product with weight.T; then ``add`` something or take ``geglu``; ``wide`` for a float32 result."""
    if add is not None:
        add.view(-1, add.shape[-1]).addmm_(x.reshape(-1, x.shape[-1]), weight.T)
        return add
    out = _geglu(x, weight) if geglu else F.linear(x, weight)
    return out.float() if wide else out


def norm(x: Tensor, gain: Tensor) -> Tensor:
    """X * gain / rms(x)."""
    return _unit(x).mul_(gain.to(x.dtype))


def heads(x: Tensor, gain: Tensor, weight: Tensor, scale: Tensor, angles: Tensor) -> Tensor:
    """Queries, keys and values (B, h, w, 3 C) of normalised x; q and k as unit vectors times sqrt(scale), turned."""
    batch, height, width, channels = x.shape
    out = x.new_empty((batch, height, width, 3 * channels))
    tokens, results = x.flatten(1, 2), out.flatten(1, 2)
    weight, gain_left = _with_gain(weight, gain, height * width)
    root = scale.sqrt()[:, None]
    for samples, places in _pieces(batch, height * width, 4 * channels * x.element_size()):
        rows, result = tokens[samples, places], results[samples, places]
        qkv = result.view(-1, 3 * channels)
        torch.mm(_scaled(rows.reshape(-1, channels), gain_left), weight.T, out=qkv)
        pairs = qkv[:, : 2 * channels].unflatten(-1, (2, len(scale), -1))
        unit = pairs if pairs.dtype == torch.float32 else pairs.float()
        length = torch.linalg.vector_norm(unit, dim=-1, keepdim=True)
        unit.mul_(length.square_().add_(EPSILON).rsqrt_().mul_(root))
        turning = torch.view_as_complex(unit.view(*rows.shape[:2], 2, channels // 2, 2))
        turning.mul_(angles[places, None])
        if unit is not pairs:
            pairs.copy_(unit)
    return out


def feed_forward(x: Tensor, gain: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """In place of x, x + down(GEGLU(up(norm(x))))."""
    rows = x.view(-1, x.shape[-1])
    up, gain_left = _with_gain(up, gain, x.shape[1] * x.shape[2])
    for _, places in _pieces(1, len(rows), 2 * up.shape[0] * x.element_size()):
        some = rows[places]
        some.addmm_(_geglu(_scaled(some, gain_left), up), down.T)
    return x


def merge(x: Tensor, weight: Tensor) -> Tensor:
    """(B, h, w, C) -> (B, h / 2, w / 2, out): squares of tokens become one."""
    return F.linear(space_to_depth(x, 2), weight)


def split(x: Tensor, weight: Tensor, skip: Tensor, share: Tensor) -> Tensor:
    """(B, h, w, C), (B, 2 h, 2 w, out) -> (B, 2 h, 2 w, out): tokens become squares, mixed into the skip."""
    return skip.lerp_(depth_to_space(F.linear(x, weight), 2), float(share))


def attention(qkv: Tensor, count: int, kernel: int | None, bound: Tensor | None = None) -> Tensor:  # noqa: ARG001
    """(B, h, w, 3 C) -> (B, h, w, C), to a neighbourhood, or to all tokens where ``kernel`` is None.

    ``bound`` is for kernels; torch looks for the highest logit anyway.
    """
    q, k, v = qkv.unflatten(-1, (3, count, -1)).unbind(3)
    if kernel is None:
        return global_attention(q, k, v).reshape(*qkv.shape[:3], -1)
    if (name := choose(qkv.device)) != "tiled":
        return neighborhood_attention(q, k, v, kernel=kernel, backend=name).flatten(3)
    return columns.attend(q, k, v, kernel, 1.0).flatten(3)


def tokens(x: Tensor, patch: int, dtype: torch.dtype) -> Tensor:
    """Images (B, C, H, W) -> (B, h, w, patch * patch * C)."""
    return space_to_depth(x.to(dtype).movedim(1, -1), patch)


def pixels(x: Tensor, gain: Tensor, weight: Tensor, patch: int) -> Tensor:
    """(B, h, w, C) -> images (B, out, H, W) of normalised tokens, float32."""
    out = F.linear(norm(x, gain), weight).float()
    return depth_to_space(out, patch).movedim(-1, 1).contiguous()


def as_first(weight: Tensor) -> Tensor:
    """As it is: products of any width do."""
    return weight


def pairs_together(channels: int, count: int, device: torch.device) -> Tensor:
    """Order of the rows of a projection to q, k, v in which channels that turn together are neighbours.

    The same order for queries and keys, so that their products are what they were; values stay as they are.
    """
    turned = channels // 2
    head = torch.arange(channels, device=device)
    head[:turned] = head[:turned].unflatten(0, (2, -1)).T.flatten()
    rows = torch.arange(3 * count * channels, device=device).reshape(3, count, channels)
    rows[:2] = rows[:2, :, head]
    return rows.flatten()


def angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """Turns cos + i sin (h * w, heads * d / 2) from positions (h, w, 2), frequencies (heads, d / 8).

    One for each pair of channels, those that stay included: torch is faster on rows without gaps.
    """
    rows, columns = positions[..., None, 0:1] * frequencies, positions[..., None, 1:2] * frequencies
    turns = torch.cat([rows, columns], dim=-1).flatten(0, 1)
    turns = torch.cat([turns, torch.zeros_like(turns)], dim=-1).flatten(1)
    return torch.complex(turns.cos(), turns.sin())


# ---------------------------------------------------------------- rows


def _unit(x: Tensor) -> Tensor:
    """X / rms(x)."""
    square = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32).square_()
    return x * square.div_(x.shape[-1]).add_(EPSILON).rsqrt_().to(x.dtype)


def _scaled(x: Tensor, gain: Tensor | None) -> Tensor:
    return _unit(x) if gain is None else norm(x, gain)


def _with_gain(weight: Tensor, gain: Tensor, tokens: int) -> tuple[Tensor, Tensor | None]:
    """The gain of a norm in the weight behind it, where an image has more tokens than that rows; else as they are.

    By the image and not by the batch, so that an image comes out alike in every batch.
    """
    if tokens < weight.shape[0]:
        return weight, gain
    return (weight * gain).to(weight.dtype), None


def _geglu(x: Tensor, weight: Tensor) -> Tensor:
    """First half of x @ weight.T times the exact GELU of the second."""
    value, gate = weight.chunk(2)
    return F.linear(x, value).mul_(torch.ops.aten.gelu_(F.linear(x, gate)))


def _pieces(batch: int, tokens: int, bytes_a_row: int) -> Iterator[tuple[slice, slice]]:
    """Parts of (batch, tokens) that fit into the cache: some tokens of a sample, or all of some samples."""
    rows = max(256, _CACHE * torch.get_num_threads() // bytes_a_row)
    samples = max(1, rows // tokens)
    for first in range(0, batch, samples):
        for begin in range(0, tokens, rows):
            yield slice(first, first + samples), slice(begin, begin + rows)
