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


def some_pixels():
    """One sample known everywhere, one half, one in a single pixel, one nowhere."""
    valid = torch.zeros(4, 6, 6, dtype=torch.bool)
    valid[0] = True
    valid[1] = torch.rand(6, 6, generator=torch.Generator().manual_seed(1)) < 0.5
    valid[2, 3, 4] = True
    return valid


def with_gradient(x0, *rest, **options):
    """Losses, and the gradient of their sum with respect to a network that mixes all pixels."""
    mix = torch.randn(36, 36, generator=torch.Generator().manual_seed(2)).div(6).requires_grad_()
    mixed = Denoiser(lambda x, c: (x.mean(1).flatten(2) @ mix).unflatten(2, (6, 6)), **PARTS)
    losses = training_losses(mixed, x0, *rest, **options)
    return losses.detach(), torch.autograd.grad(losses.sum(), mix)[0]


def test_where_all_pixels_are_known_nothing_changes_to_the_bit():
    images = batch()
    plain, masked = with_gradient(*images), with_gradient(*images, valid=torch.ones(4, 6, 6, dtype=torch.bool))
    assert all(torch.equal(a, b) for a, b in zip(plain, masked, strict=True))


@pytest.mark.parametrize("frames", [1, 3])
def test_with_unknown_pixels_the_mean_is_over_the_known_ones(frames):
    x0, mu, sigma, noise = batch(frames)
    valid = some_pixels()
    found = training_losses(Denoiser(network, **PARTS), x0, mu, sigma, noise, valid=valid)
    for b in range(4):
        s = sigma[b]
        filled = torch.stack([torch.where(valid[b], x0[b, band], mu[b, :, band].mean(0)) for band in range(2)])
        estimate = Denoiser(network, **PARTS)((filled + 3.0 * s * mu[b] + s * noise[b])[None], s[None])[0]
        errors = (estimate - x0[b])[:, valid[b]].square()
        weight = 1 / Preconditioning()(s, 3 * s, frames).c_out ** 2
        expected = (weight * errors.mean()).item() if valid[b].any() else 0.0
        assert found[b].item() == pytest.approx(expected, rel=1e-5)
    assert found[3] == 0


@pytest.mark.parametrize("rubbish", [math.nan, math.inf, 1e30])
def test_what_unknown_pixels_hold_reaches_neither_loss_nor_gradient(rubbish):
    x0, mu, sigma, noise = batch()
    valid = some_pixels()
    expected = with_gradient(x0, mu, sigma, noise, valid=valid)
    found = with_gradient(x0.masked_fill(~valid[:, None], rubbish), mu, sigma, noise, valid=valid)
    for a, b in zip(found, expected, strict=True):
        assert torch.isfinite(a).all()
        assert torch.equal(a, b)


def test_a_sample_without_known_pixels_has_no_gradient():
    x0, mu, sigma, noise = batch()
    losses, gradient = with_gradient(x0 * math.nan, mu, sigma, noise, valid=torch.zeros(4, 6, 6, dtype=torch.bool))
    assert (losses == 0).all()
    assert (gradient == 0).all()


def test_a_missing_frame_does_not_fill_unknown_pixels():
    x0, mu, sigma, noise = batch()
    present = torch.tensor([[True, False, True]] * 4)
    mu[:, 1] = math.nan
    seen = []

    def spy(x, c_noise):
        seen.append(x[:, present[0]])
        return torch.zeros_like(x0)

    valid = some_pixels()
    losses = training_losses(Denoiser(spy, **PARTS, present=present), x0, mu, sigma, noise, valid=valid)
    assert torch.isfinite(losses).all()
    assert torch.isfinite(seen[0]).all()
    c_in = Preconditioning()(sigma, 3 * sigma, 2).c_in.reshape(4, 1, 1, 1, 1)
    level = sigma.reshape(4, 1, 1, 1, 1)
    inside = (seen[0] / c_in - 3 * level * mu[:, ::2] - level * noise[:, ::2])[:, 0]
    expected = torch.where(valid[:, None], x0, mu[:, ::2].mean(1))
    assert torch.allclose(inside, expected, atol=2e-3)


def test_sigma_is_log_normal():
    normal = torch.randn(200_000, generator=torch.Generator().manual_seed(0))
    logs = log_normal_sigma(normal, -1.4, 1.4).log()
    assert logs.mean().item() == pytest.approx(-1.4, abs=5 * 1.4 / math.sqrt(200_000))
    assert logs.std().item() == pytest.approx(1.4, rel=0.01)
    assert torch.equal(log_normal_sigma(torch.zeros(1), -1.2, 1.2), torch.exp(torch.tensor([-1.2])))
