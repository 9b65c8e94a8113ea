"""The folder of a run: what it holds, and whether a command may go on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from emrdm.errors import ConfigError, InputError
from emrdm.files import as_path, atomic_path, make_folder
from emrdm.presets import Preset
from emrdm.strict import dump, parse
from emrdm.training.log import LOG, TENSORBOARD
from emrdm.wording import brief, many

RECIPE = "recipe.json"
CHECKPOINTS, SHEETS = "checkpoints", "sheets"
MODEL, CARD, CURVES = "model.safetensors", "README.md", "curves.png"
_FILES = (LOG, MODEL, CARD, CURVES)
_FOLDERS = {CHECKPOINTS: "step-*.safetensors", SHEETS: "step-*.png", TENSORBOARD: "events.out.tfevents.*"}


@final
class RunFolder:
    """Paths of a run, and the recipe it was begun with."""

    def __init__(self, path: str | Path) -> None:
        self.path = path = as_path(path, "the folder of a run")
        self._made: list[Path] = []
        self.checkpoints, self.sheets = path / CHECKPOINTS, path / SHEETS
        self.model, self.card, self.curves, self.log = path / MODEL, path / CARD, path / CURVES, path / LOG

    def make(self) -> None:
        """Make the folder, or say why it cannot be."""
        self._made = [path for path in (self.path, *self.path.parents) if not path.exists()]
        make_folder(self.path, "the run")

    def unmake_if_empty(self) -> None:
        """Leave no trace of a run that was refused."""
        with suppress(OSError):  # there is something in it
            for path in self._made:
                path.rmdir()

    def refuse_others(self) -> None:
        """Refuse a folder with files that are no run's; hidden ones are nobody's work."""
        if self.begun():
            return
        names = sorted(path.name for path in self.path.iterdir() if not path.name.startswith("."))
        if names:
            raise InputError(f"{self.path} has files and no run ({brief(names, 3)}): expected an empty or a new folder")

    def begun(self) -> bool:
        """Whether there is a run in it."""
        return (self.path / RECIPE).is_file()

    def has_checkpoint(self) -> bool:
        """Whether the run has come so far."""
        return self.begun() and bool(self._named(CHECKPOINTS, _FOLDERS[CHECKPOINTS]))

    def clear(self) -> None:
        """Forget the run that is in it; files that are not a run's stay, wherever they are."""
        if not self.begun():
            return
        ours = [path for name, pattern in _FOLDERS.items() for path in self._named(name, pattern, ".*.partial")]
        # the recipe goes last: where this is cut short, there is still a run to forget
        for path in (*ours, *(self.path / name for name in _FILES), self.path / RECIPE):
            if not path.is_dir():
                path.unlink(missing_ok=True)
        for name in _FOLDERS:
            with suppress(OSError):  # it is not there, or something else is in it
                (self.path / name).rmdir()

    def _named(self, folder: str, *patterns: str) -> list[Path]:
        return [path for pattern in patterns for path in (self.path / folder).glob(pattern)]

    def claim(self, facts: Mapping[str, Any], *, allow_changes: bool) -> list[str]:
        """Begin a run with these facts, or see what has changed since it was begun, if that is allowed.

        A run that is there keeps its facts until :meth:`adopt` is called: the new ones may not work.
        """
        if not self.begun():
            self.adopt(facts)
            return []
        changes = differences(self.facts(), facts)
        if changes and not allow_changes:
            raise ConfigError(
                f"{self.path} holds a run with another recipe: {'; '.join(changes)}. "
                "Choose another folder, or add --allow-changes to go on with the new one"
            )
        return changes

    def facts(self) -> dict[str, Any]:
        """What the run was begun with."""
        path = self.path / RECIPE
        if not path.exists():
            raise ConfigError(f"{self.path} holds no run: expected a preset, a recipe's file, or the folder of a run")
        try:
            facts = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
        if not isinstance(facts, dict) or "recipe" not in facts:
            raise ConfigError(f"{path} has no recipe in it: expected the file that training wrote")
        return facts

    def recipe(self) -> Preset:
        """The recipe of the run."""
        return parse(Preset, self.facts()["recipe"])

    def adopt(self, facts: Mapping[str, Any]) -> None:
        """Make these facts the run's; what is watched may change without asking."""
        with atomic_path(self.path / RECIPE) as temporary:
            temporary.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")


def facts_of(recipe: Preset, *, samples: Mapping[str, Any], samples_a_step: int, start: str | None) -> dict[str, Any]:
    """What decides the weights of a run, and the whole recipe.

    Args:
        recipe: of the run.
        samples: what the data sets hold: a folder may move, its images may not change.
        samples_a_step: over all processes; their number may change.
        start: digest of the weights it starts from, None for random ones.
    """
    return {"recipe": dump(recipe), "samples": dict(samples), "samples_a_step": samples_a_step, "start": start}


_FREE = ("recipe.watch", "recipe.paper", "recipe.title", "recipe.train.select", "recipe.train.skip_limit")
# of batch size, processes and accumulation only the product counts; of data what is in it
_COUNTED_ELSEWHERE = ("recipe.train.batch_size", "recipe.train.gpus", "recipe.train.accumulate", "recipe.data")


_SAID = ("dataset", "images", "names")  # of a data set, in words


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs, as "key is x, was y"; keys that do not matter for the weights are left out."""
    before, after = _flat(old), _flat(new)
    found = _in_data(old.get("samples") or {}, new.get("samples") or {})
    for key in dict.fromkeys([*after, *before]):
        if key.startswith((*_FREE, *_COUNTED_ELSEWHERE, "samples.")) or before.get(key) == after.get(key):
            continue
        name = key.removeprefix("recipe.")
        found.append(f"{name} is {_show(after.get(key))}, was {_show(before.get(key))}")
    return found


def _in_data(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs in the data sets, in words: nobody knows digests of names."""
    found = []
    for place in dict.fromkeys([*old, *new]):
        before, after = old.get(place), new.get(place)
        if before is None or after is None or before["dataset"] != after["dataset"]:
            found.append(f"data set {place} is {_size(after)}, was {_size(before)}")
            continue
        name = after["dataset"] if len({**old, **new}) == 1 else f"data set {place}, {after['dataset']},"
        if before["images"] != after["images"]:
            found.append(f"{name} has {many(after['images'], 'image')} to train on, had {before['images']:,}")
        elif before["names"] != after["names"]:
            found.append(f"{name} has {many(after['images'], 'image')} to train on, as before, but others")
        was, now = ({k: v for k, v in _flat(part).items() if k not in _SAID} for part in (before, after))
        found += [
            f"{key} of {name} is {_show(now.get(key))}, was {_show(was.get(key))}"
            for key in dict.fromkeys([*now, *was])
            if now.get(key) != was.get(key)
        ]
    return found


def _size(part: Mapping[str, Any] | None) -> str:
    return "missing" if part is None else f"{part['dataset']} ({many(part['images'], 'image')})"


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix.removesuffix("."): value}
    return {name: leaf for key, item in value.items() for name, leaf in _flat(item, f"{prefix}{key}.").items()}


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
