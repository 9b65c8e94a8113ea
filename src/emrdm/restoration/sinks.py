"""Where a restored scene goes: files that appear whole and verified, or arrays in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np

from emrdm.errors import InputError
from emrdm.rasters.base import Source
from emrdm.rasters.grid import Grid
from emrdm.rasters.write import Kind, writing
from emrdm.rasters.writer import Writer
from emrdm.restoration.output import Finished, Finisher, windows
from emrdm.window import Window


@final
@dataclass(frozen=True)
class Writing:
    """What files are written, and how.

    Attributes:
        uncertainty: where the map of standard deviations goes, if anywhere.
        quantiles: shares, such as 0.05, that the map shows as well.
        dtype: of the pixels; None for the input's own.
        kind: "cog", "gtiff" or "picture"; None by the name's suffix.
        overwrite: whether files of these names may be replaced, and unfinished work thrown away.
        tags: further ones for the file.
    """

    uncertainty: Path | None = None
    quantiles: tuple[float, ...] = ()
    dtype: str | None = None
    kind: Kind | None = None
    overwrite: bool = False
    tags: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(not 0 <= share <= 1 for share in self.quantiles):
            raise InputError(f"quantiles are {list(self.quantiles)}: expected shares from 0 to 1")


@final
@dataclass(frozen=True)
class Summary:
    """What was done.

    Attributes:
        tiles: that the scene was cut into.
        calls: tile steps that this run has done; tiles times steps times samples, less what an earlier one had.
        seconds: all in all.
        resumed: whether an earlier run had begun it.
        known: share of pixels with data.
        clipped: share of the input's values outside of the model's range.
        replaced: share of known pixels that are not the newest date's own.
        notes: what was decided about the files, in words.
    """

    tiles: int
    calls: int
    seconds: float
    resumed: bool
    known: float
    clipped: float
    replaced: float
    notes: tuple[str, ...]


@final
@dataclass(frozen=True)
class Restored:
    """A restored scene in memory, or the files it was written to.

    Attributes:
        summary: what was done.
        grid: place and size.
        names: of the bands.
        pixels: (C, H, W), or None where a file was written.
        valid: (H, W) bool, alike.
        spread: (C * n, H, W) standard deviations and quantiles, alike.
        spread_names: of its bands.
        path: of the file, or None.
    """

    summary: Summary
    grid: Grid
    names: tuple[str, ...]
    nodata: float | None = None
    pixels: np.ndarray | None = None
    valid: np.ndarray | None = None
    spread: np.ndarray | None = None
    spread_names: tuple[str, ...] = ()
    path: Path | None = None
    tags: dict[str, str] = field(default_factory=dict)
    scales: tuple[float, ...] = ()
    offsets: tuple[float, ...] = ()

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the pixels to a file, verified."""
        if self.pixels is None or self.valid is None:
            raise InputError(f"the scene was written to {self.path}: expected one in memory")
        masked = self.nodata is None and not self.valid.all()
        with writing(
            path,
            self.grid,
            bands=self.names,
            dtype=self.pixels.dtype,
            nodata=self.nodata,
            masked=masked,
            tags=self.tags,
            scales=self.scales,
            offsets=self.offsets,
            overwrite=overwrite,
        ) as file:
            for window in windows(self.grid):
                file.write(window, self.pixels[:, window.rows, window.columns], self.valid[window.rows, window.columns])


class Sink(ABC):
    """Takes a scene window by window."""

    needed = 0  # bytes on the disk, at most

    @abstractmethod
    def put(self, window: Window, found: Finished) -> None:
        """Keep a window."""

    @abstractmethod
    def result(self, summary: Summary) -> Restored:
        """What the caller gets, after the last window."""


@contextmanager
def into_files(
    path: Path, finisher: Finisher, like: Source, write: Writing, tags: dict[str, str], own: Collection[Path] = ()
) -> Iterator[Sink]:
    """Files for the scene and its uncertainty; what is wrong with their names is said before any work.

    The scene takes its name last: when it is there, all is. Files in ``own`` were written by this very run before it
    was killed, and may be replaced.
    """
    if write.uncertainty is not None and write.uncertainty.resolve() == path.resolve():
        raise InputError(f"{path} is the name of the output and of the uncertainty map: expected two names")
    for source in finisher.inputs.scene.sources:
        for name in (path, write.uncertainty):
            if name is not None and Path(source.name).resolve() == name.resolve():
                raise InputError(f"{name} is one of the inputs: expected another name for the output")
    if finisher.keeping is not None and path.suffix.lower() in (".jpg", ".jpeg"):
        raise InputError(f"{path}: JPEG changes every pixel; expected .png or .tif where clear pixels are kept")
    grid, nodata, masked = finisher.inputs.scene.grid, *_gaps(like, finisher.dtype)
    places = finisher.inputs.places
    with ExitStack() as stack:
        image = stack.enter_context(
            writing(
                path,
                grid,
                bands=finisher.inputs.names,
                dtype=finisher.dtype,
                nodata=nodata,
                masked=masked,
                tags=tags,
                colours=finisher.inputs.colours,
                scales=[like.scales[i] for i in places],
                offsets=[like.offsets[i] for i in places],
                kind=write.kind,
                overwrite=write.overwrite or path.resolve() in own,
            )
        )
        spread = None
        if write.uncertainty is not None:
            spread = stack.enter_context(
                writing(
                    write.uncertainty,
                    grid,
                    bands=finisher.spread_names,
                    dtype=np.float32,
                    nodata=float("nan"),
                    tags=tags,
                    scales=[like.scales[i] for i in places for _ in range(1 + len(write.quantiles))],
                    offsets=[offset for i in places for offset in (0.0, *[like.offsets[i]] * len(write.quantiles))],
                    overwrite=write.overwrite or write.uncertainty.resolve() in own,
                )
            )
        yield _Files(path, finisher, image, spread)


@final
class _Files(Sink):
    def __init__(self, path: Path, finisher: Finisher, image: Writer, spread: Writer | None) -> None:
        self.path, self.finisher, self.image, self.spread = path, finisher, image, spread
        self.needed = image.needed + (0 if spread is None else spread.needed)

    def put(self, window: Window, found: Finished) -> None:
        self.image.write(window, found.pixels, found.valid)
        if self.spread is not None and found.spread is not None:
            self.spread.write(window, found.spread, found.valid)

    def result(self, summary: Summary) -> Restored:
        inputs = self.finisher.inputs
        return Restored(summary, inputs.scene.grid, inputs.names, path=self.path)


@final
class InMemory(Sink):
    """Arrays."""

    def __init__(self, finisher: Finisher, like: Source, tags: dict[str, str]) -> None:
        grid = finisher.inputs.scene.grid
        size = (grid.height, grid.width)
        self.finisher, self.like, self.tags = finisher, like, tags
        self.nodata = _gaps(like, finisher.dtype)[0]
        self.pixels = np.zeros((len(finisher.inputs.names), *size), finisher.dtype)
        self.valid = np.zeros(size, bool)
        self.spread = np.zeros((len(finisher.spread_names), *size), np.float32) if finisher.spread else None

    def put(self, window: Window, found: Finished) -> None:  # noqa: D102
        missing = 0 if self.nodata is None else self.nodata
        self.pixels[:, window.rows, window.columns] = np.where(found.valid, found.pixels, missing)
        self.valid[window.rows, window.columns] = found.valid
        if self.spread is not None and found.spread is not None:
            self.spread[:, window.rows, window.columns] = np.where(found.valid, found.spread, np.nan)

    def result(self, summary: Summary) -> Restored:  # noqa: D102
        inputs = self.finisher.inputs
        return Restored(
            summary,
            inputs.scene.grid,
            inputs.names,
            nodata=self.nodata,
            pixels=self.pixels,
            valid=self.valid,
            spread=self.spread,
            spread_names=self.finisher.spread_names if self.spread is not None else (),
            tags=self.tags,
            scales=tuple(self.like.scales[i] for i in inputs.places),
            offsets=tuple(self.like.offsets[i] for i in inputs.places),
        )


def _gaps(like: Source, dtype: np.dtype) -> tuple[float | None, bool]:
    """The nodata value of an output, and whether it has a mask instead."""
    if like.nodata is not None:
        limits = None if dtype.kind == "f" else np.iinfo(dtype)
        if limits is None or (limits.min <= like.nodata <= limits.max and like.nodata == int(like.nodata)):
            return like.nodata, False
        return None, True
    if dtype.kind == "f" and not like.masked:
        return float("nan"), False  # floats may hold NaN without a word
    return None, like.masked or like.dtype.kind == "f"  # NaN in the input, which the output cannot hold
