"""Studies and runs as small files: their scores, what they cost, and what differs on the same images."""

import json
import shutil

import pytest
from benchmarks.results import page
from benchmarks.results.__main__ import main
from tests.ablation.small import CPU, base, on
from tests.evaluation.folders import rice

from emrdm.ablation import Scoring, ablate
from emrdm.ablation import write_report as write_study
from emrdm.training import train


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rice")
    rice(folder / "RICE1", 60, 32, test=["0", "1"])
    rice(folder / "RICE2", 60, 32, test=["2", "3"], masks=True, seed=1)
    return folder


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emrdm.training.export.training_curves", lambda *_, **__: None)
        patch.setattr("emrdm.training.log._tensorboard", lambda *_: None)
        yield


def studied(folder, root, split="val"):
    scoring = Scoring(split=split, limit=2, rows=1)
    found = ablate("modules", folder, base=base(), changes=on("rice1", root / "RICE1"), machine=CPU, scoring=scoring)
    write_study(found, folder)
    return found


@pytest.fixture(scope="module")
def study(tmp_path_factory, root):
    folder = tmp_path_factory.mktemp("study")
    return folder, studied(folder, root)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, root):
    """Two runs on both data sets that differ in alpha."""
    folder = tmp_path_factory.mktemp("runs")
    data = [{"dataset": key, "root": str(root / name)} for key, name in (("rice1", "RICE1"), ("rice2", "RICE2"))]
    for name, alpha in (("half", 0.5), ("three", 3.0)):
        train(
            base(**{"data": data, "model.process.alpha": alpha, "watch.validate_every": 1}), folder / name, machine=CPU
        )
    return folder


def test_a_study_has_scores_intervals_and_differences(study, tmp_path):
    folder, findings = study
    assert main(["collect", str(folder), "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "study-modules.json").read_text())
    assert [case["label"] for case in found["cases"]] == ["config-a", "config-b", "config-d", "config-e"]
    for case, result in zip(found["cases"], findings.results, strict=True):
        mine = case["datasets"]["rice1"]
        assert mine["scores"]["psnr"]["mean"] == pytest.approx(result.mean("psnr"), rel=1e-5)
        assert mine["scores"]["psnr"]["images"] == 2
        assert (mine["steps"], mine["samples_a_step"], mine["split"]) == (2, 2, "val")
        assert mine["seconds"] > 0
        assert case["paper"] == result.paper
    a_b = found["pairs"]["rice1"][0]
    assert (a_b["first"], a_b["second"]) == ("config-a", "config-b")
    one, other = (result.mean("psnr") for result in findings.results[:2])
    assert a_b["psnr"]["mean"] == pytest.approx(one - other, rel=1e-4)
    text, figures = page.build(tmp_path)
    assert "does the paper's order (Table 2) hold?" in text
    assert list(figures) == ["results-modules.png"]


def test_a_study_of_the_test_list_is_refused(root, tmp_path, capsys):
    facts = {"study": "modules", "scoring": {"split": "test"}, "recipe": {"data": [{"dataset": "rice1"}]}}
    (tmp_path / "study.json").write_text(json.dumps(facts))
    assert main(["collect", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "was scored on test: expected emrdm ablate ... --split val" in capsys.readouterr().err


def test_runs_of_a_search_are_compared_with_their_base(runs, tmp_path):
    assert main(["collect", str(runs), "--out", str(tmp_path), "--base", "tiny"]) == 0
    assert main(["collect", str(runs / "half"), "--out", str(tmp_path), "--base", "tiny"]) == 0  # once again
    found = json.loads((tmp_path / "recipes.json").read_text())["runs"]
    assert [run["name"] for run in found] == ["half", "three"]
    half = found[0]
    assert any(change.startswith("model.process.alpha is 0.5, was ") for change in half["changed"])
    assert not any(change.startswith("watch") for change in half["changed"])
    assert (half["steps"], half["planned"], half["samples_a_step"]) == (2, 2, 2)
    assert half["steps_a_second"] == pytest.approx(2 / half["seconds"], rel=1e-4)
    assert half["curve"]["step"] == [1, 2]
    assert half["end"]["rice2"]["psnr"] == half["curve"]["rice2"][-1]
    assert set(half["untouched"]) == {"rice1", "rice2"}
    assert "`half`" in page.build(tmp_path)[0]


def test_a_setting_that_is_younger_than_a_run_is_not_a_change(runs, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(runs / "half", old)
    facts = json.loads((old / "recipe.json").read_text())
    assert facts["recipe"]["train"].pop("tones") == 0.0
    (old / "recipe.json").write_text(json.dumps(facts))
    assert main(["collect", str(runs / "half"), "--out", str(tmp_path), "--base", str(old)]) == 0
    assert json.loads((tmp_path / "recipes.json").read_text())["runs"][0]["changed"] == []


def test_runs_can_be_cases_of_a_study(runs, root, tmp_path):
    words = ["collect", str(runs), "--as", "alpha", "--out", str(tmp_path)]
    assert main(words) == 0
    plain = json.loads((tmp_path / "study-alpha.json").read_text())
    assert [case["label"] for case in plain["cases"]] == ["alpha 0.5", "alpha 3"]
    assert plain["cases"][1]["paper"]["psnr"] == 20.0
    assert plain["pairs"] == {}
    assert "low" not in plain["cases"][0]["datasets"]["rice1"]["scores"]["psnr"]  # a log has no scores by image
    assert main([*words, "--rice", str(root), "--device", "cpu"]) == 0
    scored = json.loads((tmp_path / "study-alpha.json").read_text())
    assert set(scored["pairs"]) == {"rice1", "rice2"}
    assert scored["cases"][0]["datasets"]["rice2"]["scores"]["psnr"]["images"] > 1
    assert "Kendall's tau" in page.build(tmp_path)[0]
    assert main(["collect", str(runs / "half"), "--as", "alpha", "--out", str(tmp_path)]) == 0
    again = json.loads((tmp_path / "study-alpha.json").read_text())
    assert [case["label"] for case in again["cases"]] == ["alpha 0.5", "alpha 3"]  # the other stays
    assert again["pairs"] == {"rice1": [], "rice2": []}  # and is compared with nothing that is gone


@pytest.mark.parametrize("kind", ["recipe", "modules"])
def test_what_cannot_be_collected_is_one_line(runs, tmp_path, capsys, kind):
    (tmp_path / "empty").mkdir()
    assert main(["collect", str(tmp_path / "empty"), "--out", str(tmp_path), "--as", kind]) == 2
    assert "holds no study and no run" in capsys.readouterr().err
    assert main(["collect", str(tmp_path / "nowhere"), "--out", str(tmp_path)]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main(["collect", str(runs / "half"), "--as", "modules", "--out", str(tmp_path)]) == 2
    assert "is none of the cases of modules" in capsys.readouterr().err
