"""Which model a name stands for."""

import logging

import pytest

from emrdm import EMRDM, InputError
from emrdm.cli import models


@pytest.mark.parametrize("name", ["default", "rgb-small"])
def test_the_model_inside_the_package_by_name(name, caplog, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()  # names win over folders
    with caplog.at_level(logging.INFO):
        model = models.load(name)
    assert model.is_default
    assert model.digest() == EMRDM.default().digest()
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert caplog.messages == [f"{name}: trained weights inside the package, {model.card.title}"]


def test_other_presets_still_warn(caplog):
    assert not models.load("tiny").is_default
    assert caplog.messages == ["tiny is a preset: its weights are random, and so are its results"]


@pytest.mark.parametrize(
    ("name", "here", "words"),
    [
        ("gpu", False, "cpu or cuda"),
        ("gpu", True, "cpu or cuda"),
        ("cuda", False, "cpu, since there is no CUDA device here"),
        ("cuda:7", True, "cpu or cuda"),
    ],
)
def test_a_device_that_is_not_there(name, here, words, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("no such device")

    monkeypatch.setattr("torch.cuda.is_available", lambda: here)
    monkeypatch.setattr("torch.empty", refuse)
    with pytest.raises(InputError) as caught:
        models.device(name)
    assert str(caught.value) == f"--device {name} cannot be used: expected {words}"


def test_a_setting_of_the_sampler_is_told_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert models.sampler_words(["a.tif", "sampler.steps=3", "a=b.tif"]) == (["a.tif", "a=b.tif"], {"steps": 3})
    with pytest.raises(InputError) as caught:
        models.sampler_words(["a.tif", "steps=3"])
    assert str(caught.value) == "steps=3 is a setting of the sampler: expected sampler.steps=3"
    (tmp_path / "steps=3").touch()
    assert models.sampler_words(["steps=3"]) == (["steps=3"], {})
    with pytest.raises(InputError, match=r"sampler\.steps is given twice"):
        models.sampler_words(["a.tif", "sampler.steps=3", "sampler.steps=4"])


def test_a_misspelt_default_is_told():
    with pytest.raises(InputError, match="neither a file nor a preset; did you mean 'default'"):
        models.load("defalt")
