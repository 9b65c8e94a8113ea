"""A run of a sampler, step by step."""

import numpy as np
import pytest
import torch

from emrdm import EMRDM, InputError, SamplerConfig
from emrdm.evaluation.trajectory import follow


@pytest.fixture(scope="module")
def model():
    return EMRDM.from_preset("tiny")


@pytest.fixture(scope="module")
def cloudy():
    return np.random.default_rng(0).uniform(-1, 1, (3, 21, 18)).astype(np.float32)


@pytest.mark.parametrize(
    "sampler",
    [
        SamplerConfig(method="euler", steps=3),
        SamplerConfig(method="stochastic", steps=3, churn=1.0),
        SamplerConfig(method="heun", steps=3),
        SamplerConfig(method="multistep", steps=3),
    ],
    ids=lambda sampler: sampler.method,
)
def test_the_result_is_that_of_restore_and_every_step_is_kept(sampler, model, cloudy):
    found = follow(model, cloudy, sampler=sampler, seed=5, scaled=True)
    assert np.array_equal(found.restored, model.restore(cloudy, sampler=sampler, seed=5, scaled=True))
    assert np.allclose(found.estimates[-1], found.restored, atol=1e-5)  # the last step leaves what was estimated
    assert found.states.shape == (3, 1, 3, 21, 18)
    assert found.estimates.shape == (3, 3, 21, 18)
    raised = 1 + sampler.churn / 3
    assert found.levels == pytest.approx([level * raised for level in sampler.schedule()[:-1]])


def test_the_states_are_what_the_denoiser_saw(model, cloudy):
    """Each estimate comes from the state beside it, by the model itself."""
    sampler = SamplerConfig(method="stochastic", steps=4, churn=1.0)
    square = cloudy[:, :16, :16]
    found = follow(model, square, sampler=sampler, scaled=True)
    denoiser = model.denoiser(torch.from_numpy(square)[None, None])
    for level, state, estimate in zip(found.levels, found.states, found.estimates, strict=True):
        t = torch.tensor(level, dtype=torch.float64)
        x = torch.from_numpy(state)[None] / float(model.process.s(t))
        with torch.no_grad():
            assert torch.allclose(denoiser(x, t)[0], torch.from_numpy(estimate), atol=2e-2)


def test_the_first_state_is_the_noisy_mean(model, cloudy):
    found = follow(model, cloudy, sampler=SamplerConfig(steps=2), scaled=True)
    rest = found.states[0, 0] - cloudy
    assert abs(rest.mean()) < 0.05
    assert rest.std() == pytest.approx(1 / model.config.process.alpha, rel=0.1)  # s sigma at the highest level


def test_a_series_keeps_its_frames():
    model = EMRDM.from_preset("tiny-temporal")
    bands, aux = len(model.config.bands), len(model.config.aux)
    cloudy = np.zeros((2, bands, 16, 16), np.float32)
    beside = np.zeros((2, aux, 16, 16), np.float32) if aux else None
    assert follow(model, cloudy, beside, scaled=True).states.shape[1:] == (2, bands, 16, 16)


def test_a_batch_is_refused(model, cloudy):
    with pytest.raises(InputError, match="expected one image or series, not a batch"):
        follow(model, np.stack([cloudy, cloudy]))
