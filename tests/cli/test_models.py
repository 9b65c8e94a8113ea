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


def test_a_misspelt_default_is_told():
    with pytest.raises(InputError, match="neither a file nor a preset; did you mean 'default'"):
        models.load("defalt")
