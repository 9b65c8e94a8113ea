"""KEY=VALUE and NAME=ROOT."""

import pytest

from emrdm import load_preset
from emrdm.cli import settings
from emrdm.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2e-4", 2e-4), ("16", 16), ("true", True), ("[1, 2]", [1, 2]), ("cosine", "cosine"), ("none", None),
        ("[noisy,cloudy]", ["noisy", "cloudy"]), ("[ noisy , 2]", ["noisy", 2]), ("[a,,b]", "[a,,b]"), ("[a", "[a"),
        ("1e2", 100), ("1.5e3", 1500), ("1e400", float("inf")), ("1e300", 1e300), ("100.0", 100.0),
        ("'a b'", "a b"), ('["noisy","cloudy"]', ["noisy", "cloudy"]), ("", ""), ("bf16-mixed", "bf16-mixed"),
    ],
)  # fmt: skip
def test_values_are_what_they_look_like(text, value):
    found = settings.value(text)
    assert found == value
    assert type(found) is type(value)


def test_words_are_a_name_and_settings():
    assert settings.words(["a.b=1", "tiny", "c=x=y"], expected="") == ("tiny", {"a.b": 1, "c": "x=y"})


def test_no_augmentation_is_not_the_data_sets_own():
    found = [
        settings.words(["tiny", f"train.{word}"], expected="")[1]
        for word in ("augmentation=none", "augmentation=null", "crop=none")
    ]
    assert found == [{"train.augmentation": "none"}, {"train.augmentation": None}, {"train.crop": None}]


@pytest.mark.parametrize("given", [["a=1"], ["tiny", "other"], []])
def test_one_name_is_expected(given):
    with pytest.raises(InputError, match="expected RECIPE"):
        settings.words(given, expected="RECIPE")


def test_a_setting_is_given_once():
    with pytest.raises(InputError, match=r"train.steps is given twice: expected it once"):
        settings.words(["tiny", "train.steps=2", "train.steps=4"], expected="")
    with pytest.raises(InputError, match=r"model.sampler.steps is given twice"):
        settings.full_keys({"sampler.steps": 2, "model.sampler.steps": 4})


def test_whole_numbers_and_lists_of_words_are_taken_by_recipes():
    changes = settings.words(["tiny", "train.steps=1e2", "optimizer.lr=1e0", "inputs=[noisy,cloudy]"], expected="")[1]
    found = load_preset("tiny").replace(settings.full_keys(changes))
    assert (found.train.steps, found.optimizer.lr, found.model.inputs) == (100, 1.0, ("noisy", "cloudy"))


def test_parts_of_the_model_need_not_name_it():
    keys = settings.full_keys({"sampler.steps": 8, "train.steps": 9, "aux": [], "model.frames": 2})
    assert keys == {"model.sampler.steps": 8, "train.steps": 9, "model.aux": [], "model.frames": 2}
