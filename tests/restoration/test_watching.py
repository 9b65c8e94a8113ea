"""Watching a scene being restored: the denoiser's answer after every step, on whole scenes."""

import dataclasses

import numpy as np
import pytest

from emrdm import EMRDM, SamplerConfig, open_scene, restore_scene
from emrdm.bench.paths import lively
from emrdm.rasters.source import ArraySource
from emrdm.restoration import Settings
from emrdm.window import Window

EXACT = Settings(tile=64, exact=True)


@pytest.fixture(scope="module")
def model():
    return lively(EMRDM.from_preset("tiny"))


def scene(height, width):
    pixels = np.random.default_rng(3).uniform(60, 190, (3, height, width)).astype(np.float32)
    return open_scene(ArraySource(pixels, names=("red", "green", "blue")))


def test_each_step_shows_what_the_denoiser_said(model):
    """Against the callback of the model, another way to the same answers."""
    image, seen, said = scene(64, 64), [], []
    sampler = SamplerConfig(method="stochastic", steps=4, churn=3.0)

    def watch(estimate):
        seen.append(estimate.read(Window(0, 0, 64, 64))[0])
        assert (estimate.sample, estimate.step, estimate.steps) == (0, len(seen) - 1, 4)

    found = restore_scene(image, model, settings=dataclasses.replace(EXACT, sampler=sampler), watch=watch)
    model.restore(
        image.frames[0].read(Window(0, 0, 64, 64))[0],
        sampler=sampler,
        exact=True,
        callback=lambda step: said.append((step.denoised[0].numpy() + 1) * 127.5),
    )
    np.testing.assert_allclose(seen, said, atol=5e-2)
    np.testing.assert_allclose(seen[-1], found.pixels, atol=1e-3)  # the last answer is the result
    assert np.abs(seen[0] - seen[-1]).max() > 1


def test_a_scene_of_many_tiles_is_seen_in_any_window_and_sample(model):
    seen = {}

    def watch(estimate):
        seen[estimate.sample, estimate.step] = estimate.read(Window(50, 20, 30, 70), [1])

    settings = dataclasses.replace(EXACT, samples=2)
    found = restore_scene(scene(100, 130), model, settings=settings, watch=watch)
    assert sorted(seen) == [(sample, step) for sample in range(2) for step in range(4)]
    last = np.stack([seen[sample, 3][0] for sample in range(2)])
    np.testing.assert_allclose(last.mean(0), found.pixels[1:2, 50:80, 20:90], atol=1e-3)
    assert seen[0, 0][1].all()


def test_raising_while_watching_ends_the_run(model):
    steps = []

    def watch(estimate):
        steps.append(estimate.step)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore_scene(scene(64, 64), model, settings=EXACT, watch=watch)
    assert steps == [0]
