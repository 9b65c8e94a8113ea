"""Attention masks: what the network weighed, at every step, on the grid of the images."""

import numpy as np
import pytest
import torch

from emrdm import EMRDM, InputError, SamplerConfig
from emrdm.attention_maps import attention_maps


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(1)
    return EMRDM.from_preset("tiny-temporal")


def series(frames=3, height=22, width=30):
    draw = np.random.default_rng(2)
    return draw.uniform(0, 255, (frames, 3, height, width)), draw.uniform(0, 255, (frames, 1, height, width))


def test_masks_share_out_every_place_at_every_step_and_the_image_is_the_ordinary_one(model):
    cloudy, aux = series()
    seen = []
    found = attention_maps(model, cloudy, aux, seed=5, callback=seen.append)
    steps = model.config.sampler.steps
    assert found.masks.shape[:3] == (steps, 4, 3)
    assert len(seen) == len(found.levels) == steps
    assert list(found.levels) == sorted(found.levels, reverse=True)
    np.testing.assert_allclose(found.masks.sum(2), 1, atol=1e-5)
    np.testing.assert_array_equal(found.restored, model.restore(cloudy, aux, seed=5, exact=True))
    assert np.ptp(found.masks, axis=2).max() > 0.05  # dates are told apart
    assert not np.allclose(found.masks[0], found.masks[-1])


def test_enlarged_masks_lie_on_the_pixels(model):
    found = attention_maps(model, *series())
    assert found.enlarged().shape == (4, 3, 22, 30)
    np.testing.assert_allclose(found.mean(0).sum(0), 1, atol=1e-5)
    whole = torch.nn.functional.interpolate(torch.from_numpy(found.masks[1]), size=found.padded, mode="bilinear")
    np.testing.assert_allclose(found.enlarged(1), whole[..., :22, :30], atol=1e-6)


def test_they_are_what_the_network_says(model):
    """The masks of the last step, from the network itself with the same noisy frames."""
    calls = []
    network = model.network.forward
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model.network, "forward", lambda *given: calls.append(given) or network(*given))
        found = attention_maps(model, *series(2, 16, 16), steps=3)
    assert len(calls) == 3
    with torch.no_grad():
        _, expected = model.network.forward_with_attention(*calls[2])
    np.testing.assert_array_equal(found.masks[2], expected[:, 0].numpy())


def test_of_two_calls_a_step_the_first_counts(model):
    cloudy, aux = series(2, 16, 16)
    found = attention_maps(model, cloudy, aux, sampler=SamplerConfig(method="heun", steps=3))
    assert len(found.masks) == 3


def test_nothing_stays_behind(model):
    attention_maps(model, *series(2, 16, 16), steps=1)
    assert not model.network.temporal_encoder._forward_hooks


def test_other_inputs_are_refused(model):
    with pytest.raises(InputError, match="takes one image: expected a multi-temporal one"):
        attention_maps(EMRDM.from_preset("tiny"), np.zeros((3, 16, 16)))
    with pytest.raises(InputError, match="5 axes: expected one series"):
        attention_maps(model, np.zeros((1, 2, 3, 16, 16)), np.zeros((1, 2, 1, 16, 16)))
