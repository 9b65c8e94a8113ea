"""A study from beginning to end: every case trained, or one model for all, and scored on the same images."""

from __future__ import annotations

import dataclasses
import math
import time
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import emrdm
from emrdm.ablation.findings import Findings, Result
from emrdm.ablation.plan import Job, Plan, Scoring, StudyFolder, finished, make_plan, spread_over
from emrdm.ablation.sheets import COLUMNS, frames_of, restored
from emrdm.config import ModelConfig, SamplerConfig
from emrdm.data import Dataset
from emrdm.data.matching import Matching
from emrdm.errors import InputError, InterruptedRunError
from emrdm.evaluation import Evaluation, ModelPredictor, Settings, as_csv, evaluate
from emrdm.files import as_path, atomic_path, fingerprint, locked, make_folder
from emrdm.metrics import Protocol, Scores, find_protocols
from emrdm.model import EMRDM
from emrdm.presets import Preset
from emrdm.presets.studies import Study
from emrdm.training import Machine, train
from emrdm.training.log import Row
from emrdm.training.machine import launched
from emrdm.training.sources import contents, open_source, open_training, with_ranges_of
from emrdm.training.validation import spread
from emrdm.wording import brief, many

SEED = 0  # of the sampler's noise, as `emrdm evaluate` has it: cases differ by weights and settings alone


class Listener(typing.Protocol):
    """Hears how a study goes on."""

    def case(self, number: int, count: int, label: str) -> None:
        """A case begins."""

    def trains(self, name: str) -> None:
        """A model of this name is trained, or goes on to be."""

    def training(self, row: Row) -> None:
        """A row of its run's log."""

    def scoring(self, done: int, total: int) -> None:
        """Images of the case that are scored."""


class _Silent:
    """Hears nothing."""

    def case(self, number: int, count: int, label: str) -> None: ...

    def trains(self, name: str) -> None: ...

    def training(self, row: Row) -> None: ...

    def scoring(self, done: int, total: int) -> None: ...


class _TimeIsUpError(Exception):
    """The minutes of the study are over; what was done is kept."""


def ablate(
    study: str | Path | Study,
    folder: str | Path,
    *,
    base: Preset | None = None,
    changes: Mapping[str, Any] | None = None,
    model: str | Path | None = None,
    seeds: int = 1,
    scoring: Scoring | None = None,
    machine: Machine | None = None,
    max_minutes: float | None = None,
    overwrite: bool = False,
    rescore: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Run a study of the paper or of one's own, or go on with the one that is in the folder.

    Args:
        study: its name, see ``emrdm.study_names``; or one of one's own: a ``.toml`` or ``.yaml`` file, or a
            :class:`~emrdm.presets.studies.Study`.
        folder: of the study: a run folder a case with its scores, or one run for all in a sampler study.
        base: studied instead of the study's own preset; see ``Study.cases``.
        changes: dotted keys changed in all cases; ``data`` names the one folder to train and score on.
        model: weights to sample, for studies of the sampler; nothing is trained then.
        seeds: repeat every training with so many seeds, the recipe's and those behind it.
        scoring: split, number of images.
        machine: where; one process.
        max_minutes: end when they are up; the same call goes on.
        overwrite: forget the study that is in the folder.
        rescore: forget its scores, not its models.
        listener: hears what happens.

    Returns:
        what was found; see ``write_report`` for the files. After a signal, InterruptedRunError is raised.
    """
    began, machine = time.monotonic(), machine or Machine()
    if max_minutes is not None and not max_minutes > 0:
        raise InputError(f"--max-minutes is {max_minutes:g}: expected more than 0")
    if math.prod(launched() or (machine.processes or 1,)) > 1:
        raise InputError("a study runs in one process: expected --devices 1, without torchrun or SLURM tasks")
    folder, given = as_path(folder, "folder"), None if model is None else as_path(model, "weights file")
    plan = make_plan(study, folder, base=base, changes=changes, given=given, seeds=seeds)
    home = StudyFolder(folder)
    make_folder(folder, "the study")
    with locked(folder, "study"):
        deadline = None if max_minutes is None else began + 60 * max_minutes
        run = _Study(plan, scoring or Scoring(), machine, deadline, listener or _Silent())
        samples, scored_on = run.samples(), run.scored_on()
        if model is None:
            run.check()
        if overwrite:  # not before the data could be opened
            home.forget()
        home.claim(plan, samples, scored_on, rescore=rescore)
        return run.over()


class _Study:
    """The state of a study while it runs."""

    def __init__(
        self, plan: Plan, scoring: Scoring, machine: Machine, deadline: float | None, listener: Listener
    ) -> None:
        self.plan, self.machine, self.deadline, self.listener = plan, machine, deadline, listener
        if machine.device == "cuda" and not torch.cuda.is_available():
            raise InputError("--device cuda cannot be used: there is no CUDA device here")
        self.device = "cuda" if machine.device != "cpu" and torch.cuda.is_available() else "cpu"
        # Whatever case has the most frames shows what all of them were given.
        self.longest = max((case.preset.model for case in plan.cases), key=lambda config: config.frames)
        dataset = self._open(self.longest, scoring.split)
        if scoring.split is None and dataset.split == "all":  # never on what was trained on
            dataset = self._open(self.longest, "val")
        self.dataset, self.scoring = dataset, dataclasses.replace(scoring, split=dataset.split)
        self.indices = spread(len(dataset), scoring.limit)
        self.rows = [self.indices[i] for i in spread(len(self.indices), scoring.rows)]
        self.columns = spread_over([case.label for case in plan.cases], COLUMNS)
        self.pictures: dict[str, Mapping[str, tuple[str, np.ndarray]]] = {}
        self.found: dict[tuple[str, int], Scores] = {}
        self.notes: dict[str, None] = dict.fromkeys(plan.notes)
        if dataset.split == "val" and plan.given is None and plan.recipe.train.select == "best":
            self.notes["the weights were chosen by validation images, which are those scored here"] = None
        self.loaded: tuple[Path | None, EMRDM | None, str] = (None, None, "")

    @property
    def protocol(self) -> Protocol:
        """The data set's first."""
        return find_protocols(self.dataset.layout.protocols)[0]

    def samples(self) -> dict[str, Any]:
        """What is trained on; nothing where the weights are given."""
        recipe = self.plan.recipe
        if self.plan.given is not None:
            return {}
        return contents(open_training(recipe.data, recipe.model, recipe.train, self.machine.make_cache))

    def scored_on(self) -> dict[str, Any]:
        """What the scores depend on beside the weights."""
        dataset = self.dataset
        return {
            "split": dataset.split,
            "limit": self.scoring.limit,
            "protocol": self.protocol.name,
            "emrdm": emrdm.__version__,
            "root": str(dataset.root.absolute()),
            "files": fingerprint(path for item in dataset.items for path in item.files),
            "images": contents([dataset])["1"],
        }

    def check(self) -> None:
        """Refuse what cannot work before the folder is taken: every case must find its bands."""
        for case in self.plan.cases:
            dataset = self._open(case.preset.model, self.scoring.split)
            config = with_ranges_of([dataset], case.preset).model
            Matching(config, dataset.bands, dataset.aux, frames=config.frames)

    def over(self) -> Findings:
        """All jobs that are left."""
        jobs, left = self.plan.jobs, 0
        count = len(self.plan.cases)
        for place, job in enumerate(jobs):
            seed = f", seed {job.seed}" if len(jobs) > count else ""
            self.listener.case(place % count + 1, count, f"{job.case.label}{seed}")
            try:
                self._train(job)
                self._score(job)
            except _TimeIsUpError:
                left = len(jobs) - place
                break
        return self._findings(jobs[len(jobs) - left :])

    # ---------------------------------------------------------------- one job

    def _train(self, job: Job) -> None:
        if job.recipe is None or finished(job):
            return
        self.listener.trains(job.case.label if self.plan.study.retrain else "the model of all cases")
        self.loaded = (None, None, "")  # it would take room on the device
        outcome = train(
            job.recipe,
            job.run.path,
            machine=self.machine,
            max_minutes=self._minutes_left(),
            listener=self.listener.training,
        )
        if outcome.reason == "signal" or outcome.signal is not None:  # also one that came with the last step
            where = f"step {outcome.place.step:,} of {outcome.steps:,} of {job.case.label}"
            raise InterruptedRunError(f"{outcome.signal or 'a signal'} at {where}: saved; the same command goes on")
        if outcome.reason == "time":
            raise _TimeIsUpError

    def _score(self, job: Job) -> None:
        """Score a model that is there, and keep the pictures of the sheet."""
        self._minutes_left()
        config = job.case.preset.model
        dataset = self._open(config, self.scoring.split)
        model, digest = self._load(job)
        name = job.case.label
        predictor = ModelPredictor(model, dataset, name=name, digest=digest, sampler=config.sampler, seed=SEED)
        settings = Settings(
            folder=job.scores,
            batch_size=self.scoring.batch_size,
            workers=self.machine.workers,
            on_error="skip",
            device=self.device,
            pictures=False,
        )
        try:
            found = evaluate(
                dataset, [predictor], [self.protocol], settings=settings, indices=self.indices, progress=self._scored
            )
        except KeyboardInterrupt:
            raise InterruptedRunError(f"interrupted in scoring {name}: saved; the same command goes on") from None
        with atomic_path(job.scores / "scores.csv") as temporary:
            temporary.write_bytes(as_csv(found).encode("utf-8", "backslashreplace"))
        self._keep(job, found, predictor, dataset)

    def _keep(self, job: Job, found: Evaluation, predictor: ModelPredictor, dataset: Dataset) -> None:
        scores = found.of("model", self.protocol.name)
        self.found[job.case.label, job.seed] = scores
        self.notes |= dict.fromkeys(found.notes)
        if job.case.label in self.columns and job.case.label not in self.pictures:
            self.pictures[job.case.label] = restored(predictor, dataset, self.rows, scores)

    def _scored(self, done: int, total: int) -> None:
        self.listener.scoring(done, total)
        if done < total:
            self._minutes_left()

    def _minutes_left(self) -> float | None:
        if self.deadline is None:
            return None
        left = (self.deadline - time.monotonic()) / 60
        if left <= 0:
            raise _TimeIsUpError
        return left

    def _load(self, job: Job) -> tuple[EMRDM, str]:
        """The weights of a job; the cases of a sampler study load them once."""
        path = self.plan.given or job.run.model
        known, model, digest = self.loaded
        if model is None or path != known:
            model = EMRDM.load(path)
            digest = model.digest()
            self.loaded = (path, model.to(self.device), digest)
        return model, digest

    def _open(self, config: ModelConfig, split: str | None) -> Dataset:
        (source,) = self.plan.recipe.data
        return open_source(source, config, split, cache=self.machine.make_cache())

    # ---------------------------------------------------------------- what was found

    def _findings(self, left: Sequence[Job]) -> Findings:
        plan, parts = self.plan, list(self.found.values())
        # An image that one case could not do counts for none: means over other images do not compare.
        common = set.intersection(*(set(scores.values) for scores in parts)) if parts else set()
        every = set().union(*(scores.values for scores in parts))
        if len(common) < len(every):
            self.notes[f"{many(len(every) - len(common), 'image')} left out, which not every case could do"] = None
        results = []
        for case in plan.cases:
            mine = [scores.without(every - common) for (label, _), scores in self.found.items() if label == case.label]
            seeds = tuple({metric: mean.value for metric, mean in scores.means().items()} for scores in mine)
            results.append(Result(case.label, case.point, case.scores or {}, seeds))
        return Findings(
            name=plan.name,
            title=plan.study.title,
            source=plan.study.source,
            axes=plan.study.axes,
            results=tuple(results),
            protocol=self.protocol.name,
            images=len(common),
            caption=self._caption(len(common)),
            notes=tuple(self.notes),
            left=tuple(_left_in_words(plan, left)),
            pictures=self.pictures,
            frames=frames_of(self.dataset, self.rows) if self.pictures else {},
        )

    def _caption(self, images: int) -> dict[str, str]:
        """How it was made, in words."""
        plan, dataset = self.plan, self.dataset
        rule = f", rule {dataset.rule}" if dataset.rule else ""
        return {
            "base": plan.recipe.title + (f", with {plan.changed}" if plan.changed else ""),
            "data": f"{dataset.layout.name} ({dataset.root.absolute().name}), split {dataset.split}{rule}, "
            f"{many(images, 'image')}",
            "protocol": self.protocol.name,
            **_weights_in_words(plan),
            "sampler": _sampler_in_words([case.preset.model.sampler for case in plan.cases]) + f", seed {SEED}",
        }


def _weights_in_words(plan: Plan) -> dict[str, str]:
    """The budget that every case had, or whose weights they are."""
    if plan.given is not None:
        return {"weights": f"{plan.given.name}, digest {str(plan.digest)[:16]}"}
    seeds = list(dict.fromkeys(job.seed for job in plan.jobs))
    recipes = [job.recipe.train for job in plan.jobs if job.recipe is not None]
    steps = dict.fromkeys(f"{train.steps:,}" for train in recipes)
    samples = dict.fromkeys(many(train.batch_size * train.batches_a_step(1), "sample") for train in recipes)
    alike = "each case alike" if len(steps) == len(samples) == 1 else "as in the rows"
    return {
        "trained": f"{' or '.join(steps)} steps of {' or '.join(samples)}, "
        + (alike if plan.study.retrain else "one model for all cases"),
        "seeds": ", ".join(map(str, seeds)) + (": mean and standard deviation" if len(seeds) > 1 else ""),
    }


def _sampler_in_words(samplers: Sequence[SamplerConfig]) -> str:
    """What all cases have in common; what differs is in the rows."""
    first, parts = samplers[0], []
    for name in ("method", "steps", "sigma_min", "sigma_max", "churn", "noise", "t_min", "t_max"):
        value = getattr(first, name)
        if any(getattr(sampler, name) != value for sampler in samplers):
            parts.append(f"{name} as in the rows")
        elif name in ("method", "steps", "sigma_max") or any(sampler.churn for sampler in samplers):
            parts.append(f"{name} {value if isinstance(value, str) else f'{value:g}'}")
    return ", ".join(parts)


def _left_in_words(plan: Plan, left: Sequence[Job]) -> list[str]:
    """What is still to be done, a line for each seed."""
    lines = []
    for seed in dict.fromkeys(job.seed for job in left):
        labels = [job.case.label for job in left if job.seed == seed]
        which = f", seed {seed}" if len(plan.jobs) > len(plan.cases) else ""
        lines.append(f"{len(labels)} of {many(len(plan.cases), 'case')}{which}: {brief(labels)}")
    return lines
