"""``emrdm evaluate``: from the command to the report."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from tests.evaluation.folders import rice

from emrdm import EMRDM
from emrdm.cli import main


@pytest.fixture
def root(tmp_path):
    return rice(tmp_path / "rice", count=6)


def test_a_model_a_data_set_and_a_folder_give_a_table_and_a_report(root, tmp_path, capsys):
    weights = tmp_path / "tiny.safetensors"
    EMRDM.from_preset("tiny").save(weights)
    report = tmp_path / "report"
    assert main(["evaluate", str(weights), "rice1", str(root), "-o", str(report), "sampler.steps=2"]) == 0
    out, err = capsys.readouterr()
    assert "protocol standard" in out
    assert "tiny.safetensors" in out
    assert "the cloudy image itself" in out
    assert "SpA-GAN" in out
    assert "evaluating: 4/4 images" in err
    assert {path.name for path in report.iterdir()} == {
        "report.html",
        "summary.md",
        "summary.json",
        "scores.csv",
        "journal.jsonl",
        "pictures",
    }
    facts = json.loads((report / "summary.json").read_text())
    assert facts["images"] == 4
    assert "2 steps" in facts["facts"]["sampler"]
    assert "digest" in facts["facts"]["weights"]


def test_baselines_alone_need_no_model(root, capsys):
    assert main(["evaluate", "rice1", str(root), "--protocol", "cuhk", "--json", "-q"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts["methods"]) == {"cloudy-image", "dark-channel"}
    assert set(facts["methods"]["cloudy-image"]["protocols"]) == {"cuhk"}


def test_images_of_another_program_are_scored(root, tmp_path, capsys):
    folder = tmp_path / "theirs"
    folder.mkdir()
    for path in (root / "label").iterdir():
        Image.open(path).save(folder / f"{path.stem}.webp", lossless=True)
    assert main(["evaluate", "--predictions", str(folder), "rice1", str(root), "--json", "-q", "--no-baselines"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["methods"]["predictions"]["protocols"]["standard"]["psnr"]["mean"] == "inf"


def test_a_folder_of_pairs_without_a_split_is_scored_whole(tmp_path, capsys):
    random = np.random.default_rng(0)
    for kind in ("cloudy", "clear"):
        (tmp_path / kind).mkdir()
        for name in "ab":
            Image.fromarray(random.integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(tmp_path / kind / f"{name}.png")
    assert main(["evaluate", "pairs", str(tmp_path), "--json", "-q"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["split"] == "all"
    assert facts["images"] == 2


def test_a_preset_without_weights_is_scored_with_a_warning(root, caplog, capsys):
    assert main(["evaluate", "tiny", "rice1", str(root), "--limit", "1", "--no-baselines"]) == 0
    assert "its weights are random" in caplog.text
    assert "test, 1 image" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["mine.yaml", "mine.yml"])
def test_a_preset_of_ones_own_may_be_yaml(root, tmp_path, caplog, capsys, name):
    (tmp_path / name).write_text("base: tiny\nmodel:\n  sampler: {steps: 1}\n")
    words = ["evaluate", str(tmp_path / name), "rice1", str(root), "--limit", "1", "--no-baselines", "--json"]
    assert main(words) == 0
    assert "its weights are random" in caplog.text
    assert "1 steps" in json.loads(capsys.readouterr().out)["facts"]["sampler"]


def test_a_range_may_begin_below_zero(tmp_path, capsys):
    for kind in ("cloudy", "clear"):
        (tmp_path / kind).mkdir()
        Image.fromarray(np.full((40, 40), 100, np.uint8)).save(tmp_path / kind / "a.png")
    assert main(["evaluate", "pairs", str(tmp_path), "--range", "-25:0", "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == 1


def test_names_that_are_not_text_are_no_obstacle(tmp_path):
    root = rice(tmp_path / "rice", count=2, test=["0", "1"])
    for kind in ("cloud", "label"):
        (root / kind / "1.png").rename(os.fsdecode(os.fsencode(root / kind) + b"/\xff\xfe.png"))
    assert (
        main(["evaluate", "rice1", str(root), "--split", "all", "--on-error", "skip", "-o", str(tmp_path / "r")]) == 0
    )
    assert (tmp_path / "r" / "report.html").is_file()


def test_an_image_that_one_method_lacks_counts_for_none(root, tmp_path, capsys):
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name in ("2", "3"):
        Image.open(root / "label" / f"{name}.png").save(folder / f"{name}.png")
    words = ["evaluate", "--predictions", str(folder), "rice1", str(root), "--on-error", "skip", "-q"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "test, 2 images" in out
    assert "2 images left out for all methods" in out


def test_what_a_reader_must_know_is_in_the_notes(root, capsys):
    assert main(["evaluate", "tiny", "rice1", str(root), "--limit", "2", "--json", "-q"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any("tiny was not trained: its weights are random" in note for note in notes)
    assert any("2 of 4 images were scored" in note for note in notes)


def test_files_of_somebody_else_are_not_replaced(root, tmp_path, capsys):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "report.html").write_text("hi")
    assert main(["evaluate", "rice1", str(root), "-o", str(folder)]) == 2
    assert "mine has a report.html of its own: choose another folder" in capsys.readouterr().err
    assert (folder / "report.html").read_text() == "hi"


def test_another_run_in_the_folder_is_told_by_what_differs(root, tmp_path, capsys):
    words = ["evaluate", "tiny", "rice1", str(root), "-o", str(tmp_path / "r"), "--limit", "2", "-q", "--no-baselines"]
    assert main(words) == 0
    capsys.readouterr()
    for more, message in (
        (["--seed", "1"], "(methods.model.seed: 0 there, 1 now)"),
        (["sampler.steps=3"], "methods.model.sampler.steps: "),
        (["--protocol", "cuhk"], "(protocols: ['standard'] there, ['cuhk'] now)"),
    ):
        assert main([*words, *more]) == 2
        assert message in capsys.readouterr().err
    assert main([*words[:-4], "--limit", "3", "-q", "--no-baselines"]) == 2
    assert "(images: 2 there, 3 now)" in capsys.readouterr().err
    old = set((tmp_path / "r" / "pictures").iterdir())
    assert main([*words[:-4], "--limit", "1", "-q", "--no-baselines", "--overwrite"]) == 0
    assert set((tmp_path / "r" / "pictures").iterdir()) < old


def test_sampler_settings_change_the_result(root, capsys):
    def psnr(*settings):
        assert main(["evaluate", "tiny", "rice1", str(root), *settings, "--json", "-q", "--limit", "1"]) == 0
        return json.loads(capsys.readouterr().out)["methods"]["model"]["protocols"]["standard"]["psnr"]["mean"]

    assert psnr("sampler.steps=2") != psnr("sampler.steps=3")
    assert psnr("sampler.steps=2") != psnr("sampler.steps=2", "sampler.method=heun")
    assert psnr("sampler.steps=2") == psnr("sampler.steps=2", "sampler.method=euler")  # its default


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rice1"], "found 'rice1': expected [MODEL] DATASET ROOT"),
        (["tiny", "rice1", "ROOT", "steps=3"], "steps=3 is a setting of the sampler: expected sampler.steps=3"),
        (["tiny", "rice1", "ROOT", "stepz=3"], "a setting of the sampler is written sampler.stepz=3"),
        (["rice3", "ROOT"], "unknown data set 'rice3'; did you mean 'rice2'?"),
        (["rice1", "nowhere"], "nowhere does not exist: expected ROOT/cloud/N.png"),
        (["rice1", "ROOT", "--protocol", "psnr"], "unknown protocol 'psnr'"),
        (["tiny", "rice1", "ROOT", "sampler.step=3"], "unknown key 'sampler.step'; did you mean 'steps'?"),
        (["tiny", "rice1", "ROOT", "sampler.steps=x"], "sampler.steps is 'x': expected a whole number"),
        (["rice1", "ROOT", "sampler.steps=3"], "sampler.steps was given without a model"),
        (["x.ckpt", "rice1", "ROOT"], "x.ckpt is a checkpoint: turn it into weights first with emrdm convert"),
        (["tinny", "rice1", "ROOT"], "MODEL 'tinny' is neither a file nor a preset; did you mean 'tiny'?"),
        (["tiny", "rice1", "ROOT", "--predictions", "p"], "both a model (tiny) and --predictions were given"),
        (["rice1", "ROOT", "--predictions", "p"], "--predictions p is not a folder"),
        (["rice1", "ROOT", "--no-baselines"], "--no-baselines leaves nothing to score"),
        (["rice1", "ROOT", "--limit", "0"], "--limit is 0: expected 1 or more"),
        (["rice1", "ROOT", "--batch-size", "0"], "--batch-size is 0: expected 1 or more"),
        (["rice1", "ROOT", "--workers", "-1"], "--workers is -1: expected 0 or more"),
        (["rice1", "ROOT", "--device", "tpu9"], "--device tpu9 cannot be used"),
        (["rice1", "ROOT", "--overwrite"], "--overwrite is for a report"),
        (["rice1", "ROOT", "--split", "val", "--range", "0:1"], "rice1 takes no --bands or --range"),
        (["rice1", "ROOT", "--clouds", "thin"], "rice1 takes no --clouds"),
        (["rice1", "ROOT", "-o", "ROOT/test.txt"], "is a file: expected a folder"),
        (["sen12ms-cr-x", "ROOT"], "did you mean 'sen12ms-cr'?"),
        (["tiny-temporal", "rice1", "ROOT", "--frames", "0"], "--frames is 0: expected 1 or more"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_two(words, message, root, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", *(word.replace("ROOT", str(root)) for word in words)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_report_is_there_even_if_nobody_reads_the_table(root, tmp_path):
    command = [sys.executable, "-m", "emrdm", "evaluate", "rice1", str(root), "-q", "-o", str(tmp_path / "r")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()  # as head does when it has seen enough
    assert process.wait(timeout=120) == 0
    assert process.stderr.read() == b""
    process.stderr.close()
    assert (tmp_path / "r" / "report.html").is_file()


def test_pictures_are_not_scored_as_reflectances(root, capsys):
    assert main(["evaluate", "rice1", str(root), "--protocol", "sen2-mtc-new"]) == 2
    assert capsys.readouterr().err == (
        "emrdm evaluate: protocol sen2-mtc-new is for reflectances from 0 to 10000, and this data is from 0 to 255: "
        "expected another protocol, such as standard\n"
    )
