"""Triton kernels of the fused network: matrix products with all that stands around them, and global attention.

Tokens are rows of (rows, channels), channels last, as everywhere in ``networks``. Every row is computed by one program
in an order that does not depend on how many rows there are, so a sample comes out alike in every batch.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from emrdm.networks.neighborhood.triton_kernels import exp2

_LOG2E = tl.constexpr(1.4426950408889634)
_LOW = tl.constexpr(-1e30)  # the logit of a key that is not there


@triton.jit
def _normalised(x, gain_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, EPSILON: tl.constexpr):
    """X * gain / rms(x), rows of WIDTH channels in blocks of BLOCK."""
    wide = x.to(tl.float32)
    n = tl.arange(0, BLOCK)
    gain = tl.load(gain_ptr + n, mask=n < WIDTH, other=0.0).to(tl.float32)
    factor = tl.rsqrt(tl.sum(wide * wide, 1) / WIDTH + EPSILON)
    return (wide * factor[:, None] * gain[None, :]).to(x.dtype)


@triton.jit
def _turned(x, rms, cosine, sine, scale, EPSILON: tl.constexpr, DTYPE: tl.constexpr):
    """A head (rows, d) as unit vectors times sqrt(scale), the pairs of neighbours in its first half turned.

    ``rms`` is a factor of each row of x that is still to come.
    """
    ROWS: tl.constexpr = x.shape[0]
    D: tl.constexpr = x.shape[1]
    x = x * (tl.sqrt(scale) * rms * tl.rsqrt(tl.sum(x * x, 1) * rms * rms + EPSILON))[:, None]
    x = x.to(DTYPE)  # what follows moves between threads: half the bytes
    turning, staying = tl.split(tl.permute(tl.reshape(x, [ROWS, 2, D // 2]), [0, 2, 1]))
    even, odd = tl.split(tl.reshape(turning, [ROWS, D // 4, 2]))
    cosine, sine, even, odd = cosine.to(tl.float32), sine.to(tl.float32), even.to(tl.float32), odd.to(tl.float32)
    turning = tl.join((even * cosine - odd * sine).to(x.dtype), (odd * cosine + even * sine).to(x.dtype))
    turning = tl.reshape(turning, [ROWS, D // 2])
    return tl.reshape(tl.permute(tl.join(turning, staying), [0, 2, 1]), [ROWS, D])


@triton.jit
def _angles(angles_ptr, m, rows, tokens, head, HEADS: tl.constexpr, CHANNELS: tl.constexpr):
    """Cosines and sines (rows, d / 4) of a head, from the table (2, tokens, HEADS, d / 4) of one image."""
    PAIRS: tl.constexpr = CHANNELS // 4
    angle = angles_ptr + ((m % tokens) * HEADS + head)[:, None] * PAIRS + tl.arange(0, PAIRS)[None, :]
    inside = (m < rows)[:, None]
    cosine = tl.load(angle, mask=inside, other=0.0)
    return cosine, tl.load(angle + tokens * HEADS * PAIRS, mask=inside, other=0.0)


@triton.jit
def heads_kernel(
    x_ptr, gain_ptr, weight_ptr, scale_ptr, angles_ptr, out_ptr, rows, tokens,
    WIDTH: tl.constexpr, HEADS: tl.constexpr, CHANNELS: tl.constexpr, EPSILON: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Norm, projection to q, k, v, unit vectors and rotation; for a WIDTH that is a power of two and fits on chip."""
    m, k, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, WIDTH), tl.arange(0, CHANNELS)
    inside = (m < rows)[:, None]
    start = m.to(tl.int64)
    x = tl.load(x_ptr + start[:, None] * WIDTH + k[None, :], mask=inside, other=0.0)
    wide = x.to(tl.float32)
    rms = tl.rsqrt(tl.sum(wide * wide, 1) / WIDTH + EPSILON)  # a factor of rows: cheaper behind the product
    x = (wide * tl.load(gain_ptr + k).to(tl.float32)[None, :]).to(x.dtype)
    for head in range(HEADS):
        weight = weight_ptr + (head * CHANNELS + d)[None, :] * WIDTH + k[:, None]
        out = out_ptr + start[:, None] * (3 * WIDTH) + (head * CHANNELS + d)[None, :]
        cosine, sine = _angles(angles_ptr, m, rows, tokens, head, HEADS, CHANNELS)
        scale = tl.load(scale_ptr + head)
        # One after the other: with three results at a time, registers are left for half as many programs.
        for part in tl.static_range(2):
            turned = tl.dot(x, tl.load(weight + part * WIDTH * WIDTH))
            turned = _turned(turned, rms, cosine, sine, scale, EPSILON, out_ptr.dtype.element_ty)
            tl.store(out + part * WIDTH, turned, mask=inside)
        v = tl.dot(x, tl.load(weight + 2 * WIDTH * WIDTH)) * rms[:, None]
        tl.store(out + 2 * WIDTH, v.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _geglu(value, gate):
    """Value times GELU(gate): gate times its normal distribution, 1/2 + x P(x^2) for |x| < 4.5, good to 2e-5.

    Finer than bfloat16, and half the instructions of an error function.
    """
    x = tl.minimum(tl.maximum(gate, -4.5), 4.5)
    square = x * x
    p = square * 3.805694e-11 - 4.002317e-9
    p = p * square + 1.846166e-7
    p = p * square - 4.959737e-6
    p = p * square + 8.727665e-5
    p = p * square - 1.076739e-3
    p = p * square + 9.729491e-3
    p = p * square - 6.624044e-2
    p = p * square + 0.3988665
    return value * gate * (x * p + 0.5)


@triton.jit
def feed_forward_kernel(
    x_ptr, gain_ptr, up_ptr, down_ptr, out_ptr, rows,
    WIDTH: tl.constexpr, HIDDEN: tl.constexpr, EPSILON: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """A whole feed-forward block; for a WIDTH that is a power of two and fits on the chip."""
    m, k, h = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, WIDTH), tl.arange(0, BLOCK_H)
    inside = (m < rows)[:, None]
    offsets = m.to(tl.int64)[:, None] * WIDTH + k[None, :]
    x = _normalised(tl.load(x_ptr + offsets, mask=inside, other=0.0), gain_ptr, WIDTH, WIDTH, EPSILON)
    total = tl.zeros([BLOCK_M, WIDTH], tl.float32)
    for begin in range(0, HIDDEN, BLOCK_H):
        up = up_ptr + (begin + h)[None, :] * WIDTH + k[:, None]
        hidden = _geglu(tl.dot(x, tl.load(up)), tl.dot(x, tl.load(up + HIDDEN * WIDTH)))
        down = tl.load(down_ptr + k[None, :] * HIDDEN + (begin + h)[:, None])
        total = tl.dot(hidden.to(x.dtype), down, total)
    total += tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _places(m, n, height, width, CHANNELS: tl.constexpr, PATCH: tl.constexpr):
    """Where number n of token m stands in images (B, CHANNELS, H, W), a token being PATCH x PATCH pixels."""
    column, rest = m % width, m // width
    row, sample = rest % height, (rest // height).to(tl.int64)
    corner, channel = n // CHANNELS, n % CHANNELS
    plane = height * width * PATCH * PATCH
    starts = sample * CHANNELS * plane + (row * PATCH * width + column) * PATCH
    offsets = channel.to(tl.int64) * plane + (corner // PATCH) * width * PATCH + corner % PATCH
    return starts[:, None] + offsets[None, :]


@triton.jit
def tokens_kernel(
    x_ptr, out_ptr, rows, height, width,
    CHANNELS: tl.constexpr, PATCH: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Images (B, CHANNELS, H, W) as tokens (rows, WIDTH), zeros behind; height and width are in tokens."""
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK)
    places = _places(m, n, height, width, CHANNELS, PATCH)
    inside = (m < rows)[:, None]
    mask = inside & (n < CHANNELS * PATCH * PATCH)[None, :]
    x = tl.load(x_ptr + places, mask=mask, other=0.0)
    out = out_ptr + m.to(tl.int64)[:, None] * WIDTH + n[None, :]
    tl.store(out, x.to(out_ptr.dtype.element_ty), mask=inside & (n < WIDTH)[None, :])


@triton.jit
def pixels_kernel(
    x_ptr, gain_ptr, weight_ptr, out_ptr, rows, height, width,
    WIDTH: tl.constexpr, CHANNELS: tl.constexpr, PATCH: tl.constexpr, EPSILON: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Norm, projection and ``depth_to_space`` of tokens to images (B, CHANNELS, H, W); height and width in tokens."""
    N: tl.constexpr = CHANNELS * PATCH * PATCH
    m, k, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, WIDTH), tl.arange(0, BLOCK)
    inside = (m < rows)[:, None]
    x = tl.load(x_ptr + m.to(tl.int64)[:, None] * WIDTH + k[None, :], mask=inside, other=0.0)
    x = _normalised(x, gain_ptr, WIDTH, WIDTH, EPSILON)
    weight = tl.load(weight_ptr + n[None, :] * WIDTH + k[:, None], mask=(n < N)[None, :], other=0.0)
    total = tl.dot(x, weight)
    places = _places(m, n, height, width, CHANNELS, PATCH)
    tl.store(out_ptr + places, total, mask=inside & (n < N)[None, :])


@triton.jit
def norm_kernel(
    x_ptr, gain_ptr, out_ptr, rows,
    WIDTH: tl.constexpr, EPSILON: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Norm alone, for wide tokens."""
    m, n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK)
    inside = (m < rows)[:, None] & (n < WIDTH)[None, :]
    offsets = m.to(tl.int64)[:, None] * WIDTH + n[None, :]
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    tl.store(out_ptr + offsets, _normalised(x, gain_ptr, WIDTH, BLOCK, EPSILON), mask=inside)


@triton.jit
def linear_kernel(
    x_ptr, weight_ptr, out_ptr, other_ptr, share_ptr, angles_ptr, scale_ptr,
    rows, height, width,
    K: tl.constexpr, N: tl.constexpr,
    MERGE: tl.constexpr, THEN: tl.constexpr, CHANNELS: tl.constexpr, EPSILON: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    """A tile of out = then(x @ weight.T), summed up in float32.

    MERGE: rows of x are squares of 2 x 2 tokens of CHANNELS (``space_to_depth``); height and width are the result's.
    THEN: "nothing"; "add" other (rows, N); "geglu", weight has 2 N rows; "heads", queries and keys become unit vectors
    times sqrt(scale) and are turned by their place, a head of CHANNELS being BLOCK_N wide; "split", the result is 2 x 2
    tokens of N / 4 channels (``depth_to_space``) that are mixed with other by ``share``. Height and width are x's.
    """
    tiles = tl.cdiv(N, BLOCK_N)
    tile = tl.program_id(0)
    first_m, first_n = (tile // tiles) * BLOCK_M, (tile % tiles) * BLOCK_N
    m, n, k = first_m + tl.arange(0, BLOCK_M), first_n + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    in_m, in_n = m < rows, n < N
    m64 = m.to(tl.int64)
    if MERGE or THEN == "split":
        column, rest = m % width, m // width
        row, sample = rest % height, (rest // height).to(tl.int64)
    if MERGE:
        starts = ((sample * 2 * height + 2 * row) * 2 * width + 2 * column) * CHANNELS
    else:
        starts = m64 * K
    x_tile = x_ptr + starts[:, None] + k[None, :]
    weight_tile = weight_ptr + n[None, :] * K + k[:, None]
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    gates = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for begin in range(0, K, BLOCK_K):
        offset = begin
        if MERGE:  # two tokens of a row are neighbours; a block of K lies within such a pair
            offset += (begin // (2 * CHANNELS)) * (width - 1) * 2 * CHANNELS
        x = tl.load(x_tile + offset) if EVEN_M else tl.load(x_tile + offset, mask=in_m[:, None], other=0.0)
        if EVEN_N:
            weight = tl.load(weight_tile + begin)
        else:
            weight = tl.load(weight_tile + begin, mask=in_n[None, :], other=0.0)
        total = tl.dot(x, weight, total)
        if THEN == "geglu":
            gate = tl.load(weight_tile + N * K + begin, mask=in_n[None, :], other=0.0)
            gates = tl.dot(x, gate, gates)

    inside = in_m[:, None] & in_n[None, :]
    offsets = m64[:, None] * N + n[None, :]
    if THEN == "geglu":
        total = _geglu(total, gates)
    if THEN == "add":
        total += tl.load(other_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    if THEN == "heads":
        HEADS: tl.constexpr = N // 3 // CHANNELS
        part = first_n // CHANNELS
        if part < 2 * HEADS:  # queries and keys, not values
            head = part % HEADS
            cosine, sine = _angles(angles_ptr, m, rows, height * width, head, HEADS, CHANNELS)
            scale = tl.load(scale_ptr + head)
            total = _turned(total, 1.0, cosine, sine, scale, EPSILON, out_ptr.dtype.element_ty).to(tl.float32)
    if THEN == "split":
        INNER: tl.constexpr = N // 4
        corner, channel = first_n // INNER, tl.multiple_of(first_n % INNER, BLOCK_N)  # BLOCK_N divides N / 4
        token = (sample * 2 * height + 2 * row + corner // 2) * 2 * width + 2 * column + corner % 2
        offsets = token[:, None] * INNER + (channel + tl.arange(0, BLOCK_N))[None, :]
        skip = tl.load(other_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        total = skip + tl.load(share_ptr).to(tl.float32) * (total - skip)
    tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def global_attention_kernel(
    qkv_ptr, bound_ptr, out_ptr, tokens,
    HEADS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    EVEN: tl.constexpr, BOUNDED: tl.constexpr,
):  # fmt: skip
    """Every token of a sample attends to every other; qkv is (B, tokens, 3, HEADS, CHANNELS).

    BOUNDED: no logit of a head is above its bound, so there is no need to look for the highest.
    """
    tile, head, sample = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    WIDTH: tl.constexpr = HEADS * CHANNELS
    ROW: tl.constexpr = 3 * WIDTH
    m, d = tile * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, CHANNELS)
    base = qkv_ptr + sample * tokens * ROW + head * CHANNELS
    q = tl.load(base + m[:, None] * ROW + d[None, :], mask=(m < tokens)[:, None], other=0.0)
    highest = tl.full([BLOCK_M], _LOW, tl.float32)
    if BOUNDED:
        highest = tl.zeros([BLOCK_M], tl.float32) + tl.load(bound_ptr + head) * _LOG2E
    total = tl.zeros([BLOCK_M], tl.float32)
    result = tl.zeros([BLOCK_M, CHANNELS], tl.float32)
    for begin in range(0, tokens, BLOCK_N):
        n = begin + tl.arange(0, BLOCK_N)
        keys, values = base + WIDTH + n[None, :] * ROW + d[:, None], base + 2 * WIDTH + n[:, None] * ROW + d[None, :]
        if EVEN:
            k, v = tl.load(keys), tl.load(values)
        else:
            k = tl.load(keys, mask=(n < tokens)[None, :], other=0.0)
            v = tl.load(values, mask=(n < tokens)[:, None], other=0.0)
        logits = tl.dot(q, k) * _LOG2E
        if not EVEN:
            logits = tl.where((n < tokens)[None, :], logits, _LOW)
        if BOUNDED:
            weights = exp2(logits - highest[:, None])
        else:
            higher = tl.maximum(highest, tl.max(logits, 1))
            weights = exp2(logits - higher[:, None])
            shrink = exp2(highest - higher)
            total = total * shrink
            result = result * shrink[:, None]
            highest = higher
        total += tl.sum(weights, 1)
        result = tl.dot(weights.to(v.dtype), v, result)
    out = out_ptr + sample * tokens * WIDTH + head * CHANNELS + m[:, None] * WIDTH + d[None, :]
    tl.store(out, (result * (1.0 / total)[:, None]).to(out_ptr.dtype.element_ty), mask=(m < tokens)[:, None])
