"""The command line as data, read from its parsers: verbs, options, and what may stand behind them.

Made for completion, so it knows names of presets and data sets without importing anything heavy.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import emrdm
from emrdm import embedded

# As in emrdm.data and emrdm.metrics, which a test compares them with: they import torch.
DATASETS = (
    "cuhk-cr1",
    "cuhk-cr2",
    "sen12ms-cr",
    "sen2-mtc-new",
    "rice1",
    "rice2",
    "pairs",
    "series",
    "synthetic",
)
PROTOCOLS = ("standard", "cuhk", "sen12ms-cr", "sen2-mtc-new")


@final
@dataclass(frozen=True)
class Values:
    """What may stand at a place: words, files (folders lead to them), folders, or what cannot be completed."""

    words: tuple[str, ...] = ()
    files: bool = False
    folders: bool = False

    def __or__(self, other: Values) -> Values:
        words = tuple(dict.fromkeys(self.words + other.words))
        return Values(words, self.files or other.files, self.folders or other.folders)


@final
@dataclass(frozen=True)
class Option:
    """An option; without values it is a switch."""

    names: tuple[str, ...]
    help: str
    metavar: str
    values: Values | None


@final
@dataclass(frozen=True)
class Command:
    """A verb or a task of one; ``path`` is empty for the program itself.

    The last of ``arguments`` may be repeated where ``repeats`` says so.
    """

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    arguments: tuple[Values, ...]
    repeats: bool
    parts: tuple[Command, ...]

    def all(self) -> Iterator[Command]:
        """This one and those below it."""
        yield self
        for part in self.parts:
            yield from part.all()


def read(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), text: str = "") -> Command:
    """A parser as data, with those below it."""
    options, arguments, parts, repeats = [], [], [], False
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {part.dest: part.help or "" for part in action._get_subactions()}
            parts = [read(part, (*path, name), helps[name]) for name, part in action.choices.items()]
        elif not action.option_strings:
            arguments.append(_values(action))
            repeats = action.nargs in ("*", "+")
        elif action.help != argparse.SUPPRESS:
            values = None if action.nargs == 0 else _values(action)
            metavar = "" if action.choices or not isinstance(action.metavar, str) else action.metavar
            says = (action.help or "") % {**vars(action), "prog": parser.prog}
            options.append(Option(tuple(action.option_strings), says, metavar, values))
    return Command(path, text, tuple(options), tuple(arguments), repeats, tuple(parts))


def presets() -> tuple[str, ...]:
    """Names of the presets, those for tests last."""
    names = (path.stem for path in _folder().glob("*.toml") if path.stem != "studies")
    return tuple(sorted(names, key=lambda name: (name.startswith("tiny"), name.startswith("config-"), name)))


def studies() -> tuple[str, ...]:
    """Names of the studies."""
    return tuple(tomllib.loads((_folder() / "studies.toml").read_text("utf-8")))


def _folder() -> Path:
    return Path(str(emrdm.__file__)).parent / "presets"


def _values(action: argparse.Action) -> Values:
    """By the choices, by name, by the words a value is called in the help, or by its type."""
    if action.choices is not None:
        return Values(tuple(map(str, action.choices)))
    name = action.option_strings[-1] if action.option_strings else action.dest
    if name in (known := _by_name()):
        return known[name]
    found = Values()
    for word in re.findall(r"[A-Z]{2,}", str(action.metavar)):
        found |= _by_word(word)
    return Values(files=True) if found == Values() and action.type is Path else found


def _by_name() -> dict[str, Values]:
    return {
        "name": Values(DATASETS),
        "--cache": Values(("memory",), folders=True),
        "--data": Values(tuple(f"{name}=" for name in DATASETS), folders=True),
        "--device": Values(("cpu", "cuda")),
        "--preset": Values(presets()),
        "--protocol": Values(PROTOCOLS),
    }


def _by_word(word: str) -> Values:
    if word in ("FOLDER", "ROOT"):
        return Values(folders=True)
    if word in ("FILE", "IMAGE", "WEIGHTS", "CLEAR", "CLOUDY", "TRUTH"):
        return Values(files=True)
    if word in ("PRESET", "RECIPE"):
        return Values(presets(), files=True)
    if word == "MODEL":
        return Values((embedded.DEFAULT, *presets()), files=True)
    if word == "DATASET":
        return Values(DATASETS)
    if word == "STUDY":
        return Values(studies())
    return Values()
