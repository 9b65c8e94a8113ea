"""Studies from beginning to end: equal budgets, the same images, stopped and gone on."""

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.ablation.small import CPU, FEW, base, on, pairs, series
from tests.training.little import landscapes

from emrdm import EMRDM, study_names
from emrdm.ablation import Scoring, ablate, as_csv, as_json, as_markdown, from_json, write_report
from emrdm.ablation import run as running
from emrdm.ablation.figures import draw
from emrdm.errors import ConfigError, InputError, InterruptedRunError
from emrdm.files import locked
from emrdm.presets.studies import Run, Study
from emrdm.training import Machine, RunFolder
from emrdm.training import train as really_train


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return pairs(tmp_path_factory.mktemp("pairs") / "rice")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return series(tmp_path_factory.mktemp("series") / "places", short=("place7",))


def study(name, folder, root, **options):
    """A study of pairs with the smallest network."""
    changes = on("rice1", root, **options.pop("changes", {}))
    return ablate(name, folder, **{"base": base(), "changes": changes, "machine": CPU, "scoring": FEW, **options})


@pytest.fixture(scope="module")
def modules(root, tmp_path_factory):
    """An uninterrupted study that trains every case."""
    folder = tmp_path_factory.mktemp("modules")
    return folder, study("modules", folder, root)


@pytest.fixture(scope="module")
def steps(root, tmp_path_factory):
    """An uninterrupted study of the sampler."""
    folder = tmp_path_factory.mktemp("steps")
    return folder, study("steps", folder, root)


@pytest.fixture
def trained(monkeypatch):
    """Names of the folders that were trained in."""
    folders = []

    def train(recipe, folder, **options):
        folders.append(Path(folder).name)
        return really_train(recipe, folder, **options)

    monkeypatch.setattr(running, "train", train)
    return folders


class Ear:
    """A listener that remembers, and does something at a place."""

    def __init__(self, at=None, do=None):
        self.heard, self.at, self.do = [], at, do

    def _hear(self, *what):
        self.heard.append(what)
        if what == self.at:
            self.do()

    def case(self, number, count, label):
        self._hear("case", number, count, label)

    def trains(self, name):
        self._hear("trains", name)

    def training(self, row):
        self._hear("training", row["kind"], row["step"])

    def scoring(self, done, total):
        self._hear("scoring", done, total)


def test_every_case_is_trained_with_the_same_budget_and_scored_on_the_same_images(modules):
    folder, findings = modules
    assert [result.label for result in findings.results] == ["config-a", "config-b", "config-d", "config-e"]
    recipes = [RunFolder(folder / result.label).recipe() for result in findings.results]
    assert all(
        (recipe.train, recipe.optimizer, recipe.data) == (recipes[0].train, recipes[0].optimizer, recipes[0].data)
        for recipe in recipes
    )
    assert len({recipe.model for recipe in recipes}) == 4
    journals = [
        (folder / result.label / "scores" / "scores.csv").read_text().splitlines() for result in findings.results
    ]
    assert {tuple(line.partition(",")[0] for line in lines) for lines in journals} == {("image", "6", "8")}
    assert findings.images == 2
    assert findings.results[0].paper["psnr"] == 12.81


def test_what_is_left_out_and_how_it_was_made_is_said(modules):
    _, findings = modules
    assert "config-c is left out: without auxiliary bands it is config-b" in findings.notes
    assert findings.caption["data"] == "rice1 (rice), split test, 2 images"
    assert findings.caption["trained"] == "2 steps of 2 samples, each case alike"
    assert findings.caption["seeds"] == "3407"
    assert "method euler, steps 2" in findings.caption["sampler"]
    assert findings.protocol == "standard"


def test_a_finished_study_is_not_repeated(modules, root, trained):
    folder, findings = modules
    before = (folder / "config-a" / "scores" / "journal.jsonl").stat().st_mtime_ns
    ear = Ear()
    again = study("modules", folder, root, listener=ear)
    assert trained == []
    assert as_csv(again) == as_csv(findings)
    assert (folder / "config-a" / "scores" / "journal.jsonl").stat().st_mtime_ns == before
    assert [what for what in ear.heard if what[0] == "case"][1] == ("case", 2, 4, "config-b")
    assert ("scoring", 0, 2) not in ear.heard


def test_a_study_stopped_in_training_and_in_scoring_goes_on_to_the_same_table(modules, root, tmp_path):
    stop = Ear(("training", "start", 0), lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(
        InterruptedRunError, match=r"SIGINT at step 1 of 2 of config-a: saved; the same command goes on"
    ):
        study("modules", tmp_path, root, listener=stop)

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="interrupted in scoring config-a: saved"):
        study("modules", tmp_path, root, listener=Ear(("scoring", 2, 2), interrupt))
    ear = Ear()
    findings = study("modules", tmp_path, root, listener=ear)
    assert [name for what, name, *_ in ear.heard if what == "trains"] == ["config-b", "config-d", "config-e"]
    assert as_csv(findings) == as_csv(modules[1])


def test_when_the_time_is_up_the_rest_is_named_and_done_later(steps, root, tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: clock.now))
    late = Ear(("case", 3, 7, "steps 6"), lambda: setattr(clock, "now", 61.0))
    findings = study("steps", tmp_path, root, max_minutes=1, listener=late)
    assert findings.left == ("5 of 7 cases: steps 6, steps 8, steps 10, steps 15, steps 50",)
    assert [len(result.seeds) for result in findings.results] == [1, 1, 0, 0, 0, 0, 0]
    assert "not done yet: 5 of 7 cases" in as_markdown(findings)
    assert as_csv(study("steps", tmp_path, root)) == as_csv(steps[1])


def test_a_signal_with_the_last_step_of_a_case_ends_the_study_too(root, tmp_path, trained):
    stop = Ear(("training", "step", 1), lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(InterruptedRunError, match="SIGINT at step 2 of 2 of config-a: saved"):
        study("modules", tmp_path, root, listener=stop)
    assert trained == ["config-a"]


def test_time_that_is_up_in_training_leaves_a_checkpoint(root, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: 0.0))  # all of it is left for training
    findings = study("steps", tmp_path, root, max_minutes=1e-3, changes={"train.steps": 100_000})
    assert findings.left[0].startswith("7 of 7 cases")
    assert findings.metrics == []
    assert list((tmp_path / "model" / "checkpoints").iterdir())


def test_studies_of_the_sampler_train_once(steps, root, tmp_path, trained):
    folder, _ = steps
    assert sorted(path.name for path in folder.iterdir() if (path / "model.safetensors").exists()) == ["model"]
    study("sigma-max", tmp_path, root)
    assert trained == ["model"]


def test_weights_that_are_given_are_sampled_and_nothing_is_trained(steps, root, tmp_path, trained):
    folder, findings = steps
    given = folder / "model" / "model.safetensors"
    again = study("steps", tmp_path, root, base=None, model=given)
    assert trained == []
    assert as_csv(again) == as_csv(findings)
    assert again.caption["weights"].startswith("model.safetensors, digest ")
    assert again.caption["base"] == findings.caption["base"]  # the weights say what they are
    assert "trained" not in again.caption


def test_seeds_give_a_mean_and_a_deviation_and_the_first_is_not_trained_again(steps, root, trained):
    folder, one = steps
    two = study("steps", folder, root, seeds=2)
    assert trained == ["model-seed-3408"]
    first, second = (scores["psnr"] for scores in two.results[0].seeds)
    assert first == one.results[0].mean("psnr") != second
    assert two.results[0].mean("psnr") == pytest.approx((first + second) / 2)
    assert two.results[0].deviation("psnr") == pytest.approx(abs(first - second) / 2**0.5)
    assert "3407, 3408" in two.caption["seeds"]
    assert "psnr_std" in as_csv(two)


def test_an_image_that_one_case_cannot_do_counts_for_none(places, tmp_path):
    changes = on("series", places, **{"model.aux": []})
    findings = ablate(
        "frames", tmp_path, base=base("tiny-temporal"), changes=changes, machine=CPU, scoring=Scoring(rows=1)
    )
    assert findings.images == 2  # place7 has two dates
    assert any("1 image left out, which not every case could do" in note for note in findings.notes)
    networks = [EMRDM.load(tmp_path / f"frames-{i}" / "model.safetensors").config for i in (1, 2, 3)]
    assert [config.network.multi_temporal for config in networks] == [False, True, True]
    assert [config.frames for config in networks] == [1, 2, 3]
    assert len(next(iter(findings.frames.values()))) == 4  # all dates and the clear image


@pytest.mark.parametrize(
    "name", [name for name in study_names() if name not in ("modules", "steps", "sigma-max", "frames")]
)
def test_every_other_study_runs_too(name, root, tmp_path):
    findings = study(name, tmp_path, root, scoring=Scoring(limit=1, rows=1))
    assert all(len(result.seeds) == 1 for result in findings.results)
    assert len(findings.results) == {"alpha": 7, "churn": 48, "churn-range": 26}[name]


def test_without_test_images_the_validation_images_are_scored_and_that_is_said(tmp_path):
    root = landscapes(tmp_path / "clear", count=24, size=16)
    findings = ablate("steps", tmp_path / "study", base=base(), changes=on("synthetic", root), machine=CPU, scoring=FEW)
    assert "split val" in findings.caption["data"]
    assert "the weights were chosen by validation images, which are those scored here" in findings.notes


def test_another_study_in_the_folder_is_refused_and_can_be_forgotten(root, tmp_path, trained):
    study("steps", tmp_path, root)
    with pytest.raises(ConfigError, match=r"holds another study: train.steps is 3, was 2\. Choose .* --overwrite"):
        study("steps", tmp_path, root, changes={"train.steps": 3})
    with pytest.raises(ConfigError, match='holds another study: study is "sigma-max", was "steps"'):
        study("sigma-max", tmp_path, root)
    (tmp_path / "mine.txt").write_text("mine")
    study("sigma-max", tmp_path, root, overwrite=True)
    assert trained == ["model", "model"]
    assert not list(tmp_path.glob("steps-*"))
    assert (tmp_path / "mine.txt").exists()


def test_other_images_are_scored_only_if_asked_to(root, tmp_path, trained):
    study("steps", tmp_path, root)
    with pytest.raises(ConfigError, match=r"is scored in another way: limit is 3, was 2\. Choose .* --rescore"):
        study("steps", tmp_path, root, scoring=Scoring(limit=3, rows=1))
    findings = study("steps", tmp_path, root, scoring=Scoring(limit=3, rows=1), rescore=True)
    assert findings.images == 3
    assert trained == ["model"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"machine": Machine(device="cpu", processes=2)}, "a study runs in one process: expected --devices 1"),
        ({"seeds": 0}, "--seeds is 0: expected 1 or more"),
        ({"max_minutes": 0}, "--max-minutes is 0: expected more than 0"),
        ({"model": Path("x.safetensors")}, "the study modules trains a model for every case"),
        ({"changes": {"data": []}}, "a study has one data set and 0 were given"),
        ({"changes": {"model.process.alpha": 2.0}}, "model.process is what the study varies"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(options, message, root, tmp_path):
    with pytest.raises((InputError, ConfigError), match=message):
        study("modules", tmp_path / "study", root, **options)
    assert not (tmp_path / "study").exists()


def test_given_weights_keep_everything_but_their_sampler(steps, root, tmp_path):
    given = steps[0] / "model" / "model.safetensors"
    with pytest.raises(InputError, match="is trained: expected settings of its sampler only"):
        study("steps", tmp_path, root, base=None, model=given, changes={"model.process.alpha": 1.0})
    with pytest.raises(InputError, match="--seeds is 2 with --model"):
        study("steps", tmp_path, root, base=None, model=given, seeds=2)


def test_a_base_has_no_effect_on_given_weights_and_is_refused(steps, root, tmp_path):
    given = steps[0] / "model" / "model.safetensors"
    with pytest.raises(InputError, match=r"--base with --model .*: expected one of them"):
        study("steps", tmp_path, root, model=given)


def test_a_study_of_ones_own_has_a_model_a_case_and_a_heat_map(root, tmp_path, trained):
    mine = Study(grid={"training_noise.p_mean": [-1.0, 1.0], "train.steps": [1, 2]})
    findings = study(mine, tmp_path, root, changes={"watch.log_every": 1})
    assert trained == [f"p_mean-{mean}-steps-{steps}" for mean in ("-1", "1") for steps in (1, 2)]
    recipes = [RunFolder(tmp_path / name).recipe() for name in trained]
    assert [(r.model.training_noise.p_mean, r.train.steps) for r in recipes] == [(-1, 1), (-1, 2), (1, 1), (1, 2)]
    assert findings.caption["trained"] == "1 or 2 steps of 2 samples, as in the rows"
    assert "paper" not in as_markdown(findings)
    again = from_json(as_json(findings))
    assert (again.axes, again.source) == (("model.training_noise.p_mean", "train.steps"), "")
    draw(again, tmp_path / "again.png")
    assert as_csv(study(mine, tmp_path, root, changes={"watch.log_every": 1})) == as_csv(findings)
    assert len(trained) == 4  # a finished study is not repeated
    other = Study(grid={"training_noise.p_mean": [-1.0, 1.0], "train.steps": [1, 3]})
    with pytest.raises(ConfigError, match="holds another study"):
        study(other, tmp_path, root)


def test_a_study_of_ones_own_samples_weights_that_are_given_without_a_base(steps, root, tmp_path, trained):
    given = steps[0] / "model" / "model.safetensors"
    mine = Study(title="Methods", grid={"sampler.method": ["euler", "heun"]})
    findings = study(mine, tmp_path, root, base=None, model=given)
    assert trained == []
    assert [result.point for result in from_json(as_json(findings)).results] == [
        {"model.sampler.method": "euler"},
        {"model.sampler.method": "heun"},
    ]
    written, _ = write_report(findings, tmp_path)
    assert tmp_path / "plot.png" in written
    assert findings.name == "Methods"


def test_cases_that_would_share_a_folder_are_refused(root, tmp_path):
    points = [Run(set={"train.steps": steps, key: 1}) for steps, key in ((1, "train.crop"), (1, "train.batch_size"))]
    with pytest.raises(ConfigError, match="'steps 1' and 'steps 1' cannot be told apart"):
        study(Study(runs=points), tmp_path, root)


def test_a_folder_has_one_study_at_a_time(root, tmp_path):
    with locked(tmp_path, "study"), pytest.raises(InputError, match="in use by another process: expected one study"):
        study("modules", tmp_path, root)


def test_the_folder_of_a_run_is_not_made_a_study(root, tmp_path):
    (tmp_path / "recipe.json").write_text(json.dumps({}))
    with pytest.raises(InputError, match="is the folder of a run"):
        study("modules", tmp_path, root)
