"""What a training step is fed: samples of one or several data sets as the model takes them, in batches."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import torch
from torch import Tensor

from emrdm.config import ModelConfig
from emrdm.data import Dataset, Draw, Failure, MemoryCache, Sample
from emrdm.data.augment import thinned, toned
from emrdm.data.loading import Chunks, quiet_worker
from emrdm.data.matching import Matching
from emrdm.errors import DataError, InputError
from emrdm.noise import fold
from emrdm.presets.recipe import TrainConfig
from emrdm.training.order import Order
from emrdm.training.streams import CROPS, SIDES

_CROPS = 8  # that are drawn for one with pixels to learn from
_TRIES = 20  # samples in a row that may be unreadable before something else must be wrong


@final
@dataclass(frozen=True)
class Drawn:
    """A sample as the model takes it, the key of its draw, and what could not be read on the way to it."""

    key: int
    sample: Sample | None
    failures: tuple[Failure, ...] = ()


@final
@dataclass(frozen=True)
class TrainingBatch:
    """Samples of one shape.

    Attributes:
        names: of the samples.
        keys: of their draws; noise levels and noise are made from them.
        cloudy: (B, L, C, H, W) in [-1, 1].
        clear: (B, C, H, W).
        aux: (B, L, C_aux, H, W) or None.
        valid: (B, H, W) bool, pixels whose clear image is known; None where all are.
    """

    names: tuple[str, ...]
    keys: tuple[int, ...]
    cloudy: Tensor
    clear: Tensor
    aux: Tensor | None
    valid: Tensor | None

    def to(self, device: torch.device) -> TrainingBatch:
        """The batch there; from page-locked memory the copies overlap with work."""
        return self._mapped(lambda x: x.to(device, non_blocking=True))

    def pin_memory(self) -> TrainingBatch:
        """With its images in page-locked memory; torch's loader calls it."""
        return self._mapped(lambda x: x.pin_memory())

    @property
    def images(self) -> dict[str, Tensor]:
        """All that is there, by name."""
        return {name: x for name, x in vars(self).items() if isinstance(x, Tensor)}

    def _mapped(self, change: Callable[[Tensor], Tensor]) -> TrainingBatch:
        images = {name: change(x) for name, x in self.images.items()}
        return dataclasses.replace(self, **images)  # type: ignore[arg-type]


Turn = tuple[list[TrainingBatch], list[Failure]]


@final
class Samples(torch.utils.data.Dataset[Drawn]):
    """Data sets one after the other, as one; each sample as the model takes it.

    A sample that cannot be read is answered with the next one that can, so that a batch always has its size, and is
    reported by name. Which one that is depends on the files alone, so a run that is repeated sees the same.
    """

    def __init__(self, datasets: Sequence[Dataset], config: ModelConfig, *, train: TrainConfig | None = None) -> None:
        self.datasets, self.config = list(datasets), config
        self.thinning, self.tones = (train.thinning, train.tones) if train else (0.0, 0.0)
        self.ends = list(accumulate(len(dataset) for dataset in datasets))
        self.tries = min(_TRIES, self.ends[-1])
        self.matchings = [
            Matching(config, dataset.bands, dataset.aux, frames=config.frames) for dataset in self.datasets
        ]
        # what cannot work is said before anything starts
        drawn = self[Draw(0, 0)]
        if drawn.sample is None:
            raise InputError(f"the first {len(drawn.failures)} samples cannot be used: {drawn.failures[0].reason}")

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, draw: Draw) -> Drawn:
        failures: list[Failure] = []
        for attempt in range(self.tries):
            found = self._known((draw.index + attempt) % len(self), draw.key)
            if isinstance(found, Sample):
                return Drawn(draw.key, found, tuple(failures))
            failures += [found] if found is not None else []
        return Drawn(draw.key, None, tuple(failures))

    def check_full(self, parts: Sequence[TrainingBatch], failures: Sequence[Failure], size: int) -> None:
        """Refuse batches that are smaller than they should be: nothing readable was found in the place of a sample."""
        if sum(len(part.names) for part in parts) < size:
            why = failures[-1].reason if failures else "their crops have no pixel whose clear value is known"
            raise DataError(f"{self.tries} samples in a row cannot be read: {why}")

    def _known(self, index: int, key: int) -> Sample | Failure | None:
        """A sample with pixels to learn from; None where there are some, but none in several crops of it."""
        for again in range(_CROPS):
            found = self._fetch(index, fold(key, CROPS, index, again) if again else key)
            if not isinstance(found, Sample) or found.valid is None or bool(found.valid.any()):
                return found
        whole = self._fetch(index, None)
        if isinstance(whole, Sample) and whole.valid is not None and not bool(whole.valid.any()):
            reason = f"{whole.name} has no pixel whose clear value is known: it cannot be trained on"
            return self._named(index, Failure(whole.name, reason))
        return None

    def _named(self, index: int, failure: Failure) -> Failure:
        """With the data set, where there are several: names are unique in one only."""
        if len(self.datasets) == 1:
            return failure
        return Failure(f"{bisect_right(self.ends, index) + 1}/{failure.name}", failure.reason)

    def _fetch(self, index: int, key: int | None) -> Sample | Failure:
        """A sample as the model takes it: as it is drawn, or whole without a key."""
        place = bisect_right(self.ends, index)
        dataset = self.datasets[place]
        start = self.ends[place] - len(dataset)
        found = dataset.fetch(index - start if key is None else Draw(index - start, key))
        try:
            if isinstance(found, Sample):
                if key is not None:
                    found = toned(thinned(found, key, share=self.thinning), key, strength=self.tones)
                return self._fitting(found, self.matchings[place], key or 0)
        except DataError as error:
            found = Failure(found.name, str(error))
        return self._named(index, found)

    def _fitting(self, sample: Sample, matching: Matching, key: int) -> Sample:
        """Bands and sides as the model takes them."""
        if sample.target is None:
            raise DataError(f"{sample.name} has no clear image: it cannot be trained on")
        cloudy, aux = matching.inputs(sample.cloudy[None], None if sample.aux is None else sample.aux[None])
        target = matching.target(sample.target[None])[0]
        sample = dataclasses.replace(
            sample, cloudy=cloudy[0], target=target, aux=None if aux is None else aux[0], classes=None
        )
        return self._trimmed(sample, key)

    def _trimmed(self, sample: Sample, key: int) -> Sample:
        """Cut to sides that the network takes; which rows and columns go is up to the draw."""
        height, width = sample.cloudy.shape[-2:]
        network = self.config.network
        if min(height, width) < network.padded(1):
            expected = f"{network.padded(1)} x {network.padded(1)} at least"
            raise DataError(f"{sample.name} is {width} x {height} pixels: expected {expected} for this network")
        rows, columns = height % network.multiple, width % network.multiple
        if not rows and not columns:
            return sample
        top, left = fold(key, SIDES, 0) % (rows + 1), fold(key, SIDES, 1) % (columns + 1)
        cut = (..., slice(top, top + height - rows), slice(left, left + width - columns))
        images = {
            name: x[cut] for name in ("cloudy", "target", "aux", "valid") if (x := getattr(sample, name)) is not None
        }
        return dataclasses.replace(sample, **images)


def batches(
    samples: Samples, order: Order, *, batch_size: int, start: int = 0, workers: int = 0, pin: bool = False
) -> Iterator[Turn]:
    """Batches from entry ``start`` of the order on, read ahead by worker processes, with what could not be read.

    A turn has one batch, or several of ``batch_size`` samples together where shapes differ.
    """
    if workers:
        for dataset in samples.datasets:
            if isinstance(dataset.cache, MemoryCache):  # workers are copies of this process: fill it before they start
                dataset.preload(workers=workers)
    loader: torch.utils.data.DataLoader[Turn] = torch.utils.data.DataLoader(
        samples,  # type: ignore[arg-type]
        batch_sampler=Chunks(order, batch_size, start=start),
        num_workers=workers,
        collate_fn=collate,
        pin_memory=pin,
        prefetch_factor=4 if workers else None,
        worker_init_fn=quiet_worker,
    )
    return iter(loader)


@final
class Ahead(Iterator[Turn]):
    """Batches on a device, of which the next may be sent there while it still works on the one before.

    What is read ahead counts for nothing until it is asked for: neither samples that could not be read, nor errors.
    """

    def __init__(self, turns: Iterator[Turn], device: torch.device) -> None:
        self._turns, self._device = turns, device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # copies go on beside the work
        self._sent: Turn | Exception | None = None

    def __next__(self) -> Turn:
        self.send()
        sent, self._sent = self._sent, None
        assert sent is not None
        if isinstance(sent, Exception):
            raise sent
        if self._stream is not None:
            work = torch.cuda.current_stream(self._device)
            work.wait_stream(self._stream)
            for image in (image for part in sent[0] for image in part.images.values()):
                image.record_stream(work)  # its memory is not used again before the work is done
        return sent

    def send(self) -> None:
        """Send the next batch on its way, unless it is already."""
        if self._sent is not None:
            return
        try:
            turn = next(self._turns, None)
            if turn is None:
                self._sent = StopIteration()  # a new one: one that was raised would keep alive all that led to it
                return
            parts, failures = turn
            with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
                self._sent = [part.to(self._device) for part in parts], failures
        except Exception as error:  # for whoever asks for this batch
            self._sent = error


def collate(drawn: Sequence[Drawn]) -> Turn:
    """Samples of one shape together, in order of first appearance; and all failures."""
    failures = [failure for entry in drawn for failure in entry.failures]
    groups: dict[tuple[object, ...], list[tuple[int, Sample]]] = {}
    for entry in drawn:
        if entry.sample is not None:
            images = (entry.sample.cloudy, entry.sample.aux)
            key = tuple(None if x is None else x.shape for x in images)
            groups.setdefault(key, []).append((entry.key, entry.sample))
    return [_stack(group) for group in groups.values()], failures


def _stack(group: Sequence[tuple[int, Sample]]) -> TrainingBatch:
    keys, samples = zip(*group, strict=True)
    valid = None
    if any(sample.valid is not None for sample in samples):
        everywhere = torch.ones(samples[0].cloudy.shape[-2:], dtype=torch.bool)
        valid = torch.stack([everywhere if sample.valid is None else sample.valid for sample in samples])
    return TrainingBatch(
        names=tuple(sample.name for sample in samples),
        keys=keys,
        cloudy=torch.stack([sample.cloudy for sample in samples]),
        clear=torch.stack([sample.target for sample in samples]),
        aux=None if samples[0].aux is None else torch.stack([sample.aux for sample in samples]),
        valid=valid,
    )
