"""The fused network on a CPU, against the plain one."""

import pytest
import torch
from tests.networks.test_hdit import awake

from emrdm.networks import NetworkConfig, build
from emrdm.networks.fused import FusedNetwork, why_not

MONO = NetworkConfig(
    widths=(64, 128, 192), depths=(1, 1, 1), hidden=(64, 96, 128), neighborhood_levels=1, head_channels=32,
    mapping_width=64, mapping_hidden=64,
)  # fmt: skip
SERIES = NetworkConfig(
    widths=(64, 128), depths=(1, 2), hidden=(64, 128), patch=2, neighborhood_levels=1, kernel=3, head_channels=16,
    mapping_width=64, mapping_hidden=64, temporal_heads=4, temporal_key_channels=8,
)  # fmt: skip
ODD = NetworkConfig(  # shapes that kernels do not take
    widths=(24, 40), depths=(1, 0), hidden=(20, 36), patch=4, neighborhood_levels=2, kernel=5, head_channels=8,
    mapping_width=16, mapping_hidden=24,
)  # fmt: skip
PRESENT = torch.tensor([[True, True, False], [True, True, True]])


@pytest.fixture
def network():
    return awake(build(MONO, 6, 3))


def plain(network, x, c_noise, *present):
    with torch.no_grad():
        return network(x, torch.full([len(x)], c_noise), *present)


def error(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("config", [MONO, ODD], ids=["usual", "odd"])
def test_it_agrees_with_the_plain_network(config, dtype, tolerance):
    network = awake(build(config, 6, 3))
    fused = FusedNetwork(network, dtype)
    for size, c_noise in (((40, 56), 0.3), ((48, 40), -1.2)):
        x = torch.randn(2, 6, *size)
        found = fused(x, c_noise)
        assert found.dtype == torch.float32
        assert error(found, plain(network, x, c_noise)) < tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("present", [None, PRESENT], ids=["all frames", "one missing"])
def test_it_agrees_for_series(dtype, tolerance, present):
    network = awake(build(SERIES, 7, 3))
    x = torch.randn(2, 3, 7, 28, 36)
    if present is not None:
        x[~present] = torch.nan
    found = FusedNetwork(network, dtype)(x, 0.3, present)
    assert error(found, plain(network, x, 0.3, present)) < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_image_comes_out_alike_in_every_batch(network, dtype):
    fused, x = FusedNetwork(network, dtype), torch.randn(3, 6, 32, 32)
    assert torch.equal(fused(x, 0.3)[1:2], fused(x[1:2], 0.3))


def test_what_it_gets_is_left_alone(network):
    x = torch.randn(1, 6, 32, 32)
    before = x.clone()
    fused = FusedNetwork(network, torch.float32)
    first = fused(x, 0.3)
    assert torch.equal(x, before)
    assert torch.equal(fused(x, 0.3), first)


def test_the_gains_are_computed_once_a_level_and_without_dropout(network, monkeypatch):
    fused, x, calls = FusedNetwork(network, torch.float32), torch.randn(1, 6, 32, 32), []
    embed = network.embed
    monkeypatch.setattr(network, "embed", lambda c_noise: calls.append(c_noise.item()) or embed(c_noise))
    network.train()  # MONO drops a tenth of what the noise level is embedded in
    for c_noise in (0.5, -0.5, 0.5, -0.5):
        found = fused(x, c_noise)
    assert calls == [0.5, -0.5]
    assert all(module.training for module in network.modules())
    network.eval()
    assert error(found, plain(network, x, -0.5)) < 3e-6


def test_tables_are_shared_by_blocks_and_do_not_pile_up(network):
    fused = FusedNetwork(network, torch.float32)
    fused(torch.randn(1, 6, 32, 32), 0.3)
    assert len(fused._angles) == 3  # a level, though the outer ones have blocks on both ways
    for side in range(36, 68, 4):
        fused(torch.randn(1, 6, side, 32), 0.3)
    assert len(fused._angles) <= 16


def test_changed_weights_are_noticed(network):
    fused = FusedNetwork(network, torch.float32)
    assert fused.is_current()
    with torch.no_grad():
        network.out_norm.scale.mul_(1.5)
    assert not fused.is_current()
    fused = FusedNetwork(network, torch.float32)
    network.patch_out.proj.weight = torch.nn.Parameter(network.patch_out.proj.weight.clone())
    assert not fused.is_current()


def test_which_networks_it_takes(network):
    assert why_not(network) is None
    assert why_not(build(ODD, 6, 3)) is None
    assert why_not(network.double()) == "its weights are not float32"
