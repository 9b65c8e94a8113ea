"""What a restoration computes, decided once: tiles, steps, seeds. Every worker has the same plan, so all agree."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch

from emrdm.config import SamplerConfig
from emrdm.diffusion import MeanReverting
from emrdm.diffusion.one_raster import RasterStep
from emrdm.diffusion.one_raster import plan as plan_steps
from emrdm.errors import InputError
from emrdm.model import EMRDM
from emrdm.networks import NetworkConfig
from emrdm.noise import fold
from emrdm.rasters.tiles import TilePlan, check_overlap, widest_overlap
from emrdm.strict import check

_METHODS = ("stochastic", "euler")
_MOST_SAMPLES = 1000


@final
@dataclass(frozen=True)
class Settings:
    """How a scene is restored; everything here changes the result.

    Attributes:
        tile: side of a tile in pixels: what the network sees at once.
        overlap: pixels over which neighbouring tiles fade into each other; None for a quarter of it.
        seed: of the noise.
        samples: restorations with noise of their own; more than one gives a mean and a spread.
        sampler: another one than the model's.
        exact: the plain float32 network instead of the fastest way.
    """

    tile: int = 256
    overlap: int | None = None
    seed: int = 0
    samples: int = 1
    sampler: SamplerConfig | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        check(self, "settings")
        if not 1 <= self.samples <= _MOST_SAMPLES:
            raise InputError(f"samples is {self.samples}: expected 1 to {_MOST_SAMPLES}")


@final
@dataclass(frozen=True)
class Plan:
    """Tiles and steps of one restoration.

    Attributes:
        tiles: over the scene.
        sampler: its settings.
        alpha: of the process.
        seed, samples, exact: as in :class:`Settings`.
        numbers: that the network computes with, "float32" or "bfloat16".
    """

    tiles: TilePlan
    sampler: SamplerConfig
    alpha: float
    seed: int
    samples: int
    exact: bool
    numbers: str

    @classmethod
    def of(cls, height: int, width: int, model: EMRDM, settings: Settings) -> Plan:
        """The plan for a scene of that size."""
        if not isinstance(model.process, MeanReverting):
            kind = type(model.process).__name__
            raise InputError(f"this model has process {kind}: expected MeanReverting, whose state is one raster")
        sampler = settings.sampler or model.config.sampler
        if sampler.method not in _METHODS:
            raise InputError(f"sampler.method is {sampler.method!r}: expected {' or '.join(_METHODS)} for a scene")
        if min(height, width) < 2:
            raise InputError(f"the scene has {width} x {height} pixels: expected 2 x 2 at least")
        network = model.config.network
        sides = _side(height, settings.tile, network), _side(width, settings.tile, network)
        if settings.overlap is None:
            overlap = min(settings.tile // 4, max(1, widest_overlap(settings.tile, network.multiple)))
        else:
            overlap = settings.overlap
            check_overlap(overlap, settings.tile, network.multiple)  # by the tile asked for, however small the scene
        return cls(
            tiles=TilePlan.over(height, width, sides, overlap, network.multiple),
            sampler=sampler,
            alpha=model.process.alpha,
            seed=settings.seed,
            samples=settings.samples,
            exact=settings.exact,
            numbers=model.numbers(exact=settings.exact),
        )

    @cached_property
    def steps(self) -> tuple[RasterStep, ...]:
        """The run of the sampler."""
        return plan_steps(self.sampler.schedule(), self.sampler.as_churn())

    @cached_property
    def settled(self) -> tuple[float, ...]:
        """Before each step: the share of S that a denoiser which always says the same would have reached."""
        shares, left = [], 1.0
        for step in self.steps:
            shares.append(1 - left)
            left *= step.ratio
        return tuple(shares)

    def key(self, sample: int, draw: int) -> int:
        """Of the noise; a sample draws as image ``sample`` of a batch would in ``model.restore``."""
        return fold(fold(self.seed, sample), draw)

    def facts(self) -> dict[str, object]:
        """Everything that decides the result, for a journal to compare."""
        rows, columns = self.tiles.rows, self.tiles.columns
        return {
            "size": [rows.length, columns.length],
            "tile": [rows.tile, columns.tile],
            "overlap": rows.overlap,
            "align": rows.align,
            "sampler": dataclasses.asdict(self.sampler),
            "alpha": self.alpha,
            "seed": self.seed,
            "samples": self.samples,
            "exact": self.exact,
            "numbers": self.numbers,
        }

    @property
    def calls(self) -> int:
        """Tiles to be denoised in all."""
        return len(self.tiles) * len(self.steps) * self.samples


def _side(length: int, tile: int, network: NetworkConfig) -> int:
    """Of the tiles along an axis: smaller where the scene is."""
    if not network.padded(1) <= tile <= 8192 or tile != network.padded(tile):
        raise InputError(
            f"tile is {tile}: expected a multiple of {network.multiple} from {network.padded(1)} to 8192 for this model"
        )
    return min(tile, network.padded(length))


def torch_time(t: float) -> torch.Tensor:
    """A time for the denoiser, which keeps its precision until it meets the images."""
    return torch.tensor(t, dtype=torch.float64)
