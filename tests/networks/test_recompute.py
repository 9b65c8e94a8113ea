"""Activations computed twice: the same loss and gradients to the bit, from less memory."""

import dataclasses

import pytest
import torch
from tests.networks.test_hdit import SMALL, awake

from emrdm.networks import build
from emrdm.networks.layers import Block, Level

MONO = dataclasses.replace(SMALL, depths=(2, 3), dropout=(0.2, 0.3), mapping_dropout=0.1)
MULTI = dataclasses.replace(MONO, temporal_heads=4, temporal_key_channels=8)


def make(config):
    torch.manual_seed(0)
    return awake(build(config, 4, 3)).train()


def inputs(config):
    shape = (2, 3, 4, 28, 32) if config.multi_temporal else (2, 4, 28, 32)
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)), torch.tensor([-0.7, 0.4])


def step(network, config):
    """Loss, gradients, and the bytes autograd keeps for them, each storage once."""
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    network.zero_grad()
    torch.manual_seed(7)  # of dropout
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = network(*inputs(config)).square().mean()
        size = sum(kept.values())
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in network.named_parameters()}, size


def count_blocks(network, monkeypatch):
    calls = []
    forward = Block.forward
    monkeypatch.setattr(Block, "forward", lambda self, *inputs: calls.append(self) or forward(self, *inputs))
    return calls, sum(isinstance(module, Block) for module in network.modules())


@pytest.mark.parametrize("config", [MONO, MULTI], ids=["mono", "multi"])
def test_loss_and_gradients_are_equal_to_the_bit_with_dropout(config):
    network = make(config)
    loss, gradients, size = step(network, config)
    network.recompute()
    same_loss, same_gradients, smaller = step(network, config)
    assert torch.equal(loss, same_loss)
    for name, gradient in gradients.items():
        assert torch.equal(gradient, same_gradients[name]), name
    assert smaller < 0.5 * size
    network.recompute(False)
    assert step(network, config)[2] == size


def test_dropout_was_active():
    network = make(MONO)
    torch.manual_seed(0)
    first, second = (network(*inputs(MONO)) for _ in range(2))
    assert not torch.equal(first, second)


def test_blocks_run_twice_in_training_and_once_without_gradients(monkeypatch):
    network = make(MONO)
    network.recompute()
    calls, blocks = count_blocks(network, monkeypatch)
    step(network, MONO)
    assert len(calls) == 2 * blocks
    calls.clear()
    with torch.no_grad():
        network.eval()(*inputs(MONO))
    assert len(calls) == blocks


def test_it_is_off_at_first_and_reaches_every_level():
    network = make(MULTI)
    levels = [module for module in network.modules() if isinstance(module, Level)]
    assert len(levels) == 3
    assert not any(level.recompute for level in levels)
    network.recompute()
    assert all(level.recompute for level in levels)
    network.recompute(on=False)
    assert not any(level.recompute for level in levels)


def test_names_of_the_state_stay():
    network = make(MONO)
    before = list(network.state_dict())
    network.recompute()
    assert list(network.state_dict()) == before
    build(MONO, 4, 3).load_state_dict(network.state_dict(), strict=True)


def test_results_without_gradients_are_the_same():
    network = make(MULTI).eval()
    with torch.no_grad():
        expected = network(*inputs(MULTI))
        network.recompute()
        assert torch.equal(network(*inputs(MULTI)), expected)
