"""From samples between -1 and 1 to the pixels of a file, window by window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final, get_args

import numpy as np

from emrdm.errors import InputError
from emrdm.rasters.convert import avoiding, saturate
from emrdm.rasters.grid import Grid
from emrdm.rasters.tiles import blocks, common, inside
from emrdm.restoration import cloudscore
from emrdm.restoration.compositing import grow, halo, keep_clear
from emrdm.restoration.inputs import Inputs
from emrdm.restoration.state import StepState
from emrdm.window import Window

_INTEGERS = ("uint8", "int16", "uint16", "int32")
By = Literal["mask", "score", "change"]
_BLOCK, _LEAST = 512, 32  # pixels of a window's side
_FEWEST_LEVELS = 10  # of whole numbers between black and white: reflectances of 0 to 1 want fractions


def check_dtype(dtype: np.dtype, inputs: Inputs) -> None:
    """Refuse a number type that was asked for and does not hold the numbers of the images."""
    if dtype.kind == "f":
        return
    low, high = (inputs.to_file_numbers(np.full((len(inputs.kept), 1, 1), end, np.float32)) for end in (-1, 1))
    first, last = float(min(low.min(), high.min())), float(max(low.max(), high.max()))
    if last - first < _FEWEST_LEVELS:
        raise InputError(f"--dtype {dtype} has whole numbers only, for {first:g} to {last:g}: expected float32")
    if not _holds(dtype, first, last):
        ends, fit = np.iinfo(dtype), [name for name in _INTEGERS if _holds(np.dtype(name), first, last)]
        raise InputError(
            f"--dtype {dtype} holds {ends.min} to {ends.max}, and the images go from {first:g} to {last:g}: "
            f"expected {', '.join([*fit, 'float32'])}"
        )


def _holds(dtype: np.dtype, first: float, last: float) -> bool:
    ends = np.iinfo(dtype)
    return round(first) >= ends.min and round(last) <= ends.max


@final
@dataclass(frozen=True)
class Keeping:
    """Which pixels of the newest date stay as they are.

    Attributes:
        by: "mask": where the given mask is zero; "score": where the image does not look like cloud; "change": where
            restoring changed little.
        feather: pixels over which restored ground is led up to the ground that stays.
        grow: pixels by which what is replaced is made wider.
    """

    by: By = "mask"
    feather: int = 16
    grow: int = 0

    def __post_init__(self) -> None:
        if self.by not in get_args(By):
            raise InputError(f"clear pixels by {self.by!r}: expected {', '.join(get_args(By))}")
        for name, value in (("--feather", self.feather), ("--grow", self.grow)):
            if not 0 <= value <= 512:
                raise InputError(f"{name} is {value}: expected 0 to 512 pixels")

    @property
    def reach(self) -> int:
        """Pixels around a window that its result depends on."""
        return halo(self.feather) + self.grow + cloudscore.RADIUS


@final
@dataclass(frozen=True)
class Finished:
    """A window of the output.

    Attributes:
        pixels: (C, h, w) in the output's number type.
        valid: (h, w) bool.
        spread: (C * n, h, w) float32: standard deviation and quantiles of every band, or None.
        values: of the newest date that have data.
        clipped: those outside of the model's range.
        replaced: pixels that are not the newest date's own.
    """

    pixels: np.ndarray
    valid: np.ndarray
    spread: np.ndarray | None
    values: int
    clipped: int
    replaced: int


@final
class Finisher:
    """Makes windows of the output from finished samples."""

    def __init__(
        self,
        inputs: Inputs,
        samples: Sequence[StepState],
        *,
        dtype: np.dtype,
        keeping: Keeping | None = None,
        spread: bool = False,
        quantiles: Sequence[float] = (),
    ) -> None:
        self.inputs, self.samples, self.dtype = inputs, samples, dtype
        self.keeping, self.spread, self.quantiles = keeping, spread, tuple(quantiles)
        self._nodata = inputs.scene.frames[-1].nodata
        if keeping is not None and keeping.by == "mask" and inputs.scene.mask is None:
            raise InputError("clear pixels are kept by a mask: expected --mask, or to keep them by score or change")
        if spread and len(samples) < 2:
            raise InputError(f"an uncertainty map of {len(samples)} sample: expected --samples 2 or more")

    @property
    def spread_names(self) -> tuple[str, ...]:
        """Bands of :attr:`Finished.spread`."""
        kinds = ("std", *(f"q{100 * share:g}" for share in self.quantiles))
        return tuple(f"{name}_{kind}" for name in self.inputs.names for kind in kinds)

    def side(self, room: int) -> int:
        """Of windows that fit into so many bytes, at best."""
        reach, bands = 0 if self.keeping is None else self.keeping.reach, len(self.inputs.config.bands)
        each = bands * (12 * len(self.samples) + 4 * (8 + 2 * len(self.quantiles)))  # bytes a pixel, by counting
        side = _BLOCK
        while side > _LEAST and each * (side + 2 * reach) ** 2 > room:
            side //= 2
        return side

    def window(self, window: Window) -> Finished:
        """One window."""
        grid = self.inputs.scene.grid
        reach = 0 if self.keeping is None else self.keeping.reach
        wide = common(
            Window(window.row - reach, window.column - reach, window.height + 2 * reach, window.width + 2 * reach),
            Window(0, 0, grid.height, grid.width),
        )
        drawn = np.stack([sample.read(wide)[list(self.inputs.kept)] for sample in self.samples])
        restored = drawn[0] if len(drawn) == 1 else drawn.mean(0, dtype=np.float64).astype(np.float32)
        here = inside(window, wide)
        valid = self.inputs.known(window)
        original, there = self.inputs.original(wide)
        numbers = self.inputs.to_file_numbers(restored)
        kept = np.zeros(valid.shape, bool)
        if self.keeping is not None:
            cloud = self._cloud(wide, restored, there)
            numbers = keep_clear(
                original.astype(np.float32), numbers, cloud | ~there, there | True, feather=self.keeping.feather
            )
            kept = (~cloud & there)[here]
        pixels = avoiding(saturate(numbers[:, *here], self.dtype), self._nodata, in_any_band=True)
        if self.dtype == original.dtype:  # to the bit, also where floats are too coarse
            np.copyto(pixels, original[:, *here], where=kept)
        return Finished(
            pixels=pixels,
            valid=valid,
            spread=self._spread(drawn[:, :, *here], original[:, *here], kept) if self.spread else None,
            values=int(there[here].sum()) * len(original),
            clipped=self.inputs.clipped(original[:, *here], there[here]),
            replaced=int((valid & ~kept).sum()),
        )

    def _cloud(self, window: Window, restored: np.ndarray, valid: np.ndarray) -> np.ndarray:
        assert self.keeping is not None
        if self.keeping.by == "mask":
            mask = self.inputs.scene.mask
            assert mask is not None
            cloud = mask.read(window)[0][0] != 0  # a number for "unknown" is no clear pixel
        else:
            names = [self.inputs.config.bands[i].name for i in self.inputs.kept]
            before = (self.inputs.read(window).cloudy[-1][list(self.inputs.kept)] + 1) / 2
            if self.keeping.by == "score":
                score = cloudscore.cloud_score(before, names, valid=valid)
            else:
                score = cloudscore.change_score(before, (restored + 1) / 2, valid=valid)
            cloud = score >= cloudscore.CLOUDY
        return grow(cloud, self.keeping.grow)

    def _spread(self, drawn: np.ndarray, original: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """(K, C, h, w) -> (C * n, h, w), in the file's numbers; pixels that were kept are what they are."""
        deviation = drawn.std(0, ddof=1, dtype=np.float64).astype(np.float32)
        parts = [np.where(kept, 0, np.abs(self.inputs.spread_to_file_numbers(deviation)))]
        if self.quantiles:
            found = np.quantile(drawn, self.quantiles, axis=0).astype(np.float32)
            parts += [np.where(kept, original, self.inputs.to_file_numbers(values)) for values in found]
        return np.stack(parts, axis=1).reshape(-1, *drawn.shape[2:]).astype(np.float32)


def windows(grid: Grid, side: int = _BLOCK) -> Iterator[Window]:
    """All windows of an output, row by row."""
    return blocks(grid.height, grid.width, side)
