"""Checkpoints of the published implementation (Lightning ``.ckpt``): import and export.

Their ``state_dict`` holds the live weights as ``model.diffusion_model.<name>`` and the averaged ones as
``model_ema.`` followed by "diffusion_model." and the name with every dot removed. Buffers exist only among the live
ones. The names of our networks are theirs, so nothing is renamed beyond these prefixes. To compute what the authors
computed: averaged parameters, live buffers.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from emrdm.config import ModelConfig
from emrdm.errors import WeightsError
from emrdm.files import atomic_path
from emrdm.presets import load_preset, preset_names
from emrdm.weights import check_state

LIVE = "model.diffusion_model."
EMA = "model_ema."
_EMA_EXTRAS = (f"{EMA}decay", f"{EMA}num_updates")


def ema_name(name: str) -> str:
    """Key of the averaged copy of a parameter."""
    return EMA + f"diffusion_model.{name}".replace(".", "")


def read_checkpoint(path: Path, config: ModelConfig, buffers: Iterable[str], *, ema: bool = True) -> dict[str, Tensor]:
    """Network state from a published checkpoint, checked for completeness; never runs code from it.

    Args:
        path: the ``.ckpt`` file.
        config: the model it should fit.
        buffers: names of the network's buffers.
        ema: take the averaged parameters, as the authors do; otherwise the live ones.
    """
    stored = _state_dict(path)
    live = {key.removeprefix(LIVE): value for key, value in stored.items() if key.startswith(LIVE)}
    if not live:
        raise WeightsError(f"{path}: no tensor is named {LIVE}...: not a published EMRDM checkpoint")
    _check_fit(path, config, {name: tuple(tensor.shape) for name, tensor in live.items()})

    buffers = set(buffers)
    averaged = {ema_name(name): name for name in live if name not in buffers}
    unexpected = [key for key in stored if not key.startswith(LIVE) and key not in averaged and key not in _EMA_EXTRAS]
    if unexpected:
        raise WeightsError(f"{path}: {unexpected[0]} does not belong to this network ({len(unexpected)} such tensors)")
    if not ema:
        return {name: tensor.float() for name, tensor in live.items()}
    missing = [key for key in averaged if key not in stored]
    if missing:
        raise WeightsError(
            f"{path}: {missing[0]} is missing ({len(missing)} averaged parameters are): "
            "take the live weights with ema=False (--live)"
        )
    state = dict(live)
    for key, name in averaged.items():
        if stored[key].shape != live[name].shape:
            raise WeightsError(
                f"{path}: {key} has shape {tuple(stored[key].shape)}: expected {tuple(live[name].shape)}"
            )
        state[name] = stored[key]
    return {name: tensor.float() for name, tensor in state.items()}


def write_checkpoint(path: Path, state: Mapping[str, Tensor], buffers: Iterable[str]) -> None:
    """Write a state in the published layout, the same weights as live and as averaged ones."""
    with atomic_path(Path(path)) as temporary:
        torch.save({"state_dict": published_state(state, buffers)}, temporary)


def published_state(state: Mapping[str, Tensor], buffers: Iterable[str]) -> dict[str, Tensor]:
    """A network's state under the published names, in the published order."""
    buffers = set(buffers)
    tensors = {name: tensor.detach().cpu() for name, tensor in state.items()}
    live = {LIVE + name: tensor for name, tensor in tensors.items()}
    averaged = {ema_name(name): tensor for name, tensor in tensors.items() if name not in buffers}
    extras = {_EMA_EXTRAS[0]: torch.tensor(0.9999), _EMA_EXTRAS[1]: torch.tensor(0)}
    return {**live, **extras, **averaged}


def _state_dict(path: Path) -> dict[str, Tensor]:
    try:
        with Path(path).open("rb") as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of odd pickles, which are refused below anyway
            content: Any = torch.load(stream, map_location="cpu", weights_only=True)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # the restricted unpickler meets damaged data with any kind of error
        wanted = re.search(r"(?:GLOBAL|global:?) ([\w.]+)", str(error))
        reason = f"it asks for {wanted[1]}" if wanted else "it is damaged, or not a checkpoint"
        raise WeightsError(
            f"{path} cannot be read as plain tensors, and nothing else is done with it: {reason}"
        ) from None
    state = content.get("state_dict") if isinstance(content, dict) else None
    if not isinstance(state, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in state.items()
    ):
        raise WeightsError(f"{path}: no table of tensors called 'state_dict': not a published EMRDM checkpoint")
    return state


def _is_plain(value: object) -> bool:
    """Whether a value is a dense tensor of numbers that are really there."""
    if not isinstance(value, Tensor) or value.is_nested or value.is_quantized or value.is_complex():
        return False
    return value.layout == torch.strided and not value.is_meta


def _check_fit(path: Path, config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """As :func:`~emrdm.weights.check_state`, and name the preset that would fit."""
    try:
        check_state(str(path), config, shapes)
    except WeightsError as error:
        for name in preset_names():
            try:
                check_state(str(path), load_preset(name).model, shapes)
            except WeightsError:
                continue
            raise WeightsError(f"{error}; preset {name!r} fits") from None
        raise
