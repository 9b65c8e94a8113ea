"""Images that tests write, and how they look at what is there afterwards."""

import hashlib

import numpy as np
import pytest

from emrdm.rasters.grid import Grid
from emrdm.rasters.write import writing
from emrdm.window import Window

rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs are written by rasterio")

UTM = rasterio.CRS.from_epsg(32633).to_wkt()
PLACE = (10.0, 0.0, 499980.0, 0.0, -10.0, 5200020.0)
BANDS = ("B2", "", "B4", "B8A")


def texture(shape, dtype="uint16", seed=0):
    return np.random.default_rng(seed).integers(1, 120, shape).astype(dtype)


def tiles(grid, height, width):
    return [
        Window(row, column, min(height, grid.height - row), min(width, grid.width - column))
        for row in range(0, grid.height, height)
        for column in range(0, grid.width, width)
    ]


def write(path, pixels, valid=None, *, grid=None, windows=None, **options):
    grid = grid or Grid(*pixels.shape[1:], UTM, PLACE)
    valid = np.ones(pixels.shape[1:], bool) if valid is None else valid
    options = {"bands": ("",) * len(pixels), "dtype": pixels.dtype, **options}
    with writing(path, grid, **options) as image:
        for window in windows or tiles(grid, 200, 300):
            part = (window.rows, window.columns)
            image.write(window, pixels[:, *part], valid[part])
    return path


def names_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hole(shape):
    """Valid pixels with a ragged hole and an empty edge."""
    valid = np.random.default_rng(5).random(shape) < 0.9
    valid[: shape[0] // 3, : shape[1] // 3] = False
    return valid


def refused(error, match, *arguments, **options):
    with pytest.raises(error, match=match) as caught:
        write(*arguments, **options)
    assert str(caught.value).isprintable()
    return str(caught.value)
