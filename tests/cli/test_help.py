"""Help texts: as they are in tests/cli/help, within 80 columns, with examples that can be typed."""

import re
import shlex

import pytest
from tests.cli import renew_help

from emrdm.cli import build_parser

RENEW = "renew it with: python -m tests.cli.renew_help"
TEXTS = renew_help.texts()


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_help_is_as_it_was_read_and_agreed_to(name):
    path = renew_help.FOLDER / name
    assert path.is_file(), f"{name} is not there: {RENEW}"
    assert TEXTS[name] == path.read_text("utf-8"), f"{name} differs: {RENEW}"


def test_no_help_is_left_of_verbs_that_are_gone():
    assert sorted(path.name for path in renew_help.FOLDER.iterdir()) == sorted(TEXTS), RENEW


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_help_fits_eighty_columns_and_ends_with_examples(name):
    assert max(map(len, TEXTS[name].splitlines())) <= 80
    assert "\nexamples:\n" in TEXTS[name]
    first = TEXTS[name].split("\n\n")[1]
    assert first[0].isupper(), "the first line says what it does"


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_examples_are_understood(name):
    examples = TEXTS[name].split("\nexamples:\n")[1].split("\n\n")[0]
    lines = re.findall(r"^  .*?\bemrdm (.+?)(?:  +\S.*)?$", examples, re.MULTILINE)
    assert lines
    for line in lines:
        words = shlex.split(line.partition(" > ")[0].partition(")")[0])
        if "--help" in words:
            continue
        parsed, rest = build_parser().parse_known_args(words)
        assert not rest or hasattr(parsed, "words"), line
