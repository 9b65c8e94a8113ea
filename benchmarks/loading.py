"""How fast samples come: a bare loop that only decodes, against the loader without a cache, with one, with workers.

python benchmarks/loading.py                     on a made-up data set
python benchmarks/loading.py rice1 ROOT          on a real one
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes share the cores

import numpy as np
import torch
from PIL import Image

from emrdm.data import Batches, Dataset, DiskCache, Draw, MemoryCache, open_dataset
from emrdm.noise import fold


def make_up(root: Path, count: int = 200) -> Path:
    """Pairs of 256 x 256, lossless WebP, of a real image's entropy."""
    random = np.random.default_rng(0)
    for kind in ("cloud", "label"):
        (root / kind).mkdir(parents=True)
        for i in range(count):
            small = Image.fromarray(random.integers(0, 255, (32, 32, 3), dtype=np.uint8)).resize((256, 256))
            noisy = np.asarray(small).astype(int) + random.integers(-6, 7, (256, 256, 3))
            image = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
            image.save(root / kind / f"{i}.webp", lossless=True, quality=0)
    return root


def bare_decode(dataset: Dataset) -> int:
    """Open and decode every file, nothing else."""
    for item in dataset.items:
        for path in item.files:
            with Image.open(path) as image:
                np.asarray(image)
    return len(dataset)


def through(dataset: Dataset, workers: int, epoch: int) -> int:
    """One epoch as training would ask for it: shuffled, augmented, in batches of 16."""
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(epoch)).tolist()
    draws = [Draw(i, fold(0, epoch, i)) for i in order]
    seen = 0
    for turn in Batches(dataset, draws, batch_size=16, workers=workers):
        seen += sum(len(batch.names) for batch in turn)
    return seen


def rate(job: Callable[[], int]) -> float:
    """Samples a second."""
    start = time.perf_counter()
    return job() / (time.perf_counter() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="rice1")
    parser.add_argument("root", nargs="?", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        root = arguments.root or make_up(Path(scratch) / "data")

        def dataset(cache: MemoryCache | DiskCache | None = None) -> Dataset:
            return open_dataset(arguments.name, root, split="all", cache=cache, augmentation="dihedral")

        bare_decode(dataset())  # the files are then in the page cache for everybody
        memory, disk = MemoryCache(), DiskCache(Path(scratch) / "cache")
        found = {"bare decode loop": rate(lambda: bare_decode(dataset()))}
        found["loader, no cache"] = rate(lambda: through(dataset(), 0, 0))
        found["loader, no cache, 2 workers"] = rate(lambda: through(dataset(), 2, 0))
        found["loader, memory cache, first epoch"] = rate(lambda: through(dataset(memory), 0, 0))
        found["loader, memory cache, next epochs"] = rate(lambda: through(dataset(memory), 0, 1))
        found["loader, memory cache, next epochs, 2 workers"] = rate(lambda: through(dataset(memory), 2, 1))
        found["loader, disk cache, first epoch"] = rate(lambda: through(dataset(disk), 0, 0))
        found["loader, disk cache, next epochs"] = rate(lambda: through(dataset(disk), 0, 1))
        found["loader, disk cache, next epochs, 2 workers"] = rate(lambda: through(dataset(disk), 2, 1))
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(f"samples a second (pairs, {arguments.name}; shuffled, augmented, batches of 16)")
    for label, value in found.items():
        print(f"  {label:48} {value:8.0f}  {value / found['bare decode loop']:6.2f} x the bare loop")


if __name__ == "__main__":
    main()
