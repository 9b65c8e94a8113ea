"""Everything a run needs to go on, in one file: weights, their average, the optimiser, and where it was.

A checkpoint is safetensors, as weights are: nothing in it is ever executed. It appears complete and read back, or not
at all, and is verified against its digest before it is used. However a run is spread over processes, the file is the
same: a run may go on with more or fewer of them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn

from emrdm.errors import EmrdmError, WeightsError, printable
from emrdm.files import atomic_path
from emrdm.training.average import MovingAverage

_LOG = logging.getLogger(__name__)
_KEY = "emrdm-checkpoint"
_FORMAT = 1
_NAME = re.compile(r"step-(\d{8,})\.safetensors")


@final
class Checkpoints:
    """The checkpoints of a run, newest last; older ones than the last few are removed.

    The run's folder must be held: whatever is half written in it is then a dead process's, whichever host it was on.
    """

    def __init__(self, folder: Path, *, keep: int) -> None:
        self.folder, self.keep = folder, keep
        folder.mkdir(exist_ok=True)
        for leftover in folder.glob(".step-*.partial"):
            leftover.unlink(missing_ok=True)

    def paths(self) -> list[Path]:
        """All of them, oldest first."""
        return sorted((path for path in self.folder.iterdir() if _NAME.fullmatch(path.name)), key=_step)

    def check_space(self, size: int) -> None:
        """Refuse to begin what cannot be kept: one more than the number that is kept, of so many bytes each."""
        needed = size * (self.keep + 1 - len(self.paths()))
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise EmrdmError(
                f"{self.folder} needs {needed:,} bytes for {self.keep} checkpoints and a new one, and {free:,} are "
                "free: make room, or lower watch.keep"
            )

    def write(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
        """Add one; only then do older ones go."""
        path = self.folder / f"step-{step:08}.safetensors"
        save(path, tensors, {**state, "step": step})
        past = [old for old in self.paths() if _step(old) <= step]  # one from later on is damaged: it keeps nothing
        for old in past[: -self.keep]:
            old.unlink(missing_ok=True)
        return path

    def newest(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest one that is whole; a damaged one is left where it is, and said."""
        refused = []
        for path in reversed(self.paths()):
            try:
                return load(path)
            except WeightsError as error:
                refused.append(str(error))
                _LOG.warning("%s; the one before it is tried", printable(str(error)))
        if refused:
            raise WeightsError(f"{refused[0]}, and so is every other checkpoint: expected one to go on from")
        return None


def _step(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def save(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write a checkpoint; what was there before stays until the new one is whole."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(state, sort_keys=True)
    header = {"format": _FORMAT, "digest": _digest(text, tensors), "state": text}
    needed = sum(tensor.nbytes for tensor in tensors.values()) + len(text) + 200 * len(tensors)
    free = shutil.disk_usage(path.parent).free
    failure = f"{path} could not be written, {needed:,} bytes are needed"
    if needed > free:
        raise EmrdmError(f"{failure} and {free:,} are free: checkpoints before it are as they were")
    try:
        with atomic_path(path) as temporary:
            save_file(dict(tensors), temporary, metadata={_KEY: json.dumps(header)})
            load(temporary)
    except (OSError, SafetensorError) as error:  # the disk filled up meanwhile, or went away
        reason = getattr(error, "strerror", None) or error
        raise EmrdmError(f"{failure}: {reason}; checkpoints before it are as they were") from None


def is_checkpoint(path: Path) -> bool:
    """Whether a file is one, by its header."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return _KEY in (file.metadata() or {})
    except (OSError, SafetensorError):
        return False


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of a checkpoint, verified."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(_KEY, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (OSError, SafetensorError, ValueError) as error:
        raise WeightsError(f"{path} cannot be read as a checkpoint: {error}") from None
    if not isinstance(header, dict) or header.get("format") != _FORMAT or not isinstance(header.get("state"), str):
        raise WeightsError(f"{path} is not a checkpoint of format {_FORMAT}")
    if _digest(header["state"], tensors) != header.get("digest"):
        raise WeightsError(f"{path} is damaged: its content does not match its digest")
    state: dict[str, Any] = json.loads(header["state"])
    return tensors, state


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    result = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        result.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        result.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return result.hexdigest()


# ---------------------------------------------------------------- what is in it


def pack(
    network: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage, *, keep: bool = True
) -> dict[str, Tensor]:
    """All tensors of a run by name.

    Where parameters are spread over processes, all of them must call this; those that do not ``keep`` the result take
    part in gathering and get nothing.
    """
    live = {f"model.{name}": buffer for name, buffer in network.named_buffers()}
    for (name, parameter), averaged in zip(network.named_parameters(), average.averages, strict=True):
        live |= {f"model.{name}": parameter, f"average.{name}": averaged}
        state = optimizer.state.get(parameter, {})  # empty before the first step
        live |= {f"optimizer.{name}.{key}": value for key, value in state.items()}
    tensors = {}
    for name, tensor in live.items():
        if keep:
            tensors[name] = whole(tensor)
        elif isinstance(tensor, _dtensor()):
            tensor.full_tensor()  # type: ignore[attr-defined]
    return tensors


def unpack(
    tensors: Mapping[str, Tensor], network: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage
) -> None:
    """Put them back."""
    used = set()
    # fused kernels count steps on the parameter's device, others on the CPU
    counters = {
        parameter: parameter.device if group.get("fused") or group.get("capturable") else "cpu"
        for group in optimizer.param_groups
        for parameter in group["params"]
    }

    def spread(name: str, like: Tensor) -> Tensor:
        if name not in tensors or tensors[name].shape != like.shape:
            found = f"has shape {tuple(tensors[name].shape)}" if name in tensors else "is missing"
            raise WeightsError(f"the checkpoint does not fit: {name} {found}, expected {tuple(like.shape)}")
        used.add(name)
        return _like(tensors[name], like)

    with torch.no_grad():
        for name, buffer in network.named_buffers():
            buffer.copy_(spread(f"model.{name}", buffer))
        for (name, parameter), averaged in zip(network.named_parameters(), average.averages, strict=True):
            parameter.copy_(spread(f"model.{name}", parameter))
            averaged.copy_(spread(f"average.{name}", averaged))
            for key in ("exp_avg", "exp_avg_sq", "step"):
                stored = f"optimizer.{name}.{key}"
                if stored in tensors:  # a run that was stopped before its first step has none
                    like = parameter if key != "step" else torch.zeros((), device=counters[parameter])
                    optimizer.state[parameter][key] = spread(stored, like).clone()
    left = tensors.keys() - used
    if left:
        raise WeightsError(f"the checkpoint does not fit: {sorted(left)[0]} does not belong to this network")


def whole(tensor: Tensor) -> Tensor:
    """A tensor as one process would have it, on the CPU, detached; one that is spread over processes is gathered."""
    full = tensor.full_tensor() if isinstance(tensor, _dtensor()) else tensor  # type: ignore[attr-defined]
    return full.detach().to("cpu", copy=True)


def _like(value: Tensor, like: Tensor) -> Tensor:
    """A whole tensor spread, typed and placed as another is."""
    value = value.to(like.device, like.dtype)
    if not isinstance(like, _dtensor()):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value, like.device_mesh, like.placements)  # type: ignore[attr-defined]


def _dtensor() -> type:
    if not torch.distributed.is_available():
        return type(None)
    from torch.distributed.tensor import DTensor

    return DTensor
