"""The paper's ablations and parameter studies as sweeps over presets (paper, section 4.3), and studies of one's own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, final

from emrdm.errors import ConfigError
from emrdm.presets import Preset, load_preset
from emrdm.presets.reading import full_key, is_preset_file, read_preset_file, read_toml
from emrdm.strict import check, dump, nearest, parse

_SAMPLER = "model.sampler."
_VARIED = ("model", "train", "optimizer")  # the parts of a recipe that a study may vary


@final
@dataclass(frozen=True)
class Run:
    """One row of a study: what differs from its base, and the paper's scores."""

    set: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    scores: Mapping[str, float] | None = None


@final
@dataclass(frozen=True)
class Case:
    """One point of a study, ready to run.

    Attributes:
        label: what it is called.
        preset: what is trained or sampled.
        scores: the paper's, by metric, where it has them.
        point: what the study varies, by dotted key; empty where the points are presets.
    """

    label: str
    preset: Preset
    scores: Mapping[str, float] | None
    point: Mapping[str, Any] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Study:
    """A sweep over presets, such as ``Study(base="tiny", grid={"optimizer.lr": [1e-4, 2e-4]})``.

    Attributes:
        title: what it is about; what it varies by default.
        source: where the paper has it; empty for a study of one's own.
        retrain: whether each point is trained anew; sampler studies share one model, and are known by what they vary.
        base: the preset or recipe that is studied.
        set: changes that hold for all points.
        runs: points one by one; or
        grid: axes to combine, values by dotted key, of which ``less_than`` names two that must stay in order. Keys may
            be nested, and need not begin with ``model``.
    """

    title: str = ""
    source: str = ""
    retrain: bool | None = None
    base: str | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    grid: Mapping[str, Any] = field(default_factory=dict)
    less_than: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check(self, "")
        grid = {key: _axis(f"grid.{key}", values) for key, values in _dotted(self.grid, "grid").items()}
        runs = tuple(Run(_dotted(run.set, "runs.set"), run.preset, run.scores) for run in self.runs)
        for name, value in {"grid": grid, "runs": runs, "set": _dotted(self.set, "set")}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "less_than", tuple(map(full_key, self.less_than)))
        self._check_order()
        if not self._points():
            what = "has no point where less_than holds" if self.grid else "is empty"
            raise ConfigError(f'grid {what}: expected values by key, such as "optimizer.lr" = [1e-4, 2e-4]')
        self._check_varied()
        if not self.title:
            object.__setattr__(self, "title", f"Effect of {' and '.join(short_names(self.axes)) or 'presets'}")

    @property
    def axes(self) -> tuple[str, ...]:
        """Dotted keys that every point sets; none where the points are presets."""
        points = [run.set for run in self._points()]
        return tuple(key for key in points[0] if all(key in point for point in points)) if points else ()

    def cases(self, base: Preset | None = None, changes: Mapping[str, Any] | None = None) -> Iterator[Case]:
        """All points, in order; one that is the same as an earlier one is left out (see :meth:`left_out`).

        Args:
            base: studied instead of the paper's preset. Points that are presets themselves lend it what they are
                about: inputs, process, preconditioning and sampler; all else is the base's.
            changes: dotted keys changed in all points.
        """
        return iter([case for case, twin in self._with_twins(base, changes) if twin is None])

    def left_out(self, base: Preset | None = None, changes: Mapping[str, Any] | None = None) -> list[str]:
        """Why there are fewer points than in the paper, a line each."""
        if not any(run.preset for run in self.runs):
            return []
        return [
            f"{case.label} is left out: without auxiliary bands it is {twin.label}"
            for case, twin in self._with_twins(base, changes)
            if twin is not None
        ]

    def shared(self, base: Preset | None = None, changes: Mapping[str, Any] | None = None) -> Preset:
        """What all points have in common: the recipe that trains the one model of a sampler study."""
        return self._preset(Run(), self._base(base), changes or {})

    def _check_order(self) -> None:
        if not self.less_than:
            return
        unknown = [key for key in self.less_than if key not in self.grid]
        if len(self.less_than) != 2 or unknown:
            raise ConfigError(f"less_than is {', '.join(self.less_than)}: expected two keys of the grid")
        for key in self.less_than:
            if not all(_is_number(value) for value in self.grid[key]):
                raise ConfigError(f"less_than names {key}, which has values that are no numbers: expected numbers")

    def _check_varied(self) -> None:
        """Refuse what would have no effect or no meaning, and find out whether models must be trained."""
        varied = dict.fromkeys(key for run in self._points() for key in run.set)
        for key in varied:
            if key.partition(".")[0] not in _VARIED:
                raise ConfigError(f"{key} cannot be varied: expected settings of {', '.join(_VARIED)}")
            if key == "train.seed":
                raise ConfigError("train.seed cannot be varied: expected --seeds, which gives mean and deviation")
        self._refuse_varied(self.set)
        trained = [key for key in varied if not key.startswith(_SAMPLER)]
        trained += [str(run.preset) for run in self.runs if run.preset]
        if self.retrain is None:
            object.__setattr__(self, "retrain", bool(trained))
        elif trained and not self.retrain:
            raise ConfigError(f"retrain is false with {trained[0]}: expected {_SAMPLER}* only, or true")

    def _points(self) -> list[Run]:
        return [*self.runs, *self._grid_runs()]

    def _base(self, base: Preset | None) -> Preset:
        if base is None and self.base is None:
            raise ConfigError(f"study {self.title!r} has no base preset: expected one")
        return base or load_preset(str(self.base))

    def _with_twins(self, base: Preset | None, changes: Mapping[str, Any] | None) -> list[tuple[Case, Case | None]]:
        """Every point with the earlier one that it is equal to, if there is one."""
        changes = changes or {}
        self._refuse_varied(changes)
        found: list[tuple[Case, Case | None]] = []
        for run in self._points():
            as_printed = run.preset is not None and base is None and not changes
            preset = load_preset(str(run.preset)) if as_printed else self._preset(run, self._base(base), changes)
            names = short_names(self.axes)
            label = ", ".join(f"{name} {_show(run.set[key])}" for name, key in zip(names, self.axes, strict=True))
            case = Case(
                label=label or run.preset or preset.title,
                preset=preset,
                scores=_printed(run),
                point={key: run.set[key] for key in self.axes},
            )
            equal = (earlier for earlier, _ in found if run.preset and earlier.preset.model == preset.model)
            found.append((case, next(equal, None)))
        return found

    def _preset(self, run: Run, base: Preset, changes: Mapping[str, Any]) -> Preset:
        """The base as this point has it; what the user changes goes before what all points have in common."""
        most = run.set.get("model.frames", 1)
        if isinstance(most, int) and most > 1 and not base.model.network.multi_temporal:
            raise ConfigError(
                f"{base.title!r} takes one image: expected a base for series, such as tiny-temporal, to study {most}"
            )
        aux = {**self.set, **changes, **run.set}.get("model.aux", dump(base.model.aux))
        common = {"model.inputs": _seen(base.model.inputs, aux), **self.set}
        if run.preset is None:
            return base.replace({**common, **changes, **run.set})
        config = load_preset(run.preset)
        lent = _lent(config, aux)
        kept = {key: value for key, value in changes.items() if key not in ("model.aux", "model.inputs")}
        return base.replace({**common, **lent, **kept, "title": config.title})

    def _refuse_varied(self, changes: Mapping[str, Any]) -> None:
        varied = (*self.axes, *(_OF_PRESETS if any(run.preset for run in self.runs) else ()))
        for key in changes:
            for own in varied:
                if f"{key}.".startswith(f"{own}.") or f"{own}.".startswith(f"{key}."):
                    raise ConfigError(f"{key} cannot be changed for all: {own} is what the study varies")

    def _grid_runs(self) -> Iterator[Run]:
        if not self.grid:
            return
        for values in itertools.product(*self.grid.values()):
            point = dict(zip(self.grid, values, strict=True))
            if self.less_than and not point[self.less_than[0]] < point[self.less_than[1]]:
                continue
            yield Run(set=point)


# What presets that are points differ in; whether there are auxiliary bands follows from the inputs.
_OF_PRESETS = ("model.inputs", "model.process", "model.preconditioning")


def _lent(config: Preset, aux: Any) -> dict[str, Any]:
    """What a preset that is a point gives to another base, whose auxiliary bands are ``aux``."""
    model = config.model
    return {
        "model.inputs": _seen(model.inputs, aux),
        "model.aux": aux if "aux" in model.inputs else [],
        "model.process": dump(model.process),
        "model.preconditioning": dump(model.preconditioning),
        "model.sampler.method": model.sampler.method,
        "model.sampler.churn": model.sampler.churn,
        "model.sampler.t_max": model.sampler.t_max,
    }


def _seen(inputs: Sequence[str], aux: Any) -> list[str]:
    """The inputs of a model that has these auxiliary bands, or none."""
    return [name for name in inputs if name != "aux" or aux]


def _printed(run: Run) -> Mapping[str, float] | None:
    """The paper's scores of a point."""
    if run.scores is not None or run.preset is None:
        return run.scores
    paper = load_preset(run.preset).paper
    return paper and paper.results.scores


def _dotted(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Full keys and their values; tables in tables, as TOML makes them of keys without quotes, are one key."""
    found: dict[str, Any] = {}

    def collect(part: Mapping[str, Any], before: str) -> None:
        for key, value in part.items():
            path = f"{before}{key}"
            if isinstance(value, Mapping):
                collect(value, f"{path}.")
            elif full_key(path) in found:
                raise ConfigError(f"{where}.{path} is there twice: expected it once")
            else:
                found[full_key(path)] = value

    collect(table, "")
    return found


def _axis(where: str, values: Any) -> list[Any]:
    """The values of a key of a grid, each once."""
    values = values.tolist() if hasattr(values, "tolist") else list(values) if isinstance(values, range) else values
    if not isinstance(values, list | tuple):
        raise ConfigError(f"{where} is {values!r}: expected a list of values")
    if not values:
        raise ConfigError(f"{where} is empty: expected a list of values")
    try:
        shown = [json.dumps(dump(value), allow_nan=False) for value in values]
    except (TypeError, ValueError):
        raise ConfigError(f"{where} is {values!r}: expected finite numbers, texts, true or false, or lists") from None
    for i, text in enumerate(shown):
        if values[i] in values[:i]:
            raise ConfigError(f"{where} has {text} twice: expected different values")
    return list(values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def short_names(keys: Sequence[str]) -> list[str]:
    """Dotted keys as people call them: by their last part, where no other key has the same."""
    last = [key.rpartition(".")[2] for key in keys]
    return [name if last.count(name) == 1 else key for name, key in zip(last, keys, strict=True)]


def _show(value: object) -> str:
    if not _is_number(value):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def study_names() -> list[str]:
    """All studies, in the paper's order."""
    return list(_all_studies())


def load_study(name: str | Path) -> Study:
    """A study of the paper by name, or one of one's own from a ``.toml`` or ``.yaml`` file."""
    if isinstance(name, str | Path) and is_preset_file(str(name)):
        return _read_study(Path(name))
    studies = _all_studies()
    if not isinstance(name, str) or name not in studies:
        hint = nearest(name, studies)
        raise ConfigError(f"unknown study {name!r}{hint}{'' if hint.endswith('?') else ', or a .toml or .yaml file'}")
    return parse(Study, studies[name], name)


def _read_study(path: Path) -> Study:
    data = read_preset_file(path)
    if "source" in data:
        raise ConfigError(f"{path}: source is a place in the paper: a study of one's own has none")
    base = data.get("base")
    if isinstance(base, str) and is_preset_file(base):
        data["base"] = str(path.parent / base)  # beside the study that names it
    try:
        return parse(Study, data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _all_studies() -> dict[str, Any]:
    return read_toml(files("emrdm.presets").joinpath("studies.toml").read_text("utf-8"), "studies.toml")
