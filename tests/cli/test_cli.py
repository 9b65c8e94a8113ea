"""The command line: help, exit codes, one line for each mistake."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import emrdm
from emrdm import errors
from emrdm.cli import VERBS, main


def test_help_answers_at_once():
    def seconds():
        start = time.perf_counter()
        result = subprocess.run([sys.executable, "-m", "emrdm", "--help"], capture_output=True, text=True, check=True)
        assert "Remove clouds" in result.stdout
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 0.5


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"emrdm {emrdm.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inof"], "unknown verb 'inof'"),
        (["info", "tiny", "--siz", "3"], "unknown option --siz"),
        (["info", "--size", "x"], "argument --size: found 'x': expected a whole number"),
        (["convert", "a.ckpt"], "required: -o/--output"),
    ],
)
def test_mistakes_in_usage_are_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_without_a_verb_it_prints_its_help(capsys):
    assert main([]) == 0
    assert "VERB" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["-v", "info", "tiny"], ["info", "tiny", "-v"], ["info", "-q", "tiny"]])
def test_volume_is_understood_before_and_after_the_verb(arguments, capsys):
    assert main(arguments) == 0
    assert "173,421" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (errors.EmrdmError("a"), 1, "a"),
        (errors.MissingDependencyError("a"), 1, "a"),
        (errors.InputError("a"), 2, "a"),
        (errors.ConfigError("a"), 2, "a"),
        (errors.WeightsError("a"), 2, "a"),
        (errors.DataError("a"), 2, "a"),
        (errors.InterruptedRunError("a"), 130, "a"),
        (PermissionError(13, "Permission denied", "f\x1b"), 1, "f\\x1b: Permission denied"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_codes(error, code, message, monkeypatch, capsys):
    """The table in docs/commands.md."""

    def fail(arguments):
        raise error

    monkeypatch.setattr("emrdm.cli.info.run", fail)
    assert main(["info"]) == code
    assert capsys.readouterr().err == f"emrdm info: {message}\n"


def test_every_exit_code_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
    known = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    assert set(map(int, re.findall(r"^\| (\d+) \|", text, re.MULTILINE))) == known | {0}


def test_every_verb_and_variable_is_documented():
    folder = Path(__file__).parents[2]
    text = (folder / "docs" / "commands.md").read_text("utf-8")
    for module in VERBS:
        assert f"| `{module.__name__.rpartition('.')[2]}` |" in text
    variables = re.findall(
        r'= "(EMRDM_[A-Z]+)"  # environment variable',
        "".join(path.read_text("utf-8") for path in (folder / "src").rglob("*.py")),
    )
    assert len(variables) >= 3
    for name in (*variables, "NO_COLOR", "FORCE_COLOR"):
        assert f"`{name}`" in text


def test_interruption_exits_with_130(monkeypatch, capsys):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("emrdm.cli.info.run", interrupt)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "emrdm info: interrupted\n"


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m emrdm info sen12ms-cr | head -1"
    result = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_command_cleanly(number, tmp_path):
    """A command that is writing exits with 130, and leaves neither a traceback nor a part of its file."""
    script = (
        "import sys, time, emrdm.cli, emrdm.files\n"
        "def run(arguments):\n"
        "    with emrdm.files.atomic_path(emrdm.files.Path(sys.argv[1]) / 'out') as temporary:\n"
        "        print('writing', flush=True)\n"
        "        time.sleep(60)\n"
        "emrdm.cli.info.run = run\n"
        "sys.exit(emrdm.cli.main(['info']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "writing\n"
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (130, "emrdm info: interrupted\n")
    assert list(tmp_path.iterdir()) == []
