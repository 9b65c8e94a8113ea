"""Write one image file, window by window: it is there whole and verified, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import DTypeLike

from emrdm.errors import InputError
from emrdm.files import as_path, make_folder, temporary_folder
from emrdm.rasters.grid import Grid
from emrdm.rasters.guard import GEOTIFF, PICTURES, SUFFIXES
from emrdm.rasters.write_geotiff import GeoTiffWriter
from emrdm.rasters.write_picture import PictureWriter, world_name
from emrdm.rasters.writer import Layout, Writer

Kind = Literal["cog", "gtiff", "picture"]


@contextmanager
def writing(
    path: str | Path,
    grid: Grid,
    *,
    bands: Sequence[str],
    dtype: DTypeLike,
    nodata: float | None = None,
    masked: bool = False,
    tags: Mapping[str, str] | None = None,
    scales: Sequence[float] = (),
    offsets: Sequence[float] = (),
    colours: Sequence[str] = (),
    kind: Kind | None = None,
    overwrite: bool = False,
) -> Iterator[Writer]:
    """A block in which an image is written, by :meth:`Writer.write`.

    Windows may come in any order and have to cover the grid exactly. When the block ends well, the file is made,
    read back and compared with what was written, and only then takes its name; when it does not, there is nothing of
    it, and a file that was there before is as it was. The same pixels give the same bytes.

    Args:
        path: where to; a link to a file stays a link.
        grid: size and place.
        bands: names, empty where there is none.
        dtype: of the pixels.
        nodata: what stands for no data, in every band.
        masked: whether a mask says where there is data, rather than the nodata value; transparency in pictures.
        tags: of the file. Pictures have none, nor names, nodata, scales and offsets.
        scales: of the bands, by which numbers are multiplied to get what they mean.
        offsets: of the bands, added after that.
        colours: of the bands, "red", "green", "blue" or an empty text, for programs that show the image.
        kind: cloud-optimised or plain GeoTIFF, or picture; by the name's suffix otherwise.
        overwrite: whether a file of that name may be replaced.

    Raises:
        InputError: for what the format cannot hold, before any work.
        EmrdmError: where the disk is too small or full, with the bytes that are needed.
    """
    given = as_path(path, "the image to write")
    layout = Layout(
        path=Path(os.path.realpath(given)),
        grid=grid,
        bands=tuple(bands),
        dtype=np.dtype(dtype),
        nodata=nodata,
        masked=masked,
        tags=dict(tags or {}),
        scales=tuple(scales),
        offsets=tuple(offsets),
        colours=tuple(colours),
    )
    kind = _checked_kind(given, kind)
    _check(layout)
    _refuse_existing(layout.path, kind, overwrite)
    make_folder(layout.path.parent, "the image")
    if kind == "picture":
        picture = PictureWriter(layout)
        yield picture
        _refuse_existing(layout.path, kind, overwrite)  # somebody else may have been faster
        picture.finish()
        return
    with temporary_folder(layout.path) as folder:
        geotiff = GeoTiffWriter(layout, kind, folder)
        try:
            yield geotiff
            _refuse_existing(layout.path, kind, overwrite)
            geotiff.finish()
        finally:
            geotiff.close()


def _checked_kind(path: Path, kind: Kind | None) -> Kind:
    suffix = path.suffix.lower()
    if kind is not None and kind not in get_args(Kind):
        raise InputError(f"{path}: kind {kind!r}: expected one of {', '.join(get_args(Kind))}")
    expected = PICTURES if kind == "picture" else SUFFIXES if kind is None else GEOTIFF
    if suffix not in expected:
        raise InputError(f"{path}: expected a name ending in {', '.join(expected)}")
    return kind or ("picture" if suffix in PICTURES else "cog")


def _check(layout: Layout) -> None:
    """What no format can hold."""
    path, count = layout.path, len(layout.bands)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"{path} is not text: expected a name in UTF-8") from None
    if count == 0 or min(layout.grid.height, layout.grid.width) < 1:
        raise InputError(f"{path}: {count} bands of {layout.grid.size}: expected at least one of each")
    for what, numbers in (("scales", layout.scales), ("offsets", layout.offsets)):
        if numbers and len(numbers) != count:
            raise InputError(f"{path}: {len(numbers)} {what} for {count} bands: expected one a band")
    nodata, limits = layout.nodata, np.iinfo(layout.dtype) if layout.dtype.kind in "iu" else None
    if nodata is not None and limits and not (limits.min <= nodata <= limits.max and nodata == int(nodata)):
        raise InputError(f"{path}: nodata {nodata:g}: expected a whole number from {limits.min} to {limits.max}")


def _refuse_existing(path: Path, kind: Kind, overwrite: bool) -> None:
    for file in (path, world_name(path)) if kind == "picture" else (path,):
        if file.exists() and not file.is_file():
            raise InputError(f"{file} is no file: expected the name of a file to write")
        if file.exists() and not overwrite:
            raise InputError(f"{file} is there already: expected a new name, or to be told to overwrite it")
