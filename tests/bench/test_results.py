"""Reports: ratios, failures, JSON."""

import json

import pytest
from tests.bench.small import measured, report

from emrdm.bench import as_json, from_json, read
from emrdm.bench.results import Difference, Row
from emrdm.errors import ConfigError, InputError


def test_the_ratio_is_baseline_to_ours_image_by_image():
    assert Row("forward", "x", measured(0.5), measured(0.1)).ratio == pytest.approx(5)
    assert Row("best", "x", measured(0.5), measured(0.8, items=8)).ratio == pytest.approx(5)
    assert Row("forward", "x", None, measured(0.1)).ratio is None


def test_json_there_and_back(tmp_path):
    found = report()
    assert from_json(as_json(found)) == found
    (tmp_path / "a.json").write_text(as_json(found))
    assert read(tmp_path / "a.json") == found
    assert json.loads(as_json(found))["rows"][0]["ratio"] == pytest.approx(5)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": 3}', '{"rows": [], "format": 99}'])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(InputError, match="expected"):
        from_json(text)


def test_a_report_with_a_strange_key_is_refused(tmp_path):
    facts = json.loads(as_json(report()))
    with pytest.raises(ConfigError, match=r"unknown key 'the report\.colour'"):
        from_json(json.dumps({**facts, "colour": 1}))
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "none.json")


def test_too_large_a_difference_is_a_failure():
    assert report().failures == []
    bad = Row("forward", "forward, batch 1", measured(), measured(), difference=Difference(43.21, 0.1))
    (line,) = report(rows=(bad,)).failures
    assert line == ("forward, batch 1: the fast path is 43.2 dB from the float32 reference, expected 50 dB at least")
    same = Row("forward", "x", measured(), measured(), difference=Difference(None, 0.0))
    assert report(rows=(same,)).failures == []
