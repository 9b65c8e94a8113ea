"""The weights as the package has them, and their card: what is in the runs is in both."""

import pytest
import torch
from benchmarks.results import card, store
from benchmarks.results.__main__ import main
from tests.benchmarks import made_up

from emrdm import EMRDM, embedded
from emrdm.weights import read_header, stored_dtype


def test_weights_become_half_as_large_with_another_sampler_and_their_scores(tmp_path, capsys):
    runs, out = made_up.everything(tmp_path / "runs"), tmp_path / "small.safetensors"
    model = EMRDM.from_preset("tiny")
    model.save(tmp_path / "model.safetensors")
    words = ["embed", str(tmp_path), "steps=7", "method=heun", "--name", "rgb-small", "--runs", str(runs)]
    assert main([*words, "--out", str(out)]) == 0
    header = read_header(out)
    assert stored_dtype(out) == "F16"
    assert (header.config.sampler.steps, header.config.sampler.method) == (7, "heun")
    assert header.config.network == model.config.network
    assert header.card.licence == "Apache-2.0"
    scored = store.read(runs / "test-rgb-small.json")["datasets"]["rice1"]["methods"]["model"]["protocols"]["standard"]
    found = next(row for row in header.card.results if (row.dataset, row.protocol) == ("RICE1 test list", "standard"))
    assert found.scores["psnr"] == scored["psnr"]["mean"]
    for ours, theirs in zip(EMRDM.load(out).network.parameters(), model.network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


def test_what_is_mistyped_is_said(tmp_path, capsys):
    EMRDM.from_preset("tiny").save(tmp_path / "model.safetensors")
    words = [
        "embed",
        str(tmp_path),
        "stepz=7",
        "--name",
        "x",
        "--runs",
        str(tmp_path),
        "--out",
        str(tmp_path / "o.safetensors"),
    ]
    assert main(words) == 2
    assert "stepz" in capsys.readouterr().err


def test_the_card_has_scores_and_training_or_says_what_is_missing(tmp_path):
    text = card.build(made_up.everything(tmp_path / "runs"))
    assert f"preset `{embedded.PRESET}`" in text
    assert "| RICE1, restored | `standard` | 30.25 |" in text
    assert "the test lists were scored when the weights were final" in text
    (tmp_path / "none").mkdir()
    text = card.build(tmp_path / "none")
    assert text.count(card.MISSING) == 2
    assert "the test lists were not scored" in text


@pytest.mark.parametrize("runs", [["rgb-small-1", "rgb-small-2"]])
def test_the_runs_of_the_default_model_are_rows_of_its_card(tmp_path, runs):
    facts = store.read(made_up.recipes_file(tmp_path))
    first = {**facts["runs"][0], "images": dict.fromkeys(facts["runs"][0]["end"], 8)}
    made = [{**first, "name": name} for name in (*runs, "other")]
    store.write(tmp_path, "recipes", {**facts, "runs": made})
    text = card.build(tmp_path)
    assert all(f"| `{name}` |" in text for name in runs)
    assert "`other`" not in text
    assert text.count(" (8) |") == len(runs) * len(first["end"])


def test_a_model_of_several_runs_says_so_in_its_card(tmp_path):
    runs, out = made_up.everything(tmp_path / "runs"), tmp_path / "small.safetensors"
    known = store.read(runs / "recipes.json")
    first, second = (dict(known["runs"][0], name=f"rgb-small-{i}", steps=i * 1000, seconds=60.0 * i) for i in (1, 2))
    store.write(runs, "recipes", {**known, "runs": [first, second]})
    EMRDM.from_preset("tiny").save(tmp_path / "model.safetensors")
    assert main(["embed", str(tmp_path), "--name", "rgb-small", "--runs", str(runs), "--out", str(out)]) == 0
    assert "the last of 2 runs in a row: 3,000 steps, 3 min on" in read_header(out).card.training
