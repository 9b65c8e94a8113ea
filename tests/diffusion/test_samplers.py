"""Samplers: orders of convergence, churn, the papers' algorithms line by line."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.diffusion.gaussian import Gaussian
from tests.diffusion.test_process import Exponential

from emrdm.diffusion import Churn, MeanReverting, euler, heun, multistep, rho_schedule, stochastic
from emrdm.diffusion.samplers import start
from emrdm.diffusion.shapes import mean_over_frames
from emrdm.errors import ConfigError

SHAPE = (2, 3, 4, 5, 5)
PROBLEM = Gaussian()


def draws(shape=SHAPE, seed=0, dtype=torch.float64):
    """A noise source that gives the same numbers for the same draw."""
    return lambda draw: torch.randn(shape, generator=torch.Generator().manual_seed(1000 * seed + draw), dtype=dtype)


def cloudy(shape=SHAPE, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(99), dtype=dtype)


def convergence_order(sampler, process, frames, **options):
    """Slope of the error against the exact solution over the number of steps."""
    shape = (1, frames, 2, 3, 3)
    mu, noise = cloudy(shape), draws(shape)
    denoise = PROBLEM.denoiser(process, mu)
    t_first, t_last = process.t(torch.tensor([10.0, 0.05], dtype=torch.float64)).tolist()
    begin = start(mu, [t_first, 0.0], process, noise)
    exact = PROBLEM.solution(begin, process, mu, t_first, t_last)
    counts, errors = [64, 128, 256, 512], []
    for count in counts:
        sigmas = rho_schedule(count, 0.05, 10.0)
        times = process.t(sigmas).tolist()
        states = {}
        sampler(
            denoise,
            mu,
            times,
            process,
            noise,
            callback=lambda step, s=states: s.update({step.index: step.x}),
            **options,
        )
        errors.append((states[count - 2] - exact).abs().max().item())  # the state at sigma_min, before the step to 0
    logs = [(math.log(count), math.log(error)) for count, error in zip(counts, errors, strict=True)]
    (x0, y0), (x1, y1) = logs[-2:]
    return -(y1 - y0) / (x1 - x0)


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("process", [MeanReverting(3.0), MeanReverting(0.0), Exponential()])
@pytest.mark.parametrize(("sampler", "order"), [(euler, 1), (heun, 2), (multistep, 2)])
def test_samplers_converge_to_the_exact_solution_with_their_order(sampler, order, process, frames):
    assert convergence_order(sampler, process, frames) == pytest.approx(order, abs=0.1)


def test_the_stochastic_sampler_without_churn_converges_with_first_order():
    assert convergence_order(stochastic, MeanReverting(3.0), 3, churn=Churn()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("process", [MeanReverting(3.0), Exponential()])
def test_the_last_step_ends_at_the_denoised_image(process):
    mu = cloudy()
    seen = []
    times = process.t(rho_schedule(6, 0.001, 10.0)).tolist()
    for sampler in (heun, multistep) if isinstance(process, Exponential) else (euler, heun, multistep):
        result = sampler(PROBLEM.denoiser(process, mu), mu, times, process, draws(), callback=seen.append)
        assert result.shape == (2, 4, 5, 5)
        assert (result - seen[-1].denoised).abs().max() < 5e-3


def test_without_churn_the_stochastic_sampler_is_euler_bit_for_bit():
    for dtype in (torch.float32, torch.float64):
        for process in (MeanReverting(3.0), Exponential()):
            mu, noise = cloudy(dtype=dtype), draws(dtype=dtype)
            denoise = PROBLEM.denoiser(process, mu)
            times = process.t(rho_schedule(5)).tolist()
            plain = euler(denoise, mu, times, process, noise)
            for churn in (Churn(), Churn(amount=5.0, t_min=1e3, t_max=1e4), Churn(amount=0.0, noise=1.3)):
                assert torch.equal(stochastic(denoise, mu, times, process, noise, churn=churn), plain)


def algorithm_2(denoise, mu, times, alpha, noise, churn):
    """The paper's Algorithm 2, line by line, for s = 1 / (1 + alpha t) and sigma = t."""
    count = len(times) - 1
    x = alpha * times[0] * mu + times[0] * noise(0)
    for i in range(count):
        t, t_next = times[i], times[i + 1]
        gamma = churn.amount / count if churn.t_min <= t <= churn.t_max else 0
        t_hat = t + gamma * t
        x_hat = x
        if gamma > 0:
            x_hat = x + alpha * (t_hat - t) * mu + math.sqrt(t_hat**2 - t**2) * churn.noise * noise(i + 1)
        d = (x_hat - denoise(x_hat, torch.tensor(t_hat, dtype=torch.float64)).unsqueeze(1)) / t_hat
        x = x_hat + (t_next - t_hat) * d
    return x.mean(1)


def algorithm_3(denoise, mu, times, process, noise, churn):
    """The paper's Algorithm 3, line by line, for any s and sigma."""
    at = lambda f, t: f(torch.tensor(t, dtype=torch.float64)).item()  # noqa: E731
    ratio = lambda t: (1 - at(process.s, t)) / at(process.s, t)  # noqa: E731
    count = len(times) - 1
    x = ratio(times[0]) * mu + at(process.sigma, times[0]) * noise(0)
    for i in range(count):
        t, t_next = times[i], times[i + 1]
        gamma = churn.amount / count if churn.t_min <= t <= churn.t_max else 0
        h = t + gamma * t
        eps = churn.noise * noise(i + 1)
        spread = math.sqrt(max(at(process.sigma, h) ** 2 - at(process.sigma, t) ** 2, 0))
        x = x + (ratio(h) - ratio(t)) * mu + spread * eps
        denoised = denoise(x, torch.tensor(h, dtype=torch.float64)).unsqueeze(1)
        d = -at(process.s_dot, h) / at(process.s, h) ** 2 * mu
        d = d - at(process.sigma_dot, h) / at(process.sigma, h) * (denoised + ratio(h) * mu - x)
        x = x + (t_next - h) * d
    return x.mean(1)


CHURNS = [
    Churn(0.1, 0.995, 0, 1e8),
    Churn(2.5),
    Churn(5.0, 1.023, 0, 1e8),
    Churn(1.0, 1.0, 0.0, 100.0),
    Churn(3, 1, 0.01, 50),
]


@pytest.mark.parametrize("churn", CHURNS)
def test_the_general_sampler_is_algorithm_2_for_the_papers_process(churn):
    mu, process = cloudy(), MeanReverting(3.0)
    denoise = PROBLEM.denoiser(process, mu)
    times = rho_schedule(5).tolist()
    found = stochastic(denoise, mu, times, process, draws(), churn=churn)
    assert torch.allclose(found, algorithm_2(denoise, mu, times, 3.0, draws(), churn), rtol=1e-10, atol=1e-12)


def edm_algorithm_2(denoise, mu, times, process, noise, churn):
    """EDM's stochastic Heun sampler, line by line, on the paper's ODE and without the cap."""
    at = lambda f, t: f(torch.tensor(t, dtype=torch.float64)).item()  # noqa: E731

    def slope(x, t):
        denoised = denoise(x, torch.tensor(t, dtype=torch.float64)).unsqueeze(1)
        k, k_dot, a = at(process.k, t), at(process.k_dot, t), at(process.sigma_dot, t) / at(process.sigma, t)
        return k_dot * mu - a * (denoised + k * mu - x)

    count = len(times) - 1
    x = at(process.k, times[0]) * mu + at(process.sigma, times[0]) * noise(0)
    for i in range(count):
        t, t_next = times[i], times[i + 1]
        h = t + t * (churn.amount / count if churn.t_min <= t <= churn.t_max else 0)
        spread = math.sqrt(max(at(process.sigma, h) ** 2 - at(process.sigma, t) ** 2, 0))
        x_hat = x + (at(process.k, h) - at(process.k, t)) * mu + spread * churn.noise * noise(i + 1)
        d = slope(x_hat, h)
        x = x_hat + (t_next - h) * d
        if t_next != 0:
            x = x_hat + (t_next - h) * (d + slope(x, t_next)) / 2
    return x.mean(1)


@pytest.mark.parametrize("churn", [Churn(), *CHURNS])
@pytest.mark.parametrize("process", [MeanReverting(3.0), Exponential()])
def test_heun_with_churn_is_edms_sampler_on_this_ode(churn, process):
    mu = cloudy()
    denoise = PROBLEM.denoiser(process, mu)
    times = process.t(rho_schedule(6, 0.01, 50.0)).tolist()
    found = heun(denoise, mu, times, process, draws(), churn=churn)
    assert torch.allclose(found, edm_algorithm_2(denoise, mu, times, process, draws(), churn), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("sampler", [euler, heun, multistep])
@pytest.mark.parametrize("process", [MeanReverting(3.0), Exponential()])
def test_missing_frames_are_left_out_of_the_result_whatever_they_hold(sampler, process):
    mu = cloudy()
    present = torch.tensor([[True, False, True], [False, True, True]])
    times = process.t(rho_schedule(5, 0.05, 20.0)).tolist()
    spoilt = mu.masked_fill(~present[:, :, None, None, None], math.nan)

    def masked(x, t):
        average = mean_over_frames(x - process.k(t) * mu, present)
        return (0.6 * average + 0.1) / (0.6 + process.sigma(t) ** 2)

    found = sampler(masked, spoilt, times, process, draws(), present=present)
    for b in range(2):
        kept = mu[b : b + 1, present[b]]
        noise = lambda draw, b=b: draws()(draw)[b : b + 1, present[b]]  # noqa: E731

        def alone(x, t, kept=kept):
            return (0.6 * (x - process.k(t) * kept).mean(1) + 0.1) / (0.6 + process.sigma(t) ** 2)

        assert torch.allclose(found[b : b + 1], sampler(alone, kept, times, process, noise), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("churn", CHURNS)
@pytest.mark.parametrize("process", [MeanReverting(0.5), MeanReverting(0.0), Exponential()])
def test_the_general_sampler_is_algorithm_3_for_any_process(churn, process):
    mu = cloudy()
    denoise = PROBLEM.denoiser(process, mu)
    times = process.t(rho_schedule(5, 0.001, 50.0)).tolist()
    found = stochastic(denoise, mu, times, process, draws(), churn=churn)
    assert torch.allclose(found, algorithm_3(denoise, mu, times, process, draws(), churn), rtol=1e-8, atol=1e-9)


def test_a_batch_gives_what_its_samples_give_alone():
    mu, process, churn = cloudy(), MeanReverting(3.0), Churn(5.0, 1.02)
    times = rho_schedule(5).tolist()
    together = stochastic(PROBLEM.denoiser(process, mu), mu, times, process, draws(), churn=churn)
    for b in range(2):
        one = mu[b : b + 1]
        noise = lambda draw, b=b: draws()(draw)[b : b + 1]  # noqa: E731
        alone = stochastic(PROBLEM.denoiser(process, one), one, times, process, noise, churn=churn)
        assert torch.equal(together[b : b + 1], alone)


@pytest.mark.parametrize(
    ("sampler", "options", "tolerance"),
    [
        (euler, {}, 0.03),
        (stochastic, {"churn": Churn(10.0)}, 0.05),  # first order: each step's churn adds to its bias
        (heun, {"churn": Churn(40.0)}, 0.03),
    ],
)
def test_samples_follow_the_distribution_of_the_data(sampler, options, tolerance):
    process, shape = MeanReverting(3.0), (1, 1, 1, 300, 300)
    mu, times = torch.zeros(shape), rho_schedule(300, 0.002, 80.0).tolist()
    noise = draws(shape, dtype=torch.float32)
    result = sampler(PROBLEM.denoiser(process, mu), mu, times, process, noise, **options)
    assert result.mean().item() == pytest.approx(PROBLEM.mean, abs=0.01)
    assert result.var().item() == pytest.approx(PROBLEM.variance, rel=tolerance)


def test_churn_is_not_capped_and_its_range_includes_its_ends():
    assert Churn(amount=10.0).gamma(1.0, 5) == 2.0  # EDM would allow 0.414
    churn = Churn(amount=1.0, t_min=0.001, t_max=100.0)
    levels = rho_schedule(5).tolist()[:-1]
    assert [churn.gamma(t, 5) for t in levels] == [0.2] * 5
    assert churn.gamma(99.99998, 5) == churn.gamma(100.00001, 5) == 0.2  # float32 rounding of the same level
    assert Churn(amount=1.0, t_max=80.0).gamma(100.0, 5) == 0.0


def test_callbacks_see_every_step_and_noise_is_drawn_only_when_needed():
    mu, process, asked, steps = cloudy(), MeanReverting(3.0), [], []
    noise = lambda draw: (asked.append(draw), draws()(draw))[1]  # noqa: E731
    churn = Churn(amount=1.0, t_min=0.01, t_max=50.0)
    times = rho_schedule(5).tolist()
    result = stochastic(PROBLEM.denoiser(process, mu), mu, times, process, noise, churn=churn, callback=steps.append)
    inside = [i for i, t in enumerate(times[:-1]) if 0.01 <= t <= 50]
    assert asked == [0, *(i + 1 for i in inside)]
    assert [step.index for step in steps] == list(range(5))
    assert all(step.count == 5 for step in steps)
    assert torch.equal(steps[-1].x.mean(1), result)


def test_multistep_and_euler_call_the_denoiser_once_a_step_and_heun_twice_but_for_the_last():
    mu, process, times = cloudy(), MeanReverting(3.0), rho_schedule(6).tolist()
    for sampler, expected in ((euler, 6), (multistep, 6), (heun, 11)):
        calls = []
        exact = PROBLEM.denoiser(process, mu)
        sampler(lambda x, t, c=calls, e=exact: (c.append(1), e(x, t))[1], mu, times, process, draws())
        assert len(calls) == expected


@settings(max_examples=50, deadline=None)
@given(
    steps=st.integers(1, 60),
    low=st.floats(1e-4, 1.0),
    ratio=st.floats(1.01, 1e6),
    rho=st.floats(1.0, 10.0),
)
def test_schedules_fall_strictly_between_exact_ends(steps, low, ratio, rho):
    high = low * ratio
    sigmas = rho_schedule(steps, low, high, rho).tolist()
    assert len(sigmas) == steps + 1
    assert sigmas[0] == high
    assert sigmas[-1] == 0
    assert steps == 1 or sigmas[-2] == low
    assert all(a > b for a, b in pairwise(sigmas))


def test_schedules_are_the_published_ones():
    assert rho_schedule(4).tolist() == pytest.approx([99.99998, 11.15625, 0.4495728, 0.0009999995, 0], rel=1e-6)
    assert rho_schedule(5).tolist() == pytest.approx(
        [99.99998, 20.65564, 2.688133, 0.1495058, 0.0009999995, 0], rel=1e-6
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rho_schedule(0), "steps is 0: expected at least 1"),
        (lambda: rho_schedule(5, 2.0, 1.0), "sigma_min < sigma_max"),
        (lambda: rho_schedule(5, rho=0.0), "rho is 0: expected 0.1 to 100"),
        (lambda: Churn(amount=-1.0), "churn is -1: expected 0 to 1e6"),
        (lambda: Churn(noise=float("nan")), "noise is NaN"),
        (lambda: euler(None, cloudy(), [1.0, 0.5], MeanReverting(), draws()), "the last one 0"),
        (lambda: euler(None, cloudy(), [1.0, 1.0, 0.0], MeanReverting(), draws()), "strictly falling"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
