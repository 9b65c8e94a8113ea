"""Write GeoTIFFs: windows go to a plain file first, which is copied in one go, verified, and then takes its name.

The same pixels give the same bytes, whatever the order of the windows: the copy reads them from the first to the last,
and nothing in it tells when or how they came.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from emrdm.errors import EmrdmError, InputError, MissingDependencyError
from emrdm.files import atomic_path, require_space, sync
from emrdm.rasters.bands import COLOURS
from emrdm.rasters.convert import halved
from emrdm.rasters.grid import Grid
from emrdm.rasters.guard import one_at_a_time, opened_geotiff
from emrdm.rasters.validity import with_data
from emrdm.rasters.writer import Layout, Writer
from emrdm.window import Window

DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")
_CACHE = 64 << 20  # bytes of blocks GDAL keeps in memory; its own choice is 5 % of the machine
_LARGEST_BLOCK = 32 << 20  # bytes


class GeoTiffWriter(Writer):
    """Writes a cloud-optimised GeoTIFF, or a plain one."""

    def __init__(self, layout: Layout, kind: Literal["cog", "gtiff"], folder: Path) -> None:
        layout = _as_stored(layout)
        super().__init__(layout)
        self._kind, self._folder = kind, folder
        self.needed = _bytes_needed(layout, kind)
        require_space(layout.path.parent, self.needed, str(layout.path))
        with self._reported(), _gdal(folder):
            self._try_out()
            self._whole = _Level(folder / "windows.tif", layout)

    def close(self) -> None:
        """Let go of the file of windows, whether or not all came; what it lacks is found when its copy is verified."""
        with suppress(*self._failures()), _gdal(self._folder):
            self._whole.file.close()

    def _put(self, window: Window, pixels: np.ndarray, valid: np.ndarray) -> None:
        with _gdal(self._folder):
            self._whole.write(window, pixels, valid)

    def _finish(self) -> None:
        self.close()
        copy = self._folder / "copy.tif"
        with _gdal(self._folder):
            levels = [self._whole]
            while self._kind == "cog" and levels[-1].larger_than_a_block:
                levels.append(levels[-1].overview())
            _copy(self._whole.path, copy, self.layout, self._kind)
            for level in levels:
                level.path.unlink()
            with atomic_path(self.layout.path) as temporary:
                copy.replace(temporary)
                sync(temporary)
                self._verify(temporary, levels)

    def _verify(self, path: Path, levels: list[_Level]) -> None:
        """Read all of it back: a disk that was full when a file was closed is noticed by nobody else."""
        for i, level in enumerate(levels):
            with opened_geotiff(path) if i == 0 else _opened_overview(path, i - 1) as file:
                difference = (i == 0 and _difference(self.layout, file)) or level.difference(file)
            if difference is not None:
                raise EmrdmError(self._failure(f"it did not read back as written: {difference}"))

    def _try_out(self) -> None:
        """Write and read a tiny image with the same grid and tags: what the format cannot hold is refused at once."""
        first, second = self._folder / "first.tif", self._folder / "second.tif"
        small = replace(self.layout, grid=replace(self.layout.grid, height=2, width=2))
        try:
            _create(first, small).close()
            _copy(first, second, small, self._kind)
            with opened_geotiff(second) as file:
                difference = _difference(small, file)
        except ValueError as error:  # also from a CRS that nobody knows
            difference = str(error.__cause__ or error)
        if difference is not None:
            raise InputError(f"{self.layout.path}: a GeoTIFF cannot hold this: {difference}")
        first.unlink()
        second.unlink()

    def _failures(self) -> tuple[type[Exception], ...]:
        from rasterio._err import CPLE_BaseError
        from rasterio.errors import RasterioError

        return *super()._failures(), RasterioError, CPLE_BaseError


class _Level:
    """A plain file of the image or of one of its overviews, and checksums of all that was written to it."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self.file = _create(path, layout)
        self._sums: dict[Window, int] = {}

    @property
    def larger_than_a_block(self) -> bool:
        return max(self.layout.grid.height, self.layout.grid.width) > _block(self.layout)

    def write(self, window: Window, pixels: np.ndarray, valid: np.ndarray) -> None:
        self.file.write(pixels, window=_of_rasterio(window))
        if self.layout.masked:
            self.file.write_mask(valid, window=_of_rasterio(window))
        self._sums[window] = _checksum(pixels, valid if self.layout.masked else None)

    def difference(self, file: Any) -> str | None:
        """Which window of a file is not as written."""
        for window in sorted(self._sums):
            if _checksum(*self._read(file, window)) != self._sums[window]:
                return f"{window} of {self.layout.grid.size}"
        return None

    def overview(self) -> _Level:
        """The same image at half the size, in a file that GDAL takes for that by its name.

        The driver of the copy would make every one from the whole image, in memory that grows with it.
        """
        grid, layout = self.layout.grid, self.layout
        smaller = Grid(-(-grid.height // 2), -(-grid.width // 2))
        level = _Level(self.path.with_name(self.path.name + ".ovr"), replace(layout, grid=smaller, tags={}))
        with opened_geotiff(self.path) as file:
            for target in _blocks(smaller, _block(layout)):
                row, column = 2 * target.row, 2 * target.column
                height, width = min(2 * target.height, grid.height - row), min(2 * target.width, grid.width - column)
                pixels, mask = self._read(file, Window(row, column, height, width))
                if mask is None:
                    mask = np.ones((height, width), bool) if layout.nodata is None else with_data(pixels, layout.nodata)
                half, valid = halved(pixels, mask)
                level.write(target, layout.filled(half, valid), valid)
        level.file.close()
        return level

    def _read(self, file: Any, window: Window) -> tuple[np.ndarray, np.ndarray | None]:
        """Pixels, and the mask if the file has one."""
        part = _of_rasterio(window)
        return file.read(window=part), file.read_masks(1, window=part) > 0 if self.layout.masked else None


def _as_stored(layout: Layout) -> Layout:
    """What this format has no words for, and what means the same without."""
    try:
        import rasterio  # noqa: F401
    except ImportError:
        raise MissingDependencyError(f"{layout.path} needs rasterio: pip install 'emrdm[geo]'") from None
    if layout.dtype.name not in DTYPES:
        raise InputError(f"{layout.path}: numbers of type {layout.dtype}: expected one of {', '.join(DTYPES)}")
    grid, tags = layout.grid, dict(layout.tags)
    if grid.transform == (1, 0, 0, 0, 1, 0):
        grid = replace(grid, transform=None)
    if grid.crs is None or grid.gcps:  # it is said together with a CRS; transforms are of pixels' corners either way
        tags.pop("AREA_OR_POINT", None)
    return replace(layout, grid=grid, tags=tags)


def _bytes_needed(layout: Layout, kind: str) -> int:
    """The windows, their overviews, and the copy of both, if it cannot be compressed. Files hold whole blocks."""
    height, width, side = layout.grid.height, layout.grid.width, _block(layout)
    blocks = -(-height // side) * -(-width // side)
    while kind == "cog" and max(height, width) > side:
        height, width = -(-height // 2), -(-width // 2)
        blocks += -(-height // side) * -(-width // side)
    return int(2.02 * blocks * side**2 * (len(layout.bands) * layout.dtype.itemsize + layout.masked)) + (1 << 20)


def _block(layout: Layout) -> int:
    """The side of a block; it holds all bands, and is what the smallest window costs a reader."""
    side = 512
    while side > 64 and side**2 * len(layout.bands) * layout.dtype.itemsize > _LARGEST_BLOCK:
        side //= 2
    return side


def _blocks(grid: Grid, side: int) -> Iterator[Window]:
    for row in range(0, grid.height, side):
        for column in range(0, grid.width, side):
            yield Window(row, column, min(side, grid.height - row), min(side, grid.width - column))


@contextmanager
def _gdal(folder: Path) -> Iterator[None]:
    import rasterio
    from rasterio.env import get_gdal_config

    with rasterio.Env(
        GDAL_CACHEMAX=min(_CACHE, get_gdal_config("GDAL_CACHEMAX")),
        GDAL_DISABLE_READDIR_ON_OPEN="TRUE",  # overviews are found by their names
        GDAL_PAM_ENABLED="NO",  # all is in the file itself, nothing beside it
        GDAL_TIFF_INTERNAL_MASK="YES",
        GDAL_NUM_THREADS="1",
        CPL_TMPDIR=str(folder),  # for what the driver writes on its way
    ):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """A block in which a file is opened that may lie nowhere on the ground."""
    from rasterio.errors import NotGeoreferencedWarning

    with one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


def _opened_overview(path: Path, number: int) -> Any:
    import rasterio

    with _quiet():
        return rasterio.open(path, driver="GTiff", sharing=False, overview_level=number)


def _create(path: Path, layout: Layout) -> Any:
    """A new file with everything but pixels; not compressed, since windows may write to a block several times."""
    import rasterio
    from rasterio.control import GroundControlPoint
    from rasterio.enums import ColorInterp

    grid = layout.grid
    place: dict[str, Any] = {"crs": grid.crs}
    if grid.gcps:
        place["crs"] = grid.crs or rasterio.CRS()
        place["gcps"] = [GroundControlPoint(*point, id=str(i)) for i, point in enumerate(grid.gcps, 1)]
    elif grid.transform is not None:
        place["transform"] = rasterio.Affine(*grid.transform)
    colours = layout.colours or (COLOURS if len(layout.bands) == 3 and layout.dtype == np.uint8 else ())
    coloured = set(COLOURS) <= set(colours)
    with _quiet():
        file = rasterio.open(
            path,
            "w",
            driver="GTiff",
            height=grid.height,
            width=grid.width,
            count=len(layout.bands),
            dtype=layout.dtype.name,
            nodata=layout.nodata,
            photometric="RGB" if coloured and tuple(colours[:3]) == COLOURS else "MINISBLACK",
            interleave="pixel",
            **place,
            **_tiled(layout),
        )
    if coloured:  # a fourth band is a fourth band, no transparency
        file.colorinterp = [ColorInterp[name] if name else ColorInterp.undefined for name in colours]
    else:
        file.colorinterp = [ColorInterp.gray] + [ColorInterp.undefined] * (len(layout.bands) - 1)
    file.descriptions = [name or None for name in layout.bands]
    file.update_tags(**layout.tags)
    if grid.rpcs:
        file.update_tags(ns="RPC", **dict(grid.rpcs))
    if layout.scales:
        file.scales = layout.scales
    if layout.offsets:
        file.offsets = layout.offsets
    return file


def _tiled(layout: Layout) -> dict[str, Any]:
    return {"tiled": True, "blockxsize": _block(layout), "blockysize": _block(layout), "BIGTIFF": "IF_SAFER"}


def _copy(source: Path, target: Path, layout: Layout, kind: Literal["cog", "gtiff"]) -> None:
    import rasterio.shutil

    options: dict[str, Any] = {"COMPRESS": "DEFLATE", "NUM_THREADS": 1, "BIGTIFF": "IF_SAFER"}
    if kind == "cog":
        options |= {"driver": "COG", "BLOCKSIZE": _block(layout), "PREDICTOR": "YES", "OVERVIEW_RESAMPLING": "AVERAGE"}
    else:
        options |= {"driver": "GTiff", "PREDICTOR": 3 if layout.dtype.kind == "f" else 2, **_tiled(layout)}
    rasterio.shutil.copy(source, target, **options)


def _difference(layout: Layout, file: Any) -> str | None:
    """What a file says of itself that is not as asked, in a few words."""
    points, crs = file.gcps
    found = Grid(
        height=file.height,
        width=file.width,
        crs=(file.crs or crs).to_wkt() if file.crs or crs else None,
        transform=None if points or file.transform.is_identity else tuple(file.transform)[:6],
        gcps=tuple((p.row, p.col, p.x, p.y, p.z or 0.0) for p in points),
    )
    difference = layout.grid.difference(found)
    if difference is not None:
        return difference
    tags = file.tags()
    facts = {
        "band names": (layout.bands, tuple(name or "" for name in file.descriptions)),
        "number types": ((layout.dtype.name,) * len(layout.bands), file.dtypes),
        "nodata": (_as_told(layout.nodata, layout.dtype), _as_told(file.nodata, layout.dtype)),
        "scales": (layout.scales or file.scales, file.scales),
        "offsets": (layout.offsets or file.offsets, file.offsets),
        **{f"tag {name}": (value, tags.get(name)) for name, value in layout.tags.items()},
    }
    for what, (asked, got) in facts.items():
        if asked != got:
            return f"{what} {asked!r}, but it reads as {got!r}"
    return None


def _as_told(nodata: float | None, dtype: np.dtype) -> str:
    return "none" if nodata is None else repr(dtype.type(nodata).item())  # text, since NaN is not equal to itself


def _checksum(pixels: np.ndarray, mask: np.ndarray | None) -> int:
    checksum = zlib.crc32(np.ascontiguousarray(pixels).data)
    return checksum if mask is None else zlib.crc32(np.packbits(mask).data, checksum)


def _of_rasterio(window: Window) -> Any:
    from rasterio.windows import Window as Rectangle

    return Rectangle(window.column, window.row, window.width, window.height)
