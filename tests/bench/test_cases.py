"""Cases by name."""

import pytest

from emrdm.bench import CASES, default_cases, read_cases
from emrdm.errors import InputError


def test_cases_are_put_in_order_once():
    assert read_cases("attention, forward,forward") == ["forward", "attention"]
    assert read_cases(",".join(CASES)) == list(CASES)


@pytest.mark.parametrize("text", ["sampeling", "", ","])
def test_unknown_cases_are_refused(text):
    with pytest.raises(InputError, match="--cases"):
        read_cases(text)


def test_defaults():
    assert default_cases("cpu") == ["forward", "sampling", "attention"]
    assert default_cases("cuda") == ["forward", "sampling", "best", "training", "attention"]
