"""Neighbourhood attention through torch's flex_attention: compiled, for GPUs; kept to compare with."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

_SHAPES = 128


def attend(q: Tensor, k: Tensor, v: Tensor, kernel: int, scale: float) -> Tensor:
    """(B, H, W, heads, d) each; see :func:`emrdm.networks.neighborhood.neighborhood_attention`."""
    _, height, width, _, _ = q.shape
    if q.dtype != v.dtype:
        q, k = q.to(v.dtype), k.to(v.dtype)
    q, k, v = (x.flatten(1, 2).transpose(1, 2) for x in (q, k, v))
    mask = _mask(height, width, kernel, q.device)
    out: Tensor = _compiled()(q, k, v, block_mask=mask, scale=scale)
    return out.transpose(1, 2).unflatten(1, (height, width))


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Any]:
    from torch._dynamo import config
    from torch.nn.attention.flex_attention import flex_attention

    # Each shape is compiled for itself. The compiler would give up after a few and run the rest uncompiled.
    config.recompile_limit = max(config.recompile_limit, _SHAPES)
    config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, 4 * _SHAPES)
    return torch.compile(flex_attention, dynamic=False)


@lru_cache(maxsize=16)
def _mask(height: int, width: int, kernel: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:  # noqa: ARG001 - torch's signature
        row = (query // width - kernel // 2).clamp(0, height - kernel)
        column = (query % width - kernel // 2).clamp(0, width - kernel)
        rows, columns = key // width - row, key % width - column
        return (rows >= 0) & (rows < kernel) & (columns >= 0) & (columns < kernel)

    with torch.inference_mode(False):  # the cache outlives the mode it was filled in
        tokens = height * width
        return torch.compile(create_block_mask)(seen, None, None, tokens, tokens, device=str(device))
