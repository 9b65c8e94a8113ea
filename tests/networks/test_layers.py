"""Building blocks."""

import math

import pytest
import torch

from emrdm.networks.layers import (
    AdaRMSNorm,
    AxialRotary,
    FeedForward,
    FourierFeatures,
    Linear,
    SelfAttention,
    depth_to_space,
    geglu,
    pixel_positions,
    rms_norm,
    rotate,
    scaled_cosine,
    space_to_depth,
)


def test_rms_norm_gives_unit_mean_square_and_keeps_float32_statistics():
    x = 100 * torch.randn(2, 3, 64)
    assert torch.allclose(rms_norm(x, torch.ones(64)).square().mean(-1), torch.ones(2, 3), atol=1e-4)
    small = torch.full((1, 4096), 300.0, dtype=torch.float16)  # its square overflows in half precision
    assert torch.allclose(rms_norm(small, torch.ones(4096)).float(), torch.ones(1, 4096), atol=2e-3)


def test_ada_rms_norm_uses_each_samples_own_condition():
    norm = AdaRMSNorm(8, 4)
    torch.nn.init.normal_(norm.linear.weight)
    x, condition = torch.randn(3, 5, 6, 8), torch.randn(3, 4)
    together = norm(x, condition)
    for b in range(3):
        gain = 1 + norm.linear.weight @ condition[b]
        assert torch.allclose(together[b], rms_norm(x[b], gain), atol=1e-5)


def test_geglu_is_exact():
    a, b = torch.randn(2, 5, 7, dtype=torch.float64)
    expected = a * b * 0.5 * (1 + torch.erf(b / math.sqrt(2)))
    assert torch.allclose(geglu(torch.cat([a, b], -1)), expected)


def test_positions_are_pixel_centres_with_square_pixels():
    positions = pixel_positions(4, 8)
    assert positions.shape == (4, 8, 2)
    assert positions[0, :, 1].tolist() == pytest.approx([-0.875, -0.625, -0.375, -0.125, 0.125, 0.375, 0.625, 0.875])
    assert positions[:, 0, 0].tolist() == pytest.approx([-0.375, -0.125, 0.125, 0.375])
    coarse = positions.reshape(2, 2, 4, 2, 2).mean((1, 3))
    assert torch.allclose(pixel_positions(2, 4), coarse, atol=1e-7)


def test_rotary_frequencies_are_interleaved_over_heads():
    freqs = AxialRotary(heads=2, head_channels=64).freqs
    assert freqs.shape == (2, 8)
    for h in range(2):
        for j in range(8):
            assert freqs[h, j].item() == pytest.approx(math.pi * 10 ** ((j * 2 + h) / 16), rel=1e-6)


def test_rotation_keeps_lengths_and_leaves_half_of_the_channels():
    x = torch.randn(2, 4, 4, 2, 64)
    cosine, sine = AxialRotary(2, 64)(pixel_positions(4, 4))
    turned = rotate(x, cosine, sine)
    assert torch.allclose(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-5)
    assert torch.equal(turned[..., 32:], x[..., 32:])
    assert not torch.allclose(turned[..., :32], x[..., :32])


def test_rotated_products_depend_on_relative_position_only():
    rotary = AxialRotary(1, 64)
    q, k = torch.randn(2, 1, 1, 1, 1, 64, dtype=torch.float64)
    grid = pixel_positions(8, 8)

    def product(a, b):
        tables = [[t.double() for t in rotary(grid[r : r + 1, c : c + 1])] for r, c in (a, b)]
        return (rotate(q, *tables[0]) * rotate(k, *tables[1])).sum().item()

    assert product((1, 2), (3, 5)) == pytest.approx(product((4, 1), (6, 4)), rel=1e-5)
    assert product((1, 2), (3, 5)) != pytest.approx(product((1, 2), (4, 5)), rel=1e-3)


def test_scaled_cosine_similarity():
    q, k = torch.randn(2, 1, 1, 1, 3, 16)
    scale = torch.tensor([1.0, 10.0, 4.0])
    product = (scaled_cosine(q, scale) * scaled_cosine(k, scale)).sum(-1).flatten()
    cosine = torch.nn.functional.cosine_similarity(q, k, dim=-1).flatten()
    assert torch.allclose(product, scale * cosine, atol=1e-5)


def test_space_to_depth_puts_rows_slowest_and_channels_fastest():
    x = torch.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    packed = space_to_depth(x, 2)
    assert packed.shape == (2, 2, 3, 12)
    for row in range(2):
        for column in range(2):
            start = (row * 2 + column) * 3
            assert torch.equal(packed[..., start : start + 3], x[:, row::2, column::2])
    assert torch.equal(depth_to_space(packed, 2), x)


def test_fourier_features_put_cosines_first():
    features = FourierFeatures(8)
    c_noise = torch.tensor([0.3, -1.0])
    phase = 2 * math.pi * c_noise[:, None] * features.weight[:, 0]
    assert torch.allclose(features(c_noise), torch.cat([phase.cos(), phase.sin()], -1))


@pytest.mark.parametrize("module", [FeedForward(32, 64, 16), SelfAttention(32, 16, 16, kernel=None)])
def test_residual_branches_start_silent(module):
    x = torch.randn(2, 4, 4, 32)
    arguments = (
        (x, torch.randn(2, 16)) if isinstance(module, FeedForward) else (x, pixel_positions(4, 4), torch.randn(2, 16))
    )
    assert torch.equal(module(*arguments), x)


def test_linear_starts_at_zero_only_when_asked():
    assert Linear(4, 4, zero=True).weight.abs().max() == 0
    assert Linear(4, 4).weight.abs().min() > 0
    assert Linear(4, 4).bias is None
