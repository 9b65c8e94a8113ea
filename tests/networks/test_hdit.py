"""The mono-temporal network."""

import pytest
import torch

from emrdm.errors import InputError
from emrdm.networks import HDiT, NetworkConfig, build

SMALL = NetworkConfig(
    patch=2, widths=(32, 64), depths=(1, 2), hidden=(64, 128), neighborhood_levels=1, head_channels=16,
    mapping_width=64, mapping_hidden=128, mapping_depth=1,
)  # fmt: skip


def awake(network, seed=0):
    """Give every tensor that starts at zero some value, so that every branch speaks."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        if parameter.abs().max() == 0:
            parameter.data = 0.2 * torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5
    return network.eval()


def test_it_starts_at_zero():
    network = build(SMALL, 6, 3)
    assert network(torch.randn(2, 6, 32, 48), torch.zeros(2)).abs().max() == 0


def test_samples_of_a_batch_with_different_noise_equal_one_by_one():
    network = awake(build(SMALL, 6, 3))
    x, c_noise = torch.randn(3, 6, 32, 48), torch.tensor([-1.7, 0.0, 1.1])
    together = network(x, c_noise)
    alone = torch.cat([network(x[b : b + 1], c_noise[b : b + 1]) for b in range(3)])
    assert torch.allclose(together, alone, atol=1e-5)
    assert not torch.allclose(together, network(x, torch.zeros(3)), atol=1e-3)


def test_every_parameter_gets_a_gradient():
    network = awake(build(SMALL, 6, 3)).train()
    network(torch.randn(2, 6, 32, 32), torch.tensor([0.1, -0.5])).square().mean().backward()
    assert [name for name, p in network.named_parameters() if p.grad is None or p.grad.abs().max() == 0] == []


def test_dropout_acts_in_training_only():
    config = NetworkConfig(
        patch=2, widths=(32,), depths=(1,), hidden=(64,), dropout=(0.5,), neighborhood_levels=0, head_channels=16,
        mapping_width=64, mapping_hidden=64,
    )  # fmt: skip
    network = awake(build(config, 3, 3))
    x, c_noise = torch.randn(1, 3, 16, 16), torch.zeros(1)
    assert torch.equal(network(x, c_noise), network(x, c_noise))
    network.train()
    assert not torch.equal(network(x, c_noise), network(x, c_noise))


@pytest.mark.parametrize("size", [(28, 28), (28, 64), (60, 32)])
def test_any_multiple_works(size):
    assert build(SMALL, 6, 3)(torch.randn(1, 6, *size), torch.zeros(1)).shape == (1, 3, *size)


@pytest.mark.parametrize(
    ("shape", "levels", "message"),
    [
        ((1, 5, 32, 32), 1, r"shape \(1, 5, 32, 32\): expected \(B, 6, H, W\)"),
        ((6, 32, 32), 1, "expected .B, 6, H, W."),
        ((1, 6, 30, 32), 1, "height 30: expected a multiple of 4, at least 16"),
        ((1, 6, 32, 12), 1, "width 12: expected a multiple of 4, at least 16"),
        ((1, 6, 32, 32), 2, r"c_noise of shape \(2,\): expected \(1,\)"),
    ],
)
def test_bad_input_is_refused(shape, levels, message):
    with pytest.raises(InputError, match=message):
        build(SMALL, 6, 3)(torch.randn(shape), torch.zeros(levels))


def test_padding_keeps_every_local_level_as_large_as_its_neighbourhood():
    assert SMALL.multiple == 4
    assert [SMALL.padded(n) for n in (1, 14, 16, 17, 20)] == [16, 16, 16, 20, 20]
    published = NetworkConfig(widths=(128, 256, 384, 768), depths=(2,) * 4, hidden=(256,) * 4)
    assert [published.padded(n) for n in (1, 16, 17, 256)] == [16, 16, 24, 256]
    multi = NetworkConfig(patch=4, widths=(256, 512, 768), depths=(2, 2, 16), hidden=(512,) * 3, temporal_heads=16)
    assert [multi.padded(n) for n in (1, 56, 64, 65)] == [64, 64, 64, 80]


def test_kind_follows_the_configuration():
    assert isinstance(build(SMALL, 6, 3), HDiT)
