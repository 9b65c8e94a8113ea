"""Data sets: one file each, all giving the same :class:`Sample`."""

from emrdm.data.augment import augment
from emrdm.data.cache import DiskCache, MemoryCache
from emrdm.data.catalog import CATALOG, find_layout, open_dataset
from emrdm.data.clouds import Clouds, CloudStyle, draw_clouds, draw_series
from emrdm.data.dataset import Dataset, Draw, Failure
from emrdm.data.folders import Numbers
from emrdm.data.layout import Item, Layout, Listing
from emrdm.data.loading import Batch, Batches
from emrdm.data.sample import CLEAR, NODATA, SHADOW, THICK, THIN, UNKNOWN, Sample

__all__ = [
    "CATALOG",
    "CLEAR",
    "NODATA",
    "SHADOW",
    "THICK",
    "THIN",
    "UNKNOWN",
    "Batch",
    "Batches",
    "CloudStyle",
    "Clouds",
    "Dataset",
    "DiskCache",
    "Draw",
    "Failure",
    "Item",
    "Layout",
    "Listing",
    "MemoryCache",
    "Numbers",
    "Sample",
    "augment",
    "draw_clouds",
    "draw_series",
    "find_layout",
    "open_dataset",
]
