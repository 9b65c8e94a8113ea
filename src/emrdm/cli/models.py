"""What verbs that run a model have in common: which model, which sampler, which device."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm import embedded
from emrdm.cli import settings
from emrdm.errors import InputError, WeightsError

if TYPE_CHECKING:
    from emrdm.config import SamplerConfig
    from emrdm.model import EMRDM

_OF_THE_SAMPLER = "sampler."
_WEIGHTS, _RECIPE = "model.safetensors", "recipe.json"  # in the folder of a run


def sampler_words(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The words of a command without sampler.KEY=VALUE, and those."""
    plain, overrides = [], {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key.startswith(_OF_THE_SAMPLER):
            if (name := key.removeprefix(_OF_THE_SAMPLER)) in overrides:
                raise InputError(f"{key} is given twice: expected it once")
            overrides[name] = settings.value(value)
            continue
        if equals and _is_sampler_setting(key) and not Path(word).exists():
            raise InputError(f"{word} is a setting of the sampler: expected {_OF_THE_SAMPLER}{word}")
        plain.append(word)
    return plain, overrides


def _is_sampler_setting(key: str) -> bool:
    from emrdm.config import SamplerConfig

    return key in (field.name for field in fields(SamplerConfig))


def load(name: str) -> EMRDM:
    """The default model, one from a weights file or the folder of a run, or one freshly made from a preset."""
    if name.endswith((".ckpt", ".pt", ".pth")):
        raise InputError(f"{name} is a checkpoint: turn it into weights first with emrdm convert")

    from emrdm.model import EMRDM
    from emrdm.presets import preset_names
    from emrdm.presets.reading import is_preset_file
    from emrdm.strict import nearest

    log = logging.getLogger("emrdm")
    if name in (embedded.DEFAULT, embedded.PRESET):
        model = EMRDM.default()
        log.info("%s: trained weights inside the package, %s", name, model.card.title)
        return model
    if name in preset_names() or is_preset_file(name):
        log.warning("%s is a preset: its weights are random, and so are its results", name)
        return EMRDM.from_preset(name)
    if not Path(name).exists() and not Path(name).suffix:
        known = nearest(name, [embedded.DEFAULT, *preset_names()])
        raise InputError(f"MODEL {name!r} is neither a file nor a preset{known}")
    path = weights_file(Path(name))
    try:
        return EMRDM.load(path)
    except WeightsError:
        from emrdm.training.checkpoint import is_checkpoint

        if is_checkpoint(path):
            raise InputError(f"{name} is a checkpoint: turn it into weights first with emrdm convert") from None
        raise


def weights_file(path: Path) -> Path:
    """A weights file, also by the folder of the run that made it."""
    inside = path / _WEIGHTS
    if inside.is_file():
        return inside
    if (path / _RECIPE).is_file():
        raise InputError(
            f"{path} is a run without weights: expected {_WEIGHTS}, which its first validation or a stop writes; "
            f"go on with emrdm train {path}, or emrdm convert one of its checkpoints"
        )
    return path


def run_of(name: str) -> Path | None:
    """The folder of the run that a model is from, as far as its path tells: the folder itself, or weights in one."""
    from emrdm.presets import preset_names

    if name in (embedded.DEFAULT, *preset_names()):
        return None
    path = Path(name)
    folder = path.parent if path.name == _WEIGHTS else path
    return folder if (folder / _RECIPE).is_file() else None


def sampler(model: EMRDM, overrides: dict[str, Any]) -> SamplerConfig:
    """The model's sampler with other settings."""
    from emrdm.config import SamplerConfig
    from emrdm.strict import dump, merge, parse

    return parse(SamplerConfig, merge(dump(model.config.sampler), overrides), "sampler")


def device(name: str | None) -> str:
    """The device asked for, or the best there is."""
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):
        none = name.partition(":")[0] == "cuda" and not torch.cuda.is_available()
        here = "cpu, since there is no CUDA device here" if none else "cpu or cuda"
        raise InputError(f"--device {name} cannot be used: expected {here}") from None
    return name
