"""What every writer of an image does: it takes windows in any order, each pixel once, and counts them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from emrdm.errors import EmrdmError, InputError
from emrdm.files import free_bytes
from emrdm.rasters.convert import avoiding
from emrdm.rasters.grid import Grid
from emrdm.window import Window


@dataclass(frozen=True)
class Layout:
    """What a file is going to hold, all but its pixels."""

    path: Path
    grid: Grid
    bands: tuple[str, ...]
    dtype: np.dtype
    nodata: float | None
    masked: bool
    tags: dict[str, str]
    scales: tuple[float, ...]
    offsets: tuple[float, ...]
    colours: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of the pixels as they are in memory, mask included."""
        return self.grid.height * self.grid.width * (len(self.bands) * self.dtype.itemsize + self.masked)

    def filled(self, pixels: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Pixels as they are stored: all that is without data is nodata, 0 if there is none, and nothing else is."""
        pixels = pixels if self.masked else avoiding(pixels, self.nodata)
        fill = self.dtype.type(self.nodata or 0)
        return np.ascontiguousarray(pixels) if valid.all() else np.where(valid, pixels, fill)


class Writer(ABC):
    """Takes an image window by window; made by :func:`emrdm.rasters.write.writing`."""

    needed = 0  # bytes on the disk, at most

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._lock = threading.Lock()
        self._windows = np.empty((16, 4), np.int64)
        self._count = 0

    def write(self, window: Window, pixels: np.ndarray, valid: np.ndarray) -> None:
        """Add a window: (C, h, w) in the number type of the file, and (h, w) bool, False where there is no data.

        Pixels without data get the nodata value (0 where there is none) in all bands. Pixels with data that would read
        as nodata are moved to the next number. May be called by several threads.
        """
        self._check(window, pixels, valid)
        pixels = self.layout.filled(pixels, valid)
        with self._lock:
            self._claim(window)
            with self._reported():
                self._put(window, pixels, valid)

    @abstractmethod
    def _put(self, window: Window, pixels: np.ndarray, valid: np.ndarray) -> None:
        """Keep a window that was checked."""

    @abstractmethod
    def _finish(self) -> None:
        """Make the file of the windows, verify it, and give it its name."""

    def finish(self) -> None:
        """Called once, after the last window."""
        covered = int((self._windows[: self._count, 2] * self._windows[: self._count, 3]).sum())
        total = self.layout.grid.height * self.layout.grid.width
        if covered != total:
            raise InputError(f"{self.layout.path}: {covered:,} of {total:,} pixels were written: expected all of them")
        with self._reported():
            self._finish()

    def _check(self, window: Window, pixels: np.ndarray, valid: np.ndarray) -> None:
        layout = self.layout
        shape = (len(layout.bands), window.height, window.width)
        if pixels.shape != shape or pixels.dtype != layout.dtype:
            raise InputError(
                f"{layout.path}: a window holds {pixels.dtype} {pixels.shape}: expected {layout.dtype} {shape}"
            )
        if valid.shape != shape[1:] or valid.dtype != bool:
            raise InputError(f"{layout.path}: a mask is {valid.dtype} {valid.shape}: expected bool {shape[1:]}")
        if not layout.masked and layout.nodata is None and not valid.all():
            raise InputError(f"{layout.path} has pixels without data: expected a nodata value or a mask to say so")

    def _claim(self, window: Window) -> None:
        """Note a window; each pixel is written once."""
        path, grid = self.layout.path, self.layout.grid
        row, column, height, width = window
        if not (0 <= row < row + height <= grid.height and 0 <= column < column + width <= grid.width):
            raise InputError(f"{path}: {window} is not inside of {grid.width} x {grid.height} pixels")
        rows, columns, heights, widths = self._windows[: self._count].T
        meets = (
            (rows < row + height) & (row < rows + heights) & (columns < column + width) & (column < columns + widths)
        )
        if meets.any():
            other = Window(*self._windows[meets.argmax()].tolist())
            raise InputError(f"{path}: {window} and {other} overlap: expected each pixel once")
        if self._count == len(self._windows):
            self._windows = np.concatenate([self._windows, np.empty_like(self._windows)])
        self._windows[self._count] = window
        self._count += 1

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Say in one line what a disk or a library does not take."""
        try:
            yield
        except EmrdmError:
            raise
        except self._failures() as error:
            reason = getattr(error, "strerror", None) or error.__cause__ or error
            raise EmrdmError(self._failure(str(reason))) from None

    def _failures(self) -> tuple[type[Exception], ...]:
        """Exceptions of disks, and of the library that writes."""
        return OSError, ValueError, MemoryError

    def _failure(self, reason: str) -> str:
        path = self.layout.path
        return (
            f"{path} could not be written: {reason}; up to {self.needed:,} bytes are needed, "
            f"and {free_bytes(path.parent):,} are free"
        )
