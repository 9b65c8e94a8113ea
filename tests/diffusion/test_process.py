"""The forward process: closed forms, derivatives, a process of one's own."""

import pytest
import torch
from torch import Tensor

from emrdm.diffusion import MeanReverting, Process
from emrdm.errors import ConfigError


class Exponential(Process):
    """A user's own choice: s(t) = exp(-t), sigma(t) = exp(t) - 1."""

    def s(self, t: Tensor) -> Tensor:
        return torch.exp(-t)

    def sigma(self, t: Tensor) -> Tensor:
        return torch.expm1(t)


TIMES = torch.logspace(-3, 1, 40, dtype=torch.float64)


def test_the_papers_choice_has_its_closed_forms():
    process = MeanReverting(alpha=3.0)
    assert torch.allclose(process.s(TIMES), 1 / (1 + 3 * TIMES))
    assert torch.equal(process.sigma(TIMES), TIMES)
    assert torch.equal(process.k(TIMES), 3 * TIMES)
    assert torch.equal(process.t(TIMES), TIMES)


@pytest.mark.parametrize("process", [MeanReverting(3.0), MeanReverting(0.2), MeanReverting(0.0), Exponential()])
def test_derived_quantities_agree_with_the_general_definitions(process):
    eps = 1e-6 * TIMES
    difference = lambda f: (f(TIMES + eps) - f(TIMES - eps)) / (2 * eps)  # noqa: E731
    assert torch.allclose(process.k(TIMES), (1 - process.s(TIMES)) / process.s(TIMES), rtol=1e-9)
    assert torch.allclose(process.s_dot(TIMES), difference(process.s), rtol=1e-6)
    assert torch.allclose(process.sigma_dot(TIMES), difference(process.sigma), rtol=1e-6)
    assert torch.allclose(process.k_dot(TIMES), difference(process.k), rtol=1e-6)
    assert torch.allclose(process.t(process.sigma(TIMES)), TIMES, rtol=1e-12)
    # Eq. st_and_sigmat: s = exp(int f), sigma^2 = int (g / s)^2, in differential form
    assert torch.allclose(process.f(TIMES) * process.s(TIMES), difference(process.s), rtol=1e-6)
    squares = difference(lambda t: process.sigma(t) ** 2)
    assert torch.allclose((process.g(TIMES) / process.s(TIMES)) ** 2, squares, rtol=1e-6)


def test_alpha_zero_is_the_process_of_edm():
    process = MeanReverting(alpha=0.0)
    x0, mu, noise = torch.randn(3, 2, 1, 3, 4, 4)
    t = torch.tensor([0.5, 2.0])
    assert torch.equal(process.s(t), torch.ones(2))
    assert torch.equal(process.perturb(x0, mu, t, noise), x0 + t.reshape(2, 1, 1, 1, 1) * noise)
    slope = process.slope(0.7)
    assert slope.x == pytest.approx(1 / 0.7)
    assert (slope.denoised, slope.mu) == (-slope.x, 0.0)


def test_perturb_draws_from_the_kernel_of_the_paper():
    process, t = Exponential(), torch.tensor([0.3])
    x0, mu = torch.full((1, 1, 1, 1000, 1000), 0.4), torch.full((1, 1, 1, 1000, 1000), -0.8)
    noise = torch.randn(x0.shape, generator=torch.Generator().manual_seed(0))
    x = process.perturb(x0, mu, t, noise)
    s, sigma = process.s(t).item(), process.sigma(t).item()
    assert x.mean().item() == pytest.approx(0.4 + (1 - s) / s * -0.8, abs=5 * sigma / 1000)
    assert x.std().item() == pytest.approx(sigma, rel=5e-3)
    # the unscaled state has mean mu + s (x0 - mu) (Eq. perturb_kernel_1)
    assert s * x.mean().item() == pytest.approx(-0.8 + s * (0.4 + 0.8), abs=5 * s * sigma / 1000)


def test_the_slope_is_the_papers_equation():
    for process in (MeanReverting(3.0), Exponential()):
        for t in (0.01, 0.5, 3.0):
            time = torch.tensor(t, dtype=torch.float64)
            x, d, mu = 0.3, -0.7, 0.9
            s, sigma = process.s(time).item(), process.sigma(time).item()
            s_dot, sigma_dot = process.s_dot(time).item(), process.sigma_dot(time).item()
            expected = -s_dot / s**2 * mu - sigma_dot / sigma * (d + (1 - s) / s * mu - x)  # Eq. backward_denoiser_ode
            slope = process.slope(t)
            assert slope.x * x + slope.denoised * d + slope.mu * mu == pytest.approx(expected, rel=1e-9)


def test_derivatives_work_in_inference_mode_and_in_float32():
    with torch.inference_mode():
        t = torch.tensor([0.5, 1.0])
        assert torch.allclose(Exponential().s_dot(t), -torch.exp(-t))


def test_bad_parameters_are_refused():
    with pytest.raises(ConfigError, match=r"alpha is -1: expected 0 to 1e6"):
        MeanReverting(alpha=-1)

    class Bounded(Exponential):
        def sigma(self, t: Tensor) -> Tensor:
            return torch.tanh(t)

    with pytest.raises(ConfigError, match="never reaches 5"):
        Bounded().t(torch.tensor(5.0))
