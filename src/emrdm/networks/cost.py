"""What a network costs, counted from its configuration: parameters, multiply-accumulates, memory.

Two conventions for multiply-accumulates (MACs). ``counted`` is everything: every matrix product, attention included,
with 2 * tokens * keys * channels for each attention. ``paper`` is what the paper's tool saw: it left out the
attention products and the up-projections of the feed-forward blocks, so its figures are less than half of the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

from emrdm.networks.config import NetworkConfig, check_channels


class _Product(NamedTuple):
    """One matrix product: its kind and its multiply-accumulates."""

    kind: str
    macs: int


@final
@dataclass(frozen=True)
class Cost:
    """Cost of one network call on one image or sequence.

    Attributes:
        parameters: learned numbers.
        buffers: numbers that are stored but not learned.
        macs_paper: multiply-accumulates in the paper's convention.
        macs: all multiply-accumulates.
        weight_bytes: parameters and buffers in float32.
        activation_bytes: estimate of the peak working memory of a float32 call without gradients.
    """

    parameters: int
    buffers: int
    macs_paper: int
    macs: int
    weight_bytes: int
    activation_bytes: int


def count(
    config: NetworkConfig, in_channels: int, out_channels: int, *, height: int = 256, width: int = 256, frames: int = 1
) -> Cost:
    """Cost of a call at the given size, which is padded as the network needs it."""
    check_channels(in_channels, out_channels)
    height, width = config.padded(height), config.padded(width)
    frames = frames if config.multi_temporal else 1
    products = list(_products(config, in_channels, out_channels, height, width, frames))
    parameters, buffers = _parameters(config, in_channels, out_channels), _buffers(config)
    return Cost(
        parameters=parameters,
        buffers=buffers,
        macs_paper=sum(product.macs for product in products if product.kind == "linear"),
        macs=sum(product.macs for product in products),
        weight_bytes=4 * (parameters + buffers),
        activation_bytes=_activation_bytes(config, height, width, frames),
    )


def _tokens(config: NetworkConfig, level: int, height: int, width: int) -> int:
    side = config.patch << level
    return (height // side) * (width // side)


def _products(
    config: NetworkConfig, in_channels: int, out_channels: int, height: int, width: int, frames: int
) -> Iterator[_Product]:
    patch2, mapping = config.patch**2, config.mapping_width
    outer = _tokens(config, 0, height, width)
    yield _Product("linear", frames * outer * patch2 * in_channels * config.widths[0])
    yield _Product("linear", outer * config.widths[0] * patch2 * out_channels)
    yield _Product("linear", mapping * mapping)
    for _ in range(config.mapping_depth):
        yield _Product("geglu", mapping * 2 * config.mapping_hidden)
        yield _Product("linear", config.mapping_hidden * mapping)
    for level in range(config.levels):
        bottleneck = level == config.levels - 1
        for images in (frames,) if bottleneck else (frames, 1):  # down (or through), then up
            for _ in range(config.depths[level]):
                yield from _block(config, level, height, width, images)
    for level, (wide, narrow) in enumerate(zip(config.widths[1:], config.widths, strict=False), start=1):
        inner = _tokens(config, level, height, width)
        yield _Product("linear", frames * inner * 4 * narrow * wide)
        yield _Product("linear", inner * wide * 4 * narrow)
    if config.multi_temporal:
        yield from _fusion(config, height, width, frames)


def _block(config: NetworkConfig, level: int, height: int, width: int, images: int) -> Iterator[_Product]:
    tokens, channels = _tokens(config, level, height, width), config.widths[level]
    local = level < config.neighborhood_levels
    keys = config.kernel**2 if local else tokens
    yield _Product("linear", images * config.mapping_width * channels)
    yield _Product("linear", images * tokens * channels * 3 * channels)
    yield _Product("attention", images * 2 * tokens * keys * channels)
    yield _Product("linear", images * tokens * channels * channels)
    yield from _feed_forward(config, level, tokens, images)


def _feed_forward(config: NetworkConfig, level: int, tokens: int, images: int) -> Iterator[_Product]:
    channels, hidden = config.widths[level], config.hidden[level]
    yield _Product("linear", images * config.mapping_width * channels)
    yield _Product("geglu", images * tokens * channels * 2 * hidden)
    yield _Product("linear", images * tokens * hidden * channels)


def _fusion(config: NetworkConfig, height: int, width: int, frames: int) -> Iterator[_Product]:
    level, channels = config.levels - 1, config.widths[-1]
    tokens = _tokens(config, level, height, width)
    keys = config.temporal_heads * config.temporal_key_channels
    yield _Product("linear", config.mapping_width * channels)
    yield _Product("linear", frames * tokens * channels * keys)
    yield _Product("linear", frames * tokens * keys)  # query times keys
    yield _Product("linear", frames * tokens * channels)  # attention times values
    yield _Product("linear", tokens * channels * channels)
    yield from _feed_forward(config, level, tokens, 1)


def _parameters(config: NetworkConfig, in_channels: int, out_channels: int) -> int:
    patch2, mapping = config.patch**2, config.mapping_width
    total = patch2 * config.widths[0] * (in_channels + out_channels) + config.widths[0]
    total += mapping * mapping + 2 * mapping + config.mapping_depth * (mapping + 3 * mapping * config.mapping_hidden)
    for level, channels in enumerate(config.widths):
        feed_forward = mapping * channels + 3 * channels * config.hidden[level]
        block = channels // config.head_channels + mapping * channels + 4 * channels**2 + feed_forward
        total += block * config.depths[level] * (1 if level == config.levels - 1 else 2)
        if level:
            total += 2 * 4 * config.widths[level - 1] * channels + 1
    if config.multi_temporal:
        keys, channels = config.temporal_heads * config.temporal_key_channels, config.widths[-1]
        total += keys + mapping * channels + channels * keys + keys + channels**2 + feed_forward
    return total


def _buffers(config: NetworkConfig) -> int:
    total = config.mapping_width // 2
    for level, heads in enumerate(config.heads):
        total += heads * (config.head_channels // 8) * config.depths[level] * (1 if level == config.levels - 1 else 2)
    return total


def _activation_bytes(config: NetworkConfig, height: int, width: int, frames: int) -> int:
    """The fullest moment: tokens of a level with the scratch of attention or feed-forward, and the skips held then.

    Down, the levels above are held for all frames; up, all levels are held for the one fused image.
    """
    held, fullest = 0, 0
    skips = sum(_tokens(config, level, height, width) * config.widths[level] for level in range(config.levels - 1))
    for level, channels in enumerate(config.widths):
        tokens = _tokens(config, level, height, width)
        attention = 12 * channels  # input, residual, norm, qkv, rotated and padded q, k and v by tiles, output twice
        feed_forward = 3 * channels + 4 * config.hidden[level]  # input, residual, norm; up, gelu, product
        scratch = tokens * max(attention, feed_forward)
        fullest = max(fullest, held + frames * scratch, skips + scratch)
        held += frames * tokens * channels
    return 4 * fullest
