"""What an image to be read in windows is: what it says about itself, and its pixels when asked for."""

from __future__ import annotations

import copy
import datetime
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from emrdm.errors import DataError, InputError
from emrdm.rasters.grid import Grid
from emrdm.window import Window
from emrdm.wording import many

_LOOKS, _LOOK = 6, 48  # an image is sampled in so many places along each side, so many pixels wide


class Source(ABC):
    """An image that is read in windows.

    Attributes:
        name: what messages call it.
        grid: where its pixels lie.
        names: of the bands, empty texts where unknown.
        dtype: number type of all bands.
        nodata: the number that stands for no data.
        tags: its own metadata worth keeping.
        date: the day it was taken.
        scales: of each band, by the file: value = scale * number + offset.
        offsets: of each band, by the file.
        colours: "red", "green", "blue" or an empty text for each band, where the file says which bands are its colours.
        masked: whether a mask or transparency, rather than a nodata value, says where there is data.
    """

    name: str
    grid: Grid
    names: tuple[str, ...]
    dtype: np.dtype[Any]
    nodata: float | None = None
    tags: Mapping[str, str]
    date: datetime.date | None = None
    scales: tuple[float, ...]
    offsets: tuple[float, ...]
    colours: tuple[str, ...] = ()
    masked: bool = False

    @property
    def count(self) -> int:
        """Number of bands."""
        return len(self.names)

    @property
    def identity(self) -> Hashable:
        """Equal for two sources of the same pixels, under whatever names."""
        return id(self)

    def read(self, window: Window, bands: Sequence[int] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (C, h, w) of these bands, from 0, or of all; and (h, w) bool, True where there is data.

        A pixel has data by all bands of the image, whichever are asked for: a nodata value in any of them leaves it
        without, zero only where all are zero; NaN and infinity always do.
        """
        self._check(window, bands)
        return self._read(window, list(range(self.count)) if bands is None else list(bands))

    def some_values(self, bands: Sequence[int] | None = None) -> np.ndarray:
        """(C, N): values with data of these bands, or of all, from places spread evenly over the image."""
        found = []
        for row in _spread(self.grid.height):
            for column in _spread(self.grid.width):
                window = Window(row, column, min(_LOOK, self.grid.height), min(_LOOK, self.grid.width))
                pixels, valid = self.read(window, bands)
                found.append(pixels[:, valid])
        return np.concatenate(found, axis=1)

    @abstractmethod
    def _read(self, window: Window, bands: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`read`, of a window inside the image."""

    def replaced(
        self, *, names: Sequence[str] | None = None, date: datetime.date | None = None, name: str | None = None
    ) -> Self:
        """The same image with other names of its bands, another date or another name."""
        other = copy.copy(self)
        if names is not None:
            if len(names) != self.count:
                given = f"{many(len(names), 'name')} given, {', '.join(names)}"
                raise DataError(f"{self.name} has {many(self.count, 'band')}: {given}")
            other.names = tuple(names)
        other.date = self.date if date is None else date
        other.name = self.name if name is None else name
        return other

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of what is open; reading opens it again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.count} x {self.grid.size}, {self.dtype})"

    def _check(self, window: Window, bands: Sequence[int] | None) -> None:
        row, column, height, width = window
        inside = min(row, column) >= 0 and row + height <= self.grid.height and column + width <= self.grid.width
        if not inside or height < 1 or width < 1:
            raise InputError(f"{tuple(window)} of {self.name}: expected a window of its {self.grid.size}")
        if bands is not None and not all(0 <= band < self.count for band in bands):
            raise InputError(f"bands {list(bands)} of {self.name}: expected numbers below {self.count}")


def _spread(length: int) -> list[int]:
    last = max(0, length - _LOOK)
    return sorted({last * i // (_LOOKS - 1) for i in range(_LOOKS)})
