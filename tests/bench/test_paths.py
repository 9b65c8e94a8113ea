"""Ways to run a model, and models worth running."""

import os

import pytest
import torch
from tests.bench.small import CPU

from emrdm.bench.paths import REFERENCE, Images, Way, difference, duplicate, lively, one_call, published_style, sampling
from emrdm.errors import EmrdmError
from emrdm.model import EMRDM
from emrdm.networks.neighborhood import OVERRIDE, choose


def test_a_lively_model_has_no_silent_parameter_and_is_seeded():
    silent = EMRDM.from_preset("tiny")
    assert any(not parameter.any() for parameter in silent.network.parameters())
    before = [parameter.clone() for parameter in silent.network.parameters()]
    one, other, third = (lively(EMRDM.from_preset("tiny"), seed=seed) for seed in (0, 0, 1))
    for old, a, b, c in zip(before, *(m.network.parameters() for m in (one, other, third)), strict=True):
        assert a.any()
        assert torch.equal(a, b)
        assert torch.equal(a, c) == bool(old.any())  # what was there stays
        if not old.any() and a.numel() > 1000:
            assert 0.015 < a.std() < 0.025


def test_a_way_leaves_everything_as_it_was(monkeypatch):
    monkeypatch.setenv(OVERRIDE, "reference")
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    other = "high" if before[0] == "highest" else "highest"

    def fail():
        with Way("x", "", precision=other, attention="tiled").entered():
            assert (torch.get_float32_matmul_precision(), choose()) == (other, "tiled")
            assert torch.backends.cudnn.allow_tf32 == (other == "high")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before
    assert os.environ[OVERRIDE] == "reference"
    monkeypatch.delenv(OVERRIDE)
    with Way("x", "", attention="reference").entered():
        assert choose() == "reference"
    assert OVERRIDE not in os.environ


def test_the_baseline_of_a_cpu_is_a_gather():
    config = EMRDM.from_preset("tiny").config
    assert published_style(config, CPU, 64).attention == "reference"
    assert published_style(config, CPU, 64).name == "gather"
    assert published_style(config, CPU, 64, "tiled").attention == "tiled"


def test_images_do_not_depend_on_the_batch():
    config = EMRDM.from_preset("tiny-temporal").config
    many, one = Images.drawn(config, 3, 16), Images.drawn(config, 1, 16)
    assert many.cloudy.shape == (3, 3, 3, 16, 16)
    assert many.aux.shape == (3, 3, 1, 16, 16)
    assert torch.equal(many.first(1).cloudy, one.cloudy)
    assert torch.equal(many.first(1).aux, one.aux)
    assert not torch.equal(many.cloudy[0], many.cloudy[1])
    assert -1 <= many.cloudy.min() < -0.3 < 0.3 < many.cloudy.max() <= 1
    assert Images.drawn(config, 1, 16, frames=5).cloudy.shape[1] == 5


def test_sampling_one_image_of_a_batch_gives_what_the_batch_gives():
    """What makes comparing the first images of a large batch with the reference fair."""
    model = lively(EMRDM.from_preset("tiny"))
    images = Images.drawn(model.config, 3, 16)
    sampler = model.config.sampler
    whole = sampling(model, images, sampler, REFERENCE)()
    part = sampling(model, images.first(2), sampler, REFERENCE)()
    assert difference(whole[:2], part).largest < 1e-5


def test_one_call_calls_the_network_once(monkeypatch):
    model = lively(EMRDM.from_preset("tiny"))
    calls = []
    model.network.register_forward_hook(lambda *_: calls.append(1))
    assert one_call(model, Images.drawn(model.config, 1, 16), REFERENCE)().shape == (1, 3, 16, 16)
    assert calls == [1]


def test_copies_share_nothing():
    model = lively(EMRDM.from_preset("tiny"))
    copy = duplicate(model, CPU)
    with torch.no_grad():
        next(copy.network.parameters()).add_(1)
    assert not torch.equal(next(copy.network.parameters()), next(model.network.parameters()))


def test_difference_is_psnr_for_a_range_of_two():
    expected = torch.zeros(4)
    assert difference(expected, expected).psnr is None
    found = difference(expected + 0.02, expected)
    assert found.psnr == pytest.approx(40)
    assert found.largest == pytest.approx(0.02)
    assert not found.good
    assert difference(expected + 0.002, expected).good
    with pytest.raises(EmrdmError, match="NaN"):
        difference(expected * float("nan"), expected)
