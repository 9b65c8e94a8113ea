"""How long a call takes and how much memory, measured the way its caller would notice.

Every measurement starts from a clean machine: what is measured is made inside it, and given back afterwards. The first
call is timed by itself, since it compiles and tunes; the second is watched for memory; then come those that count.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, final

import torch

from emrdm.bench.results import Measured
from emrdm.wording import many

T = TypeVar("T")

_STATM = Path("/proc/self/statm")
_LEAST = 3  # runs a median should be of
_PERIOD = 0.002  # seconds between looks at the memory of this process
_LOOK = 0.3  # seconds of watching what else is running
_BUSY = 0.2  # of the processor that others may take
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


@final
@dataclass(frozen=True)
class Effort:
    """How often a call is repeated: ``repeats`` times, or as often as ``seconds`` allow, three times at least."""

    repeats: int = 20
    seconds: float = 10.0


def measure(
    prepare: Callable[[], Callable[[], T]], device: torch.device, effort: Effort, *, path: str, items: int = 1
) -> tuple[Measured, T]:
    """Time what ``prepare`` gives, and the result of its last call.

    Args:
        prepare: makes the call, with all it needs: models, images. Its memory counts.
        device: that it works on.
        effort: how often.
        path: name of what is measured.
        items: images a call.
    """
    tidy(device)
    before = _Peak(device)
    call = prepare()
    _wait(device)
    started = time.perf_counter()
    result = call()
    _wait(device)
    first = time.perf_counter() - started
    tidy(device)  # tuning may have taken memory that no later call needs
    with _Peak(device) as peak:
        call()
        _wait(device)
    seconds: list[float] = []
    device_seconds: list[float] = []
    spent = 0.0
    while len(seconds) < effort.repeats and (spent < effort.seconds or len(seconds) < _LEAST):
        wall, inside, result = _once(call, device)
        seconds.append(wall)
        device_seconds += [] if inside is None else [inside]
        spent += wall
        if wall > effort.seconds:  # long enough for noise not to matter
            break
    found = Measured(
        path=path,
        seconds=statistics.median(seconds),
        first=first,
        memory=peak.above(before),
        runs=len(seconds),
        items=items,
        fastest=min(seconds),
        device_seconds=statistics.median(device_seconds) if device_seconds else None,
    )
    return found, result


def _once(call: Callable[[], T], device: torch.device) -> tuple[float, float | None, T]:
    """Wall time of a call until its work is done, the GPU's own count of it, and what it gave."""
    if device.type != "cuda":
        started = time.perf_counter()
        result = call()
        return time.perf_counter() - started, None, result
    events = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    _wait(device)
    started = time.perf_counter()
    events[0].record()
    result = call()
    events[1].record()
    _wait(device)
    return time.perf_counter() - started, events[0].elapsed_time(events[1]) / 1e3, result


def tidy(device: torch.device) -> None:
    """Give back what nothing uses any more, so that it counts for nobody."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
    else:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
        if trim is not None:  # glibc keeps freed blocks; a path measured later would seem to need none
            trim(0)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _in_use(device: torch.device) -> int | None:
    """Bytes in use now: of the GPU's allocator, else of this process."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    if not _STATM.exists():
        return None
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Peak:
    """Bytes in use when it is made, and the most while it is entered.

    On a GPU there are two numbers: tensors, and what the allocator holds for them. Memory inside of a CUDA graph is
    held between its replays and seen by the second alone. But that also counts the rest of a large block in which one
    small tensor of an earlier path still lives, so that each number is compared with its own before.

    On a CPU: resident memory of this process, looked at every two milliseconds.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.bytes = _in_use(device)
        self.held = torch.cuda.memory_reserved(device) if device.type == "cuda" else None

    def __enter__(self) -> _Peak:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return self
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        if self.bytes is not None:
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.device.type == "cuda":
            self.bytes = torch.cuda.max_memory_allocated(self.device)
        elif self.bytes is not None:
            self.done.set()
            self.thread.join()

    def above(self, before: _Peak) -> int | None:
        """Bytes more than before, by the number that grew more; None where the system does not say."""
        pairs = ((self.bytes, before.bytes), (self.held, before.held))
        grown = [now - then for now, then in pairs if now is not None and then is not None]
        return max(0, *grown) if grown else None

    def _watch(self) -> None:
        while not self.done.wait(_PERIOD):
            self.bytes = max(self.bytes or 0, _in_use(self.device) or 0)


def memory_words(device: torch.device) -> str:
    """How memory is measured there."""
    if device.type == "cuda":
        return "peak of torch's allocator (or what a CUDA graph holds) above what there was before the model"
    if not _STATM.exists():
        return "not measured: this system has no /proc/self/statm"
    return "peak resident memory above what there was before the model, sampled every 2 ms"


def room() -> int | None:
    """Bytes of memory that are free for use on this machine; None where the system does not say."""
    path = Path("/proc/meminfo")
    if not path.exists():
        return None
    found = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return int(found["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in found else None


@contextmanager
def may_end(*, in_any_way: bool = False) -> Iterator[list[str]]:
    """Catch the end of memory, or of anything, and let go of what it held; the list then says in a line what it was."""
    lines: list[str] = []
    try:
        yield lines
    except Exception as error:
        reason = "out of memory" if _is_end_of_memory(error) else " ".join(str(error).split())[:120]
        if reason != "out of memory" and not in_any_way:
            raise
        lines.append(reason or type(error).__name__)


def _is_end_of_memory(error: Exception) -> bool:
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)
    )


def busy() -> str:
    """A warning where other work takes a share of the cores now, or nothing; ask before measuring."""
    before = _processor_times()
    time.sleep(_LOOK)
    after = _processor_times()
    if before is None or after is None or after[1] <= before[1]:
        return ""
    share = 1 - (after[0] - before[0]) / (after[1] - before[1])
    if share <= _BUSY:
        return ""
    return f"other work took {100 * share:.0f} % of the processor before this: times are not to be trusted"


def _processor_times() -> tuple[int, int] | None:
    """Idle and all time of all cores since the system started, where it says."""
    path = Path("/proc/stat")
    if not path.exists():
        return None
    numbers = [int(word) for word in path.read_text().split("\n", 1)[0].split()[1:9]]
    return numbers[3] + numbers[4], sum(numbers)


def machine(device: torch.device) -> str:
    """Where it runs: device, threads, versions."""
    if device.type == "cuda":
        where = torch.cuda.get_device_name(device)
    else:
        where = f"{_cpu_name()}, {many(torch.get_num_threads(), 'thread')}"
    triton = _version("triton")
    return f"{where}, torch {torch.__version__}, {f'triton {triton}' if triton else 'no triton'}"


def _cpu_name() -> str:
    path = Path("/proc/cpuinfo")
    lines: Any = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
