"""Remove the clouds from the example scene with the model inside the package, and compare with the truth.

    python examples/quickstart.py --out demo

Nothing is downloaded, and a CPU is enough. The ground is a real Landsat 8 scene, the clouds over it are drawn: so the
truth is known, and how much of the ground comes back is measured.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from emrdm import EmrdmError, open_scene, pictures, restore_scene
from emrdm.cli.progress import Progress
from emrdm.embedded import example
from emrdm.metrics import PROTOCOLS, Data
from emrdm.rasters.read import read
from emrdm.wording import many

SAMPLES = 2  # restorations with other noise: their mean is the result, their spread tells how sure it is
CLOUDY = 5  # of 255: a pixel that differs more from the truth, in any band, is under cloud or shadow
SIDE = 420  # pixels of a picture in the sheet


def main() -> None:
    """Restore, score, and write a GeoTIFF and a picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--picture", type=Path, help="where the picture goes (default: before_after.png in the folder)")
    arguments = parser.parse_args()
    try:
        run(arguments.out, arguments.picture or arguments.out / "before_after.png")
    except EmrdmError as error:
        parser.exit(error.exit_code, f"{error}\n")


def run(out: Path, picture: Path) -> None:
    """The whole example."""
    started = time.perf_counter()
    files = example()
    with open_scene(files.cloudy) as scene:
        found = restore_scene(scene, samples=SAMPLES, progress=Progress("restoring", unit="tile steps"))
    found.save(out / "restored.tif", overwrite=True)

    cloudy, truth = read(files.cloudy).pixels, read(files.clear).pixels
    clouds = np.abs(cloudy.astype(int) - truth).max(0) > CLOUDY
    scores = {"cloudy": score(cloudy, truth, clouds), "restored": score(found.pixels, truth, clouds)}
    print(f"\nagainst the truth, protocol standard; {100 * clouds.mean():.0f} % of the pixels are cloudy")
    print(f"{'':10}{'all pixels':>28}{'cloudy pixels':>28}")
    for name, row in scores.items():
        print(f"{name:10}" + "".join(f"{words(row, region):>28}" for region in ("", "/cloudy")))

    spread = np.sqrt(np.square(found.spread).mean(0, keepdims=True))
    widest = float(np.quantile(spread, 0.99)) or 1.0
    panels = [
        pictures.Tile(f"cloudy: {words(scores['cloudy'])}", colours(cloudy)),
        pictures.Tile(f"restored: {words(scores['restored'])}", colours(found.pixels)),
        pictures.Tile("truth: Landsat 8, USGS; the clouds are drawn", colours(truth)),
        pictures.Tile(
            f"uncertainty: white is a standard deviation of {widest:.1f} of 255",
            pictures.colour(spread, [0], (0.0, widest)),
        ),
    ]
    picture.parent.mkdir(parents=True, exist_ok=True)
    pictures.save(pictures.sheet([panels[:2], panels[2:]], side=SIDE), picture)
    height, width = truth.shape[1:]
    seconds, threads = time.perf_counter() - started, torch.get_num_threads()
    print(f"\n{width} x {height} pixels, {SAMPLES} samples: {seconds:.0f} s on {many(threads, 'thread')} of a CPU")
    print(f"wrote {out / 'restored.tif'} and {picture}")


def score(image: np.ndarray, truth: np.ndarray, clouds: np.ndarray) -> dict[str, float]:
    """Scores over all pixels, and over the cloudy ones as "psnr/cloudy"."""
    regions = {"cloudy": torch.from_numpy(clouds)[None]}
    found = PROTOCOLS["standard"](scaled(image), scaled(truth), data=Data(levels=255), regions=regions)
    return {name: values.item() for name, values in found.items()}


def scaled(image: np.ndarray) -> Tensor:
    """8-bit values (C, H, W) as a batch of one in [-1, 1]."""
    return torch.from_numpy(image / np.float32(127.5) - 1)[None]


def words(scores: dict[str, float], region: str = "") -> str:
    """PSNR and SSIM as they are printed."""
    return f"PSNR {scores[f'psnr{region}']:.2f} dB, SSIM {scores[f'ssim{region}']:.3f}"


def colours(image: np.ndarray) -> np.ndarray:
    """8-bit values (C, H, W) as a picture."""
    return pictures.colour(image, [0, 1, 2], (0.0, 255.0))


if __name__ == "__main__":
    main()
