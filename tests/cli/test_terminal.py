"""Colours where somebody looks; readers that leave early, or were never there."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emrdm.cli import terminal

EMRDM = [sys.executable, "-m", "emrdm"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _no_wishes(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("stream", "wishes", "coloured"),
    [
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals_and_by_wish(stream, wishes, coloured, monkeypatch):
    for name, value in wishes.items():
        monkeypatch.setenv(name, value)
    assert terminal.coloured(stream) is coloured
    assert terminal.paint("x", "red", stream) == ("\x1b[31mx\x1b[0m" if coloured else "x")
    assert terminal.paint("x", "red", stream, plain=True) == "x"


def run(*words, **environment):
    """Output, messages and exit code of a command of its own."""
    return subprocess.run(
        [*EMRDM, *words], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_headings_and_errors_have_colours_and_json_has_none():
    help_text = run("--help", FORCE_COLOR="1").stdout
    assert "\x1b[1mverbs:\x1b[0m" in help_text
    assert run("--help").stdout == help_text.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert run("inof", FORCE_COLOR="1").stderr.startswith("\x1b[31memrdm:\x1b[0m unknown verb")
    for words in (("info", "--siz", "--json"), ("data", "list", "nothing", "--json")):
        found = run(*words, FORCE_COLOR="1")
        assert found.stderr
        assert "\x1b" not in found.stderr + found.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--help", "completion bash", "info --json"])
def test_a_reader_that_leaves_early_is_no_error(words, unbuffered):
    found = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{' '.join(EMRDM)} {words} | true"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_work_goes_on_when_the_reader_has_left(tmp_path):
    """What was asked for is done, whoever looks on."""
    script = (
        "import sys, time, emrdm.cli\n"
        "def run(arguments):\n"
        "    for _ in range(5):\n"
        "        print('x' * 100_000, flush=True)\n"
        "        print('y' * 100_000, file=sys.stderr, flush=True)\n"
        f"    open({str(tmp_path / 'done')!r}, 'w').close()\n"
        "emrdm.cli.info.run = run\n"
        "sys.argv = ['emrdm', 'info']\n"
        "emrdm.cli.program()\n"
    )
    (tmp_path / "script.py").write_text(script)
    command = f"{sys.executable} {tmp_path / 'script.py'} 2>&1 | head -c 10"
    found = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "x" * 10, "")
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), (">&- 2>&-", 0), ("<&- >&- 2>&-", 0)])
def test_streams_that_are_closed_are_no_error(closed, code):
    command = f"{' '.join(EMRDM)} data list {closed}"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (code, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("words", ["info", "info --help"])
def test_a_full_disk_is_one_line(words):
    command = f"{' '.join(EMRDM)} {words} > /dev/full"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr.endswith(": No space left on device\n")
    assert found.stderr.count("\n") == 1


def test_a_terminal_gets_colours_and_a_pipe_none():
    pty = pytest.importorskip("pty")
    here, there = pty.openpty()
    with os.fdopen(here, "rb", buffering=0) as reader:
        found = subprocess.run([*EMRDM, "inof"], stdout=subprocess.PIPE, stderr=there, check=False)
        os.close(there)
        assert reader.read(1000).startswith(b"\x1b[31memrdm:\x1b[0m unknown verb")
    assert found.returncode == 2
    assert run("inof").stderr.startswith("emrdm: unknown verb")
