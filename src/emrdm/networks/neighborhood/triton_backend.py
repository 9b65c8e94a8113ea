"""Neighbourhood attention by Triton kernels, forward and backward, as an operator that torch can compile around.

Imported only where Triton is: see ``emrdm.gpu``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from emrdm.networks.neighborhood import tiles, triton_kernels
from emrdm.networks.neighborhood.tiles import Tile


def attend(q: Tensor, k: Tensor, v: Tensor, kernel: int, scale: float) -> Tensor:
    """(B, H, W, heads, d) each; see :func:`emrdm.networks.neighborhood.neighborhood_attention`."""
    if q.dtype != v.dtype:  # under autocast, what was normalised may be wider than what was projected
        q, k = q.to(v.dtype), k.to(v.dtype)
    if torch.compiler.is_compiling():
        return torch.ops.emrdm.neighborhood(q, k, v, kernel, scale)[0]
    return _Attention.apply(q, k, v, kernel, scale)  # type: ignore[no-untyped-call]


class _Attention(torch.autograd.Function):
    """Outside of a compiler: without the operator's way through torch's dispatcher, which takes longer than the GPU."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, kernel: int, scale: float) -> Tensor:
        ctx.kernel, ctx.scale = kernel, scale
        out, lse = launch_forward(q, k, v, kernel, scale, keep=any(ctx.needs_input_grad))
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        return *launch_backward(grad, q, k, v, out, lse, ctx.kernel, ctx.scale), None, None


@torch.library.custom_op("emrdm::neighborhood", mutates_args=())
def _neighborhood(q: Tensor, k: Tensor, v: Tensor, kernel: int, scale: float) -> tuple[Tensor, Tensor]:
    """Output, and log2 of the softmax's denominator (B, heads, H, W) for the way back."""
    return launch_forward(q, k, v, kernel, scale, keep=True)


@_neighborhood.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, kernel: int, scale: float) -> tuple[Tensor, Tensor]:
    batch, height, width, heads, _ = q.shape
    return q.new_empty(q.shape), q.new_empty((batch, heads, height, width), dtype=torch.float32)


@torch.library.custom_op("emrdm::neighborhood_backward", mutates_args=())
def _neighborhood_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, kernel: int, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    return launch_backward(grad, q, k, v, out, lse, kernel, scale)


@_neighborhood_backward.register_fake
def _(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    kernel: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), q.new_empty(q.shape), q.new_empty(q.shape)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.kernel, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output)


def _differentiate(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return *torch.ops.emrdm.neighborhood_backward(grad, *ctx.saved_tensors, ctx.kernel, ctx.scale), None, None


_neighborhood.register_autograd(_differentiate, setup_context=_remember)


def launch_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    kernel: int,
    scale: float,
    *,
    keep: bool,
    bound: Tensor | None = None,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor]:
    """Run the kernel; ``lse`` is empty unless it is kept. ``bound`` (heads,) is what no logit exceeds, where known."""
    q, k, v = _with_unit_stride(q), _with_unit_stride(k), _with_unit_stride(v)
    batch, height, width, heads, _ = q.shape
    out = q.new_empty(q.shape)
    lse = q.new_empty((batch, heads, height, width) if keep else (0,), dtype=torch.float32)

    def launch(tile: Tile) -> None:
        grid = (tile.covering(height, width), heads, batch)
        triton_kernels.forward_kernel[grid](
            q, k, v, out, lse, bound, *q.stride()[:4], *k.stride()[:4], *v.stride()[:4], *out.stride()[:4],
            height, width, scale, KEEP=keep, BOUNDED=bound is not None, **_constants(q, (q, k, v, out), kernel, tile),
            **_span(tiles.keys_seen, height, width, tile, kernel),
        )  # fmt: skip

    with torch.cuda.device_of(q):  # Triton launches on the current GPU
        launch(tile or tiles.choose("forward", q, kernel, launch))
    return out, lse


def launch_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, kernel: int, scale: float,
    *, tile: Tile | None = None
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k and v."""
    q, k, v, grad = _with_unit_stride(q), _with_unit_stride(k), _with_unit_stride(v), _with_unit_stride(grad)
    batch, height, width, heads, _ = q.shape
    grad_q, grad_k, grad_v = (q.new_empty(q.shape) for _ in range(3))
    delta = torch.empty_like(lse)
    strides = [number for x in (q, k, v, out, grad) for number in x.stride()[:4]]

    def launch(tile: Tile) -> None:
        grid = (tile.covering(height, width), heads, batch)
        constants = _constants(q, (q, k, v, out, grad), kernel, tile)
        triton_kernels.backward_queries_kernel[grid](
            q, k, v, out, grad, lse, delta, grad_q, *strides, height, width, scale, **constants,
            **_span(tiles.keys_seen, height, width, tile, kernel),
        )  # fmt: skip
        triton_kernels.backward_keys_kernel[grid](
            q, k, v, grad, lse, delta, grad_k, grad_v, *strides, height, width, scale, **constants,
            **_span(tiles.queries_seeing, height, width, tile, kernel),
        )  # fmt: skip

    with torch.cuda.device_of(q):
        launch(tile or tiles.choose("backward", q, kernel, launch))
    return grad_q, grad_k, grad_v


def _constants(q: Tensor, tensors: tuple[Tensor, ...], kernel: int, tile: Tile) -> dict[str, Any]:
    channels = q.shape[-1]
    exact = q.dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return {
        "KERNEL": kernel,
        "D": channels,
        "WIDE": any(x.shape[1] * x.stride(1) >= 2**31 for x in tensors),
        "BLOCK_D": max(16, 1 << (channels - 1).bit_length()),  # matrix units want 16 at least
        "TILE_H": tile.height,
        "TILE_W": tile.width,
        "PRECISION": "ieee" if exact else "tf32",
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }


def _span(seen: Callable[[int, int, int], int], height: int, width: int, tile: Tile, kernel: int) -> dict[str, int]:
    """The rectangle that streams by, and its columns as matrix units take them: a power of two, 16 at least."""
    rows, columns = seen(height, tile.height, kernel), seen(width, tile.width, kernel)
    return {"SPAN_H": rows, "SPAN_W": columns, "COLUMNS": max(16, 1 << (columns - 1).bit_length())}


def _with_unit_stride(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()
