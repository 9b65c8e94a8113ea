"""Bad numbers and bad files: left out, counted and named, until there are too many of them."""

import signal
from collections import namedtuple

import numpy as np
import pytest
import torch
from tests.training import killing, runs

from emrdm.errors import DataError, InputError
from emrdm.plots import training_curves
from emrdm.training import export, stopping
from emrdm.training.checkpoint import load
from emrdm.training.objective import Objective

Usage = namedtuple("Usage", "total used free")


pytestmark = pytest.mark.usefixtures("quick")


# ---------------------------------------------------------------- bad numbers


def _bad_at(monkeypatch, bad, steps, batches=2):
    """Losses that are ``bad`` in the second batch of these steps, counted from one."""
    original, calls = Objective.forward, []

    def forward(self, *arguments):
        losses = original(self, *arguments)
        calls.append(1)
        step, batch = divmod(len(calls) - 1, batches)
        return bad(losses) if step + 1 in steps and batch == batches - 1 else losses

    monkeypatch.setattr(Objective, "forward", forward)


BAD = {
    "NaN": lambda losses: losses * float("nan"),
    "infinite": lambda losses: losses / 0.0,
    "a NaN slope": lambda losses: losses + (losses * 0).sqrt(),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_step_that_is_not_finite_changes_nothing_and_is_counted(bad, root, tmp_path, monkeypatch, caplog):
    folder, skipped = tmp_path / "run", (3, 4, 8)
    monkeypatch.setattr(export, "training_curves", training_curves)  # they have to cope with it
    _bad_at(monkeypatch, BAD[bad], skipped)
    changes = {"train.steps": 9, "watch.checkpoint_every": 1, "watch.keep": 20, "watch.log_every": 1}
    outcome = runs.run(root, folder, changes)
    assert outcome.reason == "finished"
    assert outcome.place.skipped == [step - 1 for step in skipped]
    states = {step: load(folder / "checkpoints" / f"step-{step:08}.safetensors") for step in runs.steps(folder)}
    for step in range(2, 10):
        (before, _), (after, state) = states[step - 1], states[step]
        if step in skipped:
            runs.assert_same_tensors(before, after)
            assert state["updates"] == states[step - 1][1]["updates"]
        else:
            assert any(not torch.equal(before[name], after[name]) for name in before if name.startswith("model."))
    assert states[9][1]["updates"] == 9 - len(skipped)
    logged = runs.rows(folder, "skipped")
    assert [row["step"] for row in logged] == list(skipped)
    names = set((root / "train.txt").read_text().split())
    assert all(len(row["names"]) == 4 and set(row["names"]) <= names for row in logged)
    assert sum("the step was skipped" in message for message in caplog.messages) == len(skipped)
    assert "3 steps whose loss or gradient was not finite" in (folder / "README.md").read_text()


def test_too_many_steps_that_are_not_finite_end_the_run(root, tmp_path, monkeypatch, told):
    _bad_at(monkeypatch, BAD["NaN"], range(5, 100))
    line = told(runs.words(root, tmp_path / "run", train__skip_limit=3), 1)
    assert "step 8: loss nan" in line
    assert "4 of the last 8 steps were not finite, expected 3 at most" in line
    assert runs.steps(tmp_path / "run") == [4]  # as it was before they began


# ---------------------------------------------------------------- bad files


def _spoil(root, indices, kind="empty"):
    for index in indices:
        path = root / "cloudy" / f"{index:03}.png"
        if kind == "empty":
            path.write_bytes(b"")
        elif kind == "truncated":
            path.write_bytes(path.read_bytes()[:200])
        else:
            path.write_text("not an image at all")


def test_files_that_cannot_be_read_are_left_out_by_name_and_the_run_goes_on(tmp_path, caplog):
    root = runs.pairs(tmp_path / "data")
    for index, kind in ((0, "empty"), (4, "truncated"), (5, "text")):
        _spoil(root, [index], kind)
    folder = tmp_path / "run"
    outcome = runs.run(root, folder)
    assert outcome.reason == "finished"
    assert set(outcome.place.quarantine) == {"000", "004", "005"}
    assert runs.last(folder)[1]["quarantine"] == outcome.place.quarantine
    logged = runs.rows(folder, "quarantine")
    assert {row["name"]: row["reason"] for row in logged} == outcome.place.quarantine
    assert len(logged) == 3  # each once
    for index in ("000", "004", "005"):
        assert str(root / "cloudy" / f"{index}.png") in outcome.place.quarantine[index]
        assert f"{index}.png" in (folder / "README.md").read_text()
        assert sum(message.startswith("left out: ") and f"{index}.png" in message for message in caplog.messages) == 1
    # the same with processes that read ahead, killed on the way
    again = tmp_path / "again"
    arguments = runs.words(root, again, "--workers", "1")
    assert runs.Command(arguments, again, before=killing.die_at, given=(10,)).code() == -signal.SIGKILL
    runs.run(root, again)
    runs.assert_same_run(again, folder)


def test_what_is_read_ahead_is_blamed_when_its_step_comes(tmp_path, monkeypatch):
    """A run that was stopped knows what one that goes on knew at that step, not what is in its next batch."""
    root, changes = runs.pairs(tmp_path / "data"), {"train.steps": 6, "watch.checkpoint_every": 1, "watch.keep": 20}
    _spoil(root, [0, 4, 5])
    runs.run(root, tmp_path / "whole", changes)
    expected = {step: load(checkpoint(tmp_path / "whole", step))[1]["quarantine"] for step in range(1, 7)}
    assert len({len(found) for found in expected.values()}) > 2  # they come one after the other
    for stop in range(1, 6):
        with monkeypatch.context() as patch:
            patch.setattr(stopping.Stopping, "time_is_up", lambda *_: True)
            runs.run(root, tmp_path / "parts", changes)
        assert runs.steps(tmp_path / "parts")[-1] == stop
        assert load(checkpoint(tmp_path / "parts", stop))[1]["quarantine"] == expected[stop]
    runs.run(root, tmp_path / "parts", changes)
    runs.assert_same_run(tmp_path / "parts", tmp_path / "whole")


def checkpoint(folder, step):
    return folder / "checkpoints" / f"step-{step:08}.safetensors"


def test_a_clear_image_of_nothing_but_nan_is_left_out(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    rng, root = np.random.default_rng(0), tmp_path / "data"
    for part in ("cloudy", "clear"):
        (root / part).mkdir(parents=True)
        for index in range(6):
            pixels = rng.uniform(0, 255, (3, 16, 16)).astype("float32")
            if part == "clear" and index == 2:
                pixels[:] = np.nan
            if part == "clear" and index == 3:
                pixels[:, :4] = np.nan  # a part of an image is no reason to leave it out
            profile = {"driver": "GTiff", "count": 3, "height": 16, "width": 16, "dtype": "float32"}
            with rasterio.open(
                root / part / f"{index}.tif", "w", **profile, transform=rasterio.Affine(10, 0, 0, 0, -10, 0)
            ) as file:
                file.write(pixels)
    (root / "train.txt").write_text("\n".join("01234"))
    (root / "val.txt").write_text("5")
    source = {"dataset": "pairs", "root": str(root), "bands": ["red", "green", "blue"], "range": [0, 255]}
    outcome = runs.run(root, tmp_path / "run", {"data": [source]})
    assert outcome.reason == "finished"
    assert list(outcome.place.quarantine) == ["2"]
    assert "no pixel whose clear value is known" in outcome.place.quarantine["2"]
    assert not outcome.place.skipped


def test_too_large_a_share_of_unreadable_files_ends_the_run(tmp_path, told):
    root = runs.pairs(tmp_path / "data", count=30)
    _spoil(root, range(1, 29, 2))
    line = told(runs.words(root, tmp_path / "run"), 2)
    assert "14 of 30 samples cannot be read: expected 13 at most" in line


def test_twenty_unreadable_files_in_a_row_end_the_run(tmp_path):
    root = runs.pairs(tmp_path / "data", count=120, side=8)
    _spoil(root, range(50, 71))
    with pytest.raises(DataError, match=r"^20 samples in a row cannot be read: .*\.png is empty"):
        runs.run(root, tmp_path / "run", {"train.steps": 60, "watch.validate_every": 100})


def test_a_folder_that_begins_with_unreadable_files_is_refused_before_anything_starts(tmp_path):
    root = runs.pairs(tmp_path / "data", count=120, side=8)
    _spoil(root, range(20))
    with pytest.raises(InputError, match=r"the first 20 samples cannot be used: .*000\.png is empty"):
        runs.run(root, tmp_path / "run")


def test_validation_images_that_cannot_be_read_are_said_before_the_first_step(tmp_path, told):
    root = runs.pairs(tmp_path / "data")
    _spoil(root, [10])
    line = told(runs.words(root, tmp_path / "run"), 2)
    assert "validation" in line
    assert "010.png is empty" in line
    assert not runs.steps(tmp_path / "run")
