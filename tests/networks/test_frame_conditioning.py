"""Every frame is conditioned on the noise level of its own sample, in training too.

The published code tiles the conditions of a batch over its frames in the wrong order (section 3.5 of its description):
with several samples in a batch, most frames then follow another sample's noise level.
"""

import pytest
import torch

from emrdm import EMRDM

SIZES = [(2, 2), (2, 3), (3, 2), (3, 3), (4, 1)]  # samples, frames
SEVERAL_FRAMES = [size for size in SIZES if size[1] > 1]
WRONG_ORDER = ("repeat_interleave", lambda self, count, dim: self.repeat(count, *(1,) * (self.ndim - 1)))


@pytest.fixture(scope="module")
def model():
    model = EMRDM.from_preset("tiny-temporal")
    generator = torch.Generator().manual_seed(0)
    for parameter in model.network.parameters():  # those that start at zero would hide everything behind them
        fan = parameter.shape[-1] if parameter.ndim > 1 else 1
        parameter.data = parameter.data + torch.randn(parameter.shape, generator=generator) / fan**0.5
    model.network.double().eval()
    return model


def batch(samples, frames):
    generator = torch.Generator().manual_seed(10 * samples + frames)
    shape = (samples, frames, 3, 16, 16)
    return {
        "clear": torch.randn(samples, 3, 16, 16, generator=generator, dtype=torch.float64),
        "cloudy": torch.randn(shape, generator=generator, dtype=torch.float64),
        "aux": torch.randn(samples, frames, 1, 16, 16, generator=generator, dtype=torch.float64),
        "sigma": torch.logspace(-2, 1, samples, dtype=torch.float64),
        "noise": torch.randn(shape, generator=generator, dtype=torch.float64),
    }


def losses_and_gradient(model, images):
    """Losses (B,), and the gradient of their sum with respect to all parameters as one vector."""
    losses = model.losses(**images)
    gradients = torch.autograd.grad(losses.sum(), list(model.network.parameters()))
    return losses.detach(), torch.cat([gradient.flatten() for gradient in gradients])


def differences(model, samples, frames):
    """How far a batch is from its samples one by one: in the loss of each, and in the gradient, both relative."""
    images = batch(samples, frames)
    losses, gradient = losses_and_gradient(model, images)
    alone = [losses_and_gradient(model, {name: x[b : b + 1] for name, x in images.items()}) for b in range(samples)]
    expected = torch.cat([loss for loss, _ in alone])
    summed = torch.stack([part for _, part in alone]).sum(0)
    return (losses / expected - 1).abs(), ((gradient - summed).norm() / summed.norm()).item()


@pytest.mark.parametrize(("samples", "frames"), SIZES)
def test_losses_and_gradients_of_a_batch_are_those_of_its_samples(model, samples, frames):
    of_losses, of_gradient = differences(model, samples, frames)
    assert of_losses.max() < 1e-5
    assert of_gradient < 1e-5


@pytest.mark.parametrize(("samples", "frames"), SEVERAL_FRAMES)
def test_the_published_order_would_be_noticed(model, monkeypatch, samples, frames):
    monkeypatch.setattr(torch.Tensor, *WRONG_ORDER)
    of_losses, of_gradient = differences(model, samples, frames)
    assert of_losses.max() > 1e-3
    assert of_gradient > 1e-2


def influence(model, samples, frames):
    """Gradient of sample b's output with respect to sample c's noise level, (b, c)."""
    images = batch(samples, frames)
    x = torch.cat([images["noise"], images["cloudy"], images["aux"]], dim=2)
    c_noise = (images["sigma"].log() / 4).requires_grad_()
    output = model.network(x, c_noise)
    weights = torch.randn(output.shape[1:], generator=torch.Generator().manual_seed(0), dtype=output.dtype)
    rows = [torch.autograd.grad((image * weights).sum(), c_noise, retain_graph=True)[0] for image in output]
    return torch.stack(rows)


@pytest.mark.parametrize(("samples", "frames"), SIZES)
def test_the_noise_level_of_a_sample_reaches_that_sample_alone(model, samples, frames):
    found = influence(model, samples, frames)
    own = torch.eye(samples, dtype=torch.bool)
    assert (found[own].abs() > 1e-3).all()
    assert (found[~own] == 0).all()


@pytest.mark.parametrize(("samples", "frames"), SEVERAL_FRAMES)
def test_in_the_published_order_it_reaches_others(model, monkeypatch, samples, frames):
    monkeypatch.setattr(torch.Tensor, *WRONG_ORDER)
    found = influence(model, samples, frames)
    assert (found[~torch.eye(samples, dtype=torch.bool)] != 0).any()
