"""Triton kernels of neighbourhood attention: a tile of queries (or keys) a program, rows of keys (or queries) pass by.

All windows of a tile of queries lie in one rectangle of keys, clamped into the image as the windows are, so a program
runs ordinary attention of its tile to that rectangle, a row of keys at a time, and hides what a query does not see.
Which columns it sees is the same in every row, and which rows is the same in every column, so that hiding takes two
additions and no comparison. The gradient of keys and values turns this round: a tile of keys, and the rectangle of
queries that see any of it. No program adds to what another one wrote, so results are the same every time.

Tensors are (B, H, W, heads, d) with any strides but the last, which is 1.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from emrdm import gpu

_LOG2E = tl.constexpr(1.4426950408889634)
_LOW = tl.constexpr(-1e30)  # added to what is not seen; finite, so that no difference of two is NaN
_NATIVE = tl.constexpr(gpu.speaks_ptx())


@triton.jit
def exp2(x):
    """2^x; what is too small for a normal float is zero, which spares three instructions of four on NVIDIA's GPUs."""
    if _NATIVE:
        return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    return tl.exp2(x)


@triton.jit
def _clamp(x, low, high):
    return tl.minimum(tl.maximum(x, low), high)


@triton.jit
def _start(query, length, SPAN: tl.constexpr, KERNEL: tl.constexpr):
    """First of SPAN keys along an axis that are seen from a query on: windows slide inward at the ends."""
    return _clamp(query - KERNEL // 2, 0, length - SPAN)


@triton.jit
def _hidden(key, start, KERNEL: tl.constexpr):
    """0 where a key lies in the window that starts there along an axis, else very low.

    As unsigned numbers one comparison does for two.
    """
    return tl.where((key - start).to(tl.uint32) < KERNEL, 0.0, _LOW)


@triton.jit
def _offset(number, stride, WIDE: tl.constexpr):
    """A number of tokens in memory; WIDE where an image has more than 32 bits count."""
    return number.to(tl.int64) * stride if WIDE else number * stride


@triton.jit
def _load(pointers, there, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """(tokens, BLOCK_D) at the pointers of tokens that are there, zero elsewhere."""
    d = tl.arange(0, BLOCK_D)
    if D == BLOCK_D:
        return tl.load(pointers[:, None] + d[None, :], mask=there[:, None], other=0.0)
    return tl.load(pointers[:, None] + d[None, :], mask=there[:, None] & (d < D)[None, :], other=0.0)


@triton.jit
def _store(pointers, there, value, D: tl.constexpr, BLOCK_D: tl.constexpr):
    d = tl.arange(0, BLOCK_D)
    mask = there[:, None] & (d < D)[None, :]
    tl.store(pointers[:, None] + d[None, :], value.to(pointers.dtype.element_ty), mask=mask)


@triton.jit
def _tile(height, width, TILE_H: tl.constexpr, TILE_W: tl.constexpr):
    """Corner of this program's tile, rows and columns of its tokens, and which of these the image has."""
    across = tl.cdiv(width, TILE_W)
    tile = tl.program_id(0)
    top, left = (tile // across) * TILE_H, (tile % across) * TILE_W
    m = tl.arange(0, TILE_H * TILE_W)
    row, column = top + m // TILE_W, left + m % TILE_W
    return top, left, row, column, (row < height) & (column < width)


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, bound_ptr,
    q_batch, q_row, q_column, q_head,
    k_batch, k_row, k_column, k_head,
    v_batch, v_row, v_column, v_head,
    out_batch, out_row, out_column, out_head,
    height, width, scale,
    KERNEL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, WIDE: tl.constexpr,
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, SPAN_H: tl.constexpr, SPAN_W: tl.constexpr, COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr, KEEP: tl.constexpr, BOUNDED: tl.constexpr,
):  # fmt: skip
    """Attention of a tile of queries; with KEEP, the logarithm of the softmax's denominator for the way back.

    BOUNDED: no logit of a head is above its bound, so there is no need to look for the highest.
    """
    head, sample = tl.program_id(1), tl.program_id(2).to(tl.int64)
    top, left, row, column, there = _tile(height, width, TILE_H, TILE_W)
    start_row, start_column = _start(row, height, KERNEL, KERNEL), _start(column, width, KERNEL, KERNEL)
    first_row = _start(top, height, SPAN_H, KERNEL)
    key_column = _start(left, width, SPAN_W, KERNEL) + tl.arange(0, COLUMNS)
    inside = tl.arange(0, COLUMNS) < SPAN_W  # columns behind the last are in nobody's window

    q_base = q_ptr + sample * q_batch + head * q_head
    q = _load(q_base + _offset(row, q_row, WIDE) + _offset(column, q_column, WIDE), there, D, BLOCK_D)
    keys = k_ptr + sample * k_batch + head * k_head + _offset(key_column, k_column, WIDE)
    values = v_ptr + sample * v_batch + head * v_head + _offset(key_column, v_column, WIDE)
    hidden = _hidden(tl.where(inside, key_column, -KERNEL)[None, :], start_column[:, None], KERNEL)
    highest = tl.full([TILE_H * TILE_W], _LOW, tl.float32)
    if BOUNDED:
        highest = tl.zeros([TILE_H * TILE_W], tl.float32) + tl.load(bound_ptr + head) * _LOG2E
        hidden -= highest[:, None]
    total = tl.zeros([TILE_H * TILE_W], tl.float32)
    result = tl.zeros([TILE_H * TILE_W, BLOCK_D], tl.float32)
    for number in range(SPAN_H):
        key_row = first_row + number
        k = _load(keys + _offset(key_row, k_row, WIDE), inside, D, BLOCK_D)
        v = _load(values + _offset(key_row, v_row, WIDE), inside, D, BLOCK_D)
        logits = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * _LOG2E) + hidden
        logits += _hidden(key_row, start_row, KERNEL)[:, None]
        if BOUNDED:
            weights = exp2(logits)
        else:
            higher = tl.maximum(highest, tl.max(logits, 1))
            weights = exp2(logits - higher[:, None])
            shrink = exp2(highest - higher)
            total = total * shrink
            result = result * shrink[:, None]
            highest = higher
        total += tl.sum(weights, 1)
        result = tl.dot(weights.to(v.dtype), v, result, input_precision=PRECISION)
    out_base = out_ptr + sample * out_batch + head * out_head
    pointers = out_base + _offset(row, out_row, WIDE) + _offset(column, out_column, WIDE)
    _store(pointers, there, result * (1.0 / total)[:, None], D, BLOCK_D)
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
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, SPAN_H: tl.constexpr, SPAN_W: tl.constexpr, COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of a tile of queries; also sum(out * grad) of each query, which the other kernel needs.

    ``grad_q`` is laid out like ``out``.
    """
    head, sample = tl.program_id(1), tl.program_id(2).to(tl.int64)
    top, left, row, column, there = _tile(height, width, TILE_H, TILE_W)
    start_row, start_column = _start(row, height, KERNEL, KERNEL), _start(column, width, KERNEL, KERNEL)
    first_row = _start(top, height, SPAN_H, KERNEL)
    key_column = _start(left, width, SPAN_W, KERNEL) + tl.arange(0, COLUMNS)
    inside = tl.arange(0, COLUMNS) < SPAN_W

    q_base = q_ptr + sample * q_batch + head * q_head
    q = _load(q_base + _offset(row, q_row, WIDE) + _offset(column, q_column, WIDE), there, D, BLOCK_D)
    out_base = sample * out_batch + head * out_head + _offset(row, out_row, WIDE) + _offset(column, out_column, WIDE)
    out = _load(out_ptr + out_base, there, D, BLOCK_D)
    grad_base = grad_ptr + sample * grad_batch + head * grad_head
    grad = _load(grad_base + _offset(row, grad_row, WIDE) + _offset(column, grad_column, WIDE), there, D, BLOCK_D)
    plane = (sample * tl.num_programs(1) + head) * height * width
    place = plane + row * width + column
    lse = tl.load(lse_ptr + place, mask=there, other=0.0)
    delta = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)
    tl.store(delta_ptr + place, delta, mask=there)

    keys = k_ptr + sample * k_batch + head * k_head + _offset(key_column, k_column, WIDE)
    values = v_ptr + sample * v_batch + head * v_head + _offset(key_column, v_column, WIDE)
    hidden = _hidden(tl.where(inside, key_column, -KERNEL)[None, :], start_column[:, None], KERNEL) - lse[:, None]
    grad_q = tl.zeros([TILE_H * TILE_W, BLOCK_D], tl.float32)
    for number in range(SPAN_H):
        key_row = first_row + number
        k = _load(keys + _offset(key_row, k_row, WIDE), inside, D, BLOCK_D)
        v = _load(values + _offset(key_row, v_row, WIDE), inside, D, BLOCK_D)
        logits = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * _LOG2E) + hidden
        weights = exp2(logits + _hidden(key_row, start_row, KERNEL)[:, None])
        slope = weights * (tl.dot(grad, tl.trans(v), input_precision=PRECISION) - delta[:, None])
        grad_q = tl.dot(slope.to(k.dtype), k, grad_q, input_precision=PRECISION)
    _store(grad_q_ptr + out_base, there, grad_q * scale, D, BLOCK_D)


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
    TILE_H: tl.constexpr, TILE_W: tl.constexpr, SPAN_H: tl.constexpr, SPAN_W: tl.constexpr, COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients of a tile of keys and values, laid out like ``out``; SPAN is that of the queries that see any of it."""
    head, sample = tl.program_id(1), tl.program_id(2).to(tl.int64)
    top, left, row, column, there = _tile(height, width, TILE_H, TILE_W)
    # The first keys of an axis are seen from its first token on, since windows slide inward there.
    first_row = tl.minimum(tl.where(top < KERNEL, 0, top - KERNEL // 2), height - SPAN_H)
    first_column = tl.minimum(tl.where(left < KERNEL, 0, left - KERNEL // 2), width - SPAN_W)
    query_column = first_column + tl.arange(0, COLUMNS)
    inside = tl.arange(0, COLUMNS) < SPAN_W

    tokens = sample * k_batch + head * k_head + _offset(row, k_row, WIDE) + _offset(column, k_column, WIDE)
    k = _load(k_ptr + tokens, there, D, BLOCK_D)
    tokens = sample * v_batch + head * v_head + _offset(row, v_row, WIDE) + _offset(column, v_column, WIDE)
    v = _load(v_ptr + tokens, there, D, BLOCK_D)
    queries = q_ptr + sample * q_batch + head * q_head + _offset(query_column, q_column, WIDE)
    grads = grad_ptr + sample * grad_batch + head * grad_head + _offset(query_column, grad_column, WIDE)
    place = (sample * tl.num_programs(1) + head) * height * width + query_column
    start_column = _start(query_column, width, KERNEL, KERNEL)
    hidden = _hidden(column[:, None], tl.where(inside, start_column, width)[None, :], KERNEL)
    grad_k = tl.zeros([TILE_H * TILE_W, BLOCK_D], tl.float32)
    grad_v = tl.zeros([TILE_H * TILE_W, BLOCK_D], tl.float32)
    for number in range(SPAN_H):
        query_row = first_row + number
        q = _load(queries + _offset(query_row, q_row, WIDE), inside, D, BLOCK_D)
        grad = _load(grads + _offset(query_row, grad_row, WIDE), inside, D, BLOCK_D)
        lse = tl.load(lse_ptr + place + query_row * width, mask=inside, other=0.0)
        delta = tl.load(delta_ptr + place + query_row * width, mask=inside, other=0.0)
        start_row = _start(query_row, height, KERNEL, KERNEL)
        logits = tl.dot(k, tl.trans(q), input_precision=PRECISION) * (scale * _LOG2E) + hidden
        weights = exp2(logits + _hidden(row, start_row, KERNEL)[:, None] - lse[None, :])
        grad_v = tl.dot(weights.to(grad.dtype), grad, grad_v, input_precision=PRECISION)
        slope = weights * (tl.dot(v, tl.trans(grad), input_precision=PRECISION) - delta[None, :])
        grad_k = tl.dot(slope.to(q.dtype), q, grad_k, input_precision=PRECISION)
    out_base = sample * out_batch + head * out_head + _offset(row, out_row, WIDE) + _offset(column, out_column, WIDE)
    _store(grad_k_ptr + out_base, there, grad_k * scale, D, BLOCK_D)
    _store(grad_v_ptr + out_base, there, grad_v, D, BLOCK_D)
