"""Folders of a recipe: what the model takes over from them."""

import numpy as np
import pytest
import torch
from tests.data.trees import save_tiff
from tests.training.little import landscapes, recipe

from emrdm import EMRDM
from emrdm.errors import ConfigError
from emrdm.training import Machine, train
from emrdm.training.sources import open_training, open_validation, with_ranges_of


def reflectances(folder, count=10):
    random = np.random.default_rng(0)
    for i in range(count):
        pixels = random.uniform(5000, 20000, (3, 4, 4)).repeat(8, 1).repeat(8, 2)
        save_tiff(folder / f"tile{i}.tif", pixels.astype(np.uint16))
    return folder


def test_a_model_takes_over_the_range_of_ones_own_images(tmp_path):
    root = reflectances(tmp_path / "tiles")
    data = [{"dataset": "synthetic", "root": str(root), "range": [5000, 20000], "clouds": "thin"}]
    outcome = train(recipe(root, {"data": data}), tmp_path / "run", machine=Machine(device="cpu"))
    model = EMRDM.load(tmp_path / "run" / "model.safetensors")
    assert [(band.low, band.high, band.unit) for band in model.config.bands] == [(5000, 20000, "value")] * 3
    restored = model.restore(torch.full((3, 32, 32), 12000.0))
    assert 2000 < restored.mean() < 25000
    scores = outcome.place.best["scores"]["synthetic"]
    assert scores["zero_pixels"] < 32 * 32 / 2  # neither black nor white all over
    again = train(recipe(root, {"data": data}), tmp_path / "run", machine=Machine(device="cpu"))
    assert again.reason == "finished"  # and the same recipe is the same run


def test_pictures_of_eight_bits_stay_what_the_preset_says(tmp_path):
    preset = recipe(landscapes(tmp_path / "clear", 4))
    found = open_training(preset.data, preset.model, preset.train, lambda: None)
    assert with_ranges_of(found, preset) == preset


def test_two_ranges_for_one_band_are_refused(tmp_path):
    root = reflectances(tmp_path / "tiles")
    data = [{"dataset": "synthetic", "root": str(root), "range": ends} for ends in ([0, 20000], [5000, 20000])]
    preset = recipe(root, {"data": data})
    found = open_training(preset.data, preset.model, preset.train, lambda: None)
    with pytest.raises(ConfigError, match="red is 0 to 20000 in one data set and 5000 to 20000 in another"):
        with_ranges_of(found, preset)


def test_a_lone_image_is_not_validated_and_the_reason_is_said(tmp_path, caplog):
    two, one = (recipe(landscapes(tmp_path / f"{count}", count)) for count in (2, 1))
    assert [len(dataset) for dataset in open_validation(two.data, two.model, lambda: None)] == [1]
    assert not caplog.messages
    assert open_validation(one.data, one.model, lambda: None) == []
    assert caplog.messages == [f"synthetic is not validated: {tmp_path / '1'} has one image, which is trained on"]
