"""The model card: what people ask before they trust weights."""

import json
import shutil

import pytest
import torch
from tests.training.little import landscapes, recipe

from emrdm import EMRDM
from emrdm.data import open_dataset
from emrdm.errors import InputError, MissingDependencyError, WeightsError
from emrdm.training import Machine, Place, RunFolder, checkpoint, export, train
from emrdm.training.sources import sizes, summary

SCORES = {"synthetic": {"protocol": "standard", "images": 4, "psnr": 21.5, "ssim": 0.8, "mae": 0.05, "lpips": 0.2}}


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.make()
    root = landscapes(tmp_path / "clear", 6)
    return folder, recipe(root), [open_dataset("synthetic", root, split="train")]


def place(steps=(100, 200, 300), best=200):
    rows = [{"step": step, "value": 20.0, "scores": SCORES} for step in steps]
    best_row = next(row for row in rows if row["step"] == best)
    return Place(step=steps[-1], validations=rows, best=best_row, exported=best)


def test_the_card_in_the_weights_names_scores_data_and_recipe(run):
    _, preset, data = run
    card = export.model_card(preset, place(), summary(sizes(data)), 8)
    assert "step 300 of 6" in card.source
    assert "synthetic (" in card.training
    assert card.results[0].dataset == "synthetic, validation"
    assert card.results[0].scores == {"psnr": 21.5, "ssim": 0.8, "mae": 0.05, "lpips": 0.2}
    later = place()
    later.step = 350  # between validations
    assert export.model_card(preset, later, summary(sizes(data)), 8).results == ()


def test_the_page_marks_the_step_whose_weights_are_exported(run):
    folder, preset, data = run
    folder.log.write_text('{"kind": "step", "step": 1, "loss": 0.5, "lr": 0.1}\n')
    export.write_card(folder, preset, place(), data, 8)
    text = folder.card.read_text()
    assert "| **200** | **21.50** |" in text
    assert "| 100 | 21.50 |" in text
    assert folder.curves.is_file()


def test_weights_of_another_step_than_the_best_are_named_as_such(run):
    folder, preset, data = run
    last = place()
    last.exported = 300
    export.write_card(folder, preset, last, data, 8)
    assert "| **300** | **21.50** |" in folder.card.read_text()
    assert "**200**" not in folder.card.read_text()
    last.exported = 350
    export.write_card(folder, preset, last, data, 8)
    assert "the weights of step 350 are in the file" in folder.card.read_text()


def test_many_validations_are_thinned_and_the_best_stays(run):
    folder, preset, data = run
    export.write_card(folder, preset, place(steps=tuple(range(1, 201)), best=77), data, 8)
    rows = [line for line in folder.card.read_text().splitlines() if line.endswith("|") and "21.50" in line]
    assert len(rows) == 13
    assert any("**77**" in row for row in rows)


def test_what_went_wrong_is_on_the_page(run):
    folder, preset, data = run
    found = place()
    found.skipped = [4, 9]
    found.quarantine = {"field01": "field01.png cannot be read: it is empty"}
    export.write_card(folder, preset, found, data, 8)
    text = folder.card.read_text()
    assert "2 steps whose loss or gradient was not finite" in text
    assert "1 sample: field01.png cannot be read: it is empty" in text


def test_a_run_without_validation_has_a_card(run):
    folder, preset, data = run
    export.write_card(folder, preset, Place(step=5), data, 8)
    assert "there were no validation images" in folder.card.read_text()
    assert export.model_card(preset, Place(step=5), summary(sizes(data)), 8).results == ()


def test_without_matplotlib_the_card_has_no_curves(run, monkeypatch, caplog):
    folder, preset, data = run

    def missing(*_, **__):
        raise MissingDependencyError("plots need matplotlib: pip install 'emrdm[plots]'")

    monkeypatch.setattr(export, "training_curves", missing)
    export.write_card(folder, preset, place(), data, 8)
    assert "curves.png" not in folder.card.read_text()
    assert "plots need matplotlib" in caplog.text


@pytest.mark.parametrize(
    ("asked", "rows", "expected"),
    [
        (None, [{"compiled": True}], "tf32, compiled |"),
        (None, [{"compiled": False}], "tf32 |"),
        (None, [{"compiled": True}, {"compiled": False, "step": 6}], "tf32, compiled |"),  # nothing was left to do
        (None, [{"compiled": True}, {"compiled": False, "step": 3}], "tf32, compiled in part |"),
        (True, [{}], "tf32, compiled |"),  # a log of an older version
        (None, [], "tf32 |"),  # somebody has removed the log
    ],
)
def test_the_page_says_whether_the_run_was_compiled(run, asked, rows, expected):
    folder, preset, data = run
    starts = [{"kind": "start", "step": 0, "steps": 6, **row} for row in rows]
    folder.log.write_text("".join(json.dumps(row) + "\n" for row in starts))
    export.write_card(folder, preset.replace({"train.compile": asked}), Place(step=6), data, 8)
    assert f"| precision | {expected}" in folder.card.read_text()


def test_a_checkpoint_is_a_model_where_its_run_says_which(run, tmp_path):
    _, preset, _ = run
    folder = tmp_path / "trained"
    train(preset.replace({"train.select": "last"}), folder, machine=Machine(device="cpu"))
    path = folder / "checkpoints" / "step-00000006.safetensors"
    whole, found = EMRDM.load(folder / "model.safetensors"), export.of_checkpoint(path)
    assert found.card == whole.card
    assert found.digest() == whole.digest()
    tensors, _ = checkpoint.load(path)
    live = export.of_checkpoint(path, live=True)
    assert live.card.source.endswith("live weights at step 6 of 6")
    assert live.card.results == ()
    assert all(torch.equal(x, tensors[f"model.{name}"]) for name, x in live.network.state_dict().items())
    moved = shutil.copy(path, tmp_path / "moved.safetensors")
    with pytest.raises(InputError, match="is a checkpoint without its run: expected it in RUN/checkpoints"):
        export.of_checkpoint(moved)
    facts = json.loads((folder / "recipe.json").read_text())
    facts["recipe"]["model"]["network"]["mapping_width"] = 32
    (folder / "recipe.json").write_text(json.dumps(facts))
    with pytest.raises(WeightsError, match="step-00000006"):
        export.of_checkpoint(path)
