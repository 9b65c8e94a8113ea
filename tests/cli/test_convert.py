"""emrdm convert."""

import json

import pytest
import torch
from tests.test_published import small_entries, their_state

from emrdm import EMRDM
from emrdm.cli import main
from emrdm.weights import read_header


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": their_state(small_entries())}, "their.ckpt")
    return tmp_path


def test_there_and_back(folder, capsys):
    assert main(["convert", "their.ckpt", "--preset", "tiny", "-o", "ours.safetensors", "--licence", "AGPL-3.0"]) == 0
    assert capsys.readouterr().out == "ours.safetensors: 45 tensors, 173,421 parameters, 0.7 MB\n"
    model = EMRDM.load("ours.safetensors")
    assert model.card.licence == "AGPL-3.0"
    assert model.card.source == "converted from published checkpoint their.ckpt, averaged weights"
    assert main(["convert", "ours.safetensors", "-o", "back.ckpt", "-q"]) == 0
    assert capsys.readouterr().out == ""
    again = EMRDM.from_published("back.ckpt", preset="tiny").network.state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in model.network.state_dict().items())


def test_live_weights_and_half_precision(folder):
    arguments = ["convert", "their.ckpt", "--preset", "tiny", "-o", "ours.safetensors", "--live", "--dtype", "float16"]
    assert main(arguments) == 0
    live = EMRDM.from_published("their.ckpt", preset="tiny", ema=False).network
    found = EMRDM.load("ours.safetensors").network.state_dict()
    assert all(torch.equal(found[name], tensor.half().float()) for name, tensor in live.named_parameters())
    assert all(torch.equal(found[name], tensor) for name, tensor in live.named_buffers())


def test_the_card_of_a_weights_file_can_be_completed(folder):
    EMRDM.from_preset("tiny").save("ours.safetensors")
    assert main(["convert", "ours.safetensors", "-o", "new.safetensors", "--licence", "MIT", "--source", "me"]) == 0
    card = EMRDM.load("new.safetensors").card
    assert (card.licence, card.source) == ("MIT", "me")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ours.safetensors", "-o", "o.safetensors", "--preset", "tiny"], "--preset is for checkpoints"),
        (["ours.safetensors", "-o", "o.safetensors", "--live"], "--live is for checkpoints"),
        (["ours.safetensors", "-o", "o.ckpt", "--dtype", "float16"], "--dtype has no place in a checkpoint"),
        (["ours.safetensors", "-o", "o.ckpt", "--licence", "MIT"], "--licence has no place in a checkpoint"),
    ],
)
def test_options_that_would_do_nothing_are_refused(folder, arguments, message, capsys):
    EMRDM.from_preset("tiny").save("ours.safetensors")
    assert main(["convert", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_what_was_written_is_told_as_json(folder, capsys):
    words = ["convert", "their.ckpt", "--preset", "tiny", "-o", "ours.safetensors", "--dtype", "float16", "--json"]
    assert main(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["output"] == "ours.safetensors"
    assert facts["bytes"] == (folder / "ours.safetensors").stat().st_size
    assert facts["digest"] == read_header(folder / "ours.safetensors").digest
    assert facts["parameters"] == 173_421
    assert main(["convert", "ours.safetensors", "-o", "back.ckpt", "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] is None


def test_an_existing_file_is_replaced_only_when_asked(folder, capsys):
    arguments = ["convert", "their.ckpt", "--preset", "tiny", "-o", "ours.safetensors"]
    assert main(arguments) == 0
    assert main(arguments) == 2
    assert "ours.safetensors exists: add --overwrite" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.ckpt", "--preset", "tiny", "-o", "o.safetensors"], "INPUT none.ckpt does not exist"),
        (["their.ckpt", "-o", "o.safetensors"], "--preset is missing"),
        (["their.ckpt", "--preset", "tinny", "-o", "o.safetensors"], "unknown preset 'tinny'; did you mean 'tiny'?"),
        (["their.ckpt", "--preset", "sen12ms-cr", "-o", "o.safetensors"], "presets that fit: tiny"),
        (["their.ckpt", "--preset", "tiny", "-o", "o.png"], "OUTPUT o.png: expected a name ending in"),
        (["their.ckpt", "--preset", "tiny", "-o", "no/o.safetensors"], "OUTPUT folder no does not exist"),
        (["their.ckpt", "--preset", "tiny", "-o", "o.ckpt"], "are both checkpoints"),
        (["bad.safetensors", "-o", "o.ckpt"], "bad.safetensors is not a complete safetensors file"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(folder, arguments, message, capsys):
    (folder / "bad.safetensors").write_bytes(b"12345678 nonsense")
    before = sorted(path.name for path in folder.iterdir())
    assert main(["convert", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == before
