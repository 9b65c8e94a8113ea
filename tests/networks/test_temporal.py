"""The multi-temporal network."""

import dataclasses

import pytest
import torch
from tests.networks.test_hdit import SMALL, awake

from emrdm.errors import InputError
from emrdm.networks import TemporalHDiT, build
from emrdm.networks.temporal import enlarge, weigh_frames

CONFIG = dataclasses.replace(SMALL, temporal_heads=4, temporal_key_channels=8)


@pytest.fixture(scope="module")
def network():
    return awake(build(CONFIG, 7, 3))


def frames(count, batch=2, size=(32, 32)):
    return torch.randn(batch, count, 7, *size, generator=torch.Generator().manual_seed(count))


C_NOISE = torch.tensor([-0.8, 0.9])


def test_it_starts_at_zero():
    assert build(CONFIG, 7, 3)(frames(3), C_NOISE).abs().max() == 0


@pytest.mark.parametrize("count", range(1, 9))
def test_any_number_of_frames_at_run_time(network, count):
    image, attention = network.forward_with_attention(frames(count, size=(32, 48)), C_NOISE)
    assert image.shape == (2, 3, 32, 48)
    assert attention.shape == (4, 2, count, 8, 12)
    assert torch.allclose(attention.sum(2), torch.ones(4, 2, 8, 12), atol=1e-5)


def test_the_order_of_frames_makes_no_difference(network):
    x = frames(4)
    order = torch.tensor([2, 0, 3, 1])
    image, attention = network.forward_with_attention(x, C_NOISE)
    permuted, permuted_attention = network.forward_with_attention(x[:, order], C_NOISE)
    assert torch.allclose(image, permuted, atol=1e-5)
    assert torch.allclose(attention[:, :, order], permuted_attention, atol=1e-5)


def test_a_missing_frame_gives_what_leaving_it_out_gives(network):
    x = frames(4)
    present = torch.tensor([[True, False, True, True], [True, True, False, False]])
    x[~present] = float("nan")
    found = network(x, C_NOISE, present)
    for b in range(2):
        left_out = network(x[b : b + 1, present[b]], C_NOISE[b : b + 1])
        assert torch.allclose(found[b : b + 1], left_out, atol=1e-5)


def test_samples_of_a_batch_with_different_noise_equal_one_by_one(network):
    x = frames(3)
    together = network(x, C_NOISE)
    alone = torch.cat([network(x[b : b + 1], C_NOISE[b : b + 1]) for b in range(2)])
    assert torch.allclose(together, alone, atol=1e-5)
    # the published code tiles the conditions instead, which this would notice
    assert not torch.allclose(together, network(x, C_NOISE.flip(0)), atol=1e-2)


def test_identical_frames_give_what_one_gives(network):
    x = frames(1)
    assert torch.allclose(network(x.repeat(1, 5, 1, 1, 1), C_NOISE), network(x, C_NOISE), atol=1e-5)


def test_skips_are_weighed_by_head():
    x = torch.randn(2, 3, 5, 6, 8)
    attention = torch.rand(2, 3, 4, 5, 6)
    found = weigh_frames(x, attention)
    for head in range(4):
        channels = slice(2 * head, 2 * head + 2)
        expected = (x[..., channels] * attention[:, :, head, :, :, None]).sum(1)
        assert torch.allclose(found[..., channels], expected, atol=1e-6)


def test_enlarged_attention_still_sums_to_one():
    attention = torch.randn(2, 3, 4, 5, 6).softmax(1)
    large = enlarge(attention, 20, 24)
    assert large.shape == (2, 3, 4, 20, 24)
    assert torch.allclose(large.sum(1), torch.ones(2, 4, 20, 24), atol=1e-5)


def test_every_parameter_but_the_inert_bias_gets_a_gradient():
    network = awake(build(CONFIG, 7, 3)).train()
    network(frames(3), C_NOISE).square().mean().backward()
    silent = [name for name, p in network.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-9]
    assert silent in ([], ["temporal_encoder.attention_heads.fc1_k.bias"])


def test_bad_input_is_refused(network):
    with pytest.raises(InputError, match=r"0 frames: expected at least 1"):
        network(frames(0), C_NOISE)
    with pytest.raises(InputError, match=r"expected \(B, L, 7, H, W\)"):
        network(frames(3)[:, 0], C_NOISE)
    with pytest.raises(InputError, match=r"expected bool of shape \(2, 3\)"):
        network(frames(3), C_NOISE, torch.ones(2, 3))


def test_kind_follows_the_configuration(network):
    assert isinstance(network, TemporalHDiT)
