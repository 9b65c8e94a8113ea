"""Batches from a data set, in a given order, read ahead by worker processes."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from emrdm.data.cache import MemoryCache
from emrdm.data.dataset import Dataset, Draw, Failure
from emrdm.data.sample import Sample


@final
@dataclass(frozen=True)
class Batch:
    """Samples of one shape, stacked: (B, ...) as in :class:`Sample`."""

    names: tuple[str, ...]
    cloudy: Tensor
    target: Tensor | None
    aux: Tensor | None
    classes: Tensor | None
    valid: Tensor | None
    dates: tuple[tuple[str, ...], ...]
    repaired: tuple[Mapping[str, int], ...]

    def pin_memory(self) -> Batch:
        """With its images in page-locked memory, from where they travel to a GPU faster; torch's loader calls it."""
        images = {name: x.pin_memory() for name, x in vars(self).items() if isinstance(x, Tensor)}
        return dataclasses.replace(self, **images)  # type: ignore[arg-type]


@final
class Batches(Iterable[list["Batch | Failure"]]):
    """Batches of a data set in a given order.

    The order is the caller's: a list of indices for evaluation, of :class:`Draw` for training. Each turn gives the
    batches of the next ``batch_size`` entries: one where all samples have one shape, several where shapes differ, and
    a :class:`Failure` for each file that could not be read.
    """

    def __init__(
        self, dataset: Dataset, order: Sequence[int | Draw], *, batch_size: int = 1, workers: int = 0, pin: bool = False
    ) -> None:
        if workers and isinstance(dataset.cache, MemoryCache):
            # Workers are copies of this process: what they keep is lost with them, what it keeps they all have.
            few = len(order) < len(dataset)
            wanted = [entry.index if isinstance(entry, Draw) else entry for entry in order] if few else None
            dataset.preload(wanted, workers=workers)
        self._loader: torch.utils.data.DataLoader[list[Batch | Failure]] = torch.utils.data.DataLoader(
            _Fetching(dataset),  # type: ignore[arg-type]
            batch_sampler=Chunks(order, batch_size),
            num_workers=workers,
            collate_fn=collate,
            pin_memory=pin,
            prefetch_factor=4 if workers else None,
            worker_init_fn=quiet_worker,
        )

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[list[Batch | Failure]]:
        return iter(self._loader)


def collate(fetched: Sequence[Sample | Failure]) -> list[Batch | Failure]:
    """Samples of one shape together, in order of first appearance; failures at the end."""
    groups: dict[tuple[object, ...], list[Sample]] = {}
    for entry in fetched:
        if isinstance(entry, Sample):
            images = (entry.cloudy, entry.target, entry.aux, entry.classes, entry.valid)
            groups.setdefault(tuple(None if x is None else x.shape for x in images), []).append(entry)
    failures = [entry for entry in fetched if isinstance(entry, Failure)]
    return [*(_stack(group) for group in groups.values()), *failures]


def _stack(samples: Sequence[Sample]) -> Batch:
    def stacked(name: str) -> Tensor | None:
        images = [getattr(sample, name) for sample in samples]
        return None if images[0] is None else torch.stack(images)

    cloudy = stacked("cloudy")
    assert cloudy is not None
    others = {name: stacked(name) for name in ("target", "aux", "classes", "valid")}
    return Batch(
        names=tuple(sample.name for sample in samples),
        cloudy=cloudy,
        dates=tuple(sample.dates for sample in samples),
        repaired=tuple(sample.repaired for sample in samples),
        **others,
    )


@final
class Chunks(torch.utils.data.Sampler[list["int | Draw"]]):
    """So many entries of an order at a time, made when they are asked for: a run may have millions.

    ``start`` leaves out what came before that entry.
    """

    def __init__(self, order: Sequence[int | Draw], size: int, *, start: int = 0) -> None:
        self.order, self.size, self.start = order, size, start

    def __len__(self) -> int:
        return -(-(len(self.order) - self.start) // self.size)

    def __iter__(self) -> Iterator[list[int | Draw]]:
        for start in range(self.start, len(self.order), self.size):
            yield list(self.order[start : start + self.size])


class _Fetching(torch.utils.data.Dataset["Sample | Failure"]):
    """A data set whose unreadable items are answers: an exception would not cross from a worker in one line."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __getitem__(self, index: int | Draw) -> Sample | Failure:
        return self.dataset.fetch(index)


def quiet_worker(_worker: int) -> None:
    """Set a worker process up: one thread, and no ears for signals."""
    torch.set_num_threads(1)  # workers share the cores among each other
    for number in (signal.SIGINT, signal.SIGTERM):
        # Ctrl-C and schedulers signal all processes at once. What to do about it is for the main process to say, which
        # may need one more batch; a worker ends when that process does.
        signal.signal(number, signal.SIG_IGN)
