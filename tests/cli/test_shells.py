"""Completion scripts, tried in the shells that are there."""

import shutil
import subprocess

import pytest

from emrdm.cli import build_parser, commands, shells

ASK = """
source "$1"
cd "$2"
shift 2
COMP_WORDS=("$@")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_emrdm
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def program():
    return commands.read(build_parser())


@pytest.fixture(scope="module")
def ask(program, tmp_path_factory):
    """What bash offers for the last of some words, in a folder with a file and a folder."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not here")
    folder = tmp_path_factory.mktemp("bash")
    script = folder / "emrdm.bash"
    script.write_text(shells.bash(program))
    here = folder / "here"
    (here / "images of mine").mkdir(parents=True)
    (here / "image.tif").touch()

    def call(*words):
        command = ["bash", "--norc", "-u", "-c", ASK, "ask", script, here, "emrdm", *words]
        found = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        assert found.stderr == ""
        return [line for line in found.stdout.split("\n") if line]

    return call


def test_bash_offers_verbs_and_tasks(ask, program):
    assert ask("") == [part.path[0] for part in program.parts]
    assert ask("inf") == ["info"]
    assert ask("-v", "inf") == ["info"]
    assert ask("data", "") == ["list", "verify", "preview"]
    assert ask("data", "-q", "ver") == ["verify"]
    assert ask("nonsense", "") == []


def test_bash_offers_options_where_they_are_typed(ask):
    assert ask("--ver") == ["--verbose", "--version"]
    assert ask("info", "--s") == ["--size"]
    assert ask("info", "rgb", "--j") == ["--json"]
    assert ask("data", "verify", "rice1", "--no") == ["--no-decode"]


def test_bash_offers_values_of_options(ask):
    assert ask("train", "tiny", "--device", "") == ["auto", "cpu", "cuda"]
    assert ask("train", "tiny", "--device", "=", "c") == ["cpu", "cuda"]  # as bash splits --device=c
    assert ask("train", "tiny", "--device", "=") == ["auto", "cpu", "cuda"]
    assert ask("convert", "x", "--preset", "sen1") == ["sen12ms-cr"]
    assert ask("evaluate", "--protocol", "st") == ["standard"]
    assert ask("info", "--size", "") == []


def test_bash_offers_names_of_presets_data_sets_and_studies(ask):
    assert ask("info", "rgb") == ["rgb", "rgb-small"]
    assert ask("train", "--device", "cpu", "rgb-") == ["rgb-small"]
    assert ask("data", "list", "ric") == ["rice1", "rice2"]
    assert ask("evaluate", "default", "ric") == ["rice1", "rice2"]
    assert ask("ablate", "alph") == ["alpha"]
    assert ask("train", "tiny", "--data", "ric") == ["rice1=", "rice2="]


def test_bash_offers_files_and_folders(ask):
    assert sorted(ask("restore", "im")) == ["image.tif", "images of mine"]
    assert sorted(ask("restore", "image.tif", "-o", "im")) == ["image.tif", "images of mine"]
    assert ask("restore", "image.tif", "--out-dir", "im") == ["images of mine"]
    assert ask("data", "verify", "rice1", "im") == ["images of mine"]
    assert "images of mine" in ask("train", "tiny", "--data", "rice1", "=", "im")


@pytest.mark.parametrize(("shell", "write"), [("bash", shells.bash), ("zsh", shells.zsh), ("fish", shells.fish)])
def test_scripts_are_understood_by_their_shells(shell, write, program, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    (tmp_path / "script").write_text(write(program))
    found = subprocess.run([shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.parametrize("write", [shells.bash, shells.zsh, shells.fish])
def test_scripts_name_every_verb_and_option(write, program):
    text = write(program)
    assert "@" not in text.replace('"$@"', "").replace("[@]", "")  # every place is filled
    for command in program.all():
        for option in command.options:
            assert all(name.lstrip("-") in text for name in option.names)
        if command.path:
            assert command.path[-1] in text


def test_quotes_in_help_do_not_break_scripts():
    option = commands.Option(("--size",), "the model's own [x]: 100 %", "[NAME=]X", commands.Values(("a",)))
    program = commands.Command((), "", (option,), (), False, ())
    assert r"model'\''s own (x)\: 100 %" in shells.zsh(program)
    assert r"model\'s own [x]: 100 %" in shells.fish(program)
