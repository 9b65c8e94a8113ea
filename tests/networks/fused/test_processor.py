"""The fused operations for CPUs, against the layers they stand for."""

import pytest
import torch
import torch.nn.functional as F

from emrdm.networks.fused import processor
from emrdm.networks.layers import (
    AdaRMSNorm,
    FeedForward,
    RMSNorm,
    SelfAttention,
    TokenMerge,
    TokenSplitWithSkip,
    pixel_positions,
)

SIZES = [(8, 8), (7, 13), (24, 20)]  # the last has more tokens than weights have rows


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


@pytest.fixture(params=[processor._CACHE, 1], ids=["whole", "in pieces"])
def _pieces(request, monkeypatch):
    """All rows at once, and as few as are taken at a time."""
    monkeypatch.setattr(processor, "_CACHE", request.param)


def awake(module):
    """Small random weights everywhere."""
    for parameter in module.parameters():
        parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
    return module.eval()


def tokens(height, width, channels, batch=2):
    return torch.randn(batch, height, width, channels)


def conditioned(norm: AdaRMSNorm):
    """A condition, and the gain that follows from it."""
    condition = torch.randn(1, norm.linear.in_features)
    return condition, 1 + norm.linear(condition)[0]


def close(found, expected, tolerance=2e-6):
    return (found - expected).norm() <= tolerance * expected.norm()


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("channels", "kernel"), [(16, 7), (32, 7), (64, 3), (8, None), (16, None), (64, None)])
def test_attention_and_what_is_before_and_behind_it(size, channels, kernel):
    layer = awake(SelfAttention(2 * channels, channels, 24, kernel=kernel))
    layer.scale.copy_(torch.tensor([3.0, 12.0]))
    x, (condition, gain) = tokens(*size, 2 * channels), conditioned(layer.norm)
    expected = layer(x, pixel_positions(*size), condition.expand(2, -1))

    order = processor.pairs_together(channels, layer.heads, x.device)
    turns = processor.angles(pixel_positions(*size), layer.pos_emb.freqs)
    qkv = processor.heads(x, gain, layer.qkv_proj.weight[order], layer.scale, turns)
    seen = processor.attention(qkv, layer.heads, kernel)
    assert close(processor.linear(seen, layer.out_proj.weight, add=x), expected)


@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("size", SIZES)
def test_feed_forward(size):
    layer = awake(FeedForward(32, 48, 24))
    x, (condition, gain) = tokens(*size, 32), conditioned(layer.norm)
    expected = layer(x, condition.expand(2, -1))
    assert close(processor.feed_forward(x, gain, layer.up_proj.weight, layer.down_proj.weight), expected)


def test_feed_forward_in_bfloat16():
    layer = awake(FeedForward(32, 48, 24))
    x, (condition, gain) = tokens(20, 20, 32), conditioned(layer.norm)
    expected = layer(x, condition.expand(2, -1))
    weights = layer.up_proj.weight.bfloat16(), layer.down_proj.weight.bfloat16()
    found = processor.feed_forward(x.bfloat16(), gain, *weights)
    assert found.dtype == torch.bfloat16
    assert close(found, expected, 1e-2)


def test_the_norm():
    layer = awake(RMSNorm(32))
    x = 1e-3 * tokens(5, 6, 32)  # so small that what is added under the root counts
    assert close(processor.norm(x, layer.scale), layer(x))


def test_products():
    x, weight, other = tokens(5, 6, 32), torch.randn(24, 32), torch.randn(2, 5, 6, 24)
    product = F.linear(x, weight)
    assert close(processor.linear(x, weight), product)
    value, gate = product.chunk(2, dim=-1)
    assert close(processor.linear(x, weight, geglu=True), value * F.gelu(gate))
    assert processor.linear(x.bfloat16(), weight.bfloat16(), wide=True).dtype == torch.float32
    expected = other + product
    assert close(processor.linear(x, weight, add=other), expected)


@pytest.mark.parametrize("size", [(8, 8), (6, 14)])
def test_squares_of_tokens_merge_and_split(size):
    layer = awake(TokenMerge(16, 48))
    x = tokens(*size, 16)
    inner = layer(x)
    assert close(processor.merge(x, layer.proj.weight), inner)
    split = awake(TokenSplitWithSkip(48, 16))
    split.fac.fill_(0.3)
    expected = split(inner, x)
    assert close(processor.split(inner, split.proj.weight, x, split.fac), expected)


def test_pieces_hold_every_token_once():
    for batch, tokens_each, row in ((1, 5000, 4096), (7, 300, 4096), (3, 1000, 1 << 20), (1, 1, 1)):
        seen = torch.zeros(batch, tokens_each, dtype=torch.int)
        for samples, places in processor._pieces(batch, tokens_each, row):
            seen[samples, places] += 1
        assert (seen == 1).all()
