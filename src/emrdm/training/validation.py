"""How good the averaged weights are, on images that are not trained on: scores by the data set's protocol, pictures."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from emrdm import pictures
from emrdm.data import Dataset, Failure
from emrdm.data.preview import tiles
from emrdm.errors import DataError, EmrdmError, InputError, MissingDependencyError
from emrdm.evaluation import BASELINES, BaselinePredictor, ModelPredictor, Settings, evaluate
from emrdm.metrics import Scores, find_protocols
from emrdm.model import EMRDM
from emrdm.training.together import anywhere

_LOG = logging.getLogger(__name__)
_UNTOUCHED = ("cloudy-image", "least-cloudy")  # for one frame, and for several
_SEED = 0  # of the sampler's noise: the same in every validation, so that scores differ by the weights alone
Found = dict[str, dict[str, Any]]
Progress = Callable[[int, int], None]


class _CancelledError(Exception):
    """The run is to stop."""


@final
class Validation:
    """The validation images of a run."""

    def __init__(
        self, datasets: Sequence[Dataset], *, images: int | None, rows: int, batch_size: int, rank: int, ranks: int
    ) -> None:
        """Choose the images.

        Args:
            datasets: validation splits; none of them is empty.
            images: of each data set, evenly spread; None for all.
            rows: of the picture sheet.
            batch_size: images at a time.
            rank: of this process, which scores its share.
            ranks: number of processes.
        """
        self.datasets, self.rows, self.batch_size = list(datasets), rows, batch_size
        self.chosen = [spread(len(dataset), images) for dataset in datasets]
        self.names = _distinct([dataset.layout.name for dataset in datasets])
        self.rank, self.ranks = rank, ranks
        self._untouched: dict[str, dict[str, Any]] = {}
        for dataset, chosen in zip(self.datasets, self.chosen, strict=True):
            # said now, not when hours of training are to be scored
            first = dataset.fetch(chosen[0])
            if isinstance(first, Failure) and all(isinstance(dataset.fetch(i), Failure) for i in chosen[1:]):
                raise InputError(f"none of the {len(chosen)} validation images can be read: {first.reason}")

    def __len__(self) -> int:
        return sum(map(len, self.chosen))

    def score(
        self, model: EMRDM, *, progress: Progress | None = None, cancelled: Callable[[], bool] = lambda: False
    ) -> Found | None:
        """Mean scores by data set, with the name of the protocol among them, the same in every process.

        Args:
            model: with the weights to be scored.
            progress: called with the images that this process has done and their number, data set by data set.
            cancelled: asked between images; where it says so in one process, there are no scores in any.
        """

        def go_on(done: int, total: int) -> None:
            if progress is not None:
                progress(done, total)
            if cancelled():
                raise _CancelledError

        found = {
            name: self._score(model, name, dataset, chosen, go_on)
            for name, dataset, chosen in zip(self.names, self.datasets, self.chosen, strict=True)
        }
        return None if anywhere(cancelled()) else found

    def _score(
        self, model: EMRDM, name: str, dataset: Dataset, chosen: Sequence[int], progress: Progress
    ) -> dict[str, Any]:
        """The scores of one data set; the first time also of doing nothing, which a model has to beat."""
        # Every process scores a share; where there are more processes than images, some repeat one, which counts once.
        mine = list(chosen[self.rank :: self.ranks]) or [chosen[self.rank % len(chosen)]]
        protocol = find_protocols(dataset.layout.protocols)[0]
        predictor = _predictor(model, dataset)
        settings = Settings(batch_size=self.batch_size, on_error="skip", device=str(model.device))
        idle = [] if name in self._untouched else [BaselinePredictor(BASELINES[b], dataset.data) for b in _UNTOUCHED]
        scores = {method.name: Scores() for method in (predictor.method, *(one.method for one in idle))}
        try:
            # together, so that all are scored in the bands that the model restores
            found = evaluate(
                dataset, [predictor, *idle], [protocol], settings=settings, indices=mine, progress=progress
            )
            scores = {method: found.of(method, protocol.name) for method in scores}
        except DataError as error:  # none of this process's images can be read; the others wait for it
            _LOG.warning("%s", error)
        except _CancelledError:
            pass
        scores = {method: part.gather() for method, part in scores.items()}
        if idle:
            what, psnr = next(
                (
                    (one.method.title, scores[one.method.name].mean("psnr").value)
                    for one in idle
                    if scores[one.method.name]
                ),
                ("nothing", math.nan),
            )
            self._untouched[name] = {"what": what, "psnr": psnr}
        means = {metric: mean.value for metric, mean in scores["model"].means().items() if "/" not in metric}
        facts = {"protocol": protocol.name, "images": len(scores["model"])}
        return {**facts, **means, "untouched": self._untouched[name]}

    def sheet(self, model: EMRDM, path: Path, *, title: str) -> np.ndarray | None:
        """Draw a few images, cloudy, restored and clear; the picture (H, W, 3), or None where Pillow is missing."""
        a_set = -(-self.rows // len(self.datasets))
        places = [[chosen[i] for i in spread(len(chosen), a_set)] for chosen in self.chosen]
        turns = [
            (dataset, some[i])
            for i in range(a_set)
            for dataset, some in zip(self.datasets, places, strict=True)
            if i < len(some)
        ]
        rows = [row for dataset, index in turns[: self.rows] for row in self._row(model, dataset, index)]
        if not rows:
            return None
        try:
            page = pictures.sheet(rows, title=title)
        except MissingDependencyError as error:
            _LOG.info("no picture sheet: %s", error)
            return None
        path.parent.mkdir(exist_ok=True)
        pictures.save(page, path)
        return np.asarray(page)

    def _row(self, model: EMRDM, dataset: Dataset, index: int) -> list[list[pictures.Tile]]:
        sample = dataset.fetch(index)
        if isinstance(sample, Failure):
            return []
        predictor = _predictor(model, dataset)
        shown = predictor.picture(sample, dataset.bands)
        row = tiles(sample, dataset.bands, dataset.aux)
        row.insert(len(row) - (sample.target is not None), pictures.Tile("restored", shown))
        return [row]


def criterion(found: Found) -> float:
    """What the best weights are chosen by: the mean PSNR of all data sets."""
    values = [float(scores.get("psnr", math.nan)) for scores in found.values()]
    if any(math.isnan(value) for value in values):
        raise EmrdmError("the validation images have no PSNR: expected images with known pixels")
    return math.fsum(values) / len(values)


def spread(count: int, most: int | None) -> list[int]:
    """At most so many of a number of places, evenly spread."""
    return list(range(count)) if most is None or most >= count else [i * count // most for i in range(most)]


def _distinct(names: Sequence[str]) -> list[str]:
    """Names with a number behind those that come a second time."""
    return [name if names.count(name) == 1 else f"{name}-{names[: i + 1].count(name)}" for i, name in enumerate(names)]


def _predictor(model: EMRDM, dataset: Dataset) -> ModelPredictor:
    """On a CPU exact: which weights are the best must not depend on what a trial found to be fast there."""
    exact = model.device.type == "cpu"
    sampler = model.config.sampler
    return ModelPredictor(model, dataset, name="model", digest="", sampler=sampler, seed=_SEED, exact=exact)
