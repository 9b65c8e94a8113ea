"""What is typed as KEY=VALUE, and folders as NAME=ROOT."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emrdm.cli import dataset_options
from emrdm.errors import InputError

if TYPE_CHECKING:
    from emrdm.presets import Preset

_SETTING = re.compile(r"[a-z_]+(\.[a-z_0-9]+)*=.*", re.DOTALL)
_BARE_LIST = re.compile(r"\[((?:\s*[\w.+-]+\s*,)*\s*[\w.+-]+\s*)\]")  # [noisy,cloudy]
# where "none" is a choice of its own: no augmentation is not the data set's own, which null asks for
_NONE_IS_A_CHOICE = ("train.augmentation",)


def words(given: Sequence[str], *, expected: str) -> tuple[str, dict[str, Any]]:
    """One name and settings, from the words of a command."""
    plain, found = split(given)
    if len(plain) != 1:
        raise InputError(f"found {' '.join(given)!r}: expected {expected}")
    return plain[0], found


def split(given: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The plain words of a command, and its settings, each of which may be given once."""
    plain, found = [], {}
    for word in given:
        if not _SETTING.fullmatch(word):
            plain.append(word)
            continue
        key, _, text = word.partition("=")
        if key in found:
            raise InputError(f"{key} is given twice: expected it once")
        found[key] = text if text == "none" and key in _NONE_IS_A_CHOICE else value(text)
    return plain, found


def value(text: str) -> Any:
    """A value as TOML has it, or a text or list of texts without quotes; ``none`` is nothing, 1e3 a whole number."""
    if text.lower() in ("none", "null"):
        return None
    try:
        found = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        bare = _BARE_LIST.fullmatch(text)
        return [value(item.strip()) for item in bare[1].split(",")] if bare else text
    whole = isinstance(found, float) and "e" in text.lower() and found.is_integer() and abs(found) < 1 << 53
    return int(found) if whole else found


def full_keys(overrides: dict[str, Any]) -> dict[str, Any]:
    """Settings by their full keys, each once: of two that differ, one would have no effect."""
    from emrdm.presets.reading import full_key

    found: dict[str, Any] = {}
    for key, given in overrides.items():
        if (full := full_key(key)) in found:
            raise InputError(f"{full} is given twice: expected it once")
        found[full] = given
    return found


def sources(arguments: argparse.Namespace, name: str, recipe: Preset) -> list[dict[str, Any]]:
    """The folders of --data with what else is said of them."""
    from emrdm.data import CATALOG
    from emrdm.strict import nearest

    numbers = dataset_options.numbers(arguments)
    common: dict[str, Any] = {"rule": arguments.rule, "clouds": arguments.clouds}
    if numbers is not None:
        common["bands"] = list(numbers.names)
        common["range"] = None if numbers.low is None else [numbers.low, numbers.high]
    found = []
    for text in arguments.data or []:
        dataset, equals, root = text.partition("=")
        if not equals:
            dataset, root = _own_dataset(name, recipe), text
        if dataset not in CATALOG:
            raise InputError(f"--data {text}: unknown data set {dataset!r}{nearest(dataset.lower(), CATALOG)}")
        if not root:
            raise InputError(f"--data {text}: expected NAME=ROOT with the folder behind the equals sign")
        found.append({"dataset": dataset, "root": root, **common})
    if not found and any(common.get(key) for key in common):
        raise InputError("--rule, --bands, --range and --clouds say more about --data: expected it with them")
    return found


def _own_dataset(name: str, recipe: Preset) -> str:
    """The data set a preset is for."""
    from emrdm.data import CATALOG

    own = recipe.paper.results.dataset.lower().replace("_", "-") if recipe.paper else name
    if own not in CATALOG:
        raise InputError(f"--data needs the name of a data set for {name}: expected NAME=ROOT, such as pairs=ROOT")
    return own
