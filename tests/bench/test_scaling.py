"""What grows how."""

import pytest
from tests.bench.small import measured, report

from emrdm.bench.results import Point, Scaling
from emrdm.bench.scaling import bend, fit, found_words, macs, shares, with_fit
from emrdm.presets import load_preset


@pytest.mark.parametrize("name", ["tiny", "cuhk-cr1"])
def test_global_attention_is_told_apart_exactly(name):
    config = load_preset(name).model
    network = config.network
    expected = 0
    for level in range(network.neighborhood_levels, network.levels):
        tokens = (64 // (network.patch << level)) ** 2
        blocks = network.depths[level] * (1 if level == network.levels - 1 else 2)
        expected += blocks * 2 * tokens**2 * network.widths[level]
    total, quadratic = macs(config, 64)
    assert quadratic == expected
    assert total == config.cost(64, 64).macs


def test_half_of_the_work_is_global_at_the_bend():
    config = load_preset("sen12ms-cr").model
    side = bend(config)
    total, quadratic = macs(config, config.network.padded(side))
    assert quadratic / total == pytest.approx(0.5, abs=0.03)


def test_a_fit_finds_the_parts_again():
    x = [16.0**2, 32.0**2, 64.0**2, 128.0**2]
    assert fit(x, [0.01 + 2e-5 * v + 3e-10 * v**2 for v in x]) == pytest.approx((0.01, 2e-5, 3e-10))
    constant, linear, quadratic = fit(x, [2e-5 * v for v in x])
    assert linear == pytest.approx(2e-5)
    assert min(constant, quadratic) >= 0
    assert max(constant, quadratic * x[-1] ** 2) < 1e-9
    assert min(fit(x, [1.0, 0.9, 0.8, 0.7])) >= 0  # never a negative part
    assert fit(x[:2], [1.0, 2.0]) is None


def test_shares_and_words():
    scaling = report().scalings[0]
    parts = shares(scaling, scaling.points[-1])
    assert sum(parts) == pytest.approx(1)
    assert parts[1] > 0.9
    assert "linear in pixels" in found_words(scaling, 900)
    assert "side 900" in found_words(scaling, 900)
    empty = with_fit(Scaling("frames", "x", (Point(1, 1, None, measured(), 1.0, 0.0),)))
    assert found_words(empty, None) == ""
