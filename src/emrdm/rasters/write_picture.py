"""Write pictures through Pillow: PNG, WebP and JPEG, 8-bit gray or colour, with a world file where there is a place."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from emrdm.errors import EmrdmError, InputError, MissingDependencyError
from emrdm.files import atomic_path, require_space, sync
from emrdm.rasters.grid import Transform, crs_name
from emrdm.rasters.guard import PICTURES, opened_picture
from emrdm.rasters.writer import Layout, Writer
from emrdm.window import Window
from emrdm.wording import many

_LONGEST = {"JPEG": 65500, "WEBP": 16383}  # pixels of a side that the format knows
_LARGEST = 1 << 30  # numbers in one picture: it is held in memory
_BANDS = {"PNG": (1, 3), "JPEG": (1, 3), "WEBP": (3,)}  # WebP has no gray
_OPTIONS: dict[str, dict[str, Any]] = {
    "PNG": {},
    "JPEG": {"quality": 95, "subsampling": 0},
    "WEBP": {"lossless": True, "exact": True},  # also the colour of transparent pixels
}


class PictureWriter(Writer):
    """Writes a picture; all of it is in memory until the end. It has no tags, band names or nodata value."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self._format = PICTURES[layout.path.suffix.lower()]
        _refuse(layout, self._format)
        self.needed = 2 * layout.nbytes + (1 << 16)
        require_space(layout.path.parent, self.needed, str(layout.path))
        height, width = layout.grid.height, layout.grid.width
        self._pixels = np.empty((height, width, len(layout.bands) + layout.masked), np.uint8)

    def _put(self, window: Window, pixels: np.ndarray, valid: np.ndarray) -> None:
        part = self._pixels[window.rows, window.columns]
        part[..., : len(pixels)] = pixels.transpose(1, 2, 0)
        if self.layout.masked:
            part[..., -1] = np.where(valid, 255, 0)

    def _finish(self) -> None:
        beside = world_name(self.layout.path)
        before = beside.read_bytes() if beside.exists() else None
        try:
            with atomic_path(self.layout.path) as temporary:
                self._write(temporary)
                self._place(beside)
        except BaseException:
            beside.unlink(missing_ok=True)
            if before is not None:
                beside.write_bytes(before)
            raise

    def _write(self, path: Path) -> None:
        """Write the picture and read it back."""
        from PIL import Image

        pixels, buffer = self._pixels, io.BytesIO()
        pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
        Image.fromarray(pixels).save(buffer, self._format, **_OPTIONS[self._format])
        path.write_bytes(buffer.getbuffer())
        sync(path)
        same = path.read_bytes() == buffer.getbuffer()
        if same and self._format != "JPEG":
            with opened_picture(path, self._format) as image:
                same = np.array_equal(np.asarray(image), pixels)
        if not same:
            raise EmrdmError(self._failure("it did not read back as written"))

    def _place(self, beside: Path) -> None:
        """Write the world file; one of an older picture would put this one somewhere else."""
        transform = self.layout.grid.transform
        if transform is None:
            beside.unlink(missing_ok=True)
            return
        text = world_text(transform)
        with atomic_path(beside) as temporary:
            temporary.write_text(text)
            sync(temporary)
            if temporary.read_text() != text:
                raise EmrdmError(self._failure(f"{beside.name} did not read back as written"))


def world_name(path: Path) -> Path:
    """Where the world file of a picture is: its suffix is the first and last letter of the picture's, and a w."""
    letters = path.suffix[1:]
    return path.with_suffix(f".{letters[0]}{letters[-1]}w")


def world_text(transform: Transform) -> str:
    """A transform as the six lines of a world file, which names the centre of the first pixel."""
    a, b, c, d, e, f = transform
    return "".join(f"{number!r}\n" for number in (a, d, b, e, c + (a + b) / 2, f + (d + e) / 2))


def _refuse(layout: Layout, kind: str) -> None:
    """What a picture cannot hold, in one line."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise MissingDependencyError(f"{layout.path} needs pillow: pip install 'emrdm[pictures]'") from None
    path, grid, count = layout.path, layout.grid, len(layout.bands)
    bands = " or ".join(str(number) for number in _BANDS[kind])
    instead = "or a name ending in .tif"
    if layout.dtype != np.uint8 or count not in _BANDS[kind]:
        found = f"{many(count, 'band')} of {layout.dtype}"
        raise InputError(f"{path}: {found}: expected {bands} of uint8 for {kind}, {instead}")
    if grid.crs is not None or grid.gcps:
        what = "ground control points" if grid.gcps else f"the CRS {crs_name(grid.crs)}"
        raise InputError(f"{path}: a picture cannot hold {what}: expected a name ending in .tif")
    if layout.masked and kind == "JPEG":
        raise InputError(f"{path}: a JPEG cannot say where there is no data: expected .png, {instead}")
    longest, numbers = _LONGEST.get(kind, _LARGEST), grid.height * grid.width * (count + layout.masked)
    if max(grid.height, grid.width) > longest or numbers > _LARGEST:
        raise InputError(
            f"{path} would be {grid.size}: expected sides of at most {longest:,} for {kind} and {_LARGEST:,} numbers "
            f"in all, {instead}"
        )
