"""The loss of a step: noise by key alone, whatever else is in the batch."""

import dataclasses

import pytest
import torch
from tests.training.little import SMALL

from emrdm import EMRDM, load_preset
from emrdm.training.objective import Objective, draw_noise
from emrdm.training.samples import TrainingBatch

CPU = torch.device("cpu")


@pytest.fixture
def model():
    return EMRDM.fresh(load_preset("tiny").replace(SMALL).model)


def batch(keys):
    images = torch.rand(len(keys), 1, 3, 16, 16, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return TrainingBatch(tuple(map(str, keys)), tuple(keys), images, images[:, 0], None, None)


def test_noise_belongs_to_the_draw(model):
    sigma, noise = draw_noise(model, batch([3, 4, 5]), CPU)
    alone_sigma, alone_noise = draw_noise(model, batch([4]), CPU)
    assert torch.equal(sigma[1:2], alone_sigma)
    assert torch.equal(noise[1:2], alone_noise)
    assert len(set(sigma.tolist())) == 3
    assert noise.shape == (3, 1, 3, 16, 16)


def test_noise_levels_have_the_recipes_distribution(model):
    spread = model.config.training_noise
    small = dataclasses.replace(batch([0]), cloudy=torch.zeros(1, 1, 3, 2, 2))
    keys = tuple(range(4000))
    sigma, _ = draw_noise(model, dataclasses.replace(small, keys=keys, cloudy=torch.zeros(4000, 1, 3, 2, 2)), CPU)
    assert sigma.log().mean().item() == pytest.approx(spread.p_mean, abs=0.06)
    assert sigma.log().std().item() == pytest.approx(spread.p_std, abs=0.05)


def test_the_module_gives_the_models_losses(model):
    part = batch([1, 2])
    sigma, noise = draw_noise(model, part, CPU)
    losses = Objective(model)(part.clear, part.cloudy, None, sigma, noise, None)
    assert torch.equal(losses, model.losses(part.clear, part.cloudy, sigma=sigma, noise=noise))
    assert losses.shape == (2,)


def test_the_module_has_the_networks_parameters_and_no_others(model):
    names = {name.removeprefix("network.") for name, _ in Objective(model).named_parameters()}
    assert names == {name for name, _ in model.network.named_parameters()}
