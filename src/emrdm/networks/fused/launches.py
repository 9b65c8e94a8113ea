"""Launches of the fused kernels, and tensors as these take them. Tokens are (B, h, w, C), contiguous."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from emrdm.errors import InputError
from emrdm.networks.fused import kernels
from emrdm.networks.layers import EPSILON, depth_to_space
from emrdm.networks.neighborhood import triton_backend

_ON_CHIP = 256  # widest token whose norm, product and what follows are one kernel


def linear(x: Tensor, weight: Tensor, *, add: Tensor | None = None, geglu: bool = False, wide: bool = False) -> Tensor:
    """Product x @ weight.T; then ``add`` something or take ``geglu``; ``wide`` for a float32 result."""
    width = weight.shape[0] // (2 if geglu else 1)
    out = x.new_empty((*x.shape[:-1], width), dtype=torch.float32 if wide else x.dtype)
    _launch(x, weight, out, other=add, then="geglu" if geglu else "nothing" if add is None else "add")
    return out


def norm(x: Tensor, gain: Tensor) -> Tensor:
    """X * gain / rms(x)."""
    rows, width, out = x.numel() // x.shape[-1], x.shape[-1], torch.empty_like(x)
    block = _power(width)
    block_m = max(1, 2048 // block)
    kernels.norm_kernel[(-(-rows // block_m),)](
        x, gain, out, rows, WIDTH=width, EPSILON=EPSILON, BLOCK_M=block_m, BLOCK=block, num_warps=4
    )
    return out


def heads(x: Tensor, gain: Tensor, weight: Tensor, scale: Tensor, angles: Tensor) -> Tensor:
    """Queries, keys and values (B, h, w, 3 C) of normalised x; q and k as unit vectors times sqrt(scale), turned."""
    batch, height, width, channels = x.shape
    out = x.new_empty((batch, height, width, 3 * channels))
    head = channels // len(scale)
    if channels > _ON_CHIP or channels != _power(channels):
        x = norm(x, gain)
        _launch(x, weight, out, then="heads", scale=scale, angles=angles, grid=(height, width), channels=head)
        return out
    rows = batch * height * width
    kernels.heads_kernel[(-(-rows // 64),)](
        x, gain, weight, scale, angles, out, rows, height * width,
        WIDTH=channels, HEADS=len(scale), CHANNELS=head, EPSILON=EPSILON, BLOCK_M=64,
        num_warps=4, num_stages=1, maxnreg=128 if channels <= 128 else None,  # four programs at a time
    )  # fmt: skip
    return out


def feed_forward(x: Tensor, gain: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The block x + down(GEGLU(up(norm(x))))."""
    width, hidden = x.shape[-1], down.shape[1]
    if width > _ON_CHIP // 2 or width != _power(width) or hidden % 64:
        return linear(linear(norm(x, gain), up, geglu=True), down, add=x)
    rows, out = x.numel() // width, torch.empty_like(x)
    kernels.feed_forward_kernel[(-(-rows // 64),)](
        x, gain, up, down, out, rows,
        WIDTH=width, HIDDEN=hidden, EPSILON=EPSILON, BLOCK_M=64, BLOCK_H=64, num_warps=4, num_stages=2,
    )  # fmt: skip
    return out


def merge(x: Tensor, weight: Tensor) -> Tensor:
    """(B, h, w, C) -> (B, h / 2, w / 2, out): squares of tokens become one."""
    batch, height, width, channels = x.shape
    grid = (height // 2, width // 2)
    out = x.new_empty((batch, *grid, weight.shape[0]))
    _launch(x, weight, out, merge=True, grid=grid, channels=channels)
    return out


def split(x: Tensor, weight: Tensor, skip: Tensor, share: Tensor) -> Tensor:
    """(B, h, w, C), (B, 2 h, 2 w, out) -> (B, 2 h, 2 w, out): tokens become squares, mixed with the skip."""
    skip = skip.contiguous()
    out = torch.empty_like(skip)
    _launch(x, weight, out, other=skip, share=share, then="split", grid=x.shape[1:3])
    return out


def attention(qkv: Tensor, count: int, kernel: int | None, bound: Tensor | None = None) -> Tensor:
    """(B, h, w, 3 C) -> (B, h, w, C), to a neighbourhood, or to all tokens where ``kernel`` is None.

    ``bound`` (count,) is what no logit of a head exceeds.
    """
    batch, height, width, _ = qkv.shape
    parts = qkv.unflatten(-1, (3, count, -1))
    if kernel is not None:
        q, k, v = parts.unbind(3)
        return triton_backend.launch_forward(q, k, v, kernel, 1.0, keep=False, bound=bound)[0].flatten(3)
    tokens, channels = height * width, parts.shape[-1]
    if tokens * qkv.shape[-1] >= 2**31:
        raise InputError(f"global attention got {height} x {width} tokens: expected fewer, or an image cut into tiles")
    out = qkv.new_empty((batch, height, width, count * channels))
    block = min(64, _power(tokens))
    kernels.global_attention_kernel[(-(-tokens // block), count, batch)](
        qkv, bound, out, tokens, HEADS=count, CHANNELS=channels, BLOCK_M=block, BLOCK_N=block,
        EVEN=tokens % block == 0, BOUNDED=bound is not None, num_warps=4, num_stages=3,
    )  # fmt: skip
    return out


def tokens(x: Tensor, patch: int, dtype: torch.dtype) -> Tensor:
    """Images (B, C, H, W) -> (B, h, w, patch * patch * C), with zeros behind up to a multiple of 32."""
    x = x.contiguous()
    batch, channels, height, width = x.shape
    height, width = height // patch, width // patch
    out = x.new_empty((batch, height, width, -(-channels * patch**2 // 32) * 32), dtype=dtype)
    rows, block = batch * height * width, _power(out.shape[-1])
    block_m = max(16, 4096 // block)
    kernels.tokens_kernel[(-(-rows // block_m),)](
        x, out, rows, height, width,
        CHANNELS=channels, PATCH=patch, WIDTH=out.shape[-1], BLOCK=block, BLOCK_M=block_m, num_warps=4,
    )  # fmt: skip
    return out


def pixels(x: Tensor, gain: Tensor, weight: Tensor, patch: int) -> Tensor:
    """(B, h, w, C) -> images (B, out, H, W) of normalised tokens, float32."""
    batch, height, width, channels = x.shape
    if channels > _ON_CHIP or channels != _power(channels):
        out = linear(norm(x, gain), weight, wide=True)
        return depth_to_space(out, patch).movedim(-1, 1).contiguous()
    count = weight.shape[0] // patch**2
    out = x.new_empty((batch, count, height * patch, width * patch), dtype=torch.float32)
    rows = batch * height * width
    kernels.pixels_kernel[(-(-rows // 64),)](
        x, gain, weight, out, rows, height, width,
        WIDTH=channels, CHANNELS=count, PATCH=patch, EPSILON=EPSILON, BLOCK=_power(weight.shape[0]), BLOCK_M=64,
        num_warps=4,
    )  # fmt: skip
    return out


def as_first(weight: Tensor) -> Tensor:
    """The weight behind :func:`tokens`, with zeros behind as those have."""
    return F.pad(weight, (0, -weight.shape[1] % 32)).contiguous()


def pairs_together(channels: int, count: int, device: torch.device) -> Tensor:
    """Order of the rows of a projection to q, k, v in which channels that turn together are neighbours.

    The same order for queries and keys, so that their products are what they were; values stay as they are.
    """
    quarter = channels // 4
    head = torch.arange(channels, device=device)
    head[: 2 * quarter] = head[: 2 * quarter].reshape(2, quarter).T.reshape(-1)
    both = (torch.arange(2 * count, device=device)[:, None] * channels + head).flatten()
    return torch.cat([both, torch.arange(2 * count * channels, 3 * count * channels, device=device)])


def angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """Cosines and sines (2, h * w, heads, d / 4) from positions (h, w, 2), frequencies (heads, d / 8).

    In float16, which is finer than bfloat16 between -1 and 1.
    """
    rows, columns = positions[..., None, 0:1] * frequencies, positions[..., None, 1:2] * frequencies
    turns = torch.cat([rows, columns], dim=-1).flatten(0, 1)
    return torch.stack([turns.cos(), turns.sin()]).half()


def _launch(
    x: Tensor,
    weight: Tensor,
    out: Tensor,
    *,
    other: Tensor | None = None,
    share: Tensor | None = None,
    angles: Tensor | None = None,
    scale: Tensor | None = None,
    merge: bool = False,
    then: str = "nothing",
    grid: tuple[int, ...] = (1, 1),
    channels: int = 1,
) -> None:
    k = weight.shape[1]
    n = weight.shape[0] // (2 if then == "geglu" else 1)
    rows = x.numel() // k
    whole = {"heads": channels, "split": n // 4}.get(then)  # what the columns of a tile must be or divide
    tile = _tile(rows, n, 2 * channels if merge else k, whole, then)
    count = -(-rows // tile["BLOCK_M"]) * -(-n // tile["BLOCK_N"])
    kernels.linear_kernel[(count,)](
        x, weight, out, other, share, angles, scale, rows, *grid,
        K=k, N=n, MERGE=merge, THEN=then, CHANNELS=channels, EPSILON=EPSILON,
        EVEN_M=rows % tile["BLOCK_M"] == 0, EVEN_N=n % tile["BLOCK_N"] == 0, **tile,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _tile(rows: int, n: int, k: int, whole: int | None, then: str) -> dict[str, Any]:
    """Shape of a tile. Sums run over BLOCK_K, which depends on k alone: a row comes out alike in every batch."""
    block_k = 64
    while k % block_k:
        block_k //= 2
    block_m, block_n, warps, stages = 128, 128, 8, 3
    if then == "heads":
        block_n, warps, stages = whole or 64, 4, 4
    elif then == "geglu":
        block_m, block_n, warps = 128 if rows * n >= 128 * 64 * 128 else 64, 64, 4
    elif -(-rows // block_m) * -(-n // block_n) < 128:  # too few for every multiprocessor of a large GPU
        block_m, block_n, warps, stages = 64, 64, 4, 4
    block_n = min(block_n, _power(n))
    while whole and whole % block_n:
        block_n //= 2
    return {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "num_warps": warps, "num_stages": stages}


def _power(number: int) -> int:
    """The smallest power of two that is not smaller, 16 at least."""
    return max(16, 1 << (number - 1).bit_length())
