"""A process that writes checkpoints and is killed at a chosen point of it."""

import errno
import os
import pathlib
import signal
import struct
import time
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from emrdm import files
from emrdm.training import checkpoint
from emrdm.training.checkpoint import Checkpoints

KEEP = 2
# what happens in a write, in this order; shares are of the bytes of the temporary file
SHARES = tuple(i / 35 for i in range(36))
STAGES = (
    "before reading back",
    "after reading back",
    "before syncing the file",
    "after syncing the file",
    "before moving",
    "after moving",
    "before syncing the folder",
    "after syncing the folder",
    "before pruning",
    "after pruning",
)


def content(step: int, megabytes: float = 2) -> dict[str, Tensor]:
    """Tensors that belong to a step."""
    size = int(megabytes * 250_000) // 4
    return {f"model.{i}": torch.arange(size, dtype=torch.float32) * step + i for i in range(4)}


def write_and_die(folder: Path, point: str | float, last: int) -> None:
    """Write checkpoints 1 to ``last``; end by SIGKILL in the last one, at a stage or behind a share of the bytes."""
    torch.set_num_threads(1)
    checkpoints = Checkpoints(folder, keep=KEEP)
    for step in range(1, last):
        checkpoints.write(step, content(step), {"note": f"step {step}"})
    _arm(point)
    checkpoints.write(last, content(last), {"note": f"step {last}"})


def write_for_ever(folder: Path, report: Path) -> None:
    """Write one checkpoint after the other, going on from what is there; the last one that was done is reported."""
    torch.set_num_threads(1)
    checkpoints = Checkpoints(folder, keep=KEEP)
    found = checkpoints.newest()
    step = 0 if found is None else found[1]["step"]
    descriptor = os.open(report, os.O_WRONLY | os.O_CREAT)
    while True:
        os.pwrite(descriptor, struct.pack("q", step), 0)
        step += 1
        checkpoints.write(step, content(step), {"note": f"step {step}"})


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(point: str | float) -> None:
    if not isinstance(point, str):
        safetensors.torch.save_file = lambda *arguments, **options: _part(point, *arguments, **options)
        return
    when, what = point.split(maxsplit=1)
    if what == "reading back":
        checkpoint.load = _around(when, checkpoint.load)
    elif what.startswith("syncing"):
        kind = os.path.isdir if what.endswith("folder") else os.path.isfile
        files.sync = _around(when, files.sync, kind)
    elif what == "moving":
        pathlib.Path.replace = _around(when, pathlib.Path.replace)
    elif what == "pruning":
        pathlib.Path.unlink = _around(when, pathlib.Path.unlink)


def _around(when: str, function: Any, chosen: Any = lambda _: True) -> Any:
    def armed(path: Path, *arguments: Any, **options: Any) -> Any:
        if when == "before" and chosen(path):
            _die()
        result = function(path, *arguments, **options)
        if chosen(path):
            _die()
        return result

    return armed


def _part(share: float, tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    whole = safetensors.torch.save(tensors, metadata)
    with Path(path).open("wb") as file:
        file.write(whole[: round(share * len(whole))])
        file.flush()
        _die()


# ---------------------------------------------------------------- at a step of a run, for Command's ``before``


def signal_at(step: int, number: int = signal.SIGTERM, times: int = 1) -> None:
    """The process gets a signal while this step is computed."""
    _at(step, lambda: [os.kill(os.getpid(), number) for _ in range(times)])


def die_at(step: int) -> None:
    """The process is killed while this step is computed."""
    _at(step, _die)


def _at(step: int, act: Any) -> None:
    from emrdm.training import loop

    original = loop._Training._step

    def armed(self: Any, number: int) -> Any:
        if number + 1 == step:
            act()
        return original(self, number)

    loop._Training._step = armed


def slow(seconds: float) -> None:
    """Every step takes so long at least."""
    from emrdm.training import loop

    original = loop._Training._step

    def armed(self: Any, number: int) -> Any:
        time.sleep(seconds)
        return original(self, number)

    loop._Training._step = armed


def hang_at(step: int, sign: Path) -> None:
    """The process gets SIGTERM at this step, and does not come to its end; ``sign`` appears."""

    def hang() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        sign.touch()
        time.sleep(300)

    _at(step, hang)


def no_room_for(name: str) -> None:
    """Syncing this file fails, as it does where the disk is full."""
    original = files.sync

    def fsync(path: Path) -> None:
        if path.name.startswith(f".{name}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(path)

    files.sync = fsync
