"""A small scene and a small model, the command that restores one with the other, and points to kill it at."""

import collections
import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tests.networks.test_hdit import awake

from emrdm import EMRDM, load_preset
from emrdm.cli import main
from emrdm.networks.fused import cpu
from emrdm.rasters import write_geotiff
from emrdm.rasters.tiles import Tile
from emrdm.restoration import Reading, Settings, denoising, journal, local, scenes, state

HEIGHT, WIDTH, TILES, STEPS = 150, 200, 12, 3
TILE_STEPS = (TILES - 1) * STEPS  # one tile has no data
SETTINGS, READING = Settings(tile=64, overlap=16), Reading(range=(0.0, 4000.0))  # as in ``words``
NETWORK = {
    "model.network.widths": [16, 16],
    "model.network.depths": [1, 1],
    "model.network.hidden": [16, 16],
    "model.network.kernel": 3,
    "model.network.mapping_width": 16,
    "model.network.mapping_hidden": 16,
    "model.sampler.steps": STEPS,
    "model.sampler.method": "stochastic",
    "model.sampler.churn": 2.0,
}


class Reference(NamedTuple):
    """An output, its sha256, and the seconds it took."""

    path: Path
    digest: str
    seconds: float


def weights(path: Path) -> Path:
    """A model of milliseconds a tile, all of whose branches speak."""
    model = EMRDM.fresh(load_preset("tiny").replace(NETWORK).model)
    awake(model.network)
    model.save(path)
    return path


def pixels(bands: int = 3, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """Ground with a bright cloud, in numbers of 16 bits, none of them 0."""
    rng = np.random.default_rng(1)
    ground = 800 + 400 * np.sin(np.arange(width) / 9) * np.cos(np.arange(height) / 7)[:, None]
    image = ground + rng.normal(0, 50, (bands, height, width)) + 200 * np.arange(bands)[:, None, None]
    image[:, height // 3 : height // 2, width // 3 : width // 2] += 2000
    return image.clip(1, 4000).astype(np.uint16)


def write(
    path: Path, image: np.ndarray, *, nodata: float | None = None, names: tuple[str, ...] = (), **tags: str
) -> Path:
    """A GeoTIFF of an image (C, H, W) in Norway."""
    import rasterio

    path.parent.mkdir(parents=True, exist_ok=True)
    count, height, width = image.shape
    with rasterio.open(
        path, "w", driver="GTiff", count=count, height=height, width=width, dtype=image.dtype, nodata=nodata,
        crs="EPSG:32633", transform=rasterio.Affine(10, 0, 3e5, 0, -10, 7e6),
    ) as file:  # fmt: skip
        file.write(image)
        file.descriptions = names or ("red", "green", "blue", *(f"B{i}" for i in range(4, count + 1)))[:count]
        file.update_tags(**tags)
    return path


def scene(path: Path) -> Path:
    """The scene; a corner has no data, and so has one whole tile."""
    image = pixels()
    image[:, :70, :80] = 0
    return write(path, image, nodata=0, ACQUIRED="2024-05-01")


def words(image: Path, model: Path, output: Path, *more: object) -> list[str]:
    """The command."""
    given = ["restore", image, "--model", model, "-o", output, "--device", "cpu"]
    return list(map(str, [*given, "--tile", 64, "--overlap", 16, "--range", "0:4000", *more]))


def run(capsys: Any, arguments: Iterable[object]) -> tuple[int, list[str], list[str]]:
    """Run a command line in this process: exit code, lines of output, lines of messages."""
    try:
        code = main(list(map(str, arguments)))
    except SystemExit as caught:
        code = caught.code
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err.splitlines()


def counted(patch: Any) -> list[Tile]:
    """Tiles that the network sees in this process from now on."""
    seen: list[Tile] = []
    original = denoising.TileDenoiser.compute

    def compute(self: Any, sample: int, step: int, loaded: Any) -> Any:
        seen.extend(loaded.tiles)
        return original(self, sample, step, loaded)

    patch.setattr(denoising.TileDenoiser, "compute", compute)
    return seen


# ---------------------------------------------------------------- what came out


def digest(path: Path) -> str:
    """sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hidden(folder: Path) -> list[str]:
    """Temporary files and unfinished work."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name.startswith("."))


def tiles(folder: Path) -> dict[str, int]:
    """Tiles of unfinished work, and when each was written."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.glob("*/*/c/*/*/0/0/0")}


def counts(log: Path) -> tuple[int, int]:
    """Network calls, and tiles that were kept, by what :func:`watch` has noted."""
    kinds = collections.Counter(line.split()[0] for line in log.read_text().splitlines())
    return kinds["call"], kinds["kept"]


# ---------------------------------------------------------------- for Command's ``before``


def settle() -> None:
    """Compute in float32, whichever is faster: a trial on a busy machine may see that one way or the other."""
    cpu.faster_dtype = lambda: cpu.Choice(torch.float32, "as the test says")


def watch(log: Path, point: str = "", number: int = 1, kind: int = signal.SIGKILL, slow: float = 0) -> None:
    """Note network calls and finished tiles in a file; send a signal to this process at a point, the n-th time.

    Every network call takes ``slow`` seconds longer.
    """
    settle()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def computed(sample: int, step: int, loaded: Any) -> None:
        time.sleep(slow)
        os.write(descriptor, "".join(f"call {sample} {step} {tile}\n" for tile in loaded.tiles).encode())

    def kept(after: state.StepState, tile: Tile, _: Any) -> None:
        os.write(descriptor, f"kept {after.folder.parent.name} {after.folder.name} {tile}\n".encode())

    _around(denoising.TileDenoiser, "compute", before=lambda _, *given: computed(*given))
    _around(state.StepState, "write", after=kept)
    if point:
        when, what = point.split(maxsplit=1)
        owner, name = POINTS[what]
        count = 0

        def act(*_: Any, **__: Any) -> None:
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), kind)

        _around(owner, name, **{when: act})


POINTS: dict[str, tuple[Any, str]] = {
    "computing a tile": (denoising.TileDenoiser, "compute"),
    "moving a tile": (Path, "replace"),
    "keeping a tile": (state.StepState, "write"),
    "marking a step": (local, "_mark"),
    "removing a step": (state.StepState, "remove"),
    "writing a window": (write_geotiff.GeoTiffWriter, "_put"),
    "noting the end": (scenes, "note_ending"),
    "making the output": (write_geotiff, "_copy"),
    "verifying the output": (write_geotiff.GeoTiffWriter, "_verify"),
    "writing the output": (write_geotiff.GeoTiffWriter, "_finish"),
    "removing the work": (journal, "_discard"),
}


def die_in_the_copy(log: Path, seconds: float) -> None:
    """End so many seconds after GDAL has begun to make the output, in the midst of it, as by SIGKILL."""
    watch(log)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    calls: list[object] = []

    def wind(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 2:  # the first is a trial of two by two pixels
            signal.setitimer(signal.ITIMER_REAL, seconds)

    _around(write_geotiff, "_copy", before=wind)


def _nothing(*_: Any, **__: Any) -> None:
    """Before or after most calls."""


def _around(owner: Any, name: str, *, before: Callable = _nothing, after: Callable = _nothing) -> None:
    original = getattr(owner, name)

    def armed(*given: Any, **options: Any) -> Any:
        before(*given, **options)
        result = original(*given, **options)
        after(*given, **options)
        return result

    setattr(owner, name, armed)
