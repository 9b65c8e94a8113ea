"""Models to choose from: the default one, files by name, files in a folder; what is wrong in one line."""

import logging

import pytest
from tests.serve.samples import series, tiny

from emrdm import EMRDM, InputError, WeightsError
from emrdm.serve.shelf import Shelf, offers


def test_the_model_inside_the_package_is_always_there():
    (only,) = offers()
    assert only.name == "default (red, green, blue)"
    assert not only.series
    assert only.takes.startswith("One image: red, green, blue, numbers from 0 to 255")
    assert "each by itself" in only.takes


def test_files_and_a_folder_are_offered_once_each_and_what_is_broken_is_left_out(tmp_path, caplog):
    tiny(tmp_path)
    (tmp_path / "run").mkdir()
    series(tmp_path).rename(tmp_path / "run" / "model.safetensors")
    (tmp_path / "broken.safetensors").write_text("no weights")
    with caplog.at_level(logging.WARNING):
        found = offers([tmp_path / "tiny.safetensors"], tmp_path)
    assert [offer.name for offer in found[1:]] == ["tiny", "run"]
    assert "left out: " in caplog.text
    assert "broken.safetensors" in caplog.text
    assert found[2].takes.startswith("A series of images of one place on different days (trained with 3)")


def test_the_same_name_twice_is_numbered(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        tiny(tmp_path / folder)
    names = [offer.name for offer in offers([tmp_path / "a" / "tiny.safetensors", tmp_path / "b" / "tiny.safetensors"])]
    assert names[1:] == ["tiny", "tiny (2)"]


def test_the_folder_of_a_training_run_is_its_model(tmp_path):
    tiny(tmp_path).rename(tmp_path / "model.safetensors")
    assert offers([tmp_path])[1].name == tmp_path.name


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(InputError, match="expected a folder with weights files"):
        offers(folder=tmp_path / "nowhere")
    with pytest.raises(InputError, match="no weights file"):
        offers(folder=tmp_path)
    (tmp_path / "text.safetensors").write_text("no weights")
    with pytest.raises(WeightsError, match=r"text\.safetensors"):
        offers([tmp_path / "text.safetensors"])


def test_models_are_loaded_when_needed_and_a_few_are_kept(tmp_path, monkeypatch):
    shelf = Shelf(offers([tiny(tmp_path), series(tmp_path)]))
    loads, load = [], EMRDM.load
    monkeypatch.setattr(EMRDM, "load", lambda path: loads.append(path.stem) or load(path))
    assert shelf.load("tiny") is shelf.load("tiny")
    shelf.load("series")
    shelf.load("default (red, green, blue)")  # one too many: the one that was not used for longest goes
    shelf.load("series")
    shelf.load("tiny")
    assert loads == ["tiny", "series", "rgb-small", "tiny"]
    with pytest.raises(InputError, match="model 'other' is not offered"):
        shelf.load("other")
