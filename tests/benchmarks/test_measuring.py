"""Scoring a model on the test lists, and settings of its sampler on validation images."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.results import lists, measuring, store
from benchmarks.results.__main__ import main
from tests.evaluation.folders import opened, rice

from emrdm import EMRDM
from emrdm.config import SamplerConfig
from emrdm.evaluation import BASELINES, BaselinePredictor, evaluate
from emrdm.metrics import PROTOCOLS, Scores

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    EMRDM.from_preset("tiny").save(path)
    return path


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rice")
    rice(folder / "RICE1", 24, test=["0", "1", "2"])
    rice(folder / "RICE2", 24, test=["3", "4"], masks=True, seed=1)
    return folder


def run(verb, model, root, out, *more):
    words = ["--name", "small", "--rice", str(root), "--out", str(out), "--device", "cpu", *more]
    return main([verb, str(model), *words])


def test_flat_ground_and_twins_are_counted():
    noise = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 255
    sea = torch.tensor([20.0, 40.0, 90.0]).view(3, 1, 1).expand(3, 32, 32)  # bands differ, pixels do not
    found = lists.compare(torch.stack([sea, noise[0], noise[1]]), torch.stack([sea, noise[0] * 0.8 + 20, noise[2]]))
    assert (found["images"], found["flat"], found["twins"]) == (3, 1, 1)
    assert found["nearest"] == pytest.approx(1.0)
    assert lists.compare(noise[:2], noise[2:])["twins"] == 0
    assert lists.compare(sea[None], noise)["nearest"] is None


def test_the_lists_are_compared_as_they_lie(model, root, tmp_path):
    assert run("lists", model, root, tmp_path) == 0
    found = store.read(tmp_path / "lists.json")
    assert {key: row["images"] for key, row in found["datasets"].items()} == {"rice1": 3, "rice2": 2}
    assert "--name small --rice ROOT --out RUNS" in found["command"]  # can be typed as it stands
    cloudy = opened(root / "RICE1", split="test")
    expected = evaluate(
        cloudy, [BaselinePredictor(BASELINES["cloudy-image"], cloudy.data)], [PROTOCOLS["standard"]]
    ).of("cloudy-image", "standard")
    assert found["datasets"]["rice1"]["psnr"]["cloudy-image"]["all"] == pytest.approx(
        expected.mean("psnr").value, rel=1e-5
    )
    text = lists.text(found, {"rice1": "RICE1", "rice2": "RICE2"})
    assert "RICE1, all (3)" in text
    assert "`small`" in text


def test_scores_of_flat_and_textured_images_apart():
    assert lists.apart({"a": 10.0, "b": 20.0, "c": 40.0}, {"a": True, "b": False, "c": False}) == {
        "all": pytest.approx(70 / 3),
        "flat": 10.0,
        "textured": 30.0,
    }
    assert "flat" not in lists.apart({"a": 1.0}, {"a": False})
    half = torch.cat([torch.zeros(3, 4, 8), torch.full((3, 4, 8), 200.0)], 1)
    assert lists._one_colour(half) == pytest.approx(20 * math.log10(255 / 100), abs=1e-4)


def test_score_writes_what_evaluation_finds(model, root, tmp_path, capsys):
    assert run("score", model, root, tmp_path, "--sheet", str(tmp_path / "sheet.png")) == 0
    found = json.loads((tmp_path / "test-small.json").read_text())
    assert found["model"]["digest"] == EMRDM.load(model).digest()
    assert (found["sampler"]["method"], found["seed"]) == ("euler", 0)
    one, two = found["datasets"]["rice1"], found["datasets"]["rice2"]
    assert (one["images"], two["images"], one["split"]) == (3, 2, "test")
    assert one["seconds_an_image"] > 0
    assert list(one["methods"]) == ["model", "cloudy-image", "dark-channel"]
    cloudy = opened(root / "RICE1", split="test")
    expected = evaluate(
        cloudy, [BaselinePredictor(BASELINES["cloudy-image"], cloudy.data)], [PROTOCOLS["standard"], PROTOCOLS["cuhk"]]
    )
    for protocol in ("standard", "cuhk"):
        scores = one["methods"]["cloudy-image"]["protocols"][protocol]
        for metric in ("psnr", "ssim", "lpips"):
            mean = expected.of("cloudy-image", protocol).mean(metric).value
            assert scores[metric]["mean"] == pytest.approx(mean, rel=1e-5)
            assert scores[metric]["low"] < mean < scores[metric]["high"]
    assert "psnr/cloudy" in two["methods"]["model"]["protocols"]["standard"]
    assert (tmp_path / "sheet.png").stat().st_size > 0
    assert str(root) not in (tmp_path / "test-small.json").read_text()  # no paths of a machine
    assert "protocol cuhk" in capsys.readouterr().out


def test_scoring_needs_torch_and_pillow_alone(model, root, tmp_path):
    """Where models are measured, nothing may be installable."""
    code = "import sys; sys.modules |= dict.fromkeys(('matplotlib', 'rasterio', 'lightning_fabric', 'yaml', 'tensorboard'))\n"
    code += "from benchmarks.results.__main__ import main; sys.exit(main(sys.argv[1:]))"
    words = ["score", str(model), "--name", "small", "--rice", str(root), "--out", str(tmp_path), "--limit", "1"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", code, *words, "--device", "cpu"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "test-small.json").exists()


def test_baselines_can_be_left_out(model, root, tmp_path):
    assert run("score", model, root, tmp_path, "--no-baselines", "--limit", "1") == 0
    found = json.loads((tmp_path / "test-small.json").read_text())
    assert list(found["datasets"]["rice2"]["methods"]) == ["model"]
    assert "1 of 2 images were scored" in found["datasets"]["rice2"]["notes"]
    assert found["command"].endswith("--limit 1 --no-baselines")


def test_sweep_never_sees_the_test_list(model, root, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "STEPS", (1, 2))
    monkeypatch.setattr(measuring, "CHURNS", (0.0, 3.0))
    monkeypatch.setattr(measuring, "METHOD_STEPS", (2,))
    splits = []
    original = measuring.open_dataset

    def watched(*words, split, **options):
        splits.append(split)
        return original(*words, split=split, **options)

    monkeypatch.setattr(measuring, "open_dataset", watched)
    assert run("sweep", model, root, tmp_path, "--images", "2") == 0
    assert splits == ["val", "val"]
    found = json.loads((tmp_path / "sweep-small.json").read_text())
    assert [row["steps"] for row in found["parts"]["steps"]] == [1, 2]
    assert [row["churn"] for row in found["parts"]["churn"]] == [0, 3]
    assert [(row["method"], row["calls"]) for row in found["parts"]["methods"]] == [
        ("euler", 2),
        ("heun", 3),
        ("multistep", 2),
        ("stochastic", 2),
    ]
    for rows in found["parts"].values():
        for row in rows:
            assert set(row["datasets"]) == {"rice1", "rice2"}
            assert set(row["datasets"]["rice1"]["scores"]) == {"psnr", "ssim", "lpips"}
    one, two = (row["datasets"]["rice1"]["scores"]["psnr"]["mean"] for row in found["parts"]["steps"])
    assert one != two


def test_what_is_tried_is_the_model_s_own_but_for_one_thing():
    base = SamplerConfig(steps=4, churn=0.1, noise=0.995)
    parts = measuring.grid(base)
    assert base in parts["steps"]
    assert base in parts["churn"]
    assert base in parts["methods"]
    assert {setting.noise for part in parts.values() for setting in part} == {0.995}
    assert {setting.churn for setting in measuring.grid(SamplerConfig())["methods"]} == {0.0, 0.1}


def test_settings_that_give_the_same_bits_are_measured_once():
    still = SamplerConfig(churn=0.0, noise=0.9)
    assert measuring._same(still) == measuring._same(SamplerConfig(method="euler"))
    assert measuring._same(SamplerConfig(churn=0.1)) != measuring._same(still)
    assert measuring._same(SamplerConfig(method="heun")).method == "heun"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--limit", "0"], "the number of images is 0"),
        (["--batch-size", "0"], "--batch-size is 0"),
        (["--name", "a/b"], "--name is 'a/b'"),
        (["--rice", "nowhere"], "has no RICE1"),
    ],
)
def test_what_cannot_work_is_one_line(model, root, tmp_path, capsys, more, message):
    assert run("score", model, root, tmp_path, *more) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("error: ")


def test_intervals_are_those_of_a_mean():
    found = store.mean_and_interval([1.0, 2.0, 3.0, math.nan])
    assert (found["mean"], found["images"]) == (2.0, 3)
    assert found["high"] - found["mean"] == pytest.approx(1.96 / 3**0.5, rel=1e-4)
    assert "low" not in store.mean_and_interval([1.0])
    assert "low" not in store.mean_and_interval([1.0, math.inf])


def test_differences_are_taken_on_the_same_images():
    ours, theirs = Scores({"a": {"psnr": 3.0}, "b": {"psnr": 30.0}}), Scores({"a": {"psnr": 2.0}, "b": {"psnr": 29.0}})
    found = store.difference(ours, theirs, "psnr")
    assert (found["mean"], found["low"], found["high"]) == (1.0, 1.0, 1.0)


def test_files_are_read_as_they_were_written(tmp_path):
    facts = {"curve": [1.0, 2.5], "rows": [{"a": 1 / 3}, {"b": math.inf}], "words": "[ x, y ]"}
    path = store.write(tmp_path, "some", facts)
    assert store.read(path) == {"curve": [1.0, 2.5], "rows": [{"a": 0.333333}, {"b": "inf"}], "words": "[ x, y ]"}
    assert '"curve": [1.0, 2.5]' in path.read_text()
