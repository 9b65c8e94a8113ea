"""Image files to be read in windows by as many threads and processes as there are."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np

from emrdm.errors import DataError
from emrdm.files import as_path
from emrdm.rasters.bands import COLOURS
from emrdm.rasters.base import Source
from emrdm.rasters.dates import date_of
from emrdm.rasters.grid import Grid, Transform
from emrdm.rasters.guard import (
    GEOTIFF,
    checked_file,
    identity,
    opened_geotiff,
    reading_geotiff,
    real_type,
    set_cache,
)
from emrdm.rasters.header import check_directories
from emrdm.rasters.memory import ArraySource, PictureSource
from emrdm.rasters.picture import world_file
from emrdm.rasters.validity import checked_nodata, finite, validity_of
from emrdm.window import Window

__all__ = ["ArraySource", "FileSource", "PictureSource", "Source", "open_source", "set_cache"]

_TAGS, _TAG_LENGTH = 200, 10_000
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|/vsi")  # a letter and a colon are a drive


@final
class FileSource(Source):
    """A GeoTIFF file. Copies and other processes open it again when they first read."""

    def __init__(self, path: Path, *, nodata: float | None = None) -> None:
        self.name = str(path)
        self._path = path.resolve()
        self._identity = identity(path)
        self._lock = threading.Lock()
        self._file: Any = None
        self._process = 0
        self._outline = ""
        check_directories(path)
        with reading_geotiff(path):
            self._describe(self._open(), nodata)

    def _describe(self, file: Any, nodata: float | None) -> None:
        if len(file.subdatasets) > 1:
            raise DataError(f"{self.name} has {len(file.subdatasets)} pages: expected one image a file")
        self.dtype = real_type(Path(self.name), file.dtypes)
        validity = validity_of(file)
        if nodata is not None:
            validity = replace(validity, nodata=checked_nodata(nodata, self.dtype, self.name))
        self._validity = validity
        self.grid = _grid(file, self._path)
        self._mask = self._mask_beside()
        self.nodata = validity.nodata
        self.masked = validity.mask or bool(validity.alpha) or self._mask is not None
        self.names = tuple(file.descriptions[i - 1] or "" for i in validity.bands)
        self.colours = _colours([file.colorinterp[i - 1].name for i in validity.bands])
        self.scales = tuple(float(file.scales[i - 1]) for i in validity.bands)
        self.offsets = tuple(float(file.offsets[i - 1]) for i in validity.bands)
        self.tags = _tags(file)
        self.date = date_of(self.tags, self._path.stem)

    def _mask_beside(self) -> FileSource | None:
        """The mask in a file of its own, which GDAL calls like the image, and ``.msk``."""
        beside = Path(f"{self._path}.msk")
        if not beside.is_file():
            return None
        mask = FileSource(beside)
        if (mask.grid.height, mask.grid.width) != (self.grid.height, self.grid.width):
            raise DataError(f"{beside} does not fit {self.name}: size {mask.grid.size} against {self.grid.size}")
        return mask

    @property
    def identity(self) -> Hashable:
        """Equal for two sources of the same file."""
        return self._identity

    def _read(self, window: Window, bands: list[int]) -> tuple[np.ndarray, np.ndarray]:
        from rasterio.windows import Window as Part

        part = Part(window.column, window.row, window.width, window.height)
        own = self._validity.bands
        alone = self._validity.nodata is None and self.dtype.kind != "f"  # other bands cannot tell where there is data
        with self._lock, reading_geotiff(Path(self.name)):
            file = self._open()
            pixels = file.read([own[band] for band in bands] if alone else list(own), window=part)
            told = self._validity.of(file, pixels, part)
        valid = finite(pixels) if told is None else finite(pixels) & told
        if self._mask is not None:
            valid &= (self._mask.read(window)[0] > 0).all(0)
        return pixels if alone else pixels[bands], valid

    def _open(self) -> Any:
        """The open file; a process that was forked must not share its place in the file with its parent."""
        if self._file is None or self._process != os.getpid():
            file = opened_geotiff(self._path)
            if self._outline not in ("", _outline(file)):
                raise DataError(f"{self.name} has changed since it was opened: expected {self!r}")
            self._file, self._process, self._outline = file, os.getpid(), _outline(file)
        return self._file

    def close(self) -> None:
        """Close the file; reading opens it again."""
        with self._lock:
            if self._file is not None and self._process == os.getpid():
                self._file.close()
            self._file = None
        if self._mask is not None:
            self._mask.close()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_file", "_process")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock, self._file, self._process = threading.Lock(), None, 0


def _outline(file: Any) -> str:
    """What must be the same when a file is opened again; as text, since NaN does not equal itself."""
    return repr((file.count, file.height, file.width, file.dtypes[0], tuple(file.transform), file.nodata))


def _grid(file: Any, path: Path) -> Grid:
    points, points_crs = file.gcps
    a, b, c, d, e, f = (float(number) for number in tuple(file.transform)[:6])
    transform: Transform | None = (a, b, c, d, e, f)
    if file.transform.is_identity:  # which is what GDAL says where there is none
        transform = None if points else world_file(path)
    elif not np.isfinite([a, b, c, d, e, f]).all() or a * e == b * d:
        raise DataError(f"{path} has the transform {transform}: expected six numbers that turn pixels into places")
    gcps = tuple((float(p.row), float(p.col), float(p.x), float(p.y), float(p.z or 0)) for p in points or ())
    crs = file.crs if file.crs or transform is not None else points_crs
    rpcs = tuple((key, str(value)) for key, value in file.tags(ns="RPC").items())
    return Grid(file.height, file.width, crs.to_wkt() if crs else None, transform, () if transform else gcps, rpcs)


def _colours(meanings: list[str]) -> tuple[str, ...]:
    found = tuple(name if name in COLOURS else "" for name in meanings)
    return found if sorted(filter(None, found)) == sorted(COLOURS) else ()


def _tags(file: Any) -> dict[str, str]:
    """The file's own metadata, without what could fill a disk."""
    found = {key: str(value) for key, value in file.tags().items() if len(str(value)) <= _TAG_LENGTH}
    return dict(list(found.items())[:_TAGS])


def open_source(path: str | Path, *, nodata: float | None = None) -> Source:
    """Open an image file for reading in windows; nothing but its header is read of a GeoTIFF.

    Args:
        path: of a GeoTIFF, PNG, WebP or JPEG file on this machine.
        nodata: the number that stands for no data, instead of the file's own.
    """
    path = _local_path(path)
    if checked_file(path) not in GEOTIFF:
        return PictureSource(path, nodata=nodata)
    return FileSource(path, nodata=nodata)


def _local_path(path: str | Path) -> Path:
    """A path of this machine's file system: no address, and none of GDAL's ways to other places."""
    text = str(as_path(path, "image"))
    if _ADDRESS.match(text):
        raise DataError(f"{path} is no file of this machine: expected a path; download it first")
    return Path(text)
