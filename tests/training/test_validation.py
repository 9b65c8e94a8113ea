"""Validation: the scores that evaluation gives, the same images each time, a sheet to look at."""

import math

import pytest
import torch
from tests.training.little import SMALL, landscapes

from emrdm import EMRDM, load_preset
from emrdm.data import open_dataset
from emrdm.errors import EmrdmError
from emrdm.evaluation import BASELINES, BaselinePredictor, ModelPredictor, evaluate
from emrdm.metrics import find_protocols, psnr
from emrdm.training.validation import Validation, criterion, spread


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return open_dataset("synthetic", landscapes(tmp_path_factory.mktemp("clear"), 6), split="all")


@pytest.fixture(scope="module")
def model():
    return EMRDM.fresh(load_preset("tiny").replace(SMALL).model)


def made(dataset, *, images=None, rank=0, ranks=1):
    return Validation([dataset], images=images, rows=2, batch_size=2, rank=rank, ranks=ranks)


def test_scores_are_those_of_an_evaluation(dataset, model):
    found = made(dataset).score(model)["synthetic"]
    predictor = ModelPredictor(model, dataset, name="m", digest="", sampler=model.config.sampler)
    expected = evaluate(dataset, [predictor], find_protocols(["standard"])).of("model", "standard")
    assert found["protocol"] == "standard"
    assert found["images"] == 6
    for metric in ("psnr", "ssim", "mae"):
        assert found[metric] == expected.mean(metric).value
    idle = evaluate(dataset, [BaselinePredictor(BASELINES["cloudy-image"], dataset.data)], find_protocols(["standard"]))
    untouched = {"what": "the cloudy image itself", "psnr": idle.of("cloudy-image", "standard").mean("psnr").value}
    assert found["untouched"] == untouched


def test_a_validation_that_is_cancelled_has_no_scores(dataset, model):
    asked = []

    def cancelled():
        asked.append(1)
        return len(asked) > 2

    assert made(dataset).score(model, cancelled=cancelled) is None
    assert len(asked) <= 5  # not all images were restored first


def test_processes_share_the_images(dataset, model):
    """Each scores its part; together they are all of them."""
    parts = [made(dataset, rank=rank, ranks=4).score(model)["synthetic"] for rank in range(4)]
    assert [part["images"] for part in parts] == [2, 2, 1, 1]
    total = math.fsum(part["psnr"] * part["images"] for part in parts) / 6
    assert total == pytest.approx(made(dataset).score(model)["synthetic"]["psnr"])


def test_more_processes_than_images_repeat_one(dataset, model):
    assert made(dataset, images=1, rank=1, ranks=2).score(model)["synthetic"]["images"] == 1


def test_a_sheet_shows_cloudy_restored_and_clear(dataset, model, tmp_path):
    picture = made(dataset).sheet(model, tmp_path / "sheets" / "one.png", title="step 1")
    assert (tmp_path / "sheets" / "one.png").is_file()
    assert picture.shape[2] == 3
    assert picture.shape[1] > 3 * 200  # cloudy, restored and clear, and the mask that is drawn with clouds


def test_images_are_evenly_spread():
    assert spread(10, None) == list(range(10))
    assert spread(10, 20) == list(range(10))
    assert spread(10, 3) == [0, 3, 6]


def test_the_best_is_chosen_by_the_mean_over_data_sets():
    assert criterion({"a": {"psnr": 10.0}, "b": {"psnr": 20.0}}) == 15.0
    with pytest.raises(EmrdmError, match="no PSNR"):
        criterion({"a": {"psnr": math.nan}})


def test_doing_nothing_is_scored_in_the_bands_that_the_model_restores(tmp_path):
    """A fourth band that only the data set has counts for neither."""
    from tests.data.trees import save, texture

    for i in range(2):
        for part, offset in (("cloudy", 0), ("clear", 9)):
            save(tmp_path / part / f"{i}.tif", texture((4, 32, 32), i + offset, block=8))
    data = open_dataset("pairs", tmp_path, split="all")
    model = EMRDM.fresh(load_preset("tiny").replace(SMALL).model)
    found = made(data).score(model)["pairs"]["untouched"]["psnr"]
    clear, cloudy = (
        torch.stack([x[:3] for x in images]) for images in zip(*((s.target, s.cloudy[0]) for s in data), strict=True)
    )
    assert found == pytest.approx(psnr((cloudy + 1) / 2, (clear + 1) / 2).mean().item(), abs=1e-3)
