"""Small models and images for the tests of the page."""

import dataclasses

import numpy as np

from emrdm import EMRDM
from emrdm.bench.paths import lively
from emrdm.serve.shelf import Shelf, offers


def tiny(folder):
    """A model of one image, as a file."""
    path = folder / "tiny.safetensors"
    lively(EMRDM.from_preset("tiny")).save(path)
    return path


def series(folder):
    """A model of series without auxiliary bands, as a file."""
    path = folder / "series.safetensors"
    config = EMRDM.from_preset("tiny-temporal").config
    lively(EMRDM(dataclasses.replace(config, inputs=("noisy", "cloudy"), aux=()))).save(path)
    return path


def shelf(folder):
    return Shelf(offers([tiny(folder), series(folder)]))


def pixels(seed=0, height=48, width=56, bands=3):
    return np.random.default_rng(seed).integers(40, 200, (bands, height, width), dtype=np.uint8)


def geotiff(path, image, names=("red", "green", "blue")):
    import rasterio

    count, height, width = image.shape
    with rasterio.open(
        path, "w", driver="GTiff", count=count, height=height, width=width, dtype=image.dtype, crs="EPSG:32632",
        transform=rasterio.Affine(10, 0, 5e5, 0, -10, 5e6),
    ) as file:  # fmt: skip
        file.write(image)
        file.descriptions = names
    return path


def png(path, image):
    from PIL import Image

    Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).save(path)
    return path
