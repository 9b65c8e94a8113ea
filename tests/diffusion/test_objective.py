"""The training objective: Algorithm 1, sample by sample."""

import math

import pytest
import torch
from tests.diffusion.test_denoiser import network

from emrdm.diffusion import Denoiser, MeanReverting, Preconditioning, log_normal_sigma, training_losses

PARTS = {"process": MeanReverting(3.0), "preconditioning": Preconditioning()}


def batch(frames=3):
    generator = torch.Generator().manual_seed(0)
    x0 = torch.randn(4, 2, 6, 6, generator=generator)
    mu, noise = torch.randn(2, 4, frames, 2, 6, 6, generator=generator)
    return x0, mu, torch.tensor([0.01, 0.3, 2.0, 40.0]), noise


@pytest.mark.parametrize("frames", [1, 3])
def test_losses_are_algorithm_1(frames):
    x0, mu, sigma, noise = batch(frames)
    found = training_losses(Denoiser(network, **PARTS), x0, mu, sigma, noise)
    for b in range(4):
        s = sigma[b]
        x = x0[b] + 3.0 * s * mu[b] + s * noise[b]
        estimate = Denoiser(network, **PARTS)(x[None], s[None])[0]
        weight = 1 / Preconditioning()(s, 3 * s, frames).c_out ** 2
        assert found[b].item() == pytest.approx((weight * (estimate - x0[b]).square().mean()).item(), rel=1e-5)


def test_it_is_the_error_of_the_effective_target():
    """Eq. F_in_all_training_loss_3: with weight 1 / c_out^2 the loss is the plain error of F against a unit target."""
    x0, mu, sigma, noise = batch()
    losses = training_losses(Denoiser(network, **PARTS), x0, mu, sigma, noise)
    level = sigma.reshape(4, 1, 1, 1, 1)
    x = x0.unsqueeze(1) + 3 * level * mu + level * noise
    c_in, c_skip, c_out, c_noise = (f.reshape(4, 1, 1, 1, 1) for f in Preconditioning()(sigma, 3 * sigma, 3))
    target = (x0 - (c_skip * x).mean(1)) / c_out[:, 0]
    expected = (network(c_in * x, c_noise.flatten()) - target).square().flatten(1).mean(1)
    assert torch.allclose(losses, expected, rtol=1e-4)


def test_gradients_reach_the_network():
    x0, mu, sigma, noise = batch()
    scale = torch.tensor(0.5, requires_grad=True)
    losses = training_losses(Denoiser(lambda x, c: scale * x.mean(1), **PARTS), x0, mu, sigma, noise)
    assert losses.shape == (4,)
    losses.mean().backward()
    assert scale.grad is not None
    assert torch.isfinite(scale.grad)


def test_sigma_is_log_normal():
    normal = torch.randn(200_000, generator=torch.Generator().manual_seed(0))
    logs = log_normal_sigma(normal, -1.4, 1.4).log()
    assert logs.mean().item() == pytest.approx(-1.4, abs=5 * 1.4 / math.sqrt(200_000))
    assert logs.std().item() == pytest.approx(1.4, rel=0.01)
    assert torch.equal(log_normal_sigma(torch.zeros(1), -1.2, 1.2), torch.exp(torch.tensor([-1.2])))
