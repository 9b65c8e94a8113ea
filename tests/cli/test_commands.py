"""The command line as data: what completion offers is what there is."""

import pytest

from emrdm.cli import VERBS, build_parser, commands
from emrdm.cli.commands import Values


@pytest.fixture(scope="module")
def found():
    return {" ".join(command.path): command for command in commands.read(build_parser()).all()}


def values(command, name):
    return next(option.values for option in command.options if name in option.names)


def test_names_are_those_that_are_known():
    from emrdm.data import CATALOG
    from emrdm.metrics import PROTOCOLS
    from emrdm.presets import preset_names
    from emrdm.presets.studies import study_names

    assert tuple(CATALOG) == commands.DATASETS
    assert tuple(PROTOCOLS) == commands.PROTOCOLS
    assert commands.presets() == tuple(preset_names())
    assert sorted(commands.studies()) == sorted(study_names())


def test_all_verbs_and_tasks_are_there(found):
    verbs = {module.__name__.rpartition(".")[2] for module in VERBS}
    assert verbs | {"", "data list", "data verify", "data preview"} <= set(found)
    assert all(command.help for path, command in found.items() if path)


def test_what_may_stand_at_a_place(found):
    assert found["info"].arguments == (Values(("default", *commands.presets()), files=True),)
    assert found["data list"].arguments == (Values(commands.DATASETS),)
    assert found["data verify"].arguments == (Values(commands.DATASETS), Values(folders=True))
    assert found["ablate"].arguments == (Values(commands.studies()),)
    assert set(commands.presets() + commands.DATASETS) <= set(found["evaluate"].arguments[0].words)
    assert found["restore"].arguments == (Values(files=True),)
    assert found["restore"].repeats
    assert not found["calibrate"].repeats


def test_what_may_stand_behind_an_option(found):
    assert values(found["train"], "--device") == Values(("auto", "cpu", "cuda"))
    assert values(found["train"], "-o") == Values(folders=True)
    assert values(found["restore"], "-o") == Values(files=True)
    assert values(found["restore"], "--mask") == Values(files=True)
    assert values(found["info"], "--size") == Values()  # a number
    assert values(found["info"], "--device") is None  # a switch
    assert "rice1=" in values(found["train"], "--data").words
    assert not any(spelling == "--version" for o in found["info"].options for spelling in o.names)  # hidden there


@pytest.mark.parametrize("verb", ["restore", "calibrate", "info", "data list", "data verify", "train", "ablate", "evaluate", "bench", "convert"])  # fmt: skip
def test_what_a_script_wants_to_know_is_there_as_json(found, verb):
    assert any("--json" in option.names for option in found[verb].options)
