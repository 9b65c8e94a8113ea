"""A model that is scored on images it was trained on: where it can be known, it is said."""

import json
import shutil

import pytest
from tests.evaluation.folders import rice
from tests.training.little import recipe

from emrdm.cli import main
from emrdm.training import Machine, train


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder without lists and a run that was trained on it."""
    place = tmp_path_factory.mktemp("seen")
    root = rice(place / "rice", count=6)
    for name in ("train.txt", "test.txt"):
        (root / name).unlink()
    train(recipe(root, {"train.steps": 1}, dataset="rice1"), place / "run", machine=Machine(device="cpu"))
    return root, place / "run"


def notes(model, root, capsys, *more):
    words = ["evaluate", str(model), "rice1", str(root), "sampler.steps=1", "--no-baselines", "--json", "-q", *more]
    assert main(words) == 0
    return [note for note in json.loads(capsys.readouterr().out)["notes"] if "trained on" in note]


def test_the_folder_of_a_run_tells_by_its_data(made, capsys, tmp_path):
    root, run = made
    instead = "; --split val has images it was not trained on"
    line = "{} was trained on this folder: it has learnt from {} scored here" + instead
    assert notes(run, root, capsys) == [line.format("run", "5 of the 6 images")]
    assert notes(run, root, capsys, "--split", "train") == [line.format("run", "5 of the 5 images")]
    assert notes(run / "model.safetensors", root, capsys, "--split", "train", "--limit", "1") == [
        line.format("model.safetensors", "1 of the 1 image")
    ]
    assert notes(run, root, capsys, "--split", "val") == []
    shutil.copytree(root, tmp_path / "moved")  # by the names of its images
    assert notes(run, tmp_path / "moved", capsys) == [line.format("run", "5 of the 6 images")]
    assert notes(run, rice(tmp_path / "other", count=9), capsys, "--split", "all") == []


def test_a_folder_that_has_grown_since_is_known_by_its_path(made, capsys, tmp_path):
    root, run = (shutil.copytree(path, tmp_path / path.name) for path in made)
    for part in ("cloud", "label"):
        shutil.copy(root / part / "0.png", root / part / "more.png")
    facts = json.loads((run / "recipe.json").read_text())
    facts["recipe"]["data"][0]["root"] = str(root)
    (run / "recipe.json").write_text(json.dumps(facts))
    (line,) = notes(run, root, capsys)
    assert "was trained on this folder: it has learnt from 6 of the 7 images scored here" in line


def test_weights_alone_tell_by_their_card(made, capsys, tmp_path):
    root, run = made
    alone = shutil.copy(run / "model.safetensors", tmp_path / "weights.safetensors")
    assert notes(alone, root, capsys) == [
        "weights.safetensors was, by its card, trained on rice1 (5 images), as many as this folder has for it; "
        "if it was this one, it has learnt from 5 of the 6 images scored here; --split val has images it was not trained on"
    ]
    assert notes(alone, rice(tmp_path / "other", count=9), capsys, "--split", "all") == []
    assert notes(alone, root, capsys, "--split", "val") == []


def test_a_run_whose_recipe_is_damaged_leaves_the_card(made, capsys, tmp_path):
    root, run = made[0], shutil.copytree(made[1], tmp_path / "run")
    (run / "recipe.json").write_text('{"recipe": 1}')
    (line,) = notes(run, root, capsys)
    assert line.startswith("run was, by its card, trained on rice1 (5 images)")
