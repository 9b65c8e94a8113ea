"""The loop: every image of a data set through every method, scored by every protocol."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import torch
from torch import Tensor

import emrdm
from emrdm.data import CLEAR, NODATA, UNKNOWN, Batch, Batches, Dataset, Failure, Sample
from emrdm.data.dataset import summary_of_repairs
from emrdm.data.preview import display_limits, visible
from emrdm.errors import DataError, EmrdmError, InputError
from emrdm.evaluation.journal import JOURNAL, Journal
from emrdm.evaluation.predictors import Predictor
from emrdm.evaluation.published import published_figures
from emrdm.evaluation.results import CLOUDY_IMAGE, Evaluation, picture_name
from emrdm.files import as_path, fingerprint, locked, make_folder, remove_leftovers
from emrdm.metrics import Protocol, Scores
from emrdm.wording import brief, many

PICTURES = "pictures"
OUTPUTS = ("report.html", "summary.md", "summary.json", "scores.csv", PICTURES)
_LARGEST_PICTURE = 512


@final
@dataclass(frozen=True)
class Settings:
    """How an evaluation is run.

    Attributes:
        folder: where scores and pictures are kept as they are made; nothing is kept if None.
        batch_size: images at a time.
        workers: processes that read ahead.
        on_error: stop at a file that cannot be read, or leave it out and say so.
        device: where methods and scores are computed.
        overwrite: forget what another run left in the folder.
        pictures: keep a picture of every image and method.
    """

    folder: Path | None = None
    batch_size: int = 4
    workers: int = 0
    on_error: str = "stop"
    device: str = "cpu"
    overwrite: bool = False
    pictures: bool = True

    def __post_init__(self) -> None:
        if self.folder is not None:  # a text will do as well
            object.__setattr__(self, "folder", as_path(self.folder, "folder"))


def evaluate(
    dataset: Dataset,
    predictors: Sequence[Predictor],
    protocols: Sequence[Protocol],
    *,
    settings: Settings | None = None,
    indices: Sequence[int] | None = None,
    facts: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Score methods on a data set.

    Args:
        dataset: samples with targets.
        predictors: what is scored.
        protocols: how.
        settings: where to keep things, and how fast to go.
        indices: score these samples only.
        facts: lines for the foot of a report.
        progress: called with the images done and their number.
    """
    settings, order = settings or Settings(), list(range(len(dataset)) if indices is None else indices)
    if not predictors or not protocols or not order:
        raise InputError("there is nothing to evaluate: expected an image, a method and a protocol at least")
    for protocol in protocols:
        for band in dataset.bands:
            protocol.check_ends(band.low, band.high)
    identity = _identity(dataset, predictors, protocols, [dataset.items[i].name for i in order])
    with ExitStack() as held:
        if settings.folder is not None:
            make_folder(settings.folder, "the report")
            held.enter_context(locked(settings.folder, "evaluation"))
            _clear_the_way(settings.folder, overwrite=settings.overwrite)
        journal = Journal(settings.folder, identity, overwrite=settings.overwrite)
        run = _Run(dataset, predictors, protocols, settings, journal)
        return run.over(order, facts or {}, progress)


def _clear_the_way(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder with files of our names that are not ours; when overwriting, pictures of another run go."""
    ours = [name for name in OUTPUTS if (folder / name).exists()]
    if overwrite:
        for picture in (folder / PICTURES).glob("*.webp"):
            picture.unlink(missing_ok=True)
    elif ours and not (folder / JOURNAL).exists():
        raise InputError(f"{folder} has a {ours[0]} of its own: choose another folder, or add --overwrite")


class _Run:
    """The state of one evaluation."""

    def __init__(
        self,
        dataset: Dataset,
        predictors: Sequence[Predictor],
        protocols: Sequence[Protocol],
        settings: Settings,
        journal: Journal,
    ) -> None:
        self.dataset, self.predictors, self.protocols = dataset, predictors, tuple(protocols)
        self.settings, self.journal = settings, journal
        self.failures: list[Failure] = []
        self.chosen = len(dataset)
        self.places = next((predictor.places for predictor in predictors if predictor.places is not None), None)
        self.data = next((predictor.data for predictor in predictors if predictor.places is not None), dataset.data)

    def over(
        self, order: Sequence[int], facts: Mapping[str, str], progress: Callable[[int, int], None] | None
    ) -> Evaluation:
        finished = {
            i
            for i in order
            if all(self.journal.done(self.dataset.items[i].name, p.method.name) for p in self.predictors)
        }
        if self.settings.folder is not None and (self.settings.folder / PICTURES).is_dir():
            remove_leftovers(self.settings.folder / PICTURES)
        left = [i for i in order if i not in finished]
        done, self.chosen = len(finished), len(order)
        if progress:
            progress(done, len(order))
        for turn in Batches(self.dataset, left, batch_size=self.settings.batch_size, workers=self.settings.workers):
            for part in turn:
                done += self._fail(part) if isinstance(part, Failure) else self._score(part)
            if progress:
                progress(done, len(order))
        return self._result(facts)

    def _fail(self, failure: Failure) -> int:
        if self.settings.on_error == "stop":
            raise DataError(failure.reason)
        self.failures.append(failure)
        return 1

    def _score(self, batch: Batch) -> int:
        """Score a batch with every method that has not seen it; the number of its images."""
        if batch.target is None:
            for name in batch.names:
                self._fail(Failure(name, f"{name} has no clear image: it cannot be scored"))
            return len(batch.names)
        batch = _to(batch, self.settings.device)
        assert batch.target is not None
        self._draw(batch, "cloudy", batch.cloudy[:, 0])
        self._draw(batch, "target", batch.target)
        regions = _regions(batch)
        for predictor in self.predictors:
            if all(self.journal.done(name, predictor.method.name) for name in batch.names):
                continue
            if not predictor.applies(batch):
                self.journal.add(batch.names, predictor.method.name, {}, batch.repaired)
                continue
            try:
                prediction = predictor.predict(batch)
            except DataError as error:
                if len(batch.names) > 1:  # find out which of them it was
                    return sum(self._score(single) for single in _singles(batch))
                self._fail(Failure(batch.names[0], f"{predictor.method.title}: {error}"))
                continue
            self._keep(predictor, batch, prediction, regions)
        return len(batch.names)

    def _keep(self, predictor: Predictor, batch: Batch, prediction: Tensor, regions: Mapping[str, Tensor]) -> None:
        assert batch.target is not None
        if not bool(torch.isfinite(prediction).all()):
            raise EmrdmError(f"{predictor.method.title} gave NaN or infinite values for {brief(batch.names)}")
        if predictor.method.name != CLOUDY_IMAGE:  # that one has been drawn as the cloudy image
            self._draw(batch, predictor.method.name, _filled(batch.target, prediction, predictor.places))
        target = batch.target
        if self.places is not None:  # all methods are compared in the bands that the model restores
            target = target[:, self.places]
            prediction = prediction if predictor.places is not None else prediction[:, self.places]
        scores = {}
        for protocol in self.protocols:
            scores[protocol.name] = Scores()
            found = protocol(prediction, target, data=self.data, valid=batch.valid, regions=regions)
            scores[protocol.name].add(batch.names, found)
        self.journal.add(batch.names, predictor.method.name, scores, batch.repaired)

    def _draw(self, batch: Batch, what: str, images: Tensor) -> None:
        """Keep pictures, if any are to be kept."""
        if self.settings.folder is None or not self.settings.pictures:
            return
        from emrdm import pictures

        assert batch.target is not None
        folder = self.settings.folder / PICTURES
        if not folder.exists():
            folder.mkdir()
        for i, name in enumerate(batch.names):
            valid = None if batch.valid is None else batch.valid[i].cpu()
            like = Sample(name, batch.cloudy[i].cpu(), batch.target[i].cpu(), valid=valid)
            limits = display_limits(like, self.dataset.bands)
            pixels = pictures.colour(images[i].cpu().numpy(), visible(self.dataset.bands), limits)
            side = min(_LARGEST_PICTURE, max(pixels.shape[:2]))
            pictures.save(pictures.shrunk(pixels, side), folder / picture_name(name, what), sweep=False)

    def _result(self, facts: Mapping[str, str]) -> Evaluation:
        dataset, failed = self.dataset, {failure.name for failure in self.failures}
        # An image that one method could not do counts for none: means over other images do not compare.
        scores = {key: found.without(failed) for key, found in self.journal.scores.items()}
        scored = {method for (method, _), found in scores.items() if len(found)}
        methods = tuple(p.method for p in self.predictors if p.method.name in scored)
        if not methods:
            reason = f"no image could be scored: {self.failures[0].reason}" if self.failures else "no method applies"
            raise DataError(reason)
        whole = self.places is None or self.places == list(range(len(dataset.bands)))
        return Evaluation(
            dataset=dataset.layout.name,
            title=_title(dataset),
            split=dataset.split,
            rule=dataset.rule,
            protocols=tuple(protocol.name for protocol in self.protocols),
            methods=methods,
            scores=scores,
            facts={**facts, "emrdm": emrdm.__version__},
            notes=tuple(self._notes(failed)),
            published=published_figures(dataset.layout.name) if whole else (),
        )

    def _notes(self, failed: set[str]) -> list[str]:
        """What a reader must know before using the figures."""
        dataset = self.dataset
        notes = [note for predictor in self.predictors for note in predictor.notes] + list(dataset.notes)
        complete = dataset.layout.complete(dataset.rule).get(dataset.split)
        if dataset.split == "train" and not dataset.layout.own_validation:
            complete = None  # validation has taken its share
        if self.chosen < len(dataset):
            notes.append(f"{self.chosen:,} of {many(len(dataset), 'image')} were scored")
        elif complete is not None and complete != len(dataset):
            notes.append(f"the complete data set has {complete:,} images in this split, this folder {len(dataset):,}")
        if self.places is not None and len(self.places) < len(dataset.bands):
            names = ", ".join(dataset.bands[place].name for place in self.places)
            notes.append(f"all methods are scored in the bands that the model restores: {names}")
        if dataset.problems:
            notes.append(f"{many(len(dataset.problems), 'sample')} left out: {brief(dataset.problems, 3)}")
        if self.failures:
            reasons = brief((failure.reason for failure in self.failures), 3)
            notes.append(f"{many(len(failed), 'image')} left out for all methods: {reasons}")
        repaired: Counter[str] = Counter()
        for changed in self.journal.repaired.values():
            repaired.update(changed)
        if repaired:
            notes.append(f"in the data: {summary_of_repairs(repaired)}")
        return notes


def _title(dataset: Dataset) -> str:
    """What the data set is; a folder of one's own goes by its name."""
    title = dataset.layout.title
    return title if dataset.layout.expected else f"{dataset.root.absolute().name}: {title}"


def _identity(
    dataset: Dataset, predictors: Sequence[Predictor], protocols: Sequence[Protocol], names: Sequence[str]
) -> dict[str, object]:
    """What the scores depend on."""
    return {
        "emrdm": emrdm.__version__,
        "dataset": dataset.layout.name,
        "root": str(dataset.root.absolute()),
        "settings of the data set": hashlib.sha256(repr(dataset.layout).encode()).hexdigest()[:16],
        "files": fingerprint(path for item in dataset.items for path in item.files),
        "split": dataset.split,
        "rule": dataset.rule,
        "frames": dataset.frames,
        "bands": [[band.name, band.low, band.high] for band in dataset.bands],
        "images": len(names),
        "names": hashlib.sha256(os.fsencode(chr(10).join(names))).hexdigest()[:16],
        "protocols": [protocol.name for protocol in protocols],
        "methods": {predictor.method.name: predictor.identity() for predictor in predictors},
    }


def _regions(batch: Batch) -> dict[str, Tensor]:
    """Masks of cloudy pixels (under cloud or shadow in every frame) and clear ones (clear in one frame at least)."""
    if batch.classes is None or bool((batch.classes == UNKNOWN).any()):
        return {}
    seen = (batch.classes == CLEAR).any(1)
    known = (batch.classes != NODATA).any(1)
    return {"cloudy": known & ~seen, "clear": seen}


def _filled(like: Tensor, prediction: Tensor, places: Sequence[int] | None) -> Tensor:
    """A prediction of some bands as an image of all, so that it can be drawn."""
    if places is None:
        return prediction
    image = torch.full_like(like, -1.0)
    image[:, list(places)] = prediction
    return image


def _to(batch: Batch, device: str) -> Batch:
    names = ("cloudy", "target", "aux", "classes", "valid")
    moved = {name: x.to(device) for name in names if (x := getattr(batch, name)) is not None}
    return replace(batch, **moved)


def _singles(batch: Batch) -> list[Batch]:
    """The batch, one sample at a time."""
    parts = []
    for i, name in enumerate(batch.names):
        images = {
            key: x[i : i + 1]
            for key in ("cloudy", "target", "aux", "classes", "valid")
            if (x := getattr(batch, key)) is not None
        }
        alone = {"names": (name,), "dates": batch.dates[i : i + 1], "repaired": batch.repaired[i : i + 1]}
        parts.append(replace(batch, **alone, **images))  # type: ignore[arg-type]
    return parts
