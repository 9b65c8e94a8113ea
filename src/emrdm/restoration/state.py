"""What is kept between two steps: every tile's own view of the one raster S, in files that are there whole or not.

A step of a sample is a Zarr array (format 3) of shape (tile rows, tile columns, bands, height, width) with one chunk a
tile. Each chunk is written by one worker, at once, under a temporary name that is then replaced: so no two writers ever
meet, a chunk that exists is complete, and what exists after a crash is what need not be done again. The raster itself
is never stored: readers blend the tiles that have something to say in their window, in the order of the plan.

The format is simple enough to be written here, so that restoring needs no package for it; ``zarr.open`` reads it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

import numpy as np

from emrdm.errors import EmrdmError
from emrdm.files import atomic_path
from emrdm.rasters.tiles import Tile, TilePlan, common, inside
from emrdm.window import Window

_TYPE = np.dtype("<f4")


def has_tiles(folder: Path) -> bool:
    """Whether a tile of any step of any sample is kept in the folder of a run."""
    return next(folder.glob("*/*/c/*/*/0/0/0"), None) is not None


@final
class StepState:
    """S after one step of one sample."""

    def __init__(self, folder: Path, plan: TilePlan, bands: int) -> None:
        self.folder, self.plan, self.bands = folder, plan, bands
        self.shape = (bands, plan.rows.tile, plan.columns.tile)
        self._bytes = int(np.prod(self.shape)) * _TYPE.itemsize

    def create(self) -> None:
        """Make the folders, for writers to find them."""
        head = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [len(self.plan.rows.origins), len(self.plan.columns.origins), *self.shape],
            "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 1, *self.shape]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0.0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {"rows": list(self.plan.rows.origins), "columns": list(self.plan.columns.origins)},
            "dimension_names": ["tile_row", "tile_column", "band", "row", "column"],
        }
        try:
            for tile in self.plan:
                self._path(tile).parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(self.folder / "zarr.json") as path:
                path.write_text(json.dumps(head, indent=1), encoding="utf-8")
        except OSError as error:
            raise EmrdmError(f"{self.folder} cannot be written: {error.strerror}") from None

    def has(self, tile: Tile) -> bool:
        """Whether a tile is there."""
        try:
            return self._path(tile).stat().st_size == self._bytes
        except OSError:
            return False

    def write(self, tile: Tile, values: np.ndarray) -> None:
        """Put a tile there, (C, height, width)."""
        path = self._path(tile)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{id(values):x}.partial")
        try:
            with temporary.open("wb") as file:
                file.write(np.ascontiguousarray(values, _TYPE).data)
            temporary.replace(path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise EmrdmError(f"{path} cannot be written: {error.strerror}; {self._bytes:,} bytes are needed") from None

    def own(self, tile: Tile) -> np.ndarray:
        """A tile as it was written, without its neighbours; zeros where it was left out."""
        values = self._open(tile)
        return np.zeros(self.shape, np.float32) if values is None else np.array(values)

    def read(self, window: Window) -> np.ndarray:
        """(C, height, width) of a window: all tiles that have something to say there, blended."""
        result = np.zeros((self.bands, window.height, window.width), np.float32)
        for tile in self.plan.touching(window):
            values = self._open(tile)
            if values is None:
                continue
            whole = self.plan.window(tile)
            part = common(window, whole)
            there, here = inside(part, whole), inside(part, window)
            rows, columns = self.plan.rows.weights(tile.row), self.plan.columns.weights(tile.column)
            weights = np.outer(rows[there[0]], columns[there[1]])
            result[:, *here] += weights * values[:, *there]
        return result

    def remove(self) -> None:
        """Delete it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def done(self) -> Iterator[Tile]:
        """The tiles that are there."""
        return (tile for tile in self.plan if self.has(tile))

    def _open(self, tile: Tile) -> np.ndarray | None:
        path = self._path(tile)
        try:
            return np.memmap(path, _TYPE, "r", shape=self.shape)
        except FileNotFoundError:
            return None

    def _path(self, tile: Tile) -> Path:
        return self.folder / "c" / str(tile.row) / str(tile.column) / "0" / "0" / "0"
