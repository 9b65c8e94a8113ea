"""Presets: one TOML file each, with the paper's values and the scores to expect. Sweeps over them are in ``studies``.

TOML because Python reads it without a dependency, numbers such as 1e-4 are numbers, and there are no tags to abuse.
Files of one's own may be YAML, see ``reading``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, final

from emrdm.card import Results
from emrdm.config import ModelConfig
from emrdm.errors import ConfigError
from emrdm.presets.reading import is_preset_file, read_preset_file, read_toml
from emrdm.presets.recipe import OptimizerConfig, Source, TrainConfig, WatchConfig
from emrdm.strict import dump, merge, nearest, nested, parse

_NOT_PRESETS = ("studies",)


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
        if not data["model"]["aux"] and "model.inputs" not in changes:  # nothing auxiliary to see
            data["model"]["inputs"] = [name for name in data["model"]["inputs"] if name != "aux"]
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
    """A preset by name, or from a ``.toml`` or ``.yaml`` file that may build on one with ``base = "name"``."""
    if not isinstance(name, str | Path):
        raise ConfigError(f"preset is a {type(name).__name__}: expected a name or a .toml or .yaml file")
    data = _resolve(str(name), seen=())
    try:
        return parse(Preset, data)
    except ConfigError as error:
        hint = (
            "; a recipe usually begins with base, such as base: rgb-small" if str(error).endswith("is missing") else ""
        )
        raise ConfigError(f"{name}: {error}{hint}") from None


def _resolve(name: str, seen: tuple[str, ...]) -> dict[str, Any]:
    """The raw tables of a preset with its bases merged in."""
    if name in seen or len(seen) > 20:
        raise ConfigError(f"preset {name!r} builds on itself, or on too many others: {' -> '.join((*seen, name))}")
    if is_preset_file(name):
        data = read_preset_file(Path(name))
    elif name in preset_names():
        data = read_toml(files(__name__).joinpath(f"{name}.toml").read_text("utf-8"), name)
    else:
        where = f"{seen[-1]}: base: " if seen else ""
        raise ConfigError(f"{where}unknown preset {name!r}{nearest(name, preset_names())}")
    base = data.pop("base", None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise ConfigError(f"{name}: base is {base!r}: expected the name of a preset")
    if is_preset_file(base) and is_preset_file(name):
        base = str(Path(name).parent / base)  # beside the preset that names it
    inherited = _resolve(base, (*seen, name))
    inherited.pop("paper", None)  # figures belong to the preset they were measured with
    return merge(inherited, data)
