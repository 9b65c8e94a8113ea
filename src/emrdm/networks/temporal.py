"""Temporal fusion and the multi-temporal network (paper, section 3.3, Eq. attention_mask_upsample_multiply).

Frames share the encoder and the bottleneck and do not see each other there. One learned query a head then weighs the
frames at every place of the bottleneck; the same weights, enlarged, fuse the skip connections. The decoder runs once.
"""

from __future__ import annotations

import math
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from emrdm.errors import InputError
from emrdm.networks.config import NetworkConfig
from emrdm.networks.hdit import Hourglass
from emrdm.networks.layers import AdaRMSNorm, FeedForward, Linear


class TemporalAttention(nn.Module):
    """Temporal fusion self-attention (TFSA): L frames -> one, place by place, without residual."""

    def __init__(self, width: int, heads: int, key_channels: int, condition_width: int) -> None:
        super().__init__()
        self.heads = heads
        self.Q = nn.Parameter(torch.randn(heads, key_channels) * math.sqrt(2 / key_channels))
        self.norm = AdaRMSNorm(width, condition_width)
        # The bias cannot matter, it adds the same to the logits of all frames; published checkpoints carry it.
        self.fc1_k = Linear(width, heads * key_channels, bias=True)
        self.out_proj = Linear(width, width, zero=True)

    def forward(self, x: Tensor, condition: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor]:
        """Frames (B, L, h, w, width) -> fused (B, h, w, width), attention (B, L, heads, h, w) that sums to 1 over L."""
        values = self.norm(x, condition)
        keys = self.fc1_k(values).unflatten(-1, (self.heads, -1))
        logits = torch.einsum("blhwgd,gd->blghw", keys, self.Q.to(keys.dtype)) / math.sqrt(self.Q.shape[1])
        if present is not None:
            logits = logits.masked_fill(~present[:, :, None, None, None], -math.inf)
        attention = logits.softmax(1)
        return self.out_proj(weigh_frames(values, attention)), attention


class TemporalBlock(nn.Module):
    """The THDiT block: temporal attention, then feed-forward."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.widths[-1]
        self.attention_heads = TemporalAttention(
            width, config.temporal_heads, config.temporal_key_channels, config.mapping_width
        )
        self.ff = FeedForward(width, config.hidden[-1], config.mapping_width, config.dropout[-1])

    def forward(self, x: Tensor, condition: Tensor, present: Tensor | None) -> tuple[Tensor, Tensor]:
        """Frames (B, L, h, w, width) -> fused (B, h, w, width), attention (B, L, heads, h, w)."""
        fused, attention = self.attention_heads(x, condition, present)
        return self.ff(fused, condition), attention


def weigh_frames(x: Tensor, attention: Tensor) -> Tensor:
    """Sum over frames of x (B, L, H, W, C); each head's map (B, L, heads, H, W) weighs its own C / heads channels."""
    groups = x.unflatten(-1, (attention.shape[2], -1))
    return torch.einsum("blhwgc,blghw->bhwgc", groups, attention.to(x.dtype)).flatten(-2)


def enlarge(attention: Tensor, height: int, width: int) -> Tensor:
    """Attention (B, L, heads, h, w) at another resolution, bilinear; sums over L stay 1, missing frames stay 0."""
    flat = F.interpolate(attention.flatten(0, 1), size=(height, width), mode="bilinear", align_corners=False)
    return flat.unflatten(0, attention.shape[:2])


@final
class TemporalHDiT(Hourglass):
    """Multi-temporal network; any number of frames at run time, in any order."""

    def __init__(self, config: NetworkConfig, in_channels: int, out_channels: int) -> None:
        super().__init__(config, in_channels, out_channels, TemporalBlock(config))

    def forward(self, x: Tensor, c_noise: Tensor, present: Tensor | None = None) -> Tensor:
        """Frames (B, L, in, H, W), c_noise (B,), which frames exist (B, L) bool -> (B, out, H, W)."""
        return self.forward_with_attention(x, c_noise, present)[0]

    def forward_with_attention(
        self, x: Tensor, c_noise: Tensor, present: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`forward`, and the attention masks (heads, B, L, h, w) on the bottleneck's grid."""
        self.check_input(x, c_noise, rank=5)
        batch, frames = x.shape[:2]
        if frames < 1:
            raise InputError("the network got 0 frames: expected at least 1")
        if present is not None:
            if present.shape != (batch, frames) or present.dtype != torch.bool:
                raise InputError(
                    f"present is {present.dtype} of shape {tuple(present.shape)}: "
                    f"expected bool of shape ({batch}, {frames})"
                )
            x = x.masked_fill(
                ~present[:, :, None, None, None], 0
            )  # whatever a missing frame holds, NaN included, must not spread
        condition = self.embed(c_noise)
        # Frame l of sample b is row b * L + l of the flat batch, so the condition is repeated in place, not tiled.
        tokens, skips = self.encode(x.flatten(0, 1), condition.repeat_interleave(frames, dim=0))
        tokens, skips = tokens.unflatten(0, (batch, frames)), [skip.unflatten(0, (batch, frames)) for skip in skips]
        fused, attention = self.temporal_encoder(tokens, condition, present)
        merged = [weigh_frames(skip, enlarge(attention, *skip.shape[2:4])) for skip in skips]
        return self.decode(fused, merged, condition), attention.permute(2, 0, 1, 3, 4)
