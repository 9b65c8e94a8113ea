"""Costs counted from a configuration agree with the network itself and with an independent counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from emrdm.networks import build, count
from emrdm.presets import load_preset

PUBLISHED = {  # preset: parameters, buffers, MACs in the paper's convention and counted fully, in units of 1e9
    "cuhk-cr1": (39_129_803, 960, 83.3257, 191.88),
    "cuhk-cr2": (39_129_803, 960, 83.3257, 191.88),
    "sen12ms-cr": (39_133_515, 960, 83.5690, 192.12),
    "sen2-mtc-new": (148_878_322, 2_304, 74.3944, 127.24),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_costs_are_the_published_ones(name):
    parameters, buffers, macs_paper, macs = PUBLISHED[name]
    cost = load_preset(name).model.cost()
    assert (cost.parameters, cost.buffers) == (parameters, buffers)
    assert cost.macs_paper / 1e9 == pytest.approx(macs_paper, abs=5e-5)
    assert cost.macs / 1e9 == pytest.approx(macs, abs=5e-3)


@pytest.mark.parametrize("name", [*PUBLISHED, "config-a", "tiny", "tiny-temporal"])
def test_parameters_are_those_of_the_network(name):
    model = load_preset(name).model
    with torch.device("meta"):
        network = build(model.network, model.in_channels, model.out_channels)
    assert sum(p.numel() for p in network.parameters()) == model.cost().parameters
    assert sum(b.numel() for b in network.buffers()) == model.cost().buffers


@pytest.mark.parametrize("name", ["cuhk-cr1", "sen2-mtc-new", "tiny", "tiny-temporal"])
def test_macs_agree_with_torchs_counter(name, monkeypatch):
    """On the meta device nothing is computed. The reference back-end is used: it multiplies just the keys in use."""
    monkeypatch.setenv("EMRDM_ATTENTION", "reference")
    model = load_preset(name).model
    frames = (model.frames,) if model.network.multi_temporal else ()
    with torch.device("meta"):
        network = build(model.network, model.in_channels, model.out_channels).eval()
        x = torch.zeros(1, *frames, model.in_channels, 256, 256)
        with FlopCounterMode(display=False) as counter:
            network(x, torch.zeros(1))
    # what the counter adds: the fusion of the skips is a product there, and an elementwise operation in the paper's count
    assert counter.get_total_flops() / 2 == pytest.approx(model.cost().macs, rel=1e-3)


def test_costs_grow_with_the_image():
    model = load_preset("cuhk-cr1").model
    small, large = (count(model.network, 8, 4, height=side, width=side) for side in (256, 512))
    assert large.parameters == small.parameters
    assert large.macs_paper == pytest.approx(4 * small.macs_paper, rel=1e-2)
    assert large.macs > 4.5 * small.macs  # global attention grows with the square of the pixels
    assert large.activation_bytes == 4 * small.activation_bytes


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sen12ms-cr", "sen2-mtc-new"])
def test_the_memory_estimate_is_what_a_gpu_measures(name, monkeypatch):
    monkeypatch.setattr("emrdm.networks.neighborhood.tiled.GPU_BUDGET", 4 << 20)  # leave the tiles' scratch out
    model = load_preset(name).model
    network = build(model.network, model.in_channels, model.out_channels).eval().cuda()
    frames = (model.frames,) if model.network.multi_temporal else ()
    x, c_noise = torch.randn(1, *frames, model.in_channels, 256, 256).cuda(), torch.zeros(1).cuda()
    with torch.inference_mode():
        network(x, c_noise)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        network(x, c_noise)
    assert torch.cuda.max_memory_allocated() - before == pytest.approx(model.cost().activation_bytes, rel=0.2)
