"""Triton kernels of neighbourhood attention: a tile of queries (or keys) a program, its keys (or queries) streamed by.

All windows of a tile of queries lie in one rectangle of keys, clamped into the image as the windows are, so a program
runs ordinary attention of its tile to that rectangle, a block of keys at a time, and masks what a query does not see.
The gradient of keys and values turns this round: a tile of keys, and the rectangle of queries that see any of it. No
program adds to what another one wrote, so results are the same every time.

Tensors are (B, H, W, heads, d) with any strides but the last, which is 1.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

_LOG2E = tl.constexpr(1.4426950408889634)
_FAR = tl.constexpr(-(1 << 20))  # the row of a key that is not there: in nobody's window
_LOW = tl.constexpr(-1e30)  # the logit of a key that is not seen; finite, so that no difference of two is NaN


@triton.jit
def _clamp(x, low, high):
    return tl.minimum(tl.maximum(x, low), high)


@triton.jit
def _sees(key_row, key_column, start_row, start_column, KERNEL: tl.constexpr):
    """Whether a key lies in the window that starts there; as unsigned numbers one comparison does for two."""
    rows = (key_row - start_row).to(tl.uint32) < KERNEL
    columns = (key_column - start_column).to(tl.uint32) < KERNEL
    return rows & columns


@triton.jit
def _offsets(rows, columns, stride_row, stride_column, WIDE: tl.constexpr):
    """Where tokens begin; WIDE where an image has more numbers than 32 bits count."""
    if WIDE:
        return rows.to(tl.int64) * stride_row + columns.to(tl.int64) * stride_column
    return rows * stride_row + columns * stride_column


@triton.jit
def _load(
    base, rows, columns, stride_row, stride_column, there, D: tl.constexpr, BLOCK_D: tl.constexpr, WIDE: tl.constexpr
):  # fmt: skip
    """(tokens, BLOCK_D) of the tokens that are there, zero elsewhere."""
    d = tl.arange(0, BLOCK_D)
    offsets = _offsets(rows, columns, stride_row, stride_column, WIDE)[:, None] + d[None, :]
    if D == BLOCK_D:
        return tl.load(base + offsets, mask=there[:, None], other=0.0)
    return tl.load(base + offsets, mask=there[:, None] & (d < D)[None, :], other=0.0)


@triton.jit
def _store(
    base, rows, columns, stride_row, stride_column, there, value,
    D: tl.constexpr, BLOCK_D: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    d = tl.arange(0, BLOCK_D)
    offsets = _offsets(rows, columns, stride_row, stride_column, WIDE)[:, None] + d[None, :]
    mask = there[:, None] & (d < D)[None, :]
    tl.store(base + offsets, value.to(base.dtype.element_ty), mask=mask)


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, bound_ptr,
    q_batch, q_row, q_column, q_head,
    k_batch, k_row, k_column, k_head,
    v_batch, v_row, v_column, v_head,
    out_batch, out_row, out_column, out_head,
    height, width, scale,
    KERNEL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, WIDE: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, SPAN_H: tl.constexpr, SPAN_W: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr, KEEP: tl.constexpr, BOUNDED: tl.constexpr,
):  # fmt: skip
    """Attention of a tile of queries; with KEEP, the logarithm of the softmax's denominator for the way back.

    BOUNDED: no logit of a head is above its bound, so there is no need to look for the highest.
    """
    tile, head, sample = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    across = tl.cdiv(width, TILE_W)
    top, left = (tile // across) * TILE_H, (tile % across) * TILE_W
    m = tl.arange(0, TILE_H * TILE_W)
    row, column = top + m // TILE_W, left + m % TILE_W
    there = (row < height) & (column < width)
    start_row = _clamp(row - KERNEL // 2, 0, height - KERNEL)
    start_column = _clamp(column - KERNEL // 2, 0, width - KERNEL)
    first_row = _clamp(top - KERNEL // 2, 0, height - SPAN_H)
    first_column = _clamp(left - KERNEL // 2, 0, width - SPAN_W)

    q = _load(q_ptr + sample * q_batch + head * q_head, row, column, q_row, q_column, there, D, BLOCK_D, WIDE)
    k_base = k_ptr + sample * k_batch + head * k_head
    v_base = v_ptr + sample * v_batch + head * v_head
    highest = tl.full([TILE_H * TILE_W], _LOW, tl.float32)
    if BOUNDED:
        highest = tl.zeros([TILE_H * TILE_W], tl.float32) + tl.load(bound_ptr + head) * _LOG2E
    total = tl.zeros([TILE_H * TILE_W], tl.float32)
    result = tl.zeros([TILE_H * TILE_W, BLOCK_D], tl.float32)
    for begin in range(0, SPAN_H * SPAN_W, BLOCK):
        n = begin + tl.arange(0, BLOCK)
        inside = n < SPAN_H * SPAN_W
        key_row, key_column = first_row + n // SPAN_W, first_column + n % SPAN_W
        k = _load(k_base, key_row, key_column, k_row, k_column, inside, D, BLOCK_D, WIDE)
        v = _load(v_base, key_row, key_column, v_row, v_column, inside, D, BLOCK_D, WIDE)
        key_row = tl.where(inside, key_row, _FAR)
        seen = _sees(key_row[None, :], key_column[None, :], start_row[:, None], start_column[:, None], KERNEL)
        logits = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * _LOG2E)
        if BOUNDED:
            weights = tl.where(seen, tl.exp2(logits - highest[:, None]), 0.0)
        else:
            logits = tl.where(seen, logits, _LOW)
            higher = tl.maximum(highest, tl.max(logits, 1))
            weights = tl.exp2(logits - higher[:, None])
            shrink = tl.exp2(highest - higher)
            total = total * shrink
            result = result * shrink[:, None]
            highest = higher
        total += tl.sum(weights, 1)
        result = tl.dot(weights.to(v.dtype), v, result, input_precision=PRECISION)
    out_base = out_ptr + sample * out_batch + head * out_head
    _store(out_base, row, column, out_row, out_column, there, result / total[:, None], D, BLOCK_D, WIDE)
    if KEEP:
        plane = (sample * tl.num_programs(1) + head) * height * width
        tl.store(lse_ptr + plane + row * width + column, highest + tl.log2(total), mask=there)


@triton.jit
def backward_queries_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, grad_ptr, lse_ptr, delta_ptr, grad_q_ptr,
    q_batch, q_row, q_column, q_head,
    k_batch, k_row, k_column, k_head,
    v_batch, v_row, v_column, v_head,
    out_batch, out_row, out_column, out_head,
    grad_batch, grad_row, grad_column, grad_head,
    height, width, scale,
    KERNEL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, WIDE: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, SPAN_H: tl.constexpr, SPAN_W: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of a tile of queries; also sum(out * grad) of each query, which the other kernel needs.

    ``grad_q`` is laid out like ``out``.
    """
    tile, head, sample = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    across = tl.cdiv(width, TILE_W)
    top, left = (tile // across) * TILE_H, (tile % across) * TILE_W
    m = tl.arange(0, TILE_H * TILE_W)
    row, column = top + m // TILE_W, left + m % TILE_W
    there = (row < height) & (column < width)
    start_row = _clamp(row - KERNEL // 2, 0, height - KERNEL)
    start_column = _clamp(column - KERNEL // 2, 0, width - KERNEL)
    first_row = _clamp(top - KERNEL // 2, 0, height - SPAN_H)
    first_column = _clamp(left - KERNEL // 2, 0, width - SPAN_W)

    out_base = sample * out_batch + head * out_head
    q = _load(q_ptr + sample * q_batch + head * q_head, row, column, q_row, q_column, there, D, BLOCK_D, WIDE)
    out = _load(out_ptr + out_base, row, column, out_row, out_column, there, D, BLOCK_D, WIDE)
    grad_base = grad_ptr + sample * grad_batch + head * grad_head
    grad = _load(grad_base, row, column, grad_row, grad_column, there, D, BLOCK_D, WIDE)
    plane = (sample * tl.num_programs(1) + head) * height * width
    place = plane + row * width + column
    lse = tl.load(lse_ptr + place, mask=there, other=0.0)
    delta = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)
    tl.store(delta_ptr + place, delta, mask=there)

    k_base = k_ptr + sample * k_batch + head * k_head
    v_base = v_ptr + sample * v_batch + head * v_head
    grad_q = tl.zeros([TILE_H * TILE_W, BLOCK_D], tl.float32)
    for begin in range(0, SPAN_H * SPAN_W, BLOCK):
        n = begin + tl.arange(0, BLOCK)
        inside = n < SPAN_H * SPAN_W
        key_row, key_column = first_row + n // SPAN_W, first_column + n % SPAN_W
        k = _load(k_base, key_row, key_column, k_row, k_column, inside, D, BLOCK_D, WIDE)
        v = _load(v_base, key_row, key_column, v_row, v_column, inside, D, BLOCK_D, WIDE)
        key_row = tl.where(inside, key_row, _FAR)
        seen = _sees(key_row[None, :], key_column[None, :], start_row[:, None], start_column[:, None], KERNEL)
        logits = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * _LOG2E)
        weights = tl.exp2(tl.where(seen, logits - lse[:, None], _LOW))
        slope = weights * (tl.dot(grad, tl.trans(v), input_precision=PRECISION) - delta[:, None])
        grad_q = tl.dot(slope.to(k.dtype), k, grad_q, input_precision=PRECISION)
    _store(grad_q_ptr + out_base, row, column, out_row, out_column, there, grad_q * scale, D, BLOCK_D, WIDE)


@triton.jit
def backward_keys_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, lse_ptr, delta_ptr, grad_k_ptr, grad_v_ptr,
    q_batch, q_row, q_column, q_head,
    k_batch, k_row, k_column, k_head,
    v_batch, v_row, v_column, v_head,
    out_batch, out_row, out_column, out_head,
    grad_batch, grad_row, grad_column, grad_head,
    height, width, scale,
    KERNEL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, WIDE: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, SPAN_H: tl.constexpr, SPAN_W: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of keys and values, laid out like ``out``; SPAN is that of the queries that see any of it."""
    tile, head, sample = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    across = tl.cdiv(width, TILE_W)
    top, left = (tile // across) * TILE_H, (tile % across) * TILE_W
    m = tl.arange(0, TILE_H * TILE_W)
    row, column = top + m // TILE_W, left + m % TILE_W
    there = (row < height) & (column < width)
    # The first keys of an axis are seen from its first token on, since windows slide inward there.
    first_row = tl.minimum(tl.where(top < KERNEL, 0, top - KERNEL // 2), height - SPAN_H)
    first_column = tl.minimum(tl.where(left < KERNEL, 0, left - KERNEL // 2), width - SPAN_W)

    k = _load(k_ptr + sample * k_batch + head * k_head, row, column, k_row, k_column, there, D, BLOCK_D, WIDE)
    v = _load(v_ptr + sample * v_batch + head * v_head, row, column, v_row, v_column, there, D, BLOCK_D, WIDE)
    q_base = q_ptr + sample * q_batch + head * q_head
    grad_base = grad_ptr + sample * grad_batch + head * grad_head
    plane = (sample * tl.num_programs(1) + head) * height * width
    grad_k = tl.zeros([TILE_H * TILE_W, BLOCK_D], tl.float32)
    grad_v = tl.zeros([TILE_H * TILE_W, BLOCK_D], tl.float32)
    for begin in range(0, SPAN_H * SPAN_W, BLOCK):
        n = begin + tl.arange(0, BLOCK)
        inside = n < SPAN_H * SPAN_W
        query_row, query_column = first_row + n // SPAN_W, first_column + n % SPAN_W
        q = _load(q_base, query_row, query_column, q_row, q_column, inside, D, BLOCK_D, WIDE)
        grad = _load(grad_base, query_row, query_column, grad_row, grad_column, inside, D, BLOCK_D, WIDE)
        place = plane + query_row * width + query_column
        lse = tl.load(lse_ptr + place, mask=inside, other=0.0)
        delta = tl.load(delta_ptr + place, mask=inside, other=0.0)
        start_row = tl.where(inside, _clamp(query_row - KERNEL // 2, 0, height - KERNEL), -_FAR)
        start_column = _clamp(query_column - KERNEL // 2, 0, width - KERNEL)
        seen = _sees(row[:, None], column[:, None], start_row[None, :], start_column[None, :], KERNEL)
        logits = tl.dot(k, tl.trans(q), input_precision=PRECISION) * (scale * _LOG2E)
        weights = tl.exp2(tl.where(seen, logits - lse[None, :], _LOW))
        grad_v = tl.dot(weights.to(grad.dtype), grad, grad_v, input_precision=PRECISION)
        slope = weights * (tl.dot(v, tl.trans(grad), input_precision=PRECISION) - delta[None, :])
        grad_k = tl.dot(slope.to(q.dtype), q, grad_k, input_precision=PRECISION)
    out_base = sample * out_batch + head * out_head
    _store(grad_k_ptr + out_base, row, column, out_row, out_column, there, grad_k * scale, D, BLOCK_D, WIDE)
    _store(grad_v_ptr + out_base, row, column, out_row, out_column, there, grad_v, D, BLOCK_D, WIDE)
