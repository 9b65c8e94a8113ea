"""What a worker of a cluster does: find the job in the run's folder, load the model once, do tiles.

A worker may be late, slow, cut off or taken for dead while others do its tiles again. So it writes only if the run
that asked is still the one in the folder, and only what it made of a state that was whole when it had read it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

import emrdm
from emrdm.errors import EmrdmError, InputError
from emrdm.files import atomic_path, why_unreadable
from emrdm.model import EMRDM
from emrdm.networks.fast import EXACT
from emrdm.networks.neighborhood import OVERRIDE
from emrdm.rasters.source import set_cache
from emrdm.rasters.tiles import Tile
from emrdm.restoration.denoising import Loaded, TileDenoiser
from emrdm.restoration.inputs import Inputs
from emrdm.restoration.plan import Plan

_MODEL = "model.safetensors"
_MOST_JOBS = 2  # that a worker remembers: more than one driver may use a cluster, and killed ones do not say goodbye

Ticket = Mapping[str, str]  # what is sent with every task: plain texts, which any version of this package can read


@final
@dataclass(frozen=True)
class Job:
    """All that decides what tiles become, beside the weights and the states.

    Attributes:
        plan: tiles and steps.
        inputs: the scene, with everything decided about it; files are opened again by their absolute paths.
        apart: as in :class:`TileDenoiser`.
        model: digest of the weights.
        device: kind of device that all compute on, "cpu" or "cuda".
        spread: whether workers share out the GPUs of a machine by their numbers; else each takes its first.
        cache: bytes of decoded blocks that GDAL may keep.
        run: tells this run from every other one.
    """

    plan: Plan
    inputs: Inputs
    apart: bool
    model: str
    device: str
    spread: bool
    cache: int
    run: str


@contextmanager
def published(denoiser: TileDenoiser, *, cache: int, spread: bool) -> Iterator[Ticket]:
    """Put job and weights into the run's folder, for workers to find; the ticket says where, and what they must be."""
    folder, model = Path(os.path.abspath(denoiser.folder)), denoiser.model  # noqa: PTH100 - links may differ elsewhere
    for old in folder.glob("*.job"):  # whoever is still at work on it must not write any more
        old.unlink(missing_ok=True)
    model.save(folder / _MODEL)
    job = Job(
        plan=denoiser.plan,
        inputs=denoiser.inputs,
        apart=denoiser.apart,
        model=model.digest(),
        device=model.device.type,
        spread=spread,
        cache=cache,
        run=secrets.token_hex(8),
    )
    content = pickle.dumps(job)
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{digest[:16]}.job"
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    try:
        yield {"job": str(path), "digest": digest} | numerics()
    finally:
        path.unlink(missing_ok=True)


def numerics() -> dict[str, str]:
    """What must be the same everywhere for everybody to compute the same bits."""
    return {
        "emrdm": emrdm.__version__,
        "torch": torch.__version__.partition("+")[0],
        EXACT: os.environ.get(EXACT, ""),
        OVERRIDE: os.environ.get(OVERRIDE, ""),
    }


def check(ticket: Ticket) -> bytes:
    """Refuse a job that this worker cannot do as others would; its content."""
    for name, here in numerics().items():
        if here != (wanted := ticket.get(name, "")):
            raise InputError(f"{name} is {here or 'not set'} there: expected {wanted or 'none'}, as with the driver")
    path = Path(ticket["job"])
    if (reason := why_unreadable(path)) is not None:
        raise InputError(f"{path} cannot be read there: {reason}; expected a folder on storage that all workers see")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != ticket["digest"]:  # checked before it is unpickled
        raise InputError(f"{path} is not what was written: expected storage on which all workers see the same")
    return content


def do_tiles(ticket: Ticket, sample: int, step: int, tiles: Sequence[Sequence[int]], number: int = 0) -> list[Tile]:
    """Do tiles of a step; those that were written, for some have no data. ``number`` tells workers of a host apart."""
    return _work(ticket, number).run(sample, step, [Tile(*tile) for tile in tiles])


def forget(ticket: Ticket) -> None:
    """Let go of a job's model."""
    with _lock:
        _works.pop(ticket["digest"], None)
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


@final
class _Work:
    """A job on this worker, its model loaded."""

    def __init__(self, ticket: Ticket, number: int) -> None:
        job: Job = pickle.loads(check(ticket))  # ours: the digest came with the task
        self._path = Path(ticket["job"])
        set_cache(job.cache)
        model = EMRDM.load(self._path.parent / _MODEL)
        if model.digest() != job.model:
            raise EmrdmError(f"{self._path.parent / _MODEL} is of another run: expected storage that is up to date")
        self._device = _device(job, number)
        if self._device.type == "cpu":
            model.compute_in(job.plan.numbers)  # whichever is faster here: all have to agree
        model.to(self._device)
        if (numbers := model.numbers(exact=job.plan.exact)) != job.plan.numbers:
            raise InputError(f"a worker computes in {numbers} ({model.path()}): expected {job.plan.numbers}")
        self._denoiser = TileDenoiser(job.plan, job.inputs, model, self._path.parent, apart=job.apart)
        # Tasks of several threads take turns on a GPU, and read and write while another computes.
        self._turn: Any = threading.Lock() if self._device.type == "cuda" else nullcontext()

    def run(self, sample: int, step: int, tiles: Sequence[Tile]) -> list[Tile]:
        """Load, compute, store; the tiles that were written."""
        loaded = self._denoiser.load(sample, step, tiles)
        if not loaded.tiles:
            return []
        if step:
            self._require_whole(sample, step, loaded)
        with self._turn, self._settled():
            states = self._denoiser.compute(sample, step, loaded).cpu()
        if not self._path.exists():
            raise EmrdmError("the run that asked for these tiles has ended")
        self._denoiser.store(sample, step, loaded.tiles, states)
        return list(loaded.tiles)

    def _require_whole(self, sample: int, step: int, loaded: Loaded) -> None:
        """Refuse a state of which tiles were missing: on storage that lags behind, or gone since the step is over."""
        before, plan, inputs = self._denoiser.state(sample, step), self._denoiser.plan.tiles, self._denoiser.inputs
        around = {other for tile in loaded.tiles for other in plan.touching(plan.window(tile))}
        for tile in sorted(around):
            if not before.has(tile) and inputs.read(plan.window(tile)).known.any():
                raise EmrdmError(
                    f"{before.folder} has no tile {tile.row}, {tile.column}, which was written before: "
                    "expected storage on which all workers see each other's files at once"
                )

    def _settled(self) -> Any:
        """Where and by how many threads to compute. A worker's torch keeps to one: sums must not depend on it."""
        if self._device.type == "cuda":
            return torch.cuda.device(self._device)
        torch.set_num_threads(1)
        return nullcontext()


_works: dict[str, _Work] = {}
_lock = threading.Lock()


def _work(ticket: Ticket, number: int) -> _Work:
    """The job of a ticket, prepared when it is first asked for."""
    with _lock:
        key = ticket["digest"]
        if key not in _works:
            while len(_works) >= _MOST_JOBS:
                _works.pop(next(iter(_works)))
            _works[key] = _Work(ticket, number)
        return _works[key]


def _device(job: Job, number: int) -> torch.device:
    if job.device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InputError("a worker has no CUDA device: expected one on each, as where the command was given")
    return torch.device("cuda", number % torch.cuda.device_count() if job.spread else torch.cuda.current_device())
