"""Presets: one TOML file each, with the paper's values and the scores to expect. Sweeps over them are in ``studies``.

TOML because Python reads it without a dependency, numbers such as 1e-4 are numbers, and there are no tags to abuse.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, final

from emrdm.card import Results
from emrdm.config import ModelConfig
from emrdm.errors import ConfigError
from emrdm.files import why_unreadable
from emrdm.presets.recipe import OptimizerConfig, Source, TrainConfig, WatchConfig
from emrdm.strict import dump, merge, nearest, nested, parse

_NOT_PRESETS = ("studies",)
_LARGEST = 1 << 20  # bytes of a preset
# A key with more parts than any preset has; tomllib takes quadratic time for those.
_DEEP = re.compile(r"(?<![\w'\"-])(?:[\w'\"-]++[ \t]*+\.[ \t]*+){40}")


@final
@dataclass(frozen=True)
class PaperFigures:
    """What the paper prints of a preset; times are on one RTX 4090."""

    results: Results
    epochs: int | None = None
    parameters_millions: float | None = None
    macs_giga: float | None = None
    training_ms_a_batch: float | None = None
    sampling_ms_an_image: float | None = None


@final
@dataclass(frozen=True)
class Preset:
    """A model, the recipe that trains it and what the paper says of it.

    ``data`` is empty in the presets of this package: a file of one's own may name the folders to train on.
    """

    title: str
    model: ModelConfig
    train: TrainConfig
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    watch: WatchConfig = field(default_factory=WatchConfig)
    data: tuple[Source, ...] = ()
    paper: PaperFigures | None = None

    def replace(self, changes: Mapping[str, Any]) -> Preset:
        """The preset with dotted keys changed, such as {"model.sampler.steps": 8}; strictly checked."""
        data = merge(dump(self), nested(changes))
        if data["model"] != dump(self.model):
            data["paper"] = None  # figures belong to the model they were measured with
        return parse(Preset, data)


def preset_names() -> list[str]:
    """All presets: data sets first, then ablations, then those for tests."""
    names = (entry.name.removesuffix(".toml") for entry in files(__name__).iterdir() if entry.name.endswith(".toml"))
    return sorted(
        (name for name in names if name not in _NOT_PRESETS),
        key=lambda name: (name.startswith("tiny"), name.startswith("config-"), name),
    )


def load_preset(name: str | Path) -> Preset:
    """A preset by name, or from a ``.toml`` file that may build on one with ``base = "name"``."""
    if not isinstance(name, str | Path):
        raise ConfigError(f"preset is a {type(name).__name__}: expected a name or a .toml file")
    data = _resolve(str(name), seen=())
    try:
        return parse(Preset, data)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _resolve(name: str, seen: tuple[str, ...]) -> dict[str, Any]:
    """The raw tables of a preset with its bases merged in."""
    if name in seen or len(seen) > 20:
        raise ConfigError(f"preset {name!r} builds on itself, or on too many others: {' -> '.join((*seen, name))}")
    if name.endswith(".toml"):
        text = _read_preset_file(Path(name))
    elif name in preset_names():
        text = files(__name__).joinpath(f"{name}.toml").read_text("utf-8")
    else:
        where = f"{seen[-1]}: base: " if seen else ""
        raise ConfigError(f"{where}unknown preset {name!r}{nearest(name, preset_names())}")
    data = read_toml(text, name)
    base = data.pop("base", None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise ConfigError(f"{name}: base is {base!r}: expected the name of a preset")
    if base.endswith(".toml") and name.endswith(".toml"):
        base = str(Path(name).parent / base)  # beside the preset that names it
    inherited = _resolve(base, (*seen, name))
    inherited.pop("paper", None)  # figures belong to the preset they were measured with
    return merge(inherited, data)


def _read_preset_file(path: Path) -> str:
    reason = why_unreadable(path)
    if reason is not None:
        raise ConfigError(f"{path} cannot be read: {reason}")
    size = path.stat().st_size
    if size > _LARGEST:
        raise ConfigError(f"{path} has {size:,} bytes: a preset has at most {_LARGEST:,}")
    try:
        return path.read_text("utf-8-sig")
    except UnicodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8: {error}") from None


def read_toml(text: str, name: str) -> dict[str, Any]:
    """Parse, with one line that names the file when it is not TOML."""
    if _DEEP.search(text):
        raise ConfigError(f"{name}: a key of more than 40 parts: expected a few")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError, and so is a number too long
        raise ConfigError(f"{name}: not valid TOML: {error}") from None
