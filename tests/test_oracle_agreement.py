"""The whole method against a second implementation, written independently from the description of the published one."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import oracle
from tests.networks.test_hdit import SMALL, awake

from emrdm import EMRDM
from emrdm.config import ModelConfig
from emrdm.diffusion import Churn, MeanReverting, Preconditioning, rho_schedule, stochastic
from emrdm.networks import NetworkConfig, build
from emrdm.presets import load_preset

NETWORKS = {
    "small": (SMALL, {}),
    "three levels": (
        NetworkConfig(
            patch=1, widths=(32, 48, 64), depths=(1, 1, 2), hidden=(48, 64, 96), neighborhood_levels=2, head_channels=16,
            mapping_width=32, mapping_hidden=48, mapping_depth=2,
        ),
        {},
    ),
    "wide heads": (
        NetworkConfig(
            patch=2, widths=(64, 128), depths=(1, 1), hidden=(64, 128), neighborhood_levels=1, head_channels=64,
            mapping_width=64, mapping_hidden=64, mapping_depth=1,
        ),
        {},
    ),
}  # fmt: skip


def shape_of(config):
    names = ("patch", "depths", "kernel", "neighborhood_levels", "head_channels")
    return {name: getattr(config, name) for name in names}


def arrays(network):
    return {name: tensor.double().numpy() for name, tensor in network.state_dict().items()}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("size", [(32, 32), (32, 48)])
def test_mono_temporal_network(name, size):
    config, _ = NETWORKS[name]
    network = awake(build(config, 7, 4), seed=3)
    x, c_noise = torch.randn(2, 7, *size), torch.tensor([-1.7, 0.6])
    expected = oracle.mono_network(arrays(network), x.double().numpy(), c_noise.double().numpy(), **shape_of(config))
    found = network(x, c_noise).detach().numpy()
    assert np.abs(expected).max() > 0.1
    assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize("frames", [1, 2, 3])
def test_multi_temporal_network_and_its_attention_masks(frames):
    import dataclasses

    config = dataclasses.replace(SMALL, temporal_heads=4, temporal_key_channels=12)
    network = awake(build(config, 7, 3), seed=4)
    x, c_noise = torch.randn(2, frames, 7, 32, 40), torch.tensor([-1.2, 0.9])
    image, masks = oracle.multi_network(
        arrays(network), x.double().numpy(), c_noise.double().numpy(), temporal_heads=4, **shape_of(config)
    )
    found, found_masks = network.forward_with_attention(x, c_noise)
    assert np.abs(image).max() > 0.1
    assert np.abs(found.detach().numpy() - image).max() < 2e-5 * np.abs(image).max()
    assert np.abs(found_masks.detach().numpy() - masks).max() < 1e-5


def test_rope_frequencies_are_the_ones_in_the_weights():
    network = build(load_preset("tiny").model.network, 6, 3)
    for name, buffer in network.named_buffers():
        if name.endswith("freqs"):
            assert np.allclose(buffer.numpy(), oracle.rope_frequencies(len(buffer), 16), rtol=1e-6)


@pytest.mark.parametrize("frames", [1, 3])
def test_preconditioning_factors(frames):
    for sigma in (0.001, 0.2, 3.0, 100.0):
        level = torch.tensor(sigma, dtype=torch.float64)
        c_in, c_skip, c_out, c_noise = Preconditioning(0.9, 1.1, 0.7)(level, 3 * level, frames)
        expected = oracle.factors(sigma, 3 * sigma, frames, 0.9, 1.1, 0.7)
        assert [float(c) for c in (c_skip, c_out, c_in, c_noise)] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "settings", [{}, {"churn": 2.5}, {"churn": 5.0, "s_noise": 1.023}, {"churn": 1.0, "t_max": 100.0}]
)
@pytest.mark.parametrize("frames", [1, 3])
def test_sampler(settings, frames):
    mu = np.random.default_rng(0).normal(size=(2, frames, 3, 4, 4))
    noise = lambda draw: np.random.default_rng(draw).normal(size=mu.shape)  # noqa: E731
    curved = lambda x, t: np.tanh(x.mean(1) / (1 + t)) - 0.1 * x[:, 0] / (1 + t)  # noqa: E731
    expected = oracle.sample(curved, mu, alpha=3.0, times=oracle.schedule(5), noise=noise, **settings)
    churn = Churn(settings.get("churn", 0.0), settings.get("s_noise", 1.0), 0.0, settings.get("t_max", np.inf))
    found = stochastic(
        lambda x, t: torch.from_numpy(curved(x.numpy(), float(t))),
        torch.from_numpy(mu),
        rho_schedule(5).tolist(),
        MeanReverting(3.0),
        lambda draw: torch.from_numpy(noise(draw)),
        churn=churn,
    )
    assert np.allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)


def tiny_with(config: ModelConfig) -> EMRDM:
    return EMRDM(config, network=awake(build(config.network, config.in_channels, config.out_channels), seed=5))


def oracle_denoiser(model, cloudy, aux, alpha):
    """D of the oracle, from its factors and its network, with the model's weights."""
    config, state = model.config, arrays(model.network)
    frames = cloudy.shape[1]

    def denoise(x, t):
        sigma = np.broadcast_to(np.asarray(t, dtype=np.float64), len(x))
        c_skip, c_out, c_in, c_noise = (
            np.array([f(s) for s in sigma]).reshape(-1, 1, 1, 1)
            for f in [(lambda s, i=i: oracle.factors(s, alpha * s, frames, 1.0, 1.0, 0.9)[i]) for i in range(4)]
        )
        parts = {"noisy": c_in[:, None] * x, "cloudy": cloudy, "aux": aux}
        stacked = np.concatenate([parts[name] for name in config.inputs], axis=2)
        options = shape_of(config.network)
        if config.network.multi_temporal:
            heads = config.network.temporal_heads
            out, _ = oracle.multi_network(state, stacked, c_noise.reshape(-1), temporal_heads=heads, **options)
        else:
            out = oracle.mono_network(state, stacked[:, 0], c_noise.reshape(-1), **options)
        return c_out * out + c_skip * x.mean(1)

    return denoise


@pytest.mark.parametrize("preset", ["tiny", "tiny-temporal"])
def test_a_whole_restoration_and_the_training_loss(preset):
    """Network, preconditioning, channel order and stochastic sampler together, with the model's own noise."""
    changes = {"model.sampler.method": "stochastic", "model.sampler.steps": 4, "model.sampler.churn": 2.5}
    model = tiny_with(load_preset(preset).replace(changes).model)
    frames = model.config.frames
    generator = torch.Generator().manual_seed(0)
    cloudy = torch.rand(1, frames, 3, 32, 32, generator=generator) * 2 - 1
    aux = torch.rand(1, frames, 1, 32, 32, generator=generator) * 2 - 1 if model.config.aux else None
    draws = {draw: torch.randn(cloudy.shape, generator=generator) for draw in range(5)}
    denoise = oracle_denoiser(model, cloudy.double().numpy(), None if aux is None else aux.double().numpy(), 3.0)

    expected = oracle.sample(
        denoise,
        cloudy.double().numpy(),
        alpha=3.0,
        times=oracle.schedule(4),
        churn=2.5,
        noise=lambda d: draws[d].double().numpy(),
    )
    found = model.sample(cloudy, aux, noise=draws.__getitem__, exact=True).numpy()
    assert np.abs(found - expected).max() < 2e-4
    fast = model.sample(cloudy, aux, noise=draws.__getitem__).numpy()
    assert np.square(fast - expected).mean() < 4 * 10**-5.0  # 50 dB in [-1, 1]
    assert np.abs(expected - cloudy.mean(1).numpy()).max() > 0.05

    clear, sigma = cloudy[:, 0].flip(-1), torch.tensor([0.4])
    losses = model.losses(clear, cloudy, aux, sigma=sigma, noise=draws[0])
    wanted = oracle.loss(
        denoise,
        clear.double().numpy(),
        cloudy.double().numpy(),
        sigma.double().numpy(),
        draws[0].double().numpy(),
        alpha=3.0,
    )
    assert losses.detach().numpy() == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("name", ["cuhk", "sentinel", "sen2_mtc_new"])
def test_names_and_shapes_are_the_published_ones_in_their_order(name):
    """The lists lie in tests/published; each has every entry of a checkpoint with its shape and kind."""
    listed = json.loads((Path(__file__).parent / "published" / f"state_{name}.json").read_text())
    preset = {"cuhk": "cuhk-cr1", "sentinel": "sen12ms-cr", "sen2_mtc_new": "sen2-mtc-new"}[name]
    config = load_preset(preset).model
    with torch.device("meta"):
        network = build(config.network, config.in_channels, config.out_channels)
    parameters = dict(network.named_parameters())
    found = [
        {"name": key, "kind": "param" if key in parameters else "buffer", "shape": list(tensor.shape)}
        for key, tensor in network.state_dict().items()
    ]
    assert found == [{key: entry[key] for key in ("name", "kind", "shape")} for entry in listed["entries"]]
    assert sum(p.numel() for p in parameters.values()) == listed["n_params"]


@pytest.mark.parametrize("name", ["cuhk", "sen2_mtc_new"])
def test_initial_values_are_zero_where_published_ones_are(name):
    listed = json.loads((Path(__file__).parent / "published" / f"state_{name}.json").read_text())
    zero = {entry["name"] for entry in listed["entries"] if entry["zero_init"]}
    preset = {"cuhk": "tiny", "sen2_mtc_new": "tiny-temporal"}[name]  # same names, fewer levels and blocks
    state = EMRDM.from_preset(preset).network.state_dict()
    for key in state.keys() & {entry["name"] for entry in listed["entries"]}:
        assert (state[key].abs().max() == 0) == (key in zero), key


def full_size_error(preset):
    """Relative difference from the oracle with all parameters of a published network, on the smallest image it takes."""
    config = load_preset(preset).model
    network = awake(EMRDM.from_preset(preset).network, seed=6)
    side = config.network.padded(1)
    frames = (2,) if config.network.multi_temporal else ()
    generator = torch.Generator().manual_seed(0)
    x, c_noise = torch.randn(1, *frames, config.in_channels, side, side, generator=generator), torch.tensor([-0.4])
    arguments = arrays(network), x.double().numpy(), c_noise.double().numpy()
    if config.network.multi_temporal:
        expected, _ = oracle.multi_network(*arguments, temporal_heads=16, **shape_of(config.network))
    else:
        expected = oracle.mono_network(*arguments, **shape_of(config.network))
    assert np.abs(expected).max() > 0.1
    with torch.no_grad():
        found = network(x, c_noise).numpy()
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("preset", ["cuhk-cr1", "sen12ms-cr", "sen2-mtc-new"])
def test_full_size_networks(preset):
    assert full_size_error(preset) < 1e-5
