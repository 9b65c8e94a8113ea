"""Studies against the paper's tables."""

import pytest
from tests.presets.test_presets import table

from emrdm.errors import ConfigError
from emrdm.presets.studies import load_study, study_names

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
