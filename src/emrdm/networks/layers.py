"""Building blocks of the hourglass transformer (HDiT, Crowson et al. 2024, as the paper uses it).

Images are channels last, (B, h, w, C), one token a place. ``condition`` is the embedded noise level, (B,
mapping_width). Attribute names are those of the published checkpoints, so that weights load by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from emrdm.networks.neighborhood import neighborhood_attention

EPSILON = 1e-6  # under the roots of norms


@contextmanager
def without_dropout(*parts: nn.Module) -> Iterator[None]:
    """Nothing is dropped for a while; afterwards every part is in the mode it was in. No other layer has modes."""
    active = [
        module for part in parts for module in part.modules() if isinstance(module, nn.Dropout) and module.training
    ]
    for module in active:
        module.training = False
    try:
        yield
    finally:
        for module in active:
            module.training = True


class Linear(nn.Linear):
    """A matrix product, without bias unless asked for; ``zero`` starts it at zero, so that its branch starts silent."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool = False, zero: bool = False) -> None:
        self.zero = zero
        super().__init__(in_features, out_features, bias=bias)

    def reset_parameters(self) -> None:
        """Initialise: zero, or torch's default."""
        if self.zero:
            nn.init.zeros_(self.weight)
        else:
            super().reset_parameters()


def rms_norm(x: Tensor, gain: Tensor) -> Tensor:
    """X * gain / rms(x) over the last axis, with statistics in at least float32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    mean_square = x.to(wide).square().mean(-1, keepdim=True)
    return x * (gain.to(wide) * torch.rsqrt(mean_square + EPSILON)).to(x.dtype)


class RMSNorm(nn.Module):
    """RMS normalisation with a learned gain."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        return rms_norm(x, self.scale)


class AdaRMSNorm(nn.Module):
    """RMS normalisation whose gain, 1 + Linear(condition), follows the noise level of each sample."""

    def __init__(self, width: int, condition_width: int) -> None:
        super().__init__()
        self.linear = Linear(condition_width, width, zero=True)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """(B, ..., width), (B, condition_width) -> (B, ..., width)."""
        gain = 1 + self.linear(condition)
        return rms_norm(x, gain.reshape(len(gain), *(1,) * (x.ndim - 2), -1))


def geglu(x: Tensor) -> Tensor:
    """First half times the exact GELU of the second half."""
    value, gate = x.chunk(2, dim=-1)
    return value * F.gelu(gate)


class FeedForward(nn.Module):
    """x + down(dropout(GEGLU(up(norm(x)))))."""

    def __init__(self, width: int, hidden: int, condition_width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = AdaRMSNorm(width, condition_width)
        self.up_proj = Linear(width, 2 * hidden)
        self.dropout = nn.Dropout(dropout)
        self.down_proj = Linear(hidden, width, zero=True)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """(B, h, w, width) -> the same."""
        return x + self.down_proj(self.dropout(geglu(self.up_proj(self.norm(x, condition)))))


class AxialRotary(nn.Module):
    """Rotary position embedding over rows and columns; half of each head's channels turn, the other half stays."""

    freqs: Tensor

    def __init__(self, heads: int, head_channels: int) -> None:
        super().__init__()
        count = head_channels // 8  # frequencies a head and axis
        steps = torch.arange(heads * count, dtype=torch.float64) / (heads * count)
        self.register_buffer("freqs", (math.pi * 10**steps).reshape(count, heads).T.contiguous().float())

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Positions (h, w, 2) -> cosine and sine of the angles, each (h, w, heads, head_channels / 4)."""
        rows, columns = positions[..., None, 0:1] * self.freqs, positions[..., None, 1:2] * self.freqs
        angles = torch.cat([rows, columns], dim=-1)
        return angles.cos(), angles.sin()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn the channel pairs (j, j + n), j < n = head_channels / 4, of x (B, h, w, heads, d) by their angles."""
    n = cosine.shape[-1]
    first, second, rest = x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine, rest], dim=-1)


def pixel_positions(height: int, width: int, *, device: torch.device | None = None) -> Tensor:
    """Centres of the tokens, (h, w, 2) as (row, column); the longer side spans [-1, 1], pixels are square."""

    def axis(count: int) -> Tensor:
        reach = count / max(height, width)
        return -reach + (2 * torch.arange(count, device=device, dtype=torch.float32) + 1) * (reach / count)

    return torch.stack(torch.meshgrid(axis(height), axis(width), indexing="ij"), dim=-1)


def scaled_cosine(x: Tensor, scale: Tensor) -> Tensor:
    """Normalise queries or keys (B, h, w, heads, d) so that a query times a key is scale * cosine similarity."""
    wide = torch.promote_types(x.dtype, torch.float32)
    square = x.to(wide).square().sum(-1, keepdim=True)
    factor = torch.sqrt(scale.to(wide))[:, None] * torch.rsqrt(square + EPSILON)
    return x * factor.to(x.dtype)


class SelfAttention(nn.Module):
    """x + out(dropout(attention(norm(x)))); ``kernel`` limits it to a neighbourhood, None lets all tokens see all."""

    def __init__(
        self, width: int, head_channels: int, condition_width: int, *, kernel: int | None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads = width // head_channels
        self.kernel = kernel
        self.scale = nn.Parameter(torch.full([self.heads], 10.0))
        self.norm = AdaRMSNorm(width, condition_width)
        self.qkv_proj = Linear(width, 3 * width)
        self.pos_emb = AxialRotary(self.heads, head_channels)
        self.dropout = nn.Dropout(dropout)
        self.out_proj = Linear(width, width, zero=True)

    def forward(self, x: Tensor, positions: Tensor, condition: Tensor) -> Tensor:
        """(B, h, w, width) -> the same."""
        qkv = self.qkv_proj(self.norm(x, condition))
        q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).unbind(-3)
        cosine, sine = (table.to(x.dtype) for table in self.pos_emb(positions))
        q = rotate(scaled_cosine(q, self.scale), cosine, sine)
        k = rotate(scaled_cosine(k, self.scale), cosine, sine)
        out = neighborhood_attention(q, k, v, kernel=self.kernel) if self.kernel else global_attention(q, k, v)
        return x + self.out_proj(self.dropout(out.reshape(x.shape)))


def global_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every token attends to every token; (B, h, w, heads, d) each -> (B, h * w, heads, d)."""
    q, k, v = (x.flatten(1, 2).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, scale=1.0).transpose(1, 2)


class Block(nn.Module):
    """Attention, then feed-forward."""

    def __init__(
        self, width: int, hidden: int, head_channels: int, condition_width: int, *, kernel: int | None, dropout: float
    ) -> None:
        super().__init__()
        self.self_attn = SelfAttention(width, head_channels, condition_width, kernel=kernel, dropout=dropout)
        self.ff = FeedForward(width, hidden, condition_width, dropout)

    def forward(self, x: Tensor, positions: Tensor, condition: Tensor) -> Tensor:
        """(B, h, w, width) -> the same."""
        return self.ff(self.self_attn(x, positions, condition), condition)


class Level(nn.ModuleList):
    """The blocks of one resolution, in order.

    With ``recompute``, training keeps what goes into each block and computes the rest again on the way back, dropout
    included: less memory and more time for the same gradients.
    """

    recompute: bool = False

    def forward(self, x: Tensor, positions: Tensor, condition: Tensor) -> Tensor:
        """(B, h, w, width) -> the same."""
        again = self.recompute and torch.is_grad_enabled()  # without gradients nothing is kept in any case
        for block in self:
            if again:
                x = checkpoint(block, x, positions, condition, use_reentrant=False)
            else:
                x = block(x, positions, condition)
        return x


def space_to_depth(x: Tensor, side: int) -> Tensor:
    """(B, h, w, C) -> (B, h / side, w / side, side * side * C), rows slowest and channels fastest."""
    return x.unflatten(2, (-1, side)).unflatten(1, (-1, side)).permute(0, 1, 3, 2, 4, 5).flatten(3)


def depth_to_space(x: Tensor, side: int) -> Tensor:
    """The inverse of :func:`space_to_depth`."""
    batch, height, width, _ = x.shape
    x = x.unflatten(3, (side, side, -1)).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, height * side, width * side, -1)


class TokenMerge(nn.Module):
    """Every square of ``side`` x ``side`` tokens or pixels becomes one token."""

    def __init__(self, in_width: int, out_width: int, side: int = 2) -> None:
        super().__init__()
        self.side = side
        self.proj = Linear(in_width * side**2, out_width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, h, w, in) -> (B, h / side, w / side, out)."""
        return self.proj(space_to_depth(x, self.side))


class TokenSplit(nn.Module):
    """Every token becomes ``side`` x ``side`` pixels."""

    def __init__(self, in_width: int, out_width: int, side: int) -> None:
        super().__init__()
        self.side = side
        self.proj = Linear(in_width, out_width * side**2, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        """(B, h, w, in) -> (B, h * side, w * side, out)."""
        return depth_to_space(self.proj(x), self.side)


class TokenSplitWithSkip(nn.Module):
    """Every token becomes 2 x 2, mixed with the skip connection by a learned share."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.fac = nn.Parameter(torch.full([1], 0.5))
        self.proj = Linear(in_width, out_width * 4)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """(B, h, w, in), (B, 2h, 2w, out) -> (B, 2h, 2w, out)."""
        return torch.lerp(skip, depth_to_space(self.proj(x), 2), self.fac.to(x.dtype))


class FourierFeatures(nn.Module):
    """Cosines and sines of c_noise at random frequencies, drawn once and kept with the weights."""

    weight: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(width // 2, 1))

    def forward(self, c_noise: Tensor) -> Tensor:
        """(B,) -> (B, width)."""
        phase = 2 * math.pi * c_noise[:, None] * self.weight[:, 0]
        return torch.cat([phase.cos(), phase.sin()], dim=-1)


class MappingBlock(nn.Module):
    """A feed-forward block without condition."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm = RMSNorm(width)
        self.up_proj = Linear(width, 2 * hidden)
        self.dropout = nn.Dropout(dropout)
        self.down_proj = Linear(hidden, width, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        """(B, width) -> the same."""
        return x + self.down_proj(self.dropout(geglu(self.up_proj(self.norm(x)))))


class MappingNetwork(nn.Module):
    """From Fourier features of the noise level to the vector that conditions every block."""

    def __init__(self, depth: int, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.in_norm = RMSNorm(width)
        self.blocks = nn.ModuleList(MappingBlock(width, hidden, dropout) for _ in range(depth))
        self.out_norm = RMSNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, width) -> the same."""
        x = self.in_norm(x)
        for block in self.blocks:
            x = block(x)
        return self.out_norm(x)
