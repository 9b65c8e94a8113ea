"""Several processes as one: what the first does for all, what one knows and all must."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor

from emrdm.errors import EmrdmError

T = TypeVar("T")
_SECONDS = 2.0


def first_alone(fabric: Any, action: Callable[[], T]) -> T | None:
    """Let the first process do something while the others wait; its answer there, None in the others.

    Where it fails, all end: who waits for a process that is gone ends minutes later with a page of its own. The first
    one says why.
    """
    answer: T | None = None
    failure: EmrdmError | None = None
    if fabric.is_global_zero:
        try:
            answer = action()
        except EmrdmError as error:
            failure = error
    code = None if failure is None else failure.exit_code
    if fabric.world_size > 1:
        code = fabric.broadcast(code)
    if failure is not None:
        raise failure
    if code is not None:
        bow_out(code)
    return answer


def bow_out(code: int) -> NoReturn:
    """End a process that is not the first. Launchers end all when one has ended, so the first one goes before it."""
    time.sleep(_SECONDS)
    raise SystemExit(code)


def merged(mine: dict[str, str]) -> dict[str, str]:
    """What every process has, together, the same in all of them."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return mine
    parts: list[dict[str, str]] = [{} for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather_object(parts, mine)
    return {name: reason for part in parts for name, reason in part.items()}


def mean(values: Tensor) -> Tensor:
    """Mean over the processes, in place. Fabric's would let the host wait for all of them first."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return values
    torch.distributed.all_reduce(values)
    return values.div_(torch.distributed.get_world_size())


def anywhere(mine: bool) -> bool:
    """Whether it is so in one of the processes."""
    return bool(merged({"": ""} if mine else {}))
