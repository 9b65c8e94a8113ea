"""The one-raster form of the state agrees with the plain sampler."""

import pytest
import torch
from tests.diffusion.test_samplers import CHURNS, PROBLEM, cloudy, draws

from emrdm.diffusion import Churn, MeanReverting, euler, rho_schedule, stochastic
from emrdm.diffusion.one_raster import advance, frames, plan, sample

TIMES = rho_schedule(5).tolist()


def curved(x, t):
    """A denoiser that is neither linear nor the same for all frames."""
    return torch.tanh(x[:, 0] / (1 + t)) - 0.3 * torch.sin(x.mean(1) / (1 + t))


@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("churn", [Churn(), *CHURNS])
def test_it_equals_the_plain_sampler(alpha, churn):
    mu, process = cloudy(), MeanReverting(alpha)
    for denoise in (PROBLEM.denoiser(process, mu), curved):
        plain = stochastic(denoise, mu, TIMES, process, draws(), churn=churn)
        assert torch.allclose(sample(denoise, mu, TIMES, process, draws(), churn=churn), plain, rtol=1e-9, atol=1e-9)


def test_it_equals_euler_in_float32_too():
    mu, process = cloudy(dtype=torch.float32), MeanReverting(3.0)
    noise = draws(dtype=torch.float32)
    plain = euler(PROBLEM.denoiser(process, mu), mu, TIMES, process, noise)
    assert torch.allclose(sample(PROBLEM.denoiser(process, mu), mu, TIMES, process, noise), plain, atol=1e-5)


def test_windows_put_together_give_the_whole():
    """Each step may be computed a window at a time, because the state and the noise are functions of position."""
    mu, process, churn = cloudy((1, 2, 3, 8, 9)), MeanReverting(3.0), Churn(2.5)
    noise = draws((1, 2, 3, 8, 9))
    pointwise = lambda x, t: torch.tanh(x.mean(1) / (1 + t))  # noqa: E731
    state = torch.zeros_like(mu[:, 0])
    for step in plan(TIMES, churn):
        t = torch.tensor(step.t, dtype=torch.float64)
        parts = []
        for rows in (slice(0, 3), slice(3, 8)):
            window = lambda draw, rows=rows: noise(draw)[..., rows, :]  # noqa: E731
            parts.append(pointwise(frames(step, state[..., rows, :], mu[..., rows, :], process, window), t))
        state = advance(step, state, torch.cat(parts, dim=-2))
    assert torch.allclose(state, stochastic(pointwise, mu, TIMES, process, noise, churn=churn), rtol=1e-9, atol=1e-9)


def test_the_effective_noise_keeps_unit_variance_when_s_noise_is_one():
    for churn in (Churn(), Churn(5.0), Churn(1.0, t_max=10.0)):
        for step in plan(TIMES, churn):
            assert sum(weight**2 for weight in step.noise_weights) == pytest.approx(1)


def test_draws_of_no_weight_are_never_made():
    asked = []
    mu, process = cloudy(), MeanReverting(3.0)
    sample(PROBLEM.denoiser(process, mu), mu, TIMES, process, lambda draw: (asked.append(draw), draws()(draw))[1])
    assert set(asked) == {0}
