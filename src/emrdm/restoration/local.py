"""All steps of all samples on this machine.

On a CPU every tile is worked on by one thread, as many at a time as there are cores and memory: faster than many
threads in one tile, and a sum never depends on how many there are. On a GPU tiles go in batches, and the next are read
while it works.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import islice
from typing import TypeVar

import torch

from emrdm.errors import EmrdmError
from emrdm.files import atomic_path
from emrdm.networks.fused.cpu import usable_cpus
from emrdm.rasters.tiles import Tile
from emrdm.restoration.denoising import Loaded, TileDenoiser
from emrdm.restoration.memory import Room
from emrdm.restoration.state import StepState

T = TypeVar("T")

Progress = Callable[[int, int], None]
Watch = Callable[[int, int], None]
Run = Callable[[int, int, list[Tile], Callable[[int], None]], None]
_DONE = "done"


def all_steps(denoiser: TileDenoiser, run: Run, progress: Progress, watch: Watch | None = None) -> int:
    """Go through samples and steps, leaving out what is there, and let ``run`` do the tiles of each.

    ``watch`` hears which sample and step was done, while the states before and after it are both there.

    Returns:
        how many tile steps were done, and not found.
    """
    plan, total = denoiser.plan, denoiser.plan.calls
    finished = [_finished_steps(denoiser, sample) for sample in range(plan.samples)]
    begun = [sum(1 for _ in denoiser.state(sample, steps + 1).done()) for sample, steps in enumerate(finished)]
    count, fresh = sum(finished) * len(plan.tiles) + sum(begun), 0
    progress(count, total)
    for sample in range(plan.samples):
        for step in range(finished[sample], len(plan.steps)):
            after = denoiser.state(sample, step + 1)
            after.create()
            ready = set(after.done())
            todo = [tile for tile in plan.tiles if tile not in ready]

            def tick(tiles: int) -> None:
                nonlocal count, fresh
                count, fresh = count + tiles, fresh + tiles
                progress(count, total)

            run(sample, step, todo, tick)
            _mark(after, [tile for tile in todo if not after.has(tile)])
            if watch is not None:
                watch(sample, step)
            if step:
                denoiser.state(sample, step).remove()
    return fresh


def _finished_steps(denoiser: TileDenoiser, sample: int) -> int:
    """How many steps need not be done again. States before the last of them go, as far as a kill has left some."""
    for finished in range(len(denoiser.plan.steps), 0, -1):
        if (denoiser.state(sample, finished).folder / _DONE).exists():
            _require_whole(denoiser.state(sample, finished))
            for step in range(1, finished):
                denoiser.state(sample, step).remove()
            return finished
    return 0


def _mark(state: StepState, left_out: list[Tile]) -> None:
    """Say that a step is done, and which tiles have no data and are not there."""
    path = state.folder / _DONE
    try:
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(left_out), encoding="utf-8")
    except OSError as error:
        raise EmrdmError(f"{path} cannot be written: {error.strerror}") from None


def _require_whole(state: StepState) -> None:
    """Refuse to go on from a state of which tiles were lost, to a failing disk or a hand: they would count as zero."""
    try:
        left_out = {Tile(*tile) for tile in json.loads((state.folder / _DONE).read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError):
        left_out = set()
    lost = [tile for tile in state.plan if tile not in left_out and not state.has(tile)]
    if lost:
        raise EmrdmError(
            f"{state.folder} has lost {len(lost)} of its {len(state.plan)} tiles: "
            "expected all of an unfinished run; remove its folder to begin anew"
        )


def on_this_machine(denoiser: TileDenoiser, room: Room) -> Run:
    """How to do the tiles of a step here."""
    if denoiser.model.device.type == "cuda":
        return _on_gpu(denoiser, room)
    return _on_cpu(denoiser, room)


def _on_cpu(denoiser: TileDenoiser, room: Room) -> Run:
    threads = max(1, min(room.tiles, usable_cpus()))

    def run(sample: int, step: int, tiles: list[Tile], tick: Callable[[int], None]) -> None:
        with _one_thread_an_operation(), ThreadPoolExecutor(threads) as pool:
            jobs = (lambda tile=tile: denoiser.run(sample, step, [tile]) for tile in tiles)
            with closing(_a_few_at_a_time(pool, jobs, 2 * threads)) as finished:
                for _ in finished:
                    tick(1)

    return run


def _on_gpu(denoiser: TileDenoiser, room: Room) -> Run:
    def run(sample: int, step: int, tiles: list[Tile], tick: Callable[[int], None]) -> None:
        with ThreadPoolExecutor(room.readers) as readers, ThreadPoolExecutor(room.readers) as writers:
            jobs = (lambda tile=tile: denoiser.load(sample, step, [tile]) for tile in tiles)
            written: list[Future[None]] = []
            with closing(_a_few_at_a_time(readers, jobs, 2 * room.tiles)) as ready:
                while parts := list(islice(ready, room.tiles)):
                    loaded = Loaded.together(parts)
                    if loaded.tiles:
                        states = denoiser.compute(sample, step, loaded)
                        written += [
                            writers.submit(denoiser.store, sample, step, [tile], state[None])
                            for tile, state in zip(loaded.tiles, states, strict=True)
                        ]
                    while len(written) > room.tiles:
                        written.pop(0).result()
                    tick(len(parts))
            for job in written:
                job.result()

    return run


def _a_few_at_a_time(pool: ThreadPoolExecutor, jobs: Iterator[Callable[[], T]], most: int) -> Generator[T, None, None]:
    """Results in order; no more than a few are waiting or under way, so that memory stays what it is."""
    waiting: list[Future[T]] = []
    try:
        for job in jobs:
            waiting.append(pool.submit(job))
            if len(waiting) >= most:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        for future in waiting:  # after an error: what has not begun need not begin
            future.cancel()


@contextmanager
def _one_thread_an_operation() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
