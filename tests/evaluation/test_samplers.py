"""Samplers compared on one image."""

import numpy as np
import pytest

from emrdm import EMRDM, InputError, SamplerConfig
from emrdm.evaluation import samplers
from emrdm.evaluation.samplers import compare_samplers


@pytest.fixture(scope="module")
def model():
    return EMRDM.from_preset("tiny")


@pytest.fixture(scope="module")
def cloudy():
    return np.random.default_rng(0).uniform(-1, 1, (3, 16, 16)).astype(np.float32)


@pytest.fixture
def found(model, cloudy, monkeypatch):
    monkeypatch.setattr(samplers, "_REFERENCE", 12)
    heard = []
    comparison = compare_samplers(
        model, cloudy, truth=cloudy, calls=(1, 4, 5), seed=3, progress=lambda *state: heard.append(state)
    )
    return comparison, heard


def test_every_method_is_tried_with_about_as_many_calls(found):
    comparison, heard = found
    tried = {}
    for run in comparison.runs:
        tried.setdefault(run.method, []).append((run.steps, run.calls))
    assert tried["euler"] == tried["multistep"] == tried["stochastic"] == [(1, 1), (4, 4), (5, 5)]
    assert tried["heun"] == [(1, 1), (2, 3), (3, 5)]
    assert heard[0] == (0, 62)
    assert heard[-1] == (62, 62)  # 23 of the reference, 3 x 10, and 9 of heun


def test_values_are_those_of_the_images(found, model, cloudy):
    comparison, _ = found
    run = next(run for run in comparison.runs if (run.method, run.steps) == ("euler", 4))
    settings = SamplerConfig(**{**vars(model.config.sampler), "method": "euler", "steps": 4, "churn": 0.0})
    image = model.restore(cloudy, seed=3, sampler=settings, scaled=True, exact=True)
    assert np.array_equal(run.restored, image)
    many = model.restore(cloudy, seed=3, sampler=comparison.reference, scaled=True, exact=True)
    assert run.distance == pytest.approx(np.sqrt(np.mean((image - many) ** 2)), rel=1e-4)
    assert run.psnr == pytest.approx(20 * np.log10(2 / np.sqrt(np.mean((image - cloudy) ** 2))), rel=1e-4)
    assert comparison.reference.method == "heun"
    assert comparison.reference.churn == 0


def test_lines_are_by_name_and_calls(found):
    comparison, _ = found
    lines = comparison.lines("psnr")
    assert list(lines) == ["euler", "heun", "multistep", "stochastic, churn 1"]
    assert list(lines["heun"]) == [1, 3, 5]


def test_without_the_truth_there_is_no_psnr(model, cloudy, monkeypatch):
    monkeypatch.setattr(samplers, "_REFERENCE", 2)
    comparison = compare_samplers(model, cloudy, calls=[1], methods=["euler"])
    assert [run.psnr for run in comparison.runs] == [None]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["ruler"]}, "sampler ruler: expected some of euler, heun, multistep, stochastic"),
        ({"methods": []}, "sampler none"),
        ({"calls": []}, "expected numbers of 1 or more"),
        ({"calls": [0]}, r"calls are \[0\]"),
    ],
)
def test_what_cannot_be_compared_is_refused(options, message, model, cloudy):
    with pytest.raises(InputError, match=message):
        compare_samplers(model, cloudy, **options)
