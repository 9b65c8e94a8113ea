"""The hourglass diffusion transformer: mono-temporal F (paper, section 3.3; HDiT of Crowson et al. 2024)."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn

from emrdm.errors import InputError
from emrdm.networks.config import NetworkConfig, check_channels
from emrdm.networks.layers import (
    Block,
    FourierFeatures,
    Level,
    Linear,
    MappingNetwork,
    RMSNorm,
    TokenMerge,
    TokenSplit,
    TokenSplitWithSkip,
    pixel_positions,
)


class Hourglass(nn.Module):
    """Encoder, bottleneck and decoder, shared by the mono-temporal and the multi-temporal network.

    Modules are created in the order of the published checkpoints, ``temporal_encoder`` included, so that states list
    alike.
    """

    def __init__(
        self, config: NetworkConfig, in_channels: int, out_channels: int, temporal_encoder: nn.Module | None = None
    ) -> None:
        super().__init__()
        check_channels(in_channels, out_channels)
        self.config = config
        self.in_channels, self.out_channels = in_channels, out_channels
        width = config.mapping_width
        outer = range(config.levels - 1)
        self.patch_in = TokenMerge(in_channels, config.widths[0], config.patch)
        self.time_emb = FourierFeatures(width)
        self.time_in_proj = Linear(width, width)
        self.mapping = MappingNetwork(config.mapping_depth, width, config.mapping_hidden, config.mapping_dropout)
        self.down_levels = nn.ModuleList(_level(config, i) for i in outer)
        self.up_levels = nn.ModuleList(_level(config, i) for i in outer)
        self.mid_level = _level(config, config.levels - 1)
        if temporal_encoder is not None:
            self.temporal_encoder = temporal_encoder
        pairs = list(zip(config.widths, config.widths[1:], strict=False))
        self.merges = nn.ModuleList(TokenMerge(outer_width, inner_width) for outer_width, inner_width in pairs)
        self.splits = nn.ModuleList(TokenSplitWithSkip(inner_width, outer_width) for outer_width, inner_width in pairs)
        self.out_norm = RMSNorm(config.widths[0])
        self.patch_out = TokenSplit(config.widths[0], out_channels, config.patch)

    def embed(self, c_noise: Tensor) -> Tensor:
        """c_noise (B,) -> condition (B, mapping_width)."""
        weight = self.time_in_proj.weight
        return self.mapping(self.time_in_proj(self.time_emb(c_noise).to(weight.dtype)))

    def encode(self, x: Tensor, condition: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Image (B, C, H, W) -> bottleneck tokens (B, h, w, width) and the skip of each outer level."""
        x = self.patch_in(x.movedim(1, -1))
        skips = []
        for level, merge in zip(self.down_levels, self.merges, strict=True):
            x = level(x, _positions(x), condition)
            skips.append(x)
            x = merge(x)
        return self.mid_level(x, _positions(x), condition), skips

    def decode(self, x: Tensor, skips: list[Tensor], condition: Tensor) -> Tensor:
        """Bottleneck tokens and one skip an outer level -> image (B, C, H, W)."""
        for level, split, skip in reversed(list(zip(self.up_levels, self.splits, skips, strict=True))):
            x = split(x, skip)
            x = level(x, _positions(x), condition)
        return self.patch_out(self.out_norm(x)).movedim(-1, 1)

    def recompute(self, on: bool = True) -> None:
        """Whether blocks compute their activations twice in training instead of keeping them; see :class:`Level`."""
        for module in self.modules():
            if isinstance(module, Level):
                module.recompute = on

    def check_input(self, x: Tensor, c_noise: Tensor, rank: int) -> None:
        """Refuse what the network is not defined for; padding is the caller's business."""
        if x.ndim != rank or x.shape[-3] != self.in_channels:
            layout = f"(B, {self.in_channels}, H, W)" if rank == 4 else f"(B, L, {self.in_channels}, H, W)"
            raise InputError(f"the network got an input of shape {tuple(x.shape)}: expected {layout}")
        if c_noise.shape != x.shape[:1]:
            raise InputError(
                f"the network got c_noise of shape {tuple(c_noise.shape)}: expected ({len(x)},), one a sample"
            )
        for name, length in (("height", x.shape[-2]), ("width", x.shape[-1])):
            if length < 1 or length != self.config.padded(length):
                raise InputError(
                    f"the network got an input of {name} {length}: "
                    f"expected a multiple of {self.config.multiple}, at least {self.config.padded(1)}"
                )


@final
class HDiT(Hourglass):
    """Mono-temporal network."""

    def forward(self, x: Tensor, c_noise: Tensor) -> Tensor:
        """Scaled noisy image and its condition images (B, in, H, W), c_noise (B,) -> (B, out, H, W)."""
        self.check_input(x, c_noise, rank=4)
        condition = self.embed(c_noise)
        tokens, skips = self.encode(x, condition)
        return self.decode(tokens, skips, condition)


def _level(config: NetworkConfig, index: int) -> Level:
    kernel = config.kernel if index < config.neighborhood_levels else None
    return Level(
        Block(
            config.widths[index],
            config.hidden[index],
            config.head_channels,
            config.mapping_width,
            kernel=kernel,
            dropout=config.dropout[index],
        )
        for _ in range(config.depths[index])
    )


def _positions(x: Tensor) -> Tensor:
    """Token centres of a grid. A coarser grid's are the means of the finer one's, so each level makes its own."""
    return pixel_positions(x.shape[1], x.shape[2], device=x.device)
