"""Scripts of the examples folder as modules, and pieces of the example scene."""

import importlib.util
from pathlib import Path

import numpy as np

from emrdm.embedded import Example, example
from emrdm.rasters.read import read

FOLDER = Path(__file__).parents[1] / "examples"


def load(name):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def piece(row, column, side):
    """Cloudy and clear pixels of a square of the example scene, and which of them are under cloud or shadow."""
    here = np.s_[:, row : row + side, column : column + side]
    cloudy, clear = (read(path).pixels[here] for path in (example().cloudy, example().clear))
    return cloudy, clear, np.abs(cloudy.astype(int) - clear).max(0) > 5


def piece_files(folder, row, column, side):
    """The same as files, on their place."""
    import rasterio

    here = np.s_[:, row : row + side, column : column + side]
    found = []
    for path in (example().cloudy, example().clear):
        with rasterio.open(path) as whole:
            a, _, c, _, e, f = whole.transform[:6]
            moved = rasterio.Affine(a, 0, c + a * column, 0, e, f + e * row)
            with rasterio.open(
                folder / path.name, "w", driver="GTiff", count=3, height=side, width=side, dtype="uint8",
                crs=whole.crs, transform=moved,
            ) as part:  # fmt: skip
                part.write(whole.read()[here])
                part.descriptions = whole.descriptions
        found.append(folder / path.name)
    return Example(cloudy=found[0], clear=found[1])
