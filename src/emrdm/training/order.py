"""Which samples a training step sees: a pure function of seed and step, whatever happened before.

Draws are numbered over the whole run, not over a process. A run that was stopped therefore goes on with the very
samples it would have seen, and two processes with half the batch each see what one with the whole would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final, overload

from emrdm.data import Draw
from emrdm.errors import ConfigError
from emrdm.noise import Window, fold, normal
from emrdm.training.streams import AUGMENTATION, ORDER


@final
@dataclass(frozen=True)
class Order(Sequence[Draw]):
    """All draws of a process, in order; indexing costs nothing but the permutation of an epoch.

    Attributes:
        size: samples in the data set.
        seed: of the run.
        batch_size: of one process.
        steps: of the run.
        rank: of this process.
        ranks: number of processes.
    """

    size: int
    seed: int
    batch_size: int
    steps: int
    rank: int = 0
    ranks: int = 1

    def __post_init__(self) -> None:
        for name in ("size", "batch_size", "steps", "ranks"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: expected 1 or more")
        if not 0 <= self.rank < self.ranks:
            raise ConfigError(f"rank is {self.rank} of {self.ranks}: expected 0 to {self.ranks - 1}")

    def __len__(self) -> int:
        return self.steps * self.batch_size

    @overload
    def __getitem__(self, place: int) -> Draw: ...
    @overload
    def __getitem__(self, place: slice) -> list[Draw]: ...
    def __getitem__(self, place: int | slice) -> Draw | list[Draw]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"draw {place} of {len(self)}")
        step, within = divmod(place % len(self), self.batch_size)
        number = (step * self.ranks + self.rank) * self.batch_size + within  # over all processes
        epoch, position = divmod(number, self.size)
        return Draw(_permutation(self.seed, epoch, self.size)[position], fold(self.seed, AUGMENTATION, number))


@lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, size: int) -> list[int]:
    """The order of an epoch: where the samples' random numbers stand when they are sorted."""
    numbers = normal(fold(seed, ORDER, epoch), Window(0, 0, 1, size)).flatten()
    order: list[int] = numbers.argsort(stable=True).tolist()
    return order
