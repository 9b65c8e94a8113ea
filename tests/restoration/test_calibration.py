"""Whether an uncertainty map can be believed."""

import json

import numpy as np
import pytest

from emrdm.errors import InputError
from emrdm.restoration.calibration import LEVELS, calibrate, rank_histogram


def draws(factor=1.0, *, seed=0, shape=(3, 200, 200)):
    """A restored mean, a standard deviation and a truth whose real spread is ``factor`` times as large."""
    rng = np.random.default_rng(seed)
    mean = rng.uniform(0, 1, shape)
    std = np.exp(rng.normal(-3, 0.7, shape))
    return mean, std, mean + factor * std * rng.normal(size=shape)


def test_good_uncertainty_is_found_good():
    found = calibrate(*draws())
    assert found.count == 3 * 200 * 200
    assert found.spread_skill == pytest.approx(1, abs=0.03)
    for level in LEVELS:
        assert found.coverage[level] == pytest.approx(level, abs=0.01)
    for part in found.reliability:
        assert part.error == pytest.approx(part.predicted, rel=0.05)
    assert [part.predicted for part in found.reliability] == sorted(part.predicted for part in found.reliability)
    assert sum(part.values for part in found.reliability) == found.count
    assert 0 < found.sparsification < 0.6 * found.unranked


def test_overconfidence_is_measured():
    found = calibrate(*draws(2.0))
    assert found.spread_skill == pytest.approx(0.5, abs=0.02)
    assert found.coverage[0.95] == pytest.approx(0.673, abs=0.01)  # 0.98 standard deviations
    assert found.coverage[0.5] == pytest.approx(0.264, abs=0.01)
    assert all(part.error == pytest.approx(2 * part.predicted, rel=0.05) for part in found.reliability)


def test_caution_is_measured():
    assert calibrate(*draws(0.5)).spread_skill == pytest.approx(2, abs=0.06)
    assert calibrate(*draws(0.5)).coverage[0.9] > 0.99


def test_a_map_that_ranks_errors_perfectly_has_no_area_and_one_that_says_nothing_all_of_it():
    mean, std, truth = draws()
    assert calibrate(mean, np.abs(mean - truth), truth).sparsification == pytest.approx(0, abs=1e-12)
    shuffled = np.random.default_rng(1).permutation(std.ravel()).reshape(std.shape)
    blind = calibrate(mean, shuffled, truth)
    assert blind.sparsification == pytest.approx(blind.unranked, rel=0.05)
    assert calibrate(mean, 1 / (1e-3 + np.abs(mean - truth)), truth).sparsification > blind.unranked  # the wrong way


def test_few_samples_are_given_their_due():
    rng = np.random.default_rng(0)
    members, truth = rng.normal(size=(4, 100_000)), rng.normal(size=100_000)
    mean, std = members.mean(0), members.std(0, ddof=1)
    assert calibrate(mean, std, truth).spread_skill == pytest.approx((1 + 1 / 4) ** -0.5, abs=0.01)
    assert calibrate(mean, std, truth, samples=4).spread_skill == pytest.approx(1, abs=0.01)


def test_pixels_without_data_do_not_count():
    mean, std, truth = draws(shape=(2, 40, 50))
    valid = np.random.default_rng(2).random((40, 50)) < 0.5
    expected = calibrate(mean[:, valid], std[:, valid], truth[:, valid])
    broken = [np.where(valid, image, value) for image, value in ((mean, 9.0), (std, 0.0), (truth, -9.0))]
    assert calibrate(*broken, valid=valid) == expected
    unknown = np.where(valid, truth, np.nan)
    assert calibrate(mean, std, unknown) == expected


def test_a_perfect_answer_with_no_spread_is_covered():
    image = np.ones((2, 3))
    found = calibrate(image, 0 * image, image)
    assert (found.rmse, found.sparsification, found.unranked) == (0, 0, 0)
    assert set(found.coverage.values()) == {1.0}


def test_it_can_be_printed_and_saved():
    found = calibrate(*draws(shape=(3, 20, 20)), bins=4)
    facts = json.loads(json.dumps(found.as_dict()))
    assert facts["coverage"]["0.95"] == found.coverage[0.95]
    assert len(facts["reliability"]) == 4
    assert facts["reliability"][0]["values"] == 300
    text = "\n".join(found.lines())
    assert f"{found.spread_skill:.3f}" in text
    assert "of 95%" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"std": np.ones((2, 3))}, "expected the same shape"),
        ({"std": -np.ones((2, 2))}, "std goes down to -1"),
        ({"truth": np.full((2, 2), np.nan)}, "no pixel"),
        ({"valid": np.zeros((2, 2), bool)}, "no pixel"),
        ({"samples": 1}, "samples is 1"),
        ({"bins": 0}, "bins is 0"),
    ],
)
def test_mistakes_are_refused(change, message):
    arguments = {"mean": np.ones((2, 2)), "std": np.ones((2, 2)), "truth": np.ones((2, 2))} | change
    with pytest.raises(InputError, match=message):
        calibrate(**arguments)


# ---------------------------------------------------------------- ranks


def test_a_truth_like_the_samples_has_every_rank_equally_often():
    rng = np.random.default_rng(0)
    found = rank_histogram(rng.normal(size=(7, 3, 100, 100)), rng.normal(size=(3, 100, 100)))
    assert found.shape == (8,)
    assert found.sum() == pytest.approx(1)
    assert found == pytest.approx(np.full(8, 1 / 8), abs=0.006)


def test_overconfident_samples_leave_the_truth_outside():
    rng = np.random.default_rng(0)
    found = rank_histogram(0.3 * rng.normal(size=(7, 200, 100)), rng.normal(size=(200, 100)))
    assert found[0] > 0.3
    assert found[-1] > 0.3


def test_ranks_of_known_numbers_ties_shared():
    samples = np.array([[1, 1, 2, 5], [3, 1, 2, 5], [5, 4, 2, 5]], np.uint8)
    truth = np.array([4, 1, 2, 9], np.uint8)
    expected = np.array([1 / 3 + 1 / 4, 1 / 3 + 1 / 4, 1 + 1 / 3 + 1 / 4, 1 + 1 / 4]) / 4
    assert rank_histogram(samples, truth) == pytest.approx(expected)
    assert rank_histogram(samples, truth, valid=np.array([1, 0, 0, 0], bool)) == pytest.approx([0, 0, 1, 0])


def test_ranks_need_samples_of_the_truths_shape():
    with pytest.raises(InputError, match=r"\(K, \.\.\.\)"):
        rank_histogram(np.ones((3, 2)), np.ones(3))
    with pytest.raises(InputError, match="no pixel"):
        rank_histogram(np.full((3, 2), np.nan), np.ones(2))
