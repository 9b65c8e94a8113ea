"""A run that goes on with something changed, begins anew, or finds somebody else's files."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from tests.training import runs

from emrdm.cli import main
from emrdm.training import RunFolder
from emrdm.training.folder import differences

Usage = namedtuple("Usage", "total used free")


pytestmark = pytest.mark.usefixtures("quick")


def test_another_recipe_is_refused_with_what_differs(root, half, told):
    before = runs.content(half)
    line = told(runs.words(root, half, optimizer__lr=0.5, train__seed=1), 2)
    assert "another recipe: train.seed is 1, was 3407; optimizer.lr is 0.5, was 0.01. Choose" in line
    assert "--allow-changes" in line
    assert runs.content(half) == before


def test_what_is_watched_may_change_and_the_weights_stay_the_same(root, reference, half):
    runs.run(root, half, {"watch.log_every": 1, "watch.checkpoint_every": 1, "watch.keep": 3})
    runs.assert_same_tensors(runs.last(half)[0], runs.last(reference)[0])
    assert runs.steps(half) == [22, 23, 24]


def test_as_many_samples_a_step_in_other_batches_are_the_same_run(root, half):
    assert runs.run(root, half, {"train.batch_size": 4, "train.accumulate": 1}).reason == "finished"


def test_changes_that_are_allowed_are_noted(root, half):
    outcome = runs.run(root, half, {"optimizer.lr": 0.001, "train.steps": 26}, allow_changes=True)
    assert (outcome.reason, outcome.place.step) == ("finished", 26)
    (start,) = [row for row in runs.rows(half, "start") if row["step"] == 20]
    assert sorted(start["changes"]) == ["optimizer.lr is 0.001, was 0.01", "train.steps is 26, was 24"]
    assert "optimizer.lr is 0.001, was 0.01" in (half / "README.md").read_text()
    runs.run(root, half, {"optimizer.lr": 0.001, "train.steps": 26})  # it is the run's recipe now


def test_changes_that_cannot_work_leave_the_run_as_it_was(root, reference, half, told):
    for change, expected in (("model__network__hidden", [16, 24]), ("train__steps", 12)):
        told(runs.words(root, half, "--allow-changes", **{change: expected}), 2)
    runs.run(root, half)
    runs.assert_same_run(half, reference)


def test_images_may_move(root, reference, half, tmp_path):
    moved = shutil.copytree(root, tmp_path / "moved")
    runs.run(moved, half)
    runs.assert_same_run(half, reference)


def test_other_images_are_refused(half, tmp_path, told):
    root = runs.pairs(tmp_path / "more", count=11)
    line = told(runs.words(root, half), 2)
    assert "another recipe: pairs has 11 images to train on, had 10. Choose" in line
    for path in root.glob("*/000.png"):
        path.rename(path.with_name("new.png"))
    (root / "train.txt").write_text("\n".join(["new", *(f"{i:03}" for i in range(1, 10))]))
    line = told(runs.words(root, half), 2)
    assert "another recipe: pairs has 10 images to train on, as before, but others. Choose" in line


def test_data_sets_that_come_and_go_are_named():
    rice, pairs = (
        {"dataset": name, "images": 5, "names": "x", "bands": [["red", 0, 255]]} for name in ("rice1", "pairs")
    )
    one, two, brighter = {"1": rice}, {"1": rice, "2": pairs}, {"1": {**rice, "bands": [["red", 0, 100]]}}
    line = {
        "data set 2 is pairs (5 images), was missing": (one, two),
        "data set 2 is missing, was pairs (5 images)": (two, one),
        "data set 1 is pairs (5 images), was rice1 (5 images)": (one, {"1": pairs}),
        'bands of rice1 is [["red", 0, 100]], was [["red", 0, 255]]': (one, brighter),
        "data set 2, pairs, has 1 image to train on, had 5": (two, {**two, "2": {**pairs, "images": 1}}),
    }
    for expected, (old, new) in line.items():
        assert differences({"samples": old}, {"samples": new}) == [expected]


def test_other_clouds_are_refused(root, tmp_path, told):
    folder = tmp_path / "run"
    source = {"dataset": "synthetic", "root": str(root / "clear")}
    for _ in range(2):  # the same once more
        runs.run(root, folder, {"train.steps": 1, "data": [source], "watch.validate_every": 100})
    arguments = runs.words(root / "clear", folder, "--clouds", "thick", data="synthetic", train__steps=1)
    assert "clouds" in told(arguments, 2)


def test_a_run_may_be_begun_anew(root, reference, half):
    (half / "notes.txt").write_text("mine")
    (half / "checkpoints" / "mine.safetensors").write_bytes(b"mine")
    outcome = runs.run(root, half, {"train.seed": 5}, overwrite=True)
    assert outcome.reason == "finished"
    assert not torch.equal(*(runs.last(x)[0]["model.patch_in.proj.weight"] for x in (half, reference)))
    assert [row["step"] for row in runs.rows(half, "start")] == [0]
    assert (half / "notes.txt").read_text() == "mine"
    assert (half / "checkpoints" / "mine.safetensors").read_bytes() == b"mine"


def test_a_wrong_word_beside_overwrite_costs_nothing(root, half, tmp_path, told):
    before = runs.content(half)
    told(runs.words(tmp_path / "missing", half, "--overwrite"), 2)
    told(runs.words(root, half, "--overwrite", "--from", str(tmp_path / "missing.safetensors")), 2)
    assert runs.content(half) == before


def test_a_run_may_be_begun_anew_from_its_own_weights(root, half, capsys):
    assert main([*runs.words(root, half, "--overwrite", "--from", str(half / "model.safetensors")), "-q"]) == 0
    assert not capsys.readouterr().err


@pytest.mark.parametrize("name", ["README.md", "log.jsonl", "model.safetensors", "holiday.jpg"])
@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_files_of_somebody_else_are_never_deleted(name, more, root, tmp_path, told):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).write_text("mine")
    line = told(runs.words(root, folder, *more), 2)
    assert f"{folder} has files and no run ({name}): expected an empty or a new folder" in line
    assert runs.content(folder) == {folder / name: b"mine"}


def test_clearing_that_was_cut_short_can_be_repeated(root, half, monkeypatch):
    original, left = Path.unlink, [3]

    def unlink(self, missing_ok=False):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        original(self, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            RunFolder(half).clear()
    assert runs.run(root, half, {"train.seed": 5}, overwrite=True).reason == "finished"


def test_resuming_nothing_is_refused(root, tmp_path, told):
    line = told(runs.words(root, tmp_path / "run", "--resume"), 2)
    assert "has no run to go on with" in line
    assert not (tmp_path / "run").exists()


def test_a_run_goes_on_by_the_name_of_its_folder(half, reference, capsys):
    assert main(["train", str(half), "--resume", "--device", "cpu", "-q"]) == 0
    assert not capsys.readouterr().err
    runs.assert_same_run(half, reference)
