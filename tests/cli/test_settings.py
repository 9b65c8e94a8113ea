"""KEY=VALUE and NAME=ROOT."""

import pytest

from emrdm.cli import settings
from emrdm.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2e-4", 2e-4), ("16", 16), ("true", True), ("[1, 2]", [1, 2]), ("cosine", "cosine"), ("none", None),
        ("'a b'", "a b"), ('["noisy","cloudy"]', ["noisy", "cloudy"]), ("", ""), ("bf16-mixed", "bf16-mixed"),
    ],
)  # fmt: skip
def test_values_are_what_they_look_like(text, value):
    assert settings.value(text) == value


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


def test_parts_of_the_model_need_not_name_it():
    keys = settings.full_keys({"sampler.steps": 8, "train.steps": 9, "aux": [], "model.frames": 2})
    assert keys == {"model.sampler.steps": 8, "train.steps": 9, "model.aux": [], "model.frames": 2}
