"""Restore a whole scene: the one function behind the command line, for files and for arrays in memory."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import emrdm
from emrdm.errors import InputError
from emrdm.files import as_path, fingerprint, require_space
from emrdm.model import EMRDM
from emrdm.rasters.bands import UnfitError
from emrdm.rasters.base import Source
from emrdm.rasters.scene import Scene, open_scene
from emrdm.rasters.source import set_cache
from emrdm.restoration.denoising import TileDenoiser
from emrdm.restoration.inputs import Inputs, Reading
from emrdm.restoration.journal import begun_with, journal, note_ending, own_files
from emrdm.restoration.local import all_steps, on_this_machine
from emrdm.restoration.memory import Room, state_bytes
from emrdm.restoration.nearby import Nearby
from emrdm.restoration.output import Finisher, Keeping, check_dtype, windows
from emrdm.restoration.plan import Plan, Settings
from emrdm.restoration.sinks import InMemory, Sink, Summary, Writing, into_files
from emrdm.restoration.watching import Estimate
from emrdm.restoration.worker import numerics
from emrdm.window import Window

Progress = Callable[[int, int], None]


def restore_scene(
    scene: Scene | Any,
    model: EMRDM | None = None,
    output: str | Path | None = None,
    *,
    samples: int | None = None,
    seed: int | None = None,
    settings: Settings | None = None,
    reading: Reading | None = None,
    keeping: Keeping | None = None,
    write: Writing | None = None,
    memory: int | None = None,
    batch: int | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    progress: Progress | None = None,
    finishing: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    watch: Callable[[Estimate], None] | None = None,
) -> Any:
    """Remove the clouds from a scene of any size.

    Args:
        scene: from :func:`~emrdm.open_scene`, or the path of an image; or a DataArray, then the result is one, too.
        model: to restore with, on the device to restore on; None for the one inside the package, on the CPU.
        output: file to write. Without one the result stays in memory.
        samples: shortcut for ``settings.samples``.
        seed: shortcut for ``settings.seed``.
        settings: tiles, steps, samples.
        reading: how the files' numbers are to be understood.
        keeping: which pixels stay as they are; None replaces all.
        write: number type and kind of the file, uncertainty.
        memory: bytes for the whole process, 4 GB if None.
        batch: tiles at one time at most. It changes nothing but speed and memory.
        workers: processes on this machine, through Dask.
        cluster: address of a Dask scheduler.
        progress: hears how many tiles are done, of how many.
        finishing: hears how many windows of the output are written, of how many.
        announce: hears what was decided about the files, before any work.
        watch: sees after every step what the clear image is thought to be; to be looked at before it returns.

    Returns:
        a :class:`Restored`, or a DataArray for a DataArray.
    """
    if model is not None and not isinstance(model, EMRDM):
        raise InputError(f"model is a {type(model).__name__}: expected an EMRDM, such as EMRDM.load(path)")
    if isinstance(scene, str | Path):
        scene = open_scene(scene)
    if not isinstance(scene, Scene):
        if type(scene).__name__ != "DataArray":
            raise InputError(
                f"scene is a {type(scene).__name__}: expected a path, a Scene (open_scene), or a DataArray"
            )
        from emrdm.rasters.dataarray import to_dataarray

        found = restore_scene(
            open_scene(scene), model, output, samples=samples, seed=seed, settings=settings, reading=reading,
            keeping=keeping, write=write, memory=memory, batch=batch, workers=workers, cluster=cluster,
            progress=progress, finishing=finishing, announce=announce, watch=watch,
        )  # fmt: skip
        return found if output is not None else to_dataarray(found.pixels, scene, valid=found.valid, names=found.names)
    started = time.monotonic()
    write = write or Writing()
    settings = settings or Settings()
    settings = dataclasses.replace(
        settings,
        samples=settings.samples if samples is None else samples,
        seed=settings.seed if seed is None else seed,
    )
    path = None if output is None else as_path(output, "output")
    model = _as_begun(model or EMRDM.default(), path, settings)
    inputs = _understood(scene, model, reading)
    if write.dtype is not None:
        check_dtype(np.dtype(write.dtype), inputs)
    plan = Plan.of(scene.grid.height, scene.grid.width, model, settings)
    room = Room.within(memory, plan, model, inputs.frames, batch=batch)
    set_cache(room.cache)
    for note in inputs.notes:
        (announce or _unheard)(note)
    digest = model.digest()

    def facts() -> dict[str, object]:
        return {
            **plan.facts(),
            "model": digest,
            **_input_facts(scene, inputs),
            **numerics(),
            "device": model.device.type,
        }

    with _work_folder(path, facts, anew=write.overwrite) as (folder, resumed):
        denoiser = TileDenoiser(plan, inputs, model, folder, nearby=Nearby(room.nearby))
        finisher = Finisher(
            inputs,
            [denoiser.result(sample) for sample in range(plan.samples)],
            dtype=np.dtype(write.dtype or scene.frames[-1].dtype),
            keeping=keeping,
            spread=write.uncertainty is not None or (path is None and plan.samples > 1),
            quantiles=write.quantiles,
        )
        like, tags = scene.frames[-1], _tags(model, digest, plan, inputs, keeping) | write.tags
        with _sink(path, folder, finisher, like, write, tags) as sink:
            states = state_bytes(plan, len(model.config.bands)) - _size(folder)
            require_space(folder, states + sink.needed, f"{path or 'the scene'} with all states between steps")
            look = None if watch is None else partial(_look, denoiser, watch)
            if cluster is not None or workers is not None:
                from emrdm.restoration.cluster import on_cluster

                with on_cluster(denoiser, cluster, workers, room) as run:
                    calls = all_steps(denoiser, run, progress or _silent, look)
            else:
                calls = all_steps(denoiser, on_this_machine(denoiser, room), progress or _silent, look)
            side = finisher.side(room.budget // 4)
            counts = _finish(finisher, sink, side, finishing or _silent)
            if path is not None and not write.overwrite:
                note_ending(folder, [path] if write.uncertainty is None else [path, write.uncertainty])
    pixels = scene.grid.height * scene.grid.width
    summary = Summary(
        tiles=len(plan.tiles),
        calls=calls,
        seconds=time.monotonic() - started,
        resumed=resumed,
        known=counts["known"] / pixels,
        clipped=counts["clipped"] / max(1, counts["values"]),
        replaced=counts["replaced"] / max(1, counts["known"]),
        notes=tuple(inputs.notes),
    )
    return sink.result(summary)


def _understood(scene: Scene, model: EMRDM, reading: Reading | None) -> Inputs:
    """The scene as the model sees it; bands and units of the default model are told to those who did not choose it."""
    try:
        return Inputs(scene, model.config, reading)
    except UnfitError as error:
        if not model.is_default:
            raise
        names, first = ", ".join(band.name for band in model.config.bands), model.config.bands[0]
        raise UnfitError(
            f"{error}; this is the default model, for one image of {names} from {first.low:g} to {first.high:g}: "
            "expected such an image, or --model with another"
        ) from None


def _as_begun(model: EMRDM, output: Path | None, settings: Settings) -> EMRDM:
    """The model in the numbers of an unfinished run: which are faster on a CPU, another trial may see differently."""
    begun = None if output is None else begun_with(output, "numbers")
    if model.device.type != "cpu" or settings.exact or begun not in ("float32", "bfloat16"):
        return model
    if begun != model.numbers():
        model = copy.copy(model)
        model.compute_in(str(begun))
    return model


def _look(denoiser: TileDenoiser, watch: Callable[[Estimate], None], sample: int, step: int) -> None:
    watch(Estimate(denoiser, sample, step))


def _finish(finisher: Finisher, sink: Sink, side: int, progress: Progress) -> Counter[str]:
    """Make the output of the samples; what was counted on the way."""
    todo = list(windows(finisher.inputs.scene.grid, side))
    counts: Counter[str] = Counter()
    for i, window in enumerate(todo):
        progress(i, len(todo))
        found = finisher.window(window)
        sink.put(window, found)
        known = int(found.valid.sum())
        counts.update(known=known, values=found.values, clipped=found.clipped, replaced=found.replaced)
    progress(len(todo), len(todo))
    return counts


def _sink(
    path: Path | None, folder: Path, finisher: Finisher, like: Source, write: Writing, tags: dict[str, str]
) -> AbstractContextManager[Sink]:
    if path is None:
        return nullcontext(InMemory(finisher, like, tags))
    return into_files(path, finisher, like, write, tags, own_files(folder))


def _size(folder: Path) -> int:
    """Bytes of what an earlier run has left."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextmanager
def _work_folder(
    output: Path | None, facts: Callable[[], Mapping[str, object]], *, anew: bool
) -> Iterator[tuple[Path, bool]]:
    """Where states are kept: beside the output, to be found by the next run; or just for now."""
    if output is not None:
        with journal(output, facts(), anew=anew) as found:
            yield found
        return
    with tempfile.TemporaryDirectory(prefix="emrdm-") as folder:
        yield Path(folder), False


def _input_facts(scene: Scene, inputs: Inputs) -> dict[str, object]:
    """Which files, and how they are understood: what decides the states beside the plan."""
    return {
        "images": [_content(source) for source in (*scene.frames, *scene.sar)],
        "numbers of the files": dataclasses.asdict(inputs.reading),
    }


def _content(source: Source) -> str:
    """Another text where the pixels may be others."""
    path, understood = Path(source.name), f"bands {', '.join(source.names)}, nodata {source.nodata}, date {source.date}"
    if path.is_file():
        return f"{path.name} {fingerprint([path.resolve()])}, {understood}"
    pixels, valid = source.read(Window(0, 0, source.grid.height, source.grid.width))
    digest = hashlib.sha256(np.ascontiguousarray(pixels).data)
    digest.update(np.ascontiguousarray(valid).data)
    return f"{source.name} {digest.hexdigest()[:16]}, {understood}"


def _tags(model: EMRDM, digest: str, plan: Plan, inputs: Inputs, keeping: Keeping | None) -> dict[str, str]:
    """The newest image's own tags, and where the new one comes from."""
    sampler, scene = dataclasses.asdict(plan.sampler), inputs.scene
    tags = dict(scene.frames[-1].tags) | {
        "EMRDM_VERSION": emrdm.__version__,
        "EMRDM_MODEL": model.card.title,
        "EMRDM_MODEL_DIGEST": digest,
        "EMRDM_INPUTS": ", ".join(Path(source.name).name for source in (*scene.frames, *scene.sar)),
        "EMRDM_SAMPLER": ", ".join(f"{key}={value}" for key, value in sampler.items()),
        "EMRDM_SAMPLES": str(plan.samples),
        "EMRDM_SEED": str(plan.seed),
        "EMRDM_TILES": f"{plan.tiles.rows.tile} x {plan.tiles.columns.tile}, overlap {plan.tiles.rows.overlap}",
        "EMRDM_NUMBERS": plan.numbers,
        "EMRDM_READING": ", ".join(
            f"{key}={value}" for key, value in dataclasses.asdict(inputs.reading).items() if value
        ),
        "EMRDM_KEPT": "" if keeping is None else f"clear pixels, by {keeping.by}, grown by {keeping.grow}",
    }
    return {name: value for name, value in tags.items() if value}  # files hold no empty ones


def _unheard(note: str) -> None:
    """Nobody listens."""


def _silent(done: int, total: int) -> None:
    """Nobody listens."""
