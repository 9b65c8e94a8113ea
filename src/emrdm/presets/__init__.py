"""Presets: one TOML file each, with the paper's values and the scores to expect. Sweeps over them are in ``studies``.

TOML because Python reads it without a dependency, numbers such as 1e-4 are numbers, and there are no tags to abuse.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, final

from emrdm.card import Results
from emrdm.config import ModelConfig
from emrdm.errors import ConfigError
from emrdm.strict import dump, merge, nearest, nested, parse

_NOT_PRESETS = ("studies",)
_LARGEST = 16_384  # bytes of a preset; reading hostile TOML takes quadratic time


@final
@dataclass(frozen=True)
class TrainingConfig:
    """The recipe a preset was trained with; batch_size is per GPU."""

    steps: int
    batch_size: int
    epochs: int | None = None
    gpus: int = 1
    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 1e-2
    ema_decay: float = 0.9999
    precision: Literal["fp32", "tf32", "bf16-mixed"] = "tf32"


@final
@dataclass(frozen=True)
class PaperFigures:
    """What the paper prints of a preset; times are on one RTX 4090."""

    results: Results
    parameters_millions: float | None = None
    macs_giga: float | None = None
    training_ms_a_batch: float | None = None
    sampling_ms_an_image: float | None = None


@final
@dataclass(frozen=True)
class Preset:
    """A model, the recipe that trains it and what the paper says of it."""

    title: str
    model: ModelConfig
    training: TrainingConfig
    paper: PaperFigures | None = None

    def replace(self, changes: Mapping[str, Any]) -> Preset:
        """The preset with dotted keys changed, such as {"model.sampler.steps": 8}; strictly checked."""
        return parse(Preset, merge(dump(self), nested(changes)))


def preset_names() -> list[str]:
    """All presets, sorted."""
    names = (entry.name.removesuffix(".toml") for entry in files(__name__).iterdir() if entry.name.endswith(".toml"))
    return sorted(name for name in names if name not in _NOT_PRESETS)


def load_preset(name: str | Path) -> Preset:
    """A preset by name, or from a ``.toml`` file that may build on one with ``base = "name"``."""
    if not isinstance(name, str | Path):
        raise ConfigError(f"preset is a {type(name).__name__}: expected a name or a .toml file")
    return parse(Preset, _resolve(str(name), seen=()))


def _resolve(name: str, seen: tuple[str, ...]) -> dict[str, Any]:
    """The raw tables of a preset with its bases merged in."""
    if name in seen or len(seen) > 20:
        raise ConfigError(f"preset {name!r} builds on itself, or on too many others: {' -> '.join((*seen, name))}")
    if name.endswith(".toml"):
        try:
            size = Path(name).stat().st_size
            text = Path(name).read_text("utf-8") if size <= _LARGEST else ""
        except (OSError, ValueError) as error:  # also names and contents that are not text
            raise ConfigError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if size > _LARGEST:
            raise ConfigError(f"{name} has {size:,} bytes: a preset has at most {_LARGEST:,}")
    elif name in preset_names():
        text = files(__name__).joinpath(f"{name}.toml").read_text("utf-8")
    else:
        raise ConfigError(f"unknown preset {name!r}{nearest(name, preset_names())}")
    data = read_toml(text, name)
    base = data.pop("base", None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise ConfigError(f"{name}: base is {base!r}: expected the name of a preset")
    inherited = _resolve(base, (*seen, name))
    inherited.pop("paper", None)  # figures belong to the preset they were measured with
    return merge(inherited, data)


def read_toml(text: str, name: str) -> dict[str, Any]:
    """Parse, with one line that names the file when it is not TOML."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is a ValueError, and so is a number too long
        raise ConfigError(f"{name}: not valid TOML: {error}") from None
