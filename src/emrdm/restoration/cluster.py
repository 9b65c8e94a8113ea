"""All steps of all samples by workers of a Dask cluster: processes on this machine, or hosts anywhere.

One graph of tasks a step, a few tiles each. The run's folder is on storage that all see, and is all that they share:
the job, the weights, and the states, in which a tile is one file, there whole or not at all. So nobody can tell who did
a tile, or how often: what a killed worker had under way is done again, and the result is the same.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import torch

from emrdm.errors import EmrdmError, InputError, MissingDependencyError
from emrdm.rasters.tiles import Tile
from emrdm.restoration import worker
from emrdm.restoration.denoising import TileDenoiser
from emrdm.restoration.local import Run
from emrdm.restoration.memory import Room
from emrdm.restoration.state import StepState
from emrdm.restoration.worker import Ticket

_CONNECT = 10.0  # seconds to find a scheduler
_PATIENCE = 60.0  # seconds without workers, or until a file that was written elsewhere is to be seen here
_RETRIES = 2  # of a task that failed: a file server may have had a bad moment
_GO_ON = "the same command goes on from there"
_SETTINGS = {  # of a cluster of our own
    # Freed memory goes back at once by Dask's defaults, which makes torch a good deal slower.
    "distributed.nanny.pre-spawn-environ": dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), 1),
    "distributed.worker.profile.enabled": False,
    # Workers hold no results: Dask would wait in vain for memory to be given back.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
}


@contextmanager
def on_cluster(denoiser: TileDenoiser, cluster: str | None, workers: int | None, room: Room) -> Iterator[Run]:
    """How to do the tiles of a step by workers.

    Args:
        denoiser: what to do; its folder has to be on storage that all workers see.
        cluster: address of a Dask scheduler. Without one, a cluster is started on this machine, and ended.
        workers: how many processes it has, one if None. They share the memory of ``room``.
        room: bytes for all processes on this machine; tiles at one time on a GPU.
    """
    _require_dask()
    count = workers or 1
    with ExitStack() as stack:
        stack.enter_context(_silence())
        share = _share(denoiser, room, count) if cluster is None else room
        ticket = stack.enter_context(worker.published(denoiser, cache=share.cache, spread=cluster is None))
        if cluster is None:
            client = stack.enter_context(_here(count, share, denoiser.folder))
        else:
            client = stack.enter_context(_elsewhere(cluster))
            _introduce(client, cluster, ticket)
            stack.callback(_say_goodbye, client, ticket)
        yield _running(client, ticket, denoiser, share.tiles if denoiser.model.device.type == "cuda" else 1)


def _require_dask() -> None:
    try:
        import distributed  # noqa: F401 - whether it can be
    except ImportError:
        raise MissingDependencyError("--workers and --cluster need Dask: pip install 'emrdm[scale]'") from None


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Dask's log to itself, which tells of every worker that comes and goes; what matters becomes one line."""
    log, nobody = logging.getLogger("distributed"), logging.NullHandler()
    handlers, propagate = log.handlers, log.propagate
    log.handlers, log.propagate = [nobody], False
    try:
        yield
    finally:
        log.handlers, log.propagate = handlers, propagate


# ---------------------------------------------------------------- clusters


def _share(denoiser: TileDenoiser, room: Room, count: int) -> Room:
    """What one of several processes may take."""
    try:
        share = Room.within(room.budget // count, denoiser.plan, denoiser.model, denoiser.inputs.frames)
    except InputError as error:
        raise InputError(f"the share of each of {count} workers is too small: {error}") from None
    beside = math.ceil(count / max(1, torch.cuda.device_count()))  # on one GPU
    return dataclasses.replace(share, tiles=max(1, min(share.tiles, room.tiles // beside)))


@contextmanager
def _here(count: int, share: Room, folder: Path) -> Iterator[Any]:
    """A client of a cluster of our own."""
    import dask
    import distributed

    with ExitStack() as stack:
        stack.enter_context(_same_environment())
        stack.enter_context(dask.config.set(_SETTINGS))
        try:
            with _undisturbed():
                cluster = distributed.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=share.budget,
                    dashboard_address=None,
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # or its HTTP server insists on a port
                    silence_logs=logging.CRITICAL,
                    local_directory=str(folder / "dask"),
                )
                stack.enter_context(cluster)
            client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
        except (RuntimeError, OSError) as error:
            raise EmrdmError(
                f"the workers could not be started ({_brief(error)}); "
                "a script that asks for workers does its work under: if __name__ == '__main__'"
            ) from None
        yield client


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off Ctrl-C while Dask starts, which cannot be interrupted; the processes it starts never hear of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in handlers:
        signal.signal(number, lambda which, _: came.append(which))
    resource_tracker.ensure_running()  # whose start would undo the next line
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which new threads and processes inherit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def _same_environment() -> Iterator[None]:
    """Keep Dask's settings for its processes from staying behind in this one."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _elsewhere(address: str) -> Iterator[Any]:
    """A client of a cluster that is there."""
    import distributed

    try:
        client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"--cluster {address} cannot be reached ({_brief(error)}): expected a Dask scheduler, such as tcp://host:8786"
        ) from None
    with client:
        yield client


def _introduce(client: Any, address: str, ticket: Ticket) -> None:
    """Find out whether the workers can do the job before it begins; those that come later find out for themselves."""
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        raise InputError(
            f"--cluster {address} has no workers: expected one at least; start them by dask worker"
        ) from None
    for name, answer in client.run(worker.check, ticket, on_error="return").items():
        if isinstance(answer, EmrdmError):
            raise InputError(f"worker {name}: {answer}")
        if isinstance(answer, Exception):
            raise InputError(f"worker {name} ({_brief(answer)}): expected emrdm {ticket['emrdm']} there")


def _say_goodbye(client: Any, ticket: Ticket) -> None:
    with suppress(Exception):  # whoever cannot hear it forgets by the next job
        if client.status == "running":
            client.run(worker.forget, ticket, on_error="ignore")


# ---------------------------------------------------------------- steps


def _running(client: Any, ticket: Ticket, denoiser: TileDenoiser, size: int) -> Run:
    def run(sample: int, step: int, tiles: list[Tile], tick: Callable[[int], None]) -> None:
        batches = [[tuple(tile) for tile in tiles[i : i + size]] for i in range(0, len(tiles), size)]
        futures = client.map(
            _do_tiles, batches, ticket=ticket, sample=sample, step=step, key="restore", pure=False, retries=_RETRIES
        )
        counts = {future.key: len(batch) for future, batch in zip(futures, batches, strict=True)}
        written: list[Tile] = []
        try:
            for done in _as_they_come(client, futures):
                for future in done:
                    written += _result(client, future)
                    future.release()  # or it would be done again if the worker that did it ended
                tick(sum(counts[future.key] for future in done))
        except BaseException:
            with suppress(Exception):
                client.cancel(futures, force=True)
            raise
        _see(denoiser.state(sample, step + 1), written)

    return run


def _do_tiles(tiles: list[tuple[int, int]], ticket: Ticket, sample: int, step: int) -> list[Tile]:
    """The task, on the worker."""
    from distributed import get_worker

    name = get_worker().name
    try:
        return worker.do_tiles(ticket, sample, step, tiles, number=name if isinstance(name, int) else 0)
    except EmrdmError as error:
        line = type(error)(str(error))
    raise line  # without what led to it, which may not be fit to travel


def _as_they_come(client: Any, futures: list[Any]) -> Iterator[list[Any]]:
    """Futures that are done, as many as there are each time."""
    arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for future in futures:
        future.add_done_callback(arrived.put)
    left = len(futures)
    while left:
        try:
            done = [arrived.get(timeout=_PATIENCE)]
        except queue.Empty:
            _require_workers(client)
            continue
        with suppress(queue.Empty):
            while True:
                done.append(arrived.get_nowait())
        left -= len(done)
        yield done


def _require_workers(client: Any) -> None:
    """Do not wait for ever where nobody is left."""
    try:
        workers = client.nthreads()
    except Exception as error:
        raise EmrdmError(f"the scheduler does not answer any more ({_brief(error)}); {_GO_ON}") from None
    if not workers:
        raise EmrdmError(f"no worker is left; {_GO_ON} when there are some")


def _result(client: Any, future: Any) -> list[Tile]:
    """What a task has found; it is done again if the worker that knew died in this moment."""
    from distributed import KilledWorker

    while True:
        try:
            found: list[Tile] = future.result(timeout=_PATIENCE)
        except EmrdmError:
            raise
        except KilledWorker as error:
            raise EmrdmError(
                f"{error.allowed_failures + 1} workers died one after the other at the same tile: "
                f"expected more memory for each, or fewer; {_GO_ON}"
            ) from None
        except Exception as error:
            if isinstance(error, TimeoutError) and future.status in ("pending", "finished"):  # else the task's own
                _require_workers(client)
                continue
            what = "the scheduler is gone" if future.status in ("cancelled", "lost") else "a worker failed"
            raise EmrdmError(f"{what} ({_brief(error)}); {_GO_ON}") from None
        return found


def _see(state: StepState, tiles: list[Tile]) -> None:
    """Wait until what workers have written is to be seen here: file servers are not always at once of one mind."""
    deadline = time.monotonic() + _PATIENCE
    for tile in tiles:
        while not state.has(tile):
            if time.monotonic() > deadline:
                raise EmrdmError(
                    f"{state.folder} has no tile {tile.row}, {tile.column}, which a worker has written: "
                    "expected storage that all workers share"
                )
            time.sleep(0.5)


def _brief(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
