"""``emrdm ablate``: what users type and read."""

import csv
import json
import re
from pathlib import Path

import pytest
from tests.ablation.small import SMALL, pairs

from emrdm.cli import main

WORDS = [f"{key}={json.dumps(value)}" for key, value in SMALL.items()]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("emrdm.training.export.training_curves", lambda *_, **__: None)
    monkeypatch.setattr("emrdm.training.log._tensorboard", lambda *_: None)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return pairs(tmp_path_factory.mktemp("pairs") / "rice")


def run(capsys, *words):
    code = main(["ablate", *map(str, words)])
    return code, capsys.readouterr()


@pytest.mark.parametrize("words", [[], ["--list"], ["steps", "--list"]])
def test_studies_are_listed_with_their_cases_and_their_place_in_the_paper(words, capsys):
    code, said = run(capsys, *words)
    assert code == 0
    assert len(said.out.splitlines()) == 8
    assert "modules      Effects of modules                        5      a model a case  Table 2" in said.out
    assert "48     one model       Figure 5, upper row" in said.out


def test_the_list_is_json_for_scripts(capsys):
    assert json.loads(run(capsys, "--json")[1].out)[4] == {
        "study": "frames",
        "title": "Effect of the sequence length L",
        "cases": 3,
        "trains": "a model a case",
        "paper": "Table 4",
    }


def test_the_table_has_the_numbers_that_evaluate_gives_for_the_weights(root, tmp_path, capsys):
    code, said = run(
        capsys,
        "modules",
        "--base",
        "tiny",
        "--data",
        f"rice1={root}",
        "-o",
        tmp_path,
        "--limit",
        2,
        "--device",
        "cpu",
        *WORDS,
    )
    assert code == 0, said.err
    assert "case 2 of 4: config-b" in said.err
    assert "step 2/2" in said.err
    assert "scoring: 2/2 images" in said.err
    assert "finished 4 cases" in said.out
    assert "paper: PSNR" in said.out
    assert {"table.md", "table.csv", "table.json", "plot.png", "plot.svg", "sheet.png"} <= {
        path.name for path in tmp_path.iterdir()
    }
    with (tmp_path / "table.csv").open() as file:
        rows = {row["case"]: row for row in csv.DictReader(file)}
    for case in ("config-a", "config-e"):
        weights = tmp_path / case / "model.safetensors"
        assert (
            main(
                [
                    "evaluate",
                    str(weights),
                    "rice1",
                    str(root),
                    "--limit",
                    "2",
                    "--no-baselines",
                    "--json",
                    "--device",
                    "cpu",
                ]
            )
            == 0
        )
        found = json.loads(capsys.readouterr().out)["methods"]["model"]["protocols"]["standard"]
        for metric in ("psnr", "ssim", "mae", "rmse", "sam"):
            assert float(rows[case][metric]) == found[metric]["mean"], metric


def test_time_that_is_up_is_no_failure_and_says_what_is_left(root, tmp_path, capsys):
    code, said = run(
        capsys, "alpha", "--base", "tiny", "--data", f"rice1={root}", "-o", tmp_path, "--max-minutes", "1e-9", *WORDS
    )
    assert code == 0
    assert (
        said.out
        == f"time is up; left are 7 of 7 cases: alpha 0.2, alpha 0.5, alpha 0.8, alpha 1, alpha 2 and 2 more: the same command goes on in {tmp_path}\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["modlues"], "unknown study 'modlues'; did you mean 'modules'?"),
        (["modules", "alpha"], "found 'modules alpha': expected STUDY [KEY=VALUE ...]"),
        (
            ["alpha", "process.alpha=2"],
            "model.process.alpha cannot be changed for all: model.process.alpha is what the study varies",
        ),
        (
            ["frames", "--base", "tiny"],
            "'Tiny mono-temporal RGB network for tests and tutorials' takes one image: expected a base for series, such as tiny-temporal, to study 2",
        ),
        (["steps", "--limit", "0"], "--limit is 0: expected 1 or more"),
        (["mine.toml"], "mine.toml cannot be read: No such file or directory"),
        (["steps", "--base", "tinny"], "unknown preset 'tinny'; did you mean 'tiny'?"),
    ],
)
def test_mistakes_are_answered_in_one_line(words, message, root, tmp_path, capsys):
    code, said = run(capsys, *words, "--data", f"rice1={root}", "-o", tmp_path / "study")
    assert code == 2
    assert said.err == f"emrdm ablate: {message}\n"


def test_the_study_of_the_documentation_runs(root, tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "ablations.md").read_text()
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my-study.toml").write_text(text)
    words = [word for word in WORDS if "sampler" not in word]
    options = ["-o", tmp_path / "study", "--limit", 1, "--device", "cpu"]
    code, said = run(capsys, tmp_path / "my-study.toml", "--data", f"rice1={root}", *options, *words)
    assert code == 0, said.err
    assert "Training noise and learning rate" in said.out
    assert "finished 4 cases" in said.out
    assert (tmp_path / "study" / "plot.png").is_file()
    assert (tmp_path / "study" / "p_mean--1.2-lr-0.0001" / "model.safetensors").is_file()


def test_a_study_of_ones_own_needs_a_base(root, tmp_path, capsys):
    (tmp_path / "mine.toml").write_text('grid = { "process.alpha" = [0.0, 1.0] }')
    code, said = run(capsys, tmp_path / "mine.toml", "--data", f"rice1={root}")
    assert code == 2
    assert 'mine.toml names no base: expected base = "tiny", or another preset, in it, or --base' in said.err


def test_without_data_there_is_no_study(capsys, tmp_path):
    code, said = run(capsys, "steps", "-o", tmp_path / "study")
    assert (code, said.err.count("\n")) == (2, 1)
    assert "a study has one data set and 0 were given: expected --data NAME=ROOT once" in said.err
