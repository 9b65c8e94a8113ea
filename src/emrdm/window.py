"""A rectangle of pixels of a larger image: what noise, tiles and files are asked for."""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """A rectangle of pixels: its upper left corner in the whole image, and its size."""

    row: int
    column: int
    height: int
    width: int

    @property
    def rows(self) -> slice:
        """Its rows in the whole image."""
        return slice(self.row, self.row + self.height)

    @property
    def columns(self) -> slice:
        """Its columns in the whole image."""
        return slice(self.column, self.column + self.width)
