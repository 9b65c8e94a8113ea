"""A plan of overlapping tiles over an image, and the weights with which they are blended. Pure numpy.

Tiles are spread evenly, so that every one lies inside the image and sees real pixels all around. They begin at
multiples of ``align`` (but for the last), so that a network that sees pixels in blocks sees the same blocks in
neighbours, which overlap by ``overlap`` pixels at least. In the middle of what two of them share, one fades into the
other over ``overlap`` pixels (a raised cosine); farther out a tile has no say, so that its outermost rows, where it
sees the least, count least. The weights of all tiles sum to 1 at every pixel.

An image smaller than a tile has one tile, which sticks out below and to the right: readers mirror the image there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from emrdm.errors import InputError
from emrdm.window import Window


class Tile(NamedTuple):
    """Where a tile stands in the plan: its row and column among the tiles."""

    row: int
    column: int


def widest_overlap(tile: int, align: int) -> int:
    """Of tiles: with more, three in a row might meet in a pixel."""
    return (tile - 2 * align) // 3


def check_overlap(overlap: int, tile: int, align: int) -> None:
    """Refuse tiles that share nothing, or too much."""
    most = widest_overlap(tile, align)
    if not 0 < overlap <= most:
        raise InputError(f"an overlap of {overlap} for tiles of {tile}: expected 1 to {most}")


@final
@dataclass(frozen=True)
class Axis:
    """Tiles along one side of the image."""

    length: int
    tile: int
    overlap: int
    align: int = 1

    def __post_init__(self) -> None:
        if self.length > self.tile:
            check_overlap(self.overlap, self.tile, self.align)

    @cached_property
    def origins(self) -> tuple[int, ...]:
        """First pixel of every tile."""
        rest = self.length - self.tile
        if rest <= 0:
            return (0,)
        farthest = (self.tile - self.overlap) // self.align * self.align
        gaps = -(-rest // farthest)
        return tuple(min(rest, -(-rest * i // (gaps * self.align)) * self.align) for i in range(gaps + 1))

    def weights(self, index: int) -> np.ndarray:
        """(tile,) float32: how much a tile has to say at each of its pixels."""
        return self._weights[index]

    @cached_property
    def _weights(self) -> list[np.ndarray]:
        found = []
        for index in range(len(self.origins)):
            weights = np.ones(self.tile, np.float32)
            if index > 0:
                weights *= self._ramp(index - 1, index)
            if index < len(self.origins) - 1:
                weights *= 1 - self._ramp(index, index)
            weights.flags.writeable = False
            found.append(weights)
        return found

    def _ramp(self, before: int, of: int) -> np.ndarray:
        """From 0 to 1 where tile ``before`` fades into the next, at the pixels of tile ``of``."""
        middle = (self.origins[before] + self.tile + self.origins[before + 1]) / 2
        pixels = np.arange(self.tile) + self.origins[of] + 0.5
        along = np.clip((pixels - middle) / self.overlap + 0.5, 0, 1)
        return ((1 - np.cos(np.pi * along)) / 2).astype(np.float32)

    def touching(self, start: int, stop: int) -> list[int]:
        """Tiles that have something to say between two pixels."""
        return [i for i in range(len(self.origins)) if self._says[i][0] < stop and self._says[i][1] > start]

    @cached_property
    def _says(self) -> list[tuple[int, int]]:
        """First pixel, and the one behind the last, at which each tile has a weight above 0."""
        found = []
        for i, origin in enumerate(self.origins):
            (where,) = np.nonzero(self.weights(i))
            found.append((origin + int(where[0]), origin + int(where[-1]) + 1))
        return found


@final
@dataclass(frozen=True)
class TilePlan:
    """Tiles over an image of ``height`` x ``width`` pixels."""

    rows: Axis
    columns: Axis

    @classmethod
    def over(cls, height: int, width: int, tile: tuple[int, int], overlap: int, align: int = 1) -> TilePlan:
        """Tiles of ``tile`` rows and columns."""
        return cls(Axis(height, tile[0], overlap, align), Axis(width, tile[1], overlap, align))

    def __len__(self) -> int:
        return len(self.rows.origins) * len(self.columns.origins)

    def __iter__(self) -> Iterator[Tile]:
        """All tiles, row by row."""
        return (Tile(i, j) for i in range(len(self.rows.origins)) for j in range(len(self.columns.origins)))

    def window(self, tile: Tile) -> Window:
        """The pixels of a tile; they may stick out of an image that is smaller."""
        return Window(self.rows.origins[tile.row], self.columns.origins[tile.column], self.rows.tile, self.columns.tile)

    def touching(self, window: Window) -> list[Tile]:
        """Tiles that have something to say in a window, row by row: sums over them are made in this order."""
        rows = self.rows.touching(window.rows.start, window.rows.stop)
        columns = self.columns.touching(window.columns.start, window.columns.stop)
        return [Tile(i, j) for i in rows for j in columns]

    def weights(self, tile: Tile) -> np.ndarray:
        """(rows, columns) float32: how much a tile has to say at each of its pixels."""
        return np.outer(self.rows.weights(tile.row), self.columns.weights(tile.column))


def blocks(height: int, width: int, side: int) -> Iterator[Window]:
    """An image cut into squares that do not overlap, row by row; the last ones are smaller."""
    for row in range(0, height, side):
        for column in range(0, width, side):
            yield Window(row, column, min(side, height - row), min(side, width - column))


def common(a: Window, b: Window) -> Window:
    """The pixels that two windows share; its sides are 0 where there are none."""
    row, column = max(a.row, b.row), max(a.column, b.column)
    height = min(a.rows.stop, b.rows.stop) - row
    width = min(a.columns.stop, b.columns.stop) - column
    return Window(row, column, max(0, height), max(0, width))


def inside(part: Window, whole: Window) -> tuple[slice, slice]:
    """Where a part is in an array that holds the whole."""
    row, column = part.row - whole.row, part.column - whole.column
    return slice(row, row + part.height), slice(column, column + part.width)
