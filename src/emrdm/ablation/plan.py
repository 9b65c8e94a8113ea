"""What a study has to do, and the folder it does it in."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from emrdm.errors import ConfigError, InputError
from emrdm.files import atomic_path
from emrdm.model import EMRDM
from emrdm.presets import Preset, load_preset
from emrdm.presets.reading import is_preset_file
from emrdm.presets.studies import Case, Study, load_study
from emrdm.strict import dump
from emrdm.training import RunFolder
from emrdm.training.folder import differences

STUDY, SCORES, SHARED = "study.json", "scores", "model"
_ANY = "tiny"  # a recipe to put weights into: nothing is trained with it
_LONGEST_NAME = 120  # characters of a folder's name; file systems have 255 for it and what is added
_NOT_TOLD = ("data", "watch", "train.steps", "train.batch_size", "train.seed")  # a table says these anyway, or need not


@final
@dataclass(frozen=True)
class Scoring:
    """How the cases are scored.

    Attributes:
        split: of the data set; None for test where it has one, else val.
        limit: this many images only, evenly spread; None for all.
        batch_size: images at a time.
        rows: images of the picture sheet, evenly spread.
    """

    split: str | None = None
    limit: int | None = None
    batch_size: int = 4
    rows: int = 4

    def __post_init__(self) -> None:
        for option in ("limit", "batch_size"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise InputError(f"--{option.replace('_', '-')} is {value}: expected 1 or more")


@final
@dataclass(frozen=True)
class Job:
    """A case with a seed: what is trained where, and where its scores are.

    Attributes:
        recipe: of the run; None where the weights are given.
        run: folder of the run; the cases of a sampler study share one.
    """

    case: Case
    seed: int
    recipe: Preset | None
    run: RunFolder
    scores: Path


@final
@dataclass(frozen=True)
class Plan:
    """A study's cases and jobs, in the order they are done: all cases with one seed, then with the next.

    Attributes:
        name: of a study of the paper; of one's own, that of its file or its title.
        own: whether it is one's own: then it is not known by its name alone.
        recipe: what all cases have in common.
        changed: what the user changed in it, in words.
        notes: cases that were left out.
        given: weights of the user's, and
        digest: what is in them; None where the study trains.
    """

    name: str
    own: bool
    study: Study
    recipe: Preset
    cases: tuple[Case, ...]
    jobs: tuple[Job, ...]
    changed: str
    notes: tuple[str, ...]
    given: Path | None
    digest: str | None


def make_plan(
    which: str | Path | Study,
    folder: Path,
    *,
    base: Preset | None = None,
    changes: Mapping[str, Any] | None = None,
    given: Path | None = None,
    seeds: int = 1,
) -> Plan:
    """The study in a folder; arguments as for :func:`emrdm.ablation.ablate`."""
    study, changes, digest = which if isinstance(which, Study) else load_study(which), dict(changes or {}), None
    ours = isinstance(which, Study) or is_preset_file(str(which))
    name = _slug(study.title) if isinstance(which, Study) else Path(which).stem if ours else str(which)
    if seeds < 1:
        raise InputError(f"--seeds is {seeds}: expected 1 or more")
    if given is not None:
        if study.retrain:
            raise InputError(f"--model {given} cannot be used: the study {name} trains a model for every case")
        if seeds > 1:
            raise InputError(f"--seeds is {seeds} with --model: expected one of them, since nothing is trained")
        if base is not None:
            raise InputError(f"--base with --model {given}: expected one of them, since the weights say what they are")
        model = EMRDM.load(given)
        digest = model.digest()
        title = model.card.title or given.name
        template = load_preset(study.base or _ANY)
        base = dataclasses.replace(template, title=title, model=model.config, paper=None)
    changes = _with_all_dates(changes, study.cases(base, changes))
    cases = tuple(study.cases(base, changes))
    recipe = study.shared(base, changes)
    if given is not None:
        _refuse_other_model(recipe, model, given)
    if len(recipe.data) != 1:
        raise InputError(f"a study has one data set and {len(recipe.data)} were given: expected --data NAME=ROOT once")
    _refuse_same_folders(cases)
    jobs = []
    for seed in range(recipe.train.seed, recipe.train.seed + seeds):
        suffix = "" if seed == recipe.train.seed else f"-seed-{seed}"
        for case in cases:
            own = folder / f"{_slug(case.label)}{suffix}"
            run = RunFolder(own if study.retrain else folder / f"{SHARED}{suffix}")
            jobs.append(Job(case, seed, _trained(study, case, recipe, seed, given), run, own / SCORES))
    notes = tuple(study.left_out(base, changes))
    changed = ", ".join(
        f"{key}={json.dumps(dump(value))}" for key, value in changes.items() if not key.startswith(_NOT_TOLD)
    )
    return Plan(name, ours, study, recipe, cases, tuple(jobs), changed, notes, given, digest)


def _with_all_dates(changes: dict[str, Any], cases: Iterable[Case]) -> dict[str, Any]:
    """Clouds drawn over as many dates as the longest series, of which a shorter one is the beginning.

    A lone date would be drawn without the changes of light from date to date: an easier image than the others have.
    """
    most = max(case.preset.model.frames for case in cases)
    if most == 1 or "data" not in changes:
        return changes
    data = [dict(dump(source)) for source in changes["data"]]
    drawn = [{"frames": most, **{k: v for k, v in s.items() if v is not None}} for s in data]
    return {**changes, "data": [d if d["dataset"] == "synthetic" else s for d, s in zip(drawn, data, strict=True)]}


def _trained(study: Study, case: Case, recipe: Preset, seed: int, given: Path | None) -> Preset | None:
    if given is not None:
        return None
    if not study.retrain:
        return recipe.replace({"train.seed": seed})
    return case.preset.replace({"train.seed": seed, "title": f"{study.title}: {case.label}"})


def _refuse_other_model(recipe: Preset, model: EMRDM, given: Path) -> None:
    """Settings of anything but the sampler have no effect on weights that are there."""
    if dataclasses.replace(recipe.model, sampler=model.config.sampler) != model.config:
        raise InputError(f"{given} is trained: expected settings of its sampler only, such as sampler.steps=8")


def _slug(label: str) -> str:
    """The name of a case's folder; signs stay, since -1 is not 1."""
    name = re.sub(r"[^\w.+-]+", "-", label)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"


def _refuse_same_folders(cases: Sequence[Case]) -> None:
    """Cases with one folder would have each other's weights; names that differ in case alone are one on some disks."""
    found: dict[str, str] = {}
    for case in cases:
        name = _slug(case.label).lower()
        if name in found:
            both = f"{found[name]!r} and {case.label!r}"
            raise ConfigError(f"{both} cannot be told apart: expected points that differ more")
        found[name] = case.label


class StudyFolder:
    """The folder of a study: what it was begun with, and how it was scored."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self, plan: Plan, samples: Mapping[str, Any], scoring: Mapping[str, Any], *, rescore: bool) -> None:
        """Begin the study or go on with it, unless the folder holds another one."""
        recipe = {**dump(plan.recipe), "watch": {}}
        own = dump(plan.study) if plan.own else None
        facts = {"study": plan.name, "own": own, "weights": plan.digest, "recipe": recipe, "samples": dict(samples)}
        folders = sorted({path.name for job in plan.jobs for path in (job.run.path, job.scores.parent)})
        before = self._read()
        if before is None:
            if RunFolder(self.path).begun():
                raise InputError(f"{self.path} is the folder of a run: choose another one for the study")
            self._write({**facts, "scoring": scoring, "folders": folders})
            return
        changes = differences({key: before.get(key) for key in facts}, facts)
        if changes:
            raise ConfigError(
                f"{self.path} holds another study: {'; '.join(changes)}. Choose another folder, or add --overwrite"
            )
        rescored = differences(before.get("scoring", {}), scoring)
        if rescored and not rescore:
            raise ConfigError(
                f"{self.path} is scored in another way: {'; '.join(rescored)}. "
                "Choose another folder, or add --rescore, which keeps the models"
            )
        if rescore:
            self._forget_scores(before)
        self._write({**facts, "scoring": scoring, "folders": sorted({*folders, *before.get("folders", [])})})

    def forget(self) -> None:
        """Remove the runs and scores of the study that is in it; files that are not a study's stay."""
        facts = self._read()
        if facts is None:
            return
        self._forget_scores(facts)
        for path in self._folders(facts):
            RunFolder(path).clear()
            if not any(path.iterdir()):
                path.rmdir()
        (self.path / STUDY).unlink(missing_ok=True)

    def _forget_scores(self, facts: Mapping[str, Any]) -> None:
        for path in self._folders(facts):
            shutil.rmtree(path / SCORES, ignore_errors=True)

    def _folders(self, facts: Mapping[str, Any]) -> list[Path]:
        """Those that the study has made, and none beside them."""
        names = [str(name) for name in facts.get("folders", [])]
        return [self.path / name for name in names if Path(name).name == name and (self.path / name).is_dir()]

    def _read(self) -> dict[str, Any] | None:
        path = self.path / STUDY
        if not path.exists():
            return None
        try:
            facts = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
        if not isinstance(facts, dict) or "study" not in facts:
            raise ConfigError(f"{path} is not a study's: choose another folder")
        return facts

    def _write(self, facts: Mapping[str, Any]) -> None:
        with atomic_path(self.path / STUDY) as temporary:
            temporary.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")


def finished(job: Job) -> bool:
    """Whether a job's model is there: its card is written last, and the run is the one that is wanted."""
    run = job.run
    if job.recipe is None or not (run.begun() and run.model.is_file() and run.card.is_file()):
        return job.recipe is None
    return not differences({"recipe": run.facts()["recipe"]}, {"recipe": dump(job.recipe)})


def spread_over(labels: Sequence[str], most: int) -> list[str]:
    """At most so many of them, the first and the last among them."""
    if len(labels) <= most:
        return list(labels)
    return [labels[round(i * (len(labels) - 1) / (most - 1))] for i in range(most)]
