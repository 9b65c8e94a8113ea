"""``emrdm train``: what is typed, what is answered."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.training.little import SMALL, landscapes

from emrdm import EMRDM, InputError, embedded
from emrdm.cli import main, models
from emrdm.cli.train import weights_of

SETTINGS = [f"{key}={json.dumps(value)}" for key, value in SMALL.items()]


@pytest.fixture(scope="module")
def clear(tmp_path_factory):
    return landscapes(tmp_path_factory.mktemp("clear"))


@pytest.fixture(scope="module")
def run(clear, tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    assert main(["train", "tiny", "--data", f"synthetic={clear}", "-o", str(folder), "-q", *SETTINGS]) == 0
    return folder


def refusal(arguments, capsys):
    assert main(["train", *map(str, arguments)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error.removeprefix("emrdm train: ").strip()


def test_a_run_is_watched_and_ends_with_what_it_has_made(clear, tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["train", "tiny", "--data", f"synthetic={clear}", "-o", str(folder), *SETTINGS]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"tiny: [\d,]+ parameters, \d+ training and \d+ validation images, 4 samples a step, cpu", err)
    assert re.search(r"step 6/6 \(100 %\)  loss [\d.]+  [\d.]+ images/s  [\d.]+ GB  0 s left", err)
    assert re.search(r"step 3: synthetic: PSNR [\d.]+ dB, SSIM .* \(protocol standard, \d+ validation image", err)
    assert out.splitlines() == [
        "finished 6 steps",
        *[line for line in out.splitlines() if line.startswith(str(folder))],
    ]
    assert EMRDM.load(folder / "model.safetensors").card.results


def test_the_folder_of_a_run_is_a_recipe(run, capsys):
    assert main(["train", str(run)]) == 0
    assert "has done all 6 steps" in capsys.readouterr().err
    assert main(["train", str(run), "watch.keep=1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["reason"], facts["step"], facts["steps"]) == ("finished", 6, 6)


def test_a_file_names_model_data_and_all(clear, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["base: tiny", "data:", f"  - {{dataset: synthetic, root: {clear}, clouds: thin}}", "optimizer: {lr: 2e-4}"]
    (tmp_path / "my.yaml").write_text("\n".join(lines) + "\n")
    assert main(["train", "my.yaml", "-q", *SETTINGS]) == 0
    facts = json.loads((tmp_path / "runs" / "my" / "recipe.json").read_text())["recipe"]
    assert facts["optimizer"]["lr"] == 2e-4
    assert facts["data"][0]["clouds"] == "thin"
    assert main(["train", "my.yaml", "--resume", "-q", *SETTINGS]) == 0


def test_several_data_sets(clear, tmp_path):
    more = landscapes(tmp_path / "more", 11, seed=5)
    data = ["--data", f"synthetic={clear}", "--data", f"synthetic={more}"]
    assert main(["train", "tiny", *data, "-o", str(tmp_path / "run"), "-q", *SETTINGS]) == 0
    assert len(json.loads((tmp_path / "run" / "recipe.json").read_text())["recipe"]["data"]) == 2


def test_a_preset_knows_its_own_data_set(tmp_path, capsys):
    assert "expected" in refusal(["cuhk-cr1", "--data", tmp_path, "-o", tmp_path / "run"], capsys)
    text = refusal(["config-a", "--data", tmp_path, "-o", tmp_path / "run"], capsys)
    assert "Sen2_MTC" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tinny"], "unknown preset 'tinny'; did you mean 'tiny'?"),
        (["runs/none"], "runs/none does not exist: expected the folder of a run, a preset, or a recipe's .yaml or"),
        (["/dev/null"], "/dev/null is a file: expected the folder of a run, a preset, or a recipe's .yaml or"),
        (["tiny"], "there is no data to train on: expected --data NAME=ROOT"),
        (["tiny", "cuhk-cr1"], "found 'tiny cuhk-cr1': expected RECIPE [KEY=VALUE ...]"),
        (["tiny", "--data", "ROOT"], "--data needs the name of a data set for tiny: expected NAME=ROOT"),
        (["tiny", "--data", "sinthetic=ROOT"], "unknown data set 'sinthetic'; did you mean 'synthetic'?"),
        (["tiny", "--data", "synthetic="], "expected NAME=ROOT with the folder behind the equals sign"),
        (["tiny", "--data", "synthetic=nowhere"], "nowhere does not exist"),
        (["tiny", "--clouds", "thin"], "say more about --data: expected it with them"),
        (["tiny", "optimiser.lr=1"], "unknown key 'optimiser'; did you mean 'optimizer'?"),
        (["tiny", "optimizer.lr=fast"], "optimizer.lr is 'fast': expected a number"),
        (["tiny", "train.precision=fp8"], "train.precision is 'fp8'"),
        (["tiny", "sampler.steps=0"], "sampler.steps is 0"),
        (["tiny", "--workers", "-1"], "--workers is -1: expected 0 or more"),
        (["tiny", "--devices", "0"], "--devices is 0: expected 1 or more"),
        (["tiny", "--resume", "-o", "nothing"], "nothing has no run to go on with"),
        (["my.yaml"], "my.yaml cannot be read"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(arguments, capsys)
    assert not list(tmp_path.iterdir())  # nothing was begun


def test_minutes_must_be_some(clear, capsys, tmp_path):
    arguments = ["tiny", "--data", f"synthetic={clear}", "-o", tmp_path / "run", "--max-minutes", "0"]
    assert "--max-minutes is 0: expected more than 0" in refusal(arguments, capsys)


def test_weights_that_do_not_fit_are_refused(clear, run, capsys, tmp_path):
    arguments = ["tiny", "--data", f"synthetic={clear}", "-o", tmp_path / "run", "--from", run / "model.safetensors"]
    assert "holds another network than the recipe's" in refusal(arguments, capsys)


def test_the_model_inside_can_be_started_from(clear, capsys, tmp_path, monkeypatch):
    """It is found by its name, and refused for another network as any file is; a folder of that name comes first."""
    arguments = ["tiny", "--data", f"synthetic={clear}", "-o", tmp_path / "run", "--from", "default"]
    assert "rgb-small.safetensors holds another network than the recipe's" in refusal(arguments, capsys)
    assert weights_of(Path("default")) == embedded.default_weights()
    monkeypatch.chdir(tmp_path)
    Path("default").mkdir()
    assert weights_of(Path("default")) == Path("default")


def test_a_folder_that_is_no_run_is_refused(clear, capsys, tmp_path):
    assert "holds no run: expected a preset" in refusal([tmp_path], capsys)


def test_a_run_without_weights_says_so_and_its_checkpoint_can_be_converted(run, tmp_path, capsys):
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "model.safetensors").unlink()
    without = f"{copy} is a run without weights: expected model.safetensors"
    data = ["--data", f"synthetic={tmp_path}", "-o", tmp_path / "new"]
    assert refusal(["tiny", *data, "--from", copy], capsys).startswith(without)
    with pytest.raises(InputError, match="is a run without weights"):
        models.load(str(copy))
    checkpoint = copy / "checkpoints" / "step-00000006.safetensors"
    with pytest.raises(InputError, match="is a checkpoint: turn it into weights first with emrdm convert"):
        models.load(str(checkpoint))
    assert main(["convert", str(checkpoint), "-o", str(copy / "model.safetensors"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] > 0
    assert "averaged weights at step 6 of 6" in EMRDM.load(copy / "model.safetensors").card.source
    assert main(["convert", str(checkpoint), "-o", str(tmp_path / "live.safetensors"), "--live", "-q"]) == 0
    assert "live weights at step 6" in EMRDM.load(tmp_path / "live.safetensors").card.source
