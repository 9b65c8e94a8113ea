"""Read one image file, guarded: known formats only, the header is checked before any pixel is decoded."""

from __future__ import annotations

import struct
import threading
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from emrdm.errors import DataError, MissingDependencyError
from emrdm.files import why_unreadable

_PICTURES = {".png": "PNG", ".webp": "WEBP", ".jpg": "JPEG", ".jpeg": "JPEG"}
_GEOTIFF = (".tif", ".tiff")
SUFFIXES = (*_PICTURES, *_GEOTIFF)
_LARGEST = 1 << 30  # numbers in one image; a header may promise anything

# GDAL looks for side-car files in the folder otherwise, which is slow where a folder has 100,000 of them.
_GDAL = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_PAM_ENABLED": "NO", "VRT_VIRTUAL_OVERVIEWS": "NO"}
_warnings = threading.Lock()


@final
@dataclass(frozen=True)
class Raster:
    """The content of one image file.

    Attributes:
        pixels: (C, H, W) in the file's own number type.
        valid: (H, W) bool, False where the file says that there is no data; None where it says nothing.
        names: of the bands, empty texts where the file has none.
    """

    pixels: np.ndarray
    valid: np.ndarray | None
    names: tuple[str, ...]


def read(path: Path) -> Raster:
    """Read all of a GeoTIFF, PNG, WebP or JPEG file; what is wrong with it is one line that names it."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise DataError(f"{path}: expected a name ending in {', '.join(SUFFIXES)}")
    reason = why_unreadable(path)
    if reason is not None:
        raise DataError(f"{path} cannot be read: {reason}")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty: expected an image")
    return _read_geotiff(path) if suffix in _GEOTIFF else _read_picture(path, _PICTURES[suffix])


def _read_picture(path: Path, kind: str) -> Raster:
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependencyError(f"{path} needs pillow: pip install 'emrdm[pictures]'") from None
    _refuse_deep_colour(path, kind)
    try:
        with _open_picture(path, kind) as image:
            _check_size(path, len(image.getbands()), image.height, image.width)
            image.load()
            return _from_pillow(path, image)
    except (
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        struct.error,
        zlib.error,
        Image.DecompressionBombError,
    ) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a whole {kind} image: {error}") from None


def _from_pillow(path: Path, image: Any) -> Raster:
    if image.mode in ("P", "1", "PA"):
        image = image.convert("RGBA" if "transparency" in image.info or image.mode == "PA" else "RGB")
    valid = None
    if image.mode in ("RGBA", "LA"):  # transparent pixels have no data
        valid = np.asarray(image.getchannel("A")) > 0
        image = image.convert(image.mode[:-1])
    if image.mode not in ("L", "RGB", "I;16", "I;16B", "I", "F"):
        raise DataError(f"{path} has colour mode {image.mode}: expected gray or RGB")
    pixels = np.asarray(image)
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    if image.mode == "I":  # Pillow's way to hold 16-bit gray in some files
        pixels = pixels.astype(np.uint16) if pixels.min() >= 0 and pixels.max() < 1 << 16 else pixels
    nameless = ("",) * len(pixels)  # three bands need not be colours: people save false colours, too
    return Raster(np.ascontiguousarray(pixels), None if valid is None or valid.all() else valid, nameless)


def _open_picture(path: Path, kind: str) -> Any:
    """Open for reading; what is too large is for :func:`_check_size` to say."""
    from PIL import Image

    with _warnings, warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return Image.open(path, formats=(kind,))


def _refuse_deep_colour(path: Path, kind: str) -> None:
    """Pillow would silently cut 16-bit colours to 8 bits."""
    with path.open("rb") as file:
        start = file.read(26)
    if kind == "PNG" and len(start) == 26 and start[24] == 16 and start[25] != 0:
        raise DataError(
            f"{path} is a 16-bit colour PNG: expected 8-bit colour or 16-bit gray; save it as GeoTIFF instead"
        )


def _read_geotiff(path: Path) -> Raster:
    try:
        import rasterio
        from rasterio.errors import RasterioError
    except ImportError:
        raise MissingDependencyError(f"{path} needs rasterio: pip install 'emrdm[geo]'") from None
    try:
        with rasterio.Env(**_GDAL), _open(path) as file:
            _check_size(path, file.count, file.height, file.width)
            if len(set(file.dtypes)) != 1 or np.dtype(file.dtypes[0]).kind not in "uif":
                raise DataError(
                    f"{path} has numbers of type {', '.join(sorted(set(file.dtypes)))}: expected one real type"
                )
            pixels, names = file.read(), tuple(name or "" for name in file.descriptions)
            kept = _without_transparency(file, pixels)
            valid = _validity(file, kept)
            pixels, names = pixels[kept], tuple(names[i] for i in kept)
    except (RasterioError, OSError, ValueError, TypeError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a whole GeoTIFF: {error.__cause__ or error}") from None
    return Raster(pixels, None if valid is None or valid.all() else valid, names)


def _without_transparency(file: Any, pixels: np.ndarray) -> list[int]:
    """The bands that are not transparency.

    Many programs write a fourth 8-bit band as transparency whatever it is; near infrared, say. Only what is nowhere
    between invisible and opaque is taken for it.
    """
    alpha = [i for i, meaning in enumerate(file.colorinterp) if meaning.name == "alpha"]
    real = [i for i in alpha if np.isin(pixels[i], (0, np.iinfo(pixels.dtype).max)).all()] if alpha else []
    return [i for i in range(file.count) if i not in real or file.count == 1]


def _validity(file: Any, bands: list[int]) -> np.ndarray | None:
    """(H, W) bool, True where there is data by the bands' nodata value, the file's own mask or its transparency.

    A band without data makes the pixel unusable. Zero is an exception: dark water is zero in a band or two, so there it
    takes all bands.
    """
    from rasterio.enums import MaskFlags

    flags = [set(file.mask_flag_enums[i]) for i in bands]
    if len(bands) == file.count:  # a fourth band that is none is no transparency either
        flags = [flag - {MaskFlags.alpha, MaskFlags.per_dataset} if MaskFlags.alpha in flag else flag for flag in flags]
    told = [i for i, flag in zip(bands, flags, strict=True) if flag - {MaskFlags.all_valid}]
    if not told:
        return None
    masks = file.read_masks([i + 1 for i in told]) > 0
    return np.asarray(masks.any(0) if all(file.nodatavals[i] == 0 for i in told) else masks.all(0))


def _open(path: Path) -> Any:
    """Open for reading; an image without a georeference is fine here."""
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    with _warnings, warnings.catch_warnings():  # filters of warnings belong to the process: one thread at a time
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        return rasterio.open(path.resolve(), driver="GTiff")


def _check_size(path: Path, bands: int, height: int, width: int) -> None:
    if bands * height * width > _LARGEST:
        raise DataError(f"{path} is {bands} x {height} x {width}: expected at most {_LARGEST:,} numbers in an image")
