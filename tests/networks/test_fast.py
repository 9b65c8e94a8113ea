"""Which way a network runs."""

import copy
import logging
import pickle

import pytest
import torch
from tests.networks.fused.test_network import MONO, SERIES, error, plain
from tests.networks.test_hdit import awake

from emrdm.errors import InputError
from emrdm.networks import build
from emrdm.networks.fast import EXACT, FastNetwork
from emrdm.networks.fused import FusedNetwork, cpu, processor

X, LEVEL = torch.randn(2, 6, 32, 32, generator=torch.Generator().manual_seed(0)), torch.tensor(0.3).expand(2)


@pytest.fixture
def network():
    return awake(build(MONO, 6, 3))


@pytest.fixture(autouse=True)
def _set_up(monkeypatch):
    """Nobody's choices, no gradients, and float32, whatever is faster here."""
    for name in (EXACT, "EMRDM_ATTENTION", "EMRDM_TRITON", "TRITON_INTERPRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cpu, "faster_dtype", lambda: cpu.Choice(torch.float32, "no instructions"))
    with torch.no_grad():
        yield


@pytest.fixture
def fused_calls(monkeypatch):
    """Noise levels of the calls of fused networks."""
    calls, run = [], FusedNetwork.__call__

    def call(self, x, c_noise, present=None):
        calls.append(c_noise)
        return run(self, x, c_noise, present)

    monkeypatch.setattr(FusedNetwork, "__call__", call)
    return calls


def test_on_a_cpu_it_runs_fused(network, fused_calls):
    fast = FastNetwork(network)
    assert fast.why_plain() is None
    assert fast.describe() == ("CPU: fused operations in float32, tiled attention (no instructions)")
    found = fast(X, LEVEL)
    assert fused_calls == [pytest.approx(0.3)]
    assert error(found, network(X, LEVEL)) < 3e-6


def test_in_bfloat16_where_that_is_faster(network, monkeypatch):
    monkeypatch.setattr(cpu, "faster_dtype", lambda: cpu.Choice(torch.bfloat16, "it has instructions"))
    fast = FastNetwork(network)
    assert "in bfloat16, tiled attention (it has instructions" in fast.describe()
    assert 1e-4 < error(fast(X, LEVEL), network(X, LEVEL)) < 3e-2


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_exact_is_the_plain_network_to_the_bit(network, fused_calls, monkeypatch, how):
    fast = FastNetwork(network)
    if how == "environment":
        monkeypatch.setenv(EXACT, "1")
    exact = how == "argument"
    assert torch.equal(fast(X, LEVEL, exact=exact), network(X, LEVEL))
    assert not fused_calls
    reason = "exact" if exact else "EMRDM_EXACT=1"
    assert fast.describe(exact=exact) == f"CPU: plain network in float32, tiled attention ({reason})"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_networks_of_other_precisions_run_plain(network, fused_calls, dtype):
    fast = FastNetwork(network.to(dtype))
    assert fast.why_plain() == "its weights are not float32"
    found = fast(X, LEVEL)
    assert found.dtype == torch.float32
    assert torch.equal(found, network(X.to(dtype), LEVEL).float())
    assert not fused_calls


def test_noise_levels_that_differ_run_plain(network, fused_calls):
    levels = torch.tensor([0.3, -0.4])
    assert torch.equal(FastNetwork(network)(X, levels), network(X, levels))
    assert not fused_calls


def test_attention_can_be_forced(network, monkeypatch):
    monkeypatch.setenv("EMRDM_ATTENTION", "reference")
    fast = FastNetwork(network)
    assert "fused operations in float32, reference attention" in fast.describe()
    monkeypatch.setattr(processor.columns, "attend", None)
    assert error(fast(X, LEVEL), network(X, LEVEL)) < 3e-6


def test_weights_changed_in_place_are_noticed_by_the_next_run(network):
    fast = FastNetwork(network)
    before = fast(X, LEVEL)
    network.patch_out.proj.weight.mul_(2)
    assert error(fast(X, LEVEL), 2 * before) < 3e-6


def test_a_run_decides_once(network, monkeypatch):
    fast = FastNetwork(network)
    run, asked = fast.runner(), []
    monkeypatch.setattr(fast, "why_plain", lambda: asked.append("why"))
    monkeypatch.setattr(FusedNetwork, "is_current", lambda _: asked.append("version"))
    for level in (0.1, 0.2, 0.3):
        run(X, torch.tensor([level]).expand(2), None)
    assert not asked


def test_series_with_missing_frames(fused_calls):
    network = awake(build(SERIES, 7, 3))
    x, present = torch.randn(2, 3, 7, 16, 16), torch.tensor([[True, False, True], [True, True, True]])
    assert error(FastNetwork(network)(x, LEVEL, present), plain(network, x, 0.3, present)) < 3e-6
    assert len(fused_calls) == 1


def test_operations_that_fail_are_given_up_with_one_warning(network, monkeypatch, caplog):
    calls = []

    def broken(*_):
        calls.append(1)
        raise RuntimeError("no such instruction\nand more")

    monkeypatch.setattr(processor, "feed_forward", broken)
    fast = FastNetwork(network)
    run = fast.runner()
    with caplog.at_level(logging.WARNING, logger="emrdm"):
        for found in (run(X, LEVEL, None), run(X, LEVEL, None), fast(X, LEVEL)):
            assert torch.equal(found, network(X, LEVEL))
    assert len(calls) == 1
    assert caplog.messages == [
        "fused operations failed (RuntimeError: no such instruction): going on with the plain network"
    ]
    assert fast.describe().endswith("(fused operations failed (RuntimeError: no such instruction))")


def test_a_network_that_cannot_be_prepared_runs_plain(network, monkeypatch, caplog):
    monkeypatch.setattr(FusedNetwork, "_prepare", lambda _: 1 / 0)
    assert torch.equal(FastNetwork(network)(X, LEVEL), network(X, LEVEL))
    assert len(caplog.messages) == 1


def test_wrong_input_is_the_users_and_no_failure(network):
    fast = FastNetwork(network)
    with pytest.raises(InputError, match="height 30"):
        fast(X[:, :, :30], LEVEL)
    assert fast.why_plain() is None


def test_steps_of_fused_optimisers_are_noticed(network):
    """Their kernels change weights behind the back of torch's counters."""
    fast = FastNetwork(network)
    fast(X, LEVEL)
    with torch.enable_grad():
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, fused=True)
        network(X, LEVEL).square().mean().backward()
        optimizer.step()
    assert error(fast(X, LEVEL), network(X, LEVEL)) < 3e-6


def test_layers_and_buffers_that_are_replaced_are_noticed(network):
    fast = FastNetwork(network)
    fast(X, LEVEL)
    network.time_emb.weight.mul_(0.5)
    assert error(fast(X, LEVEL), network(X, LEVEL)) < 3e-6
    network.patch_out = copy.deepcopy(network.patch_out)
    network.patch_out.proj.weight.mul_(-1)
    assert error(fast(X, LEVEL), network(X, LEVEL)) < 3e-6


def test_copies_and_pickles_start_afresh(network):
    fast = FastNetwork(network)
    expected = fast(X, LEVEL)
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert other.network is not network
        assert torch.equal(other(X, LEVEL), expected)


def test_hooks_are_called(network):
    fast, calls = FastNetwork(network), []
    handle = network.mid_level.register_forward_hook(lambda *_: calls.append(1))
    fast(X, LEVEL)
    assert calls
    assert fast.why_plain() == "somebody watches its layers by hooks"
    handle.remove()
    assert fast.why_plain() is None


def test_an_autocast_around_it_changes_nothing(network):
    fast = FastNetwork(network)
    with torch.autocast("cpu", torch.bfloat16):
        inside = fast(X, LEVEL)
    assert torch.equal(inside, FastNetwork(network)(X, LEVEL))
    assert torch.equal(inside, fast(X, LEVEL))


def test_it_runs_in_inference_mode_and_then_outside(network):
    fast = FastNetwork(network)
    with torch.inference_mode():
        inside = fast(X, LEVEL)
    assert torch.equal(inside, fast(X, LEVEL))
