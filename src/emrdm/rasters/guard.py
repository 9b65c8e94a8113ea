"""The way into image files: local, of a known kind, and with a header that promises no more than there can be."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from emrdm.errors import DataError, InputError, MissingDependencyError
from emrdm.files import why_unreadable

PICTURES = {".png": "PNG", ".webp": "WEBP", ".jpg": "JPEG", ".jpeg": "JPEG"}
GEOTIFF = (".tif", ".tiff")
SUFFIXES = (*PICTURES, *GEOTIFF)

# Each kind of file: how it begins, what it is called, and how its name should end.
_KINDS = {
    "TIFF": (re.compile(rb"II[*+]\0|MM\0[*+]"), "TIFF", ".tif"),
    "PNG": (re.compile(rb"\x89PNG\r\n\x1a\n"), "PNG", ".png"),
    "JPEG": (re.compile(rb"\xff\xd8\xff"), "JPEG", ".jpg"),
    "WEBP": (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "WebP", ".webp"),
}
# GDAL looks for side-car files in the folder otherwise, which is slow where a folder has 100,000 of them, and which
# may name other files, or servers. What is read of a file is in that file.
_OPTIONS = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_PAM_ENABLED": "NO", "VRT_VIRTUAL_OVERVIEWS": "NO"}
_SMALLEST_CACHE = 1 << 20
one_at_a_time = threading.Lock()  # filters of warnings belong to the process


def checked_file(path: Path) -> str:
    """The suffix of a file that may be opened: one of :data:`SUFFIXES`, readable and not empty."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{path}: expected a name ending in {', '.join(SUFFIXES)}")
    reason = why_unreadable(path)
    if reason is not None:
        raise DataError(f"{path} cannot be read: {reason}")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty: expected an image")
    return suffix


def misnamed(path: Path, kind: str) -> str | None:
    """What is wrong with a file that does not begin as its kind does: TIFF, PNG, JPEG or WEBP; None for one that does.

    To be asked when a file could not be read, since it opens the file once more.
    """
    try:
        with path.open("rb") as file:
            start = file.read(12)
    except OSError:
        return None
    found = next((other for other, (begin, _, _) in _KINDS.items() if begin.match(start)), None)
    if found == kind:
        return None
    if found is None:
        return f"it is not a {_KINDS[kind][1]} file"
    return f"it looks like a {_KINDS[found][1]}: rename it to {_KINDS[found][2]}"


def identity(path: Path) -> tuple[int, int]:
    """The file itself, whatever name it was given by."""
    state = path.stat()
    return state.st_dev, state.st_ino


def set_cache(size: int) -> None:
    """Let GDAL keep at most so many bytes of decoded blocks, in this process; its own choice is 5 % of the memory."""
    try:
        from rasterio.env import set_gdal_config
    except ImportError:  # then there are no blocks
        return
    set_gdal_config("GDAL_CACHEMAX", max(size, _SMALLEST_CACHE))


@contextmanager
def reading_geotiff(path: Path) -> Iterator[None]:
    """A block in which GDAL may be used; what goes wrong in it is one line that names the file."""
    rasterio = _rasterio(str(path))
    from rasterio._err import CPLE_BaseError
    from rasterio.errors import RasterioError

    try:
        with rasterio.Env(**_OPTIONS):
            yield
    except (
        RasterioError,
        CPLE_BaseError,
        OSError,
        ArithmeticError,
        LookupError,
        ValueError,
        TypeError,
        MemoryError,
    ) as error:
        if isinstance(error, DataError | InputError):
            raise
        why = misnamed(path, "TIFF") or error.__cause__ or error
        raise DataError(f"{path} is not a whole GeoTIFF: {why}") from None


def opened_geotiff(path: Path) -> Any:
    """Open for reading, as a GeoTIFF and nothing else; one without a georeference is fine here."""
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    with one_at_a_time, warnings.catch_warnings():  # filters of warnings belong to the process: one thread at a time
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        return rasterio.open(path.resolve(), driver="GTiff", sharing=False)


def real_type(path: Path, dtypes: Sequence[str]) -> np.dtype[Any]:
    """The one number type of all bands, which has to be real."""
    if len(set(dtypes)) != 1 or np.dtype(dtypes[0]).kind not in "uif":
        raise DataError(f"{path} has numbers of type {', '.join(sorted(set(dtypes)))}: expected one real type")
    return np.dtype(dtypes[0])


def opened_picture(path: Path, kind: str) -> Any:
    """Open for reading; what is too large is for the caller to say."""
    from PIL import Image

    with one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return Image.open(path, formats=(kind,))


def _rasterio(what: str) -> Any:
    try:
        import rasterio
    except ImportError:
        raise MissingDependencyError(f"{what} needs rasterio: pip install 'emrdm[geo]'") from None
    return rasterio
