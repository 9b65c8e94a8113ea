"""Studies against the paper's tables."""

import dataclasses

import numpy as np
import pytest
from tests.presets.test_presets import table

from emrdm import load_preset
from emrdm.errors import ConfigError
from emrdm.presets.studies import Study, load_study, short_names, study_names

METRICS = ("psnr", "ssim", "mae", "sam", "lpips")


def rows_of(section):
    return [row[-5:] for row in table(section)]


def test_the_papers_studies_are_there():
    assert study_names() == ["modules", "alpha", "sigma-max", "steps", "frames", "churn", "churn-range"]


def test_scores_are_the_papers():
    hyperparameters = rows_of("hyperparameters")
    assert len(hyperparameters) == 21
    printed = {
        "modules": rows_of("modules"),
        "alpha": hyperparameters[:7],
        "sigma-max": hyperparameters[7:14],
        "steps": hyperparameters[14:],
        "frames": rows_of("frames"),
    }
    for name, rows in printed.items():
        cases = list(load_study(name).cases())
        expected = [dict(zip(METRICS, map(float, row), strict=True)) for row in rows]
        assert [dict(case.scores) for case in cases] == expected, name


@pytest.mark.parametrize(
    ("name", "read", "values"),
    [
        ("alpha", lambda m: m.process.alpha, [0.2, 0.5, 0.8, 1, 2, 3, 4]),
        ("sigma-max", lambda m: m.sampler.sigma_max, [40, 60, 80, 100, 150, 200, 300]),
        ("steps", lambda m: m.sampler.steps, [4, 5, 6, 8, 10, 15, 50]),
        ("frames", lambda m: m.frames, [1, 2, 3]),
    ],
)
def test_points_vary_what_the_study_is_about(name, read, values):
    cases = list(load_study(name).cases())
    assert [read(case.preset.model) for case in cases] == values
    assert all(case.preset.model.sampler.method == "euler" for case in cases)


def test_one_frame_is_studied_with_the_mono_temporal_network():
    assert [case.preset.model.network.multi_temporal for case in load_study("frames").cases()] == [False, True, True]


def test_the_sampler_grids_are_complete_and_never_empty_ranges():
    assert len(list(load_study("churn").cases())) == 48
    for case in load_study("churn-range").cases():
        assert case.preset.model.sampler.t_min < case.preset.model.sampler.t_max
        assert case.preset.model.sampler.churn == 1
    assert not load_study("churn").retrain
    assert load_study("alpha").retrain


def test_an_unknown_study_names_the_nearest():
    with pytest.raises(ConfigError, match="unknown study 'alhpa'; did you mean 'alpha'"):
        load_study("alhpa")


# ---------------------------------------------------------------- on another base


def models(name, base, changes=None):
    return {case.label: case.preset.model for case in load_study(name).cases(base, changes)}


def test_modules_are_transplanted_onto_another_base():
    base = load_preset("tiny-temporal")
    found = models("modules", base)
    assert list(found) == ["config-a", "config-b", "config-c", "config-d", "config-e"]
    inputs = [("noisy",), ("noisy", "cloudy"), *[("noisy", "cloudy", "aux")] * 3]
    assert [model.inputs for model in found.values()] == inputs
    assert [len(model.aux) for model in found.values()] == [0, 0, 1, 1, 1]
    assert [model.process.alpha for model in found.values()] == [0, 0, 0, 1, 1]
    assert [model.preconditioning.sigma_cov for model in found.values()] == [0, 0, 0, 0, 0.9]
    for model in found.values():
        assert (model.network, model.bands, model.frames) == (base.model.network, base.model.bands, base.model.frames)
        assert model.training_noise == base.model.training_noise
        assert (model.sampler.method, model.sampler.churn, model.sampler.steps) == (
            "euler",
            0,
            base.model.sampler.steps,
        )
    for case in load_study("modules").cases(base):
        assert (case.preset.train, case.preset.optimizer) == (base.train, base.optimizer)
        assert case.scores["psnr"] > 12


def test_transplanting_onto_the_papers_base_gives_the_papers_presets():
    printed = {name: load_preset(name).model for name in ("config-a", "config-b", "config-c", "config-d", "config-e")}
    assert models("modules", load_preset("sen2-mtc-new")) == printed


@pytest.mark.parametrize(("base", "changes"), [("tiny", {}), ("tiny-temporal", {"model.aux": []})])
def test_a_case_that_would_be_another_one_is_left_out_and_named(base, changes):
    study, preset = load_study("modules"), load_preset(base)
    assert [case.label for case in study.cases(preset, changes)] == ["config-a", "config-b", "config-d", "config-e"]
    assert study.left_out(preset, changes) == ["config-c is left out: without auxiliary bands it is config-b"]
    assert study.left_out() == []


def test_changes_hold_for_all_cases_and_go_before_what_the_study_sets():
    changes = {"train.steps": 300, "model.sampler.method": "heun"}
    for name in ("modules", "alpha", "steps"):
        cases = list(load_study(name).cases(load_preset("tiny"), changes))
        assert {(case.preset.train.steps, case.preset.model.sampler.method) for case in cases} == {(300, "heun")}


@pytest.mark.parametrize(
    ("name", "key"),
    [("alpha", "model.process.alpha"), ("modules", "model.preconditioning.sigma_mu"), ("churn", "model.sampler")],
)
def test_what_a_study_varies_cannot_be_changed_for_all(name, key):
    with pytest.raises(ConfigError, match=f"{key} cannot be changed for all: .* is what the study varies"):
        load_study(name).cases(load_preset("tiny"), {key: 1.0})


def test_the_length_of_series_needs_a_base_for_series():
    with pytest.raises(ConfigError, match="takes one image: expected a base for series, such as tiny-temporal"):
        load_study("frames").cases(load_preset("tiny"))
    found = models("frames", load_preset("tiny-temporal"))
    assert [(model.frames, model.network.multi_temporal) for model in found.values()] == [
        (1, False),
        (2, True),
        (3, True),
    ]


@pytest.mark.parametrize("name", study_names())
def test_every_study_has_cases_on_a_small_base_and_their_points(name):
    study = load_study(name)
    cases = list(study.cases(load_preset("tiny-temporal")))
    assert len(cases) == len(list(study.cases()))
    for case in cases:
        assert tuple(case.point) == study.axes
    shared = study.shared(load_preset("tiny-temporal"))
    if not study.retrain:
        assert {dataclasses.replace(case.preset.model, sampler=shared.model.sampler) for case in cases} == {
            shared.model
        }


# ---------------------------------------------------------------- of one's own


def write(path, text):
    path.write_text(text)
    return path


TOML = """
title = "Mine"
base = "tiny"
set = { "sampler.steps" = 3 }
[grid]
model.training_noise.p_mean = [-1.2, 1.2]
"optimizer.lr" = [1e-4, 2e-4]
"""
YAML = """
title: Mine
base: tiny
set: {sampler.steps: 3}
grid:
  training_noise: {p_mean: [-1.2, 1.2]}
  optimizer.lr: [1e-4, 2e-4]
"""


@pytest.mark.parametrize(("name", "text"), [("mine.toml", TOML), ("mine.yaml", YAML)])
def test_a_study_of_ones_own_is_a_file_with_a_grid(name, text, tmp_path):
    study = load_study(write(tmp_path / name, text))
    assert study.axes == ("model.training_noise.p_mean", "optimizer.lr")
    assert (study.title, study.source, study.retrain) == ("Mine", "", True)
    found = [
        (case.preset.model.training_noise.p_mean, case.preset.optimizer.lr, case.preset.model.sampler.steps)
        for case in study.cases()
    ]
    assert found == [(-1.2, 1e-4, 3), (-1.2, 2e-4, 3), (1.2, 1e-4, 3), (1.2, 2e-4, 3)]
    assert next(study.cases()).label == "p_mean -1.2, lr 0.0001"


def test_a_base_that_is_a_file_lies_beside_the_study(tmp_path):
    write(tmp_path / "recipe.toml", 'base = "tiny"\ntitle = "My recipe"')
    study = load_study(write(tmp_path / "mine.toml", 'base = "recipe.toml"\ngrid = { "process.alpha" = [0.0, 1.0] }'))
    assert study.shared().title == "My recipe"
    assert study.title == "Effect of alpha"


def test_what_a_study_varies_says_whether_models_are_trained():
    assert Study(base="tiny", grid={"sampler.steps": range(1, 4), "sampler.method": ["euler", "heun"]}).retrain is False
    assert Study(base="tiny", grid={"sampler.steps": [1], "process.alpha": np.linspace(0, 1, 3)}).retrain is True
    study = Study(grid={"model.aux": [[]], "inputs": [["noisy"], ["noisy", "cloudy"]]})
    assert [case.preset.model.inputs for case in study.cases(load_preset("tiny-temporal"))] == [
        ("noisy",),
        ("noisy", "cloudy"),
    ]


def test_points_that_nearly_agree_have_labels_of_their_own():
    study = Study(base="tiny", grid={"process.alpha": [0.12345678, 0.123456789]})
    assert [case.label for case in study.cases()] == ["alpha 0.12345678", "alpha 0.123456789"]
    assert short_names(["train.steps", "model.sampler.steps", "optimizer.lr"]) == [
        "train.steps",
        "model.sampler.steps",
        "lr",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "grid is empty: expected values by key"),
        ({"grid": 3}, "grid is 3: expected a table"),
        ({"grid": {"optimizer.lr": 1e-4}}, "grid.optimizer.lr is 0.0001: expected a list of values"),
        ({"grid": {"optimizer.lr": []}}, "grid.optimizer.lr is empty: expected a list of values"),
        ({"grid": {"optimizer.lr": [1e-4, 1e-4]}}, "grid.optimizer.lr has 0.0001 twice: expected different values"),
        ({"grid": {"optimizer.lr": [float("nan")]}}, "expected finite numbers"),
        ({"grid": {"train.seed": [1, 2]}}, "train.seed cannot be varied: expected --seeds"),
        ({"grid": {"data": [1]}}, "data cannot be varied: expected settings of model, train, optimizer"),
        ({"grid": {"sampler.steps": [1], "model": {"sampler": {"steps": [2]}}}}, "grid.model.sampler.steps is there twice"),
        ({"grid": {"process.alpha": [1]}, "retrain": False}, "retrain is false with model.process.alpha"),
        ({"grid": {"process.alpha": [1]}, "set": {"process": {"alpha": 2}}}, "model.process.alpha cannot be changed"),
        ({"grid": {"sampler.t_min": [2], "sampler.t_max": [1]}, "less_than": ["sampler.t_min", "sampler.t_max"]}, "no point where less_than holds"),
        ({"grid": {"sampler.t_min": [2]}, "less_than": ["sampler.t_min"]}, "expected two keys of the grid"),
        ({"title": 3, "grid": {"process.alpha": [1]}}, "title is 3: expected a text"),
    ],
)  # fmt: skip
def test_a_study_of_ones_own_that_cannot_work_is_refused(options, message):
    with pytest.raises(ConfigError, match=message) as error:
        Study(**options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("girds = {}", "mine.toml: unknown key 'girds'; did you mean 'grid'"),
        ("grid = {}", "mine.toml: grid is empty"),
        ('source = "Table 9"', "mine.toml: source is a place in the paper"),
        ("grid = [", "mine.toml: not valid TOML"),
    ],
)
def test_mistakes_in_a_file_name_it(text, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        load_study(write(tmp_path / "mine.toml", text))


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"process.alhpa": [1.0]}, "unknown key 'model.process.alhpa'; did you mean 'alpha'"),
        ({"train.steps": ["many"]}, "train.steps is 'many': expected a whole number"),
        ({"model.frames": ["many"]}, "model.frames is 'many': expected a whole number"),
    ],
)
def test_settings_that_a_base_does_not_have_are_refused_with_their_cases(grid, message):
    with pytest.raises(ConfigError, match=message):
        Study(base="tiny", grid=grid).cases()
