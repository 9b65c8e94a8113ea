"""Checkpoints of the published implementation (Lightning ``.ckpt``): import and export.

Their ``state_dict`` holds the live weights as ``model.diffusion_model.<name>`` and the averaged ones as
``model_ema.`` followed by "diffusion_model." and the name with every dot removed. Buffers exist only among the live
ones. The names of our networks are theirs, so nothing is renamed beyond these prefixes. To compute what the authors
computed: averaged parameters, live buffers.
"""

from __future__ import annotations

import pickletools
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from emrdm.config import ModelConfig
from emrdm.errors import EmrdmError, WeightsError
from emrdm.files import atomic_path, why_unreadable
from emrdm.presets import load_preset, preset_names
from emrdm.weights import buffer_names, check_state, check_values

LIVE = "model.diffusion_model."
EMA = "model_ema."
_EMA_EXTRAS = (f"{EMA}decay", f"{EMA}num_updates")
_DEEPEST = 10  # tensors need tuples three deep


def ema_name(name: str) -> str:
    """Key of the averaged copy of a parameter."""
    return EMA + f"diffusion_model.{name}".replace(".", "")


def read_checkpoint(path: Path, config: ModelConfig, *, ema: bool = True) -> dict[str, Tensor]:
    """Network state from a published checkpoint, checked for completeness; never runs code from it.

    Args:
        path: the ``.ckpt`` file.
        config: the model it should fit.
        ema: take the averaged parameters, as the authors do; otherwise the live ones.
    """
    stored = _state_dict(path)
    live = {key.removeprefix(LIVE): value for key, value in stored.items() if key.startswith(LIVE)}
    if not live:
        raise WeightsError(f"{path}: no tensor is named {LIVE}...: not a published EMRDM checkpoint")
    _check_fit(path, config, {name: tuple(tensor.shape) for name, tensor in live.items()})

    buffers = buffer_names(config)
    averaged = {ema_name(name): name for name in live if name not in buffers}
    unexpected = [key for key in stored if not key.startswith(LIVE) and key not in averaged and key not in _EMA_EXTRAS]
    if unexpected:
        raise WeightsError(f"{path}: {unexpected[0]} does not belong to this network ({len(unexpected)} such tensors)")
    if not ema:
        check_values(f"{path}:", live)
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
    check_values(f"{path}:", state)
    return {name: tensor.float() for name, tensor in state.items()}


def write_checkpoint(path: Path, config: ModelConfig, state: Mapping[str, Tensor]) -> None:
    """Write a state in the published layout, the same weights as live and as averaged ones."""
    tensors = published_state(config, state)
    check_values(f"{path}:", {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()})
    try:
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            torch.save({"state_dict": tensors}, stream)  # a stream, so that no name gets into the archive
    except RuntimeError as error:  # such as a full disk
        raise EmrdmError(f"{path} could not be written: {error}") from None


def published_state(config: ModelConfig, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A network's state under the published names, in the published order."""
    buffers = buffer_names(config)
    tensors = {name: tensor.detach().cpu() for name, tensor in state.items()}
    live = {LIVE + name: tensor for name, tensor in tensors.items()}
    averaged = {ema_name(name): tensor for name, tensor in tensors.items() if name not in buffers}
    extras = {_EMA_EXTRAS[0]: torch.tensor(0.9999), _EMA_EXTRAS[1]: torch.tensor(0)}
    return {**live, **extras, **averaged}


def _state_dict(path: Path) -> dict[str, Tensor]:
    _check_archive(path)
    try:
        with path.open("rb") as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of odd pickles, which are refused below anyway
            content: Any = torch.load(stream, map_location="cpu", weights_only=True)
    except Exception as error:  # the restricted unpickler meets damaged data with any kind of error
        wanted = re.search(r"GLOBAL ([\w.]+)", str(error))
        reason = f"it asks for {wanted[1]}" if wanted else "it is damaged, or not a checkpoint"
        raise WeightsError(
            f"{path} cannot be read as plain tensors, and nothing else is done with it: {reason}"
        ) from None
    state = content.get("state_dict") if isinstance(content, dict) else None
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        raise WeightsError(f"{path}: no table of tensors called 'state_dict': not a published EMRDM checkpoint")
    for key, value in state.items():
        if not _is_plain(value) and key not in _EMA_EXTRAS:
            raise WeightsError(f"{path}: {key} is not a dense tensor of real numbers")
    # Cloned: tensors of a hostile file may share their memory or repeat one number.
    return {key: value.clone(memory_format=torch.contiguous_format) for key, value in state.items() if _is_plain(value)}


def _check_archive(path: Path) -> None:
    """Refuse what torch would not notice: damage inside tensors, compressed bombs, pickles that never end."""
    reason = why_unreadable(path)
    if reason is not None:
        raise WeightsError(f"{path} cannot be read: {reason}")
    if not zipfile.is_zipfile(path):
        raise WeightsError(f"{path} is not a checkpoint: expected a zip archive, as torch.save writes it")
    try:
        with zipfile.ZipFile(path) as archive:
            fault = _fault(archive)
    except Exception as error:  # zipfile and pickletools meet damaged data with many kinds of errors
        fault = f"is damaged: {error}"
    if fault is not None:
        raise WeightsError(f"{path} {fault}")


def _fault(archive: zipfile.ZipFile) -> str | None:
    """What is wrong with an archive, as the end of a sentence."""
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):  # before anything is unpacked
        return "is compressed: expected a checkpoint as torch.save writes it"
    damaged = archive.testzip()
    if damaged is not None:
        return f"is damaged: the checksum of {damaged} is wrong"
    pickles = [member for member in members if member.filename.endswith("data.pkl")]
    if any(_tuple_depth(archive.read(member)) > _DEEPEST for member in pickles):
        return "has tuples nested without end: not a checkpoint"
    return None


def _tuple_depth(pickled: bytes) -> int:
    """How deep tuples are nested in a pickle, found without running it.

    Tuples that hold each other through the memo take exponential time to hash: a few hundred bytes would hang us.
    """
    stack: list[int | None] = []  # depth of each value; None is a mark
    memo: dict[Any, int | None] = {}
    deepest = 0
    for code, argument, _ in pickletools.genops(pickled):
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if code.name == "MEMOIZE" else argument] = stack[-1]
        elif code.name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif code.name == "MARK":
            stack.append(None)
        else:
            taken: list[int | None] = []
            for kind in reversed(code.stack_before):
                if kind is pickletools.stackslice:
                    while stack[-1] is not None:
                        taken.append(stack.pop())
                else:
                    taken.append(stack.pop())
            depth = 1 + max((value or 0 for value in taken), default=0) if "TUPLE" in code.name else 0
            deepest = max(deepest, depth)
            stack.extend(depth for _ in code.stack_after)
    return deepest


def _is_plain(value: object) -> bool:
    """Whether a value is a dense tensor of numbers that are really there."""
    if not isinstance(value, Tensor) or value.is_nested or value.is_quantized or not value.is_floating_point():
        return False
    return value.layout == torch.strided and not value.is_meta


def _check_fit(path: Path, config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """As :func:`~emrdm.weights.check_state`, and name the preset that would fit."""
    try:
        check_state(str(path), config, shapes)
    except WeightsError as error:
        fitting = [name for name in preset_names() if _fits(load_preset(name).model, shapes)]
        raise WeightsError(f"{error}; presets that fit: {', '.join(fitting) or 'none'}") from None


def _fits(config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    try:
        check_state("", config, shapes)
    except WeightsError:
        return False
    return True
