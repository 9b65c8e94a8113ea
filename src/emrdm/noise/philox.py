"""What the noise is: Philox4x32-10 and the Box-Muller transform, in torch.

The generator is Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011). The counter
is (row, column, frame, band // 4); its four output words give the normals of four neighbouring bands.

Why logarithm, square root, sine and cosine are written out below: library versions differ in the last bit between CPU
and GPU (the square root too: torch's CUDA build rounds 1 in 150 otherwise). Sums, products and quotients are exactly
rounded everywhere, so functions made of them, one operation at a time, give the same bits on every device. Whoever
changes an operation or its order here changes it in ``kernel.py`` too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from emrdm.errors import InputError
from emrdm.window import Window

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10

# Polynomials, highest coefficient first.
LOG = (1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)
SINE = (1 / 362880, -1 / 5040, 1 / 120, -1 / 6, 1.0)
COSINE = (-1 / 3628800, 1 / 40320, -1 / 720, 1 / 24, -1 / 2, 1.0)

Word = TypeVar("Word", int, Tensor)


def fold(key: int, *data: int) -> int:
    """Derive a new 64-bit key from ``key`` and any number of integers, in order.

    ``fold(seed, sample, step)`` and ``fold(seed, step, sample)`` are unrelated streams.
    """
    try:
        key = operator.index(key) & ((1 << 64) - 1)
    except TypeError:
        raise InputError(f"seed is {key!r}: expected a whole number") from None
    for number in data:
        words = (number & _MASK, (number >> 32) & _MASK, 0x454D5244, 0)  # third word: "EMRD", apart from pixel counters
        low, high, _, _ = _philox(words, (key & _MASK, key >> 32))
        key = low | (high << 32)
    return key


def split_keys(keys: Sequence[int], device: torch.device | str) -> Tensor:
    """Low and high 32 bits of every key, int64, (2, B); sent on from the CPU, since ``torch.tensor`` awaits a GPU."""
    words = [[(key >> shift) & _MASK for key in keys] for shift in (0, 32)]
    return torch.tensor(words, dtype=torch.int64).to(device, non_blocking=True)


def draw(words: Tensor, window: Window, frames: int, bands: int) -> Tensor:
    """Normals (B, L, C, H, W) of the keys that :func:`split_keys` has split."""
    groups = -(-bands // 4)

    def axis(start: int, count: int, dim: int) -> Tensor:
        shape = [1] * 5
        shape[dim] = count
        return (torch.arange(start, start + count, dtype=torch.int64, device=words.device) & _MASK).reshape(shape)

    counter = (
        axis(window.row, window.height, 3),
        axis(window.column, window.width, 4),
        axis(0, frames, 1),
        axis(0, groups, 2),
    )
    low, high = words.reshape(2, -1, 1, 1, 1, 1)
    drawn = _philox(counter, (low, high))
    shape = (words.shape[1], frames, groups, window.height, window.width)
    first = _box_muller(drawn[0].expand(shape), drawn[1].expand(shape))
    second = _box_muller(drawn[2].expand(shape), drawn[3].expand(shape))
    return torch.stack((*first, *second), dim=3).flatten(2, 3)[:, :, :bands]


def _philox(counter: tuple[Word, Word, Word, Word], key: tuple[Word, Word]) -> tuple[Word, Word, Word, Word]:
    """Philox4x32-10 on Python integers or on int64 tensors that hold 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for turn in range(_ROUNDS):
        # An int64 product may wrap; its low and high 32 bits are right all the same once they are masked.
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        round0, round1 = (k0 + turn * _WEYL[0]) & _MASK, (k1 + turn * _WEYL[1]) & _MASK
        c0, c1, c2, c3 = (
            ((product1 >> 32) & _MASK) ^ c1 ^ round0,
            product1 & _MASK,
            ((product0 >> 32) & _MASK) ^ c3 ^ round1,
            product0 & _MASK,
        )
    return c0, c1, c2, c3


def _box_muller(radius_word: Tensor, angle_word: Tensor) -> tuple[Tensor, Tensor]:
    """Two independent normals from two 32-bit words."""
    u = (radius_word.to(torch.float32) + 0.5) * 2.0**-32
    radius = _sqrt((_log(u) * 2.0).abs())  # u rounds to 1 now and then; a radius of -0 would upset the root
    cosine, sine = _cos_sin_turn(angle_word)
    return radius * cosine, radius * sine


def _log(u: Tensor) -> Tensor:
    """Natural logarithm of positive, normal float32: u = m 2^e, ln m = 2 artanh((m - 1) / (m + 1))."""
    bits = u.contiguous().view(torch.int32)
    offset = bits - 0x3F3504F3  # bits of sqrt(1/2): puts m into [sqrt(1/2), sqrt(2))
    exponent = offset >> 23
    m = (bits - (exponent << 23)).view(torch.float32)
    z = (m - 1.0) / (m + 1.0)
    z2 = z * z
    series = _horner(z2, LOG)  # z2 <= 0.0295: the next term is below 2e-9
    return z * series * 2.0 + exponent.to(torch.float32) * math.log(2)


def _sqrt(x: Tensor) -> Tensor:
    """Square root of float32 from +0 up: halving the exponent is right to 4 %, each Newton step squares the error."""
    y = ((x.contiguous().view(torch.int32) >> 1) + 0x1FBD1DF5).view(torch.float32)
    for _ in range(3):
        y = (y + x / y) * 0.5
    return y


def _cos_sin_turn(word: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of an angle uniform on the circle: two bits choose the quadrant, thirty the angle in it."""
    quadrant = word >> 30
    angle = ((word & 0x3FFFFFFF).to(torch.float32) * 2.0**-30 - 0.5) * (math.pi / 2)
    a2 = angle * angle  # |angle| <= pi/4: both series are good to 3e-9
    sine = angle * _horner(a2, SINE)
    cosine = _horner(a2, COSINE)
    turned = (quadrant & 1).bool()
    cosine, sine = torch.where(turned, -sine, cosine), torch.where(turned, cosine, sine)
    sign = 1.0 - (quadrant & 2).to(torch.float32)
    return cosine * sign, sine * sign


def _horner(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Polynomial with the highest coefficient first; product and sum stay separate kernels, so nothing is fused."""
    value = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value
