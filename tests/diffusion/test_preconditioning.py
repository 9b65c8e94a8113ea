"""Preconditioning: against fifty digits, against EDM, and for what it is meant to do."""

import mpmath
import pytest
import torch

from emrdm.diffusion import MeanReverting, Preconditioning
from emrdm.errors import ConfigError

SIGMAS = torch.logspace(-3, 2, 50)


def exact(sigma, k, frames, sigma_data, sigma_mu, sigma_cov):
    """Eqs. c_in to c_noise, as printed, with fifty digits."""
    mpmath.mp.dps = 50
    sigma, k, sd, smu, cov = (mpmath.mpf(value) for value in (sigma, k, sigma_data, sigma_mu, sigma_cov))
    denominator = sd**2 + k**2 * smu**2 + sigma**2 / frames + 2 * k * cov
    c_in = 1 / mpmath.sqrt(sd**2 + k**2 * smu**2 + sigma**2 + 2 * k * cov)
    c_skip = (sd**2 + k * cov) / denominator
    c_out = mpmath.sqrt((k**2 * smu**2 * sd**2 + sigma**2 / frames * sd**2 - k**2 * cov**2) / denominator)
    return c_in, c_skip, c_out, mpmath.log(sigma) / 4, 1 / c_out**2


def worst_error(alpha, frames, statistics):
    """Largest relative error of any float32 factor over all sigmas."""
    factors = Preconditioning(*statistics)(SIGMAS, MeanReverting(alpha).k(SIGMAS), frames)
    found = torch.stack([factors.c_in, factors.c_skip, factors.c_out, factors.c_noise, factors.weight])
    worst = 0.0
    for i, sigma in enumerate(SIGMAS.tolist()):
        truth = exact(sigma, mpmath.mpf(alpha) * mpmath.mpf(sigma), frames, *statistics)
        for value, expected in zip(found[:, i].tolist(), truth, strict=True):
            worst = max(worst, float(abs((mpmath.mpf(value) - expected) / expected)))
    return worst


@pytest.mark.parametrize("frames", [1, 2, 3, 8])
@pytest.mark.parametrize("alpha", [0.2, 3.0])
@pytest.mark.parametrize("statistics", [(1.0, 1.0, 0.9), (0.5, 0.8, 0.3), (1.0, 0.0, 0.0)])
def test_float32_factors_are_right_to_1e_6(frames, alpha, statistics):
    assert worst_error(alpha, frames, statistics) <= 1e-6


def test_published_check_values():
    """Section 4.1 of the description of the published implementation: alpha 3, covariance 0.9."""
    expected = {
        1: [
            (0.001, 0.9973047, 0.001641771, 0.997306, -1.726939, 371000),
            (0.2, 0.6209677, 0.2090686, 0.6350006, -0.4023595, 22.87822),
            (100.0, 0.002695418, 0.5191741, 0.003153758, 1.151293, 3.71),
        ],
        3: [
            (0.001, 0.9973053, 0.001425599, 0.997306, -1.726939, 492045),
            (0.2, 0.6277174, 0.1825246, 0.6350006, -0.4023595, 30.0163),
            (100.0, 0.002886838, 0.4665479, 0.003153758, 1.151293, 4.594176),
        ],
    }
    for frames, rows in expected.items():
        for sigma, *values in rows:
            level = torch.tensor(sigma)
            factors = Preconditioning()(level, 3 * level, frames)
            found = [factors.c_skip, factors.c_out, factors.c_in, factors.c_noise, factors.weight]
            assert [float(value) for value in found] == pytest.approx(values, rel=1e-3)  # they lose 2e-5 in k there


def test_without_the_mean_it_is_edm():
    sigma_data = 0.5
    factors = Preconditioning(sigma_data=sigma_data, sigma_mu=0.0, sigma_cov=0.0)(SIGMAS, 3 * SIGMAS)
    root = torch.sqrt(SIGMAS**2 + sigma_data**2)
    assert torch.allclose(factors.c_in, 1 / root, rtol=1e-6)
    assert torch.allclose(factors.c_skip, sigma_data**2 / root**2, rtol=1e-6)
    assert torch.allclose(factors.c_out, SIGMAS * sigma_data / root, rtol=1e-6)
    assert torch.allclose(factors.weight, (SIGMAS**2 + sigma_data**2) / (SIGMAS * sigma_data) ** 2, rtol=1e-5)


def variances(frames, sigma):
    """Variance of network input and target on a million correlated Gaussian samples, frames fully dependent as assumed."""
    generator = torch.Generator().manual_seed(1)
    sigma_data, sigma_mu, cov, count = 0.8, 1.1, 0.7, 1_000_000
    x0 = sigma_data * torch.randn(count, generator=generator, dtype=torch.float64)
    rest = torch.randn(count, generator=generator, dtype=torch.float64)
    mu = cov / sigma_data**2 * x0 + (sigma_mu**2 - cov**2 / sigma_data**2) ** 0.5 * rest
    noise = torch.randn(frames, count, generator=generator, dtype=torch.float64)
    level = torch.tensor(sigma, dtype=torch.float64)
    k = MeanReverting(3.0).k(level)
    x = x0 + k * mu + level * noise
    factors = Preconditioning(sigma_data, sigma_mu, cov)(level, k, frames)
    target = (x0 - factors.c_skip * x.mean(0)) / factors.c_out
    return (factors.c_in * x[0]).var().item(), target.var().item()


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("sigma", [0.01, 0.3, 5.0])
def test_network_input_and_target_have_unit_variance(frames, sigma):
    assert variances(frames, sigma) == pytest.approx((1, 1), abs=5e-3)


def test_c_skip_is_the_minimiser_of_c_out():
    level = torch.tensor(0.4, dtype=torch.float64)
    k = 3 * level
    factors = Preconditioning()(level, k, 3)

    def variance(c_skip):  # Eq. final_uinit_ftarget_variance
        return (1 - c_skip) ** 2 + k**2 * c_skip**2 - 2 * (1 - c_skip) * c_skip * k * 0.9 + c_skip**2 / 3 * level**2

    assert variance(factors.c_skip).item() == pytest.approx(factors.c_out.item() ** 2, rel=1e-12)
    for other in (factors.c_skip - 1e-3, factors.c_skip + 1e-3):
        assert variance(other) > variance(factors.c_skip)


def test_frames_may_differ_between_samples():
    sigma = torch.tensor([0.3, 0.3, 2.0])
    mixed = Preconditioning()(sigma, 3 * sigma, torch.tensor([1.0, 3.0, 2.0]))
    for i, frames in enumerate((1, 3, 2)):
        single = Preconditioning()(sigma[i], 3 * sigma[i], frames)
        for a, b in zip(mixed, single, strict=True):
            assert torch.equal(a[i], b)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sigma_data": 0.0}, "sigma_data is 0: expected 1e-6 to 1e6"),
        ({"sigma_mu": -1.0}, "sigma_mu is -1: expected 0 to 1e6"),
        ({"sigma_cov": 1.1}, "sigma_cov is 1.1: a covariance cannot exceed"),
        ({"sigma_cov": float("nan")}, "sigma_cov is NaN"),
    ],
)
def test_impossible_statistics_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Preconditioning(**arguments)
