"""How much is said, by -v, -vv and -q."""

import logging
import subprocess
import sys

import pytest

from emrdm.cli import build_parser, main, volume
from emrdm.errors import InputError


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ("info", 0),
        ("info -v", 1),
        ("-v info", 1),
        ("info -vv", 2),
        ("-v info -v", 2),
        ("-v data -v list", 2),
        ("data list -vvv", 2),
        ("-v data -v list -v", 2),
        ("info -q", -1),
        ("-q info -q", -1),
        ("data -q list", -1),
    ],
)
def test_it_is_asked_for_before_the_verb_and_after_it(words, level):
    parsed = build_parser().parse_args(words.split())
    assert volume.read(parsed) == level
    assert parsed.quiet is (level < 0)


def test_more_and_less_at_once_is_refused(capsys):
    with pytest.raises(InputError, match="both -v and -q"):
        volume.read(build_parser().parse_args(["-v", "info", "-q"]))
    assert main(["-v", "info", "-q"]) == 2
    assert capsys.readouterr().err == "emrdm info: both -v and -q were given: expected one of them\n"


SCRIPT = """
import logging, sys, emrdm.cli
def run(arguments):
    for name in ("emrdm.model", "rasterio._env", "matplotlib"):
        for level in ("debug", "info", "warning", "error"):
            getattr(logging.getLogger(name), level)("%s %s", name.partition(".")[0], level)
emrdm.cli.info.run = run
sys.argv[0] = "emrdm"
emrdm.cli.program()
"""


@pytest.mark.parametrize(
    ("option", "heard"),
    [
        ("-q", {"emrdm error", "matplotlib error"}),
        ("", {"emrdm warning", "emrdm error", "matplotlib warning", "matplotlib error"}),
        ("-v", {"emrdm info", "emrdm warning", "emrdm error", "matplotlib warning", "matplotlib error"}),
        ("-vv", {f"{name} {level}" for name in ("emrdm", "rasterio", "matplotlib") for level in ("debug", "info", "warning", "error")}),
    ],
)  # fmt: skip
def test_what_each_level_lets_through(option, heard):
    words = [sys.executable, "-c", SCRIPT, "info", *option.split()]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    assert found.stdout == ""
    assert set(found.stderr.splitlines()) == {f"emrdm: {text}" for text in heard}


def test_where_an_error_was_raised_is_for_those_who_want_everything(capsys):
    assert main(["info", "nothing"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["info", "nothing", "-vv"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.splitlines()[-1].startswith("emrdm info: unknown preset 'nothing'")


def test_warnings_are_yellow_where_there_are_colours(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    record = logging.LogRecord("emrdm", logging.WARNING, "", 0, "careful", None, None)
    assert volume._Formatter(plain=False).format(record) == "\x1b[33memrdm:\x1b[0m careful"
    assert volume._Formatter(plain=True).format(record) == "emrdm: careful"
