"""The noise of ``philox.py`` in one Triton kernel: the same operations in the same order, so the same bits.

What keeps them the same: products and sums are not fused (``enable_fp_fusion``), quotients are rounded to nearest
(``div_rn``; Triton's ``/`` is approximate), and constants become float32 before they are used, as in torch. Imported
only where Triton is: see ``emrdm.gpu``.
"""

# mypy: ignore-errors

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from emrdm.noise import philox
from emrdm.window import Window

_LOG = tl.constexpr(philox.LOG)
_SINE = tl.constexpr(philox.SINE)
_COSINE = tl.constexpr(philox.COSINE)
_LN2 = tl.constexpr(math.log(2))
_QUARTER = tl.constexpr(math.pi / 2)
_BLOCK = 512  # pixels a program


def draw(words: Tensor, window: Window, frames: int, bands: int) -> Tensor:
    """As :func:`emrdm.noise.philox.draw`, contiguous."""
    batch, groups = words.shape[1], -(-bands // 4)
    pixels = window.height * window.width
    blocks = -(-pixels // _BLOCK)
    out = torch.empty((batch, frames, bands, window.height, window.width), dtype=torch.float32, device=words.device)
    if out.numel():
        with torch.cuda.device_of(out):  # Triton launches on the current device
            _draw[(batch * frames * groups * blocks,)](
                out, words, window.row, window.column, window.width, pixels, batch, frames, bands, groups, blocks,
                block=_BLOCK, enable_fp_fusion=False,
            )  # fmt: skip
    return out


@triton.jit(do_not_specialize=list(range(2, 11)))  # windows vary: compile once for all
def _draw(out, words, row, column, width, pixels, batch, frames, bands, groups, blocks, block: tl.constexpr):
    """A block of pixels of one sample, one frame, four bands. Pixels are counted in 64 bits: rasters can be large."""
    program = tl.program_id(0)
    pixel = (program % blocks).to(tl.int64) * block + tl.arange(0, block)
    group = program // blocks % groups
    frame = program // blocks // groups % frames
    sample = program // blocks // groups // frames

    a, b, c, d = tl.philox_impl(
        (row + pixel // width).to(tl.uint32),
        (column + pixel % width).to(tl.uint32),
        frame.to(tl.uint32),
        group.to(tl.uint32),
        tl.load(words + sample).to(tl.uint32),
        tl.load(words + batch + sample).to(tl.uint32),
        n_rounds=10,
    )
    inside = pixel < pixels
    band = group * 4
    plane = pixels.to(tl.int64)
    out += ((sample * frames + frame).to(tl.int64) * bands + band) * plane + pixel
    first, second = _box_muller(a, b)
    tl.store(out, first, mask=inside)
    if band + 1 < bands:
        tl.store(out + plane, second, mask=inside)
    if band + 2 < bands:
        third, fourth = _box_muller(c, d)
        tl.store(out + 2 * plane, third, mask=inside)
        if band + 3 < bands:
            tl.store(out + 3 * plane, fourth, mask=inside)


@triton.jit
def _box_muller(radius_word, angle_word):
    u = (radius_word.to(tl.float32) + 0.5) * 2.0**-32
    radius = _sqrt(tl.abs(_log(u) * 2.0))
    cosine, sine = _cos_sin_turn(angle_word)
    return radius * cosine, radius * sine


@triton.jit
def _log(u):
    bits = u.to(tl.int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23
    m = (bits - (exponent << 23)).to(tl.float32, bitcast=True)
    z = tl.div_rn(m - 1.0, m + 1.0)
    return z * _horner(z * z, _LOG, 5) * 2.0 + exponent.to(tl.float32) * _LN2


@triton.jit
def _sqrt(x):
    y = ((x.to(tl.int32, bitcast=True) >> 1) + 0x1FBD1DF5).to(tl.float32, bitcast=True)
    for _ in tl.static_range(3):
        y = (y + tl.div_rn(x, y)) * 0.5
    return y


@triton.jit
def _cos_sin_turn(word):
    quadrant = word >> 30
    angle = ((word & 0x3FFFFFFF).to(tl.float32) * 2.0**-30 - 0.5) * _QUARTER
    a2 = angle * angle
    sine = angle * _horner(a2, _SINE, 5)
    cosine = _horner(a2, _COSINE, 6)
    turned = (quadrant & 1) != 0
    minus_sine = sine * -1.0  # not -sine: some versions subtract from zero, and zero would lose its sign
    cosine, sine = tl.where(turned, minus_sine, cosine), tl.where(turned, cosine, sine)
    sign = 1.0 - (quadrant & 2).to(tl.float32)
    return cosine * sign, sine * sign


@triton.jit
def _horner(x, coefficients: tl.constexpr, count: tl.constexpr):
    value = x * coefficients[0] + coefficients[1]
    for i in tl.static_range(2, count):
        value = value * x + coefficients[i]
    return value
