"""Small runs for the tests of training: images, a recipe of milliseconds a step, the command, and how runs are compared.

``Command`` is the command line in a process of its own, forked from one that has imported everything already: it can
be killed as any process can, and starts in a tenth of a second. ``python`` starts Python itself, as a user does.
"""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from PIL import Image

from emrdm.cli import main
from emrdm.presets import Preset, load_preset
from emrdm.training import Machine, Outcome, export, train
from emrdm.training.checkpoint import load
from emrdm.training.log import read_log

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
CPU = Machine(device="cpu")
# what a run imports on its way
_IMPORTED_LATE = (
    "emrdm.evaluation",
    "emrdm.plots",
    "lightning_fabric",
    "matplotlib.backends.backend_agg",
    "matplotlib.pyplot",
    "rasterio",
    "safetensors.torch",
    "torch._dynamo",
    "torch.distributed.tensor",
    "torch.utils.tensorboard",
)

# smaller than tiny, with dropout (mapping_dropout is 0.1) and two batches a step
SMALL: dict[str, Any] = {
    "model.network.widths": [16, 16],
    "model.network.depths": [1, 1],
    "model.network.hidden": [16, 16],
    "model.network.kernel": 3,
    "model.network.mapping_width": 16,
    "model.network.mapping_hidden": 16,
    "model.sampler.steps": 1,
    "optimizer.lr": 0.01,
    "optimizer.warmup": 5,
    "train.steps": 24,
    "train.batch_size": 2,
    "train.accumulate": 2,
    "train.augmentation": "dihedral",
    "watch.log_every": 2,
    "watch.checkpoint_every": 4,
    "watch.validate_every": 12,
    "watch.validation_images": 1,
    "watch.sheet_images": 1,
}


def pairs(root: Path, *, count: int = 10, side: int = 16, validation: int = 1) -> Path:
    """A folder of random pairs: ``count`` to train on, and some to validate."""
    rng = np.random.default_rng(0)
    names = [f"{i:03}" for i in range(count + validation)]
    for part in ("cloudy", "clear"):
        (root / part).mkdir(parents=True)
        for name in names:
            picture(root / part / f"{name}.png", rng, side)
    (root / "train.txt").write_text("\n".join(names[:count]))
    (root / "val.txt").write_text("\n".join(names[count:]))
    return root


def picture(path: Path, rng: np.random.Generator, side: int = 16) -> None:
    """A random colour picture."""
    Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(path)


def recipe(root: Path, changes: Mapping[str, Any] | None = None) -> Preset:
    """The small recipe on a folder of pairs."""
    return load_preset("tiny").replace({**SMALL, "data": [{"dataset": "pairs", "root": str(root)}], **(changes or {})})


def words(root: Path, folder: Path, *more: str, data: str = "pairs", **changes: Any) -> list[str]:
    """The same as arguments of the command; keywords have two underscores for a dot."""
    settings = {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}}
    texts = [f"{key}={'none' if value is None else value}" for key, value in settings.items()]
    return ["train", "tiny", "--data", f"{data}={root}", "-o", str(folder), "--device", "cpu", *more, *texts]


def run(root: Path, folder: Path, changes: Mapping[str, Any] | None = None, **options: Any) -> Outcome:
    """Train in this process."""
    return train(recipe(root, changes), folder, machine=options.pop("machine", CPU), **options)


class Command:
    """A command line in a process of its own, at the head of its own group."""

    def __init__(
        self, arguments: Sequence[str], place: Path, *, before: Callable[..., None] | None = None, given: tuple = ()
    ) -> None:
        """Start it; ``before`` is called in the process first, with ``given``."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.training.runs", *_IMPORTED_LATE])
        self._out, self._err = place.with_suffix(".out"), place.with_suffix(".err")
        self.began = time.monotonic()
        self.process = context.Process(target=_go, args=(list(arguments), self._out, self._err, before, given))
        self.process.start()

    @property
    def out(self) -> str:
        """What it has written."""
        return self._out.read_text() if self._out.exists() else ""

    @property
    def errors(self) -> str:
        """What it has written as errors."""
        return self._err.read_text() if self._err.exists() else ""

    def send(self, number: int, *, group: bool = False) -> None:
        """Send a signal to it, or to its whole group, as a terminal does."""
        assert self.process.pid is not None
        (os.killpg if group else os.kill)(self.process.pid, number)

    def until(self, happened: Callable[[], bool], *, seconds: float = 60) -> Self:
        """Wait for something to happen while it runs."""
        end = time.monotonic() + seconds
        while not happened():
            assert self.process.is_alive(), f"ended with {self.process.exitcode}: {self.errors}"
            assert time.monotonic() < end, f"waited in vain: {self.errors}"
            time.sleep(0.002)
        return self

    def code(self, seconds: float = 120) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.process.kill()
            raise AssertionError(f"still runs after {seconds} s: {self.errors}")
        return self.process.exitcode

    def kill_after(self, seconds: float) -> bool:
        """SIGKILL when so many seconds have passed; whether it was still running."""
        self.process.join(seconds)
        alive = self.process.is_alive()
        if alive:
            self.send(signal.SIGKILL)
        self.process.join()
        return alive and self.process.exitcode == -signal.SIGKILL


def _go(arguments: list[str], out: Path, err: Path, before: Callable[..., None] | None, given: tuple) -> None:
    os.setsid()
    multiprocessing.set_start_method("fork", force=True)  # as in a process that was not forked
    os.environ.update(ONE_THREAD)
    torch.set_num_threads(1)
    for descriptor, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), descriptor)
    without_curves()
    if before is not None:
        before(*given)
    sys.exit(main(arguments))


def without_curves() -> None:
    """Leave the curves of the model card out: they take as long as a run."""
    export.training_curves = lambda *_, **__: None


def limit_files(size: int) -> None:
    """For ``before``: no file of this process may become larger, as if the disk were full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """``python -m emrdm``, as a user starts it."""
    command = [sys.executable, "-m", "emrdm", *arguments]
    return subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=False)


# ---------------------------------------------------------------- what came out


def steps(folder: Path) -> list[int]:
    """Steps that have a checkpoint."""
    return sorted(int(path.stem.partition("-")[2]) for path in (folder / "checkpoints").glob("step-*.safetensors"))


def last(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The last checkpoint, verified."""
    return load(folder / "checkpoints" / f"step-{steps(folder)[-1]:08}.safetensors")


def rows(folder: Path, *kinds: str) -> list[dict[str, Any]]:
    """Rows of the log that do not depend on time and place."""
    lost = ("images_per_s", "memory", "seconds")
    kinds = kinds or ("step", "validation", "skipped", "quarantine")
    found = [row for row in read_log(folder / "log.jsonl") if row["kind"] in kinds]
    return [{key: value for key, value in row.items() if key not in lost} for row in found]


def content(folder: Path) -> dict[Path, bytes]:
    """All files of a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def leftovers(folder: Path) -> list[Path]:
    """Temporary files in it."""
    return sorted(folder.rglob("*.partial"))


def assert_same_tensors(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> None:
    """Same names, and every tensor the same in type, shape and bits."""
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.dtype == other[name].dtype, name
        assert torch.equal(*(x.reshape(-1).view(torch.uint8) for x in (tensor, other[name]))), name


def assert_same_run(folder: Path, reference: Path) -> None:
    """Weights, average, optimiser, place, log, exported weights: as those of the reference, bit for bit."""
    (tensors, state), (expected, place) = last(folder), last(reference)
    assert {name.partition(".")[0] for name in expected} == {"model", "average", "optimizer"}
    assert_same_tensors(tensors, expected)
    assert {**state, "seconds": 0} == {**place, "seconds": 0}
    assert rows(folder) == rows(reference)
    assert (folder / "model.safetensors").read_bytes() == (reference / "model.safetensors").read_bytes()
    assert not leftovers(folder)
