"""The paper's ablations and parameter studies as sweeps over presets (paper, section 4.3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, final

from emrdm.errors import ConfigError
from emrdm.presets import Preset, load_preset
from emrdm.presets.reading import read_toml
from emrdm.strict import dump, nearest, parse


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
    """A sweep over presets.

    Attributes:
        retrain: whether each point is trained anew; sampler studies share one model.
        base: the preset that the paper studies.
        set: changes that hold for all points.
        runs: points one by one; or
        grid: axes to combine, of which ``less_than`` names two that must stay in order.
    """

    title: str
    source: str
    retrain: bool
    base: str | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    grid: Mapping[str, Any] = field(default_factory=dict)
    less_than: tuple[str, ...] = ()

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
            label = ", ".join(f"{key.rpartition('.')[2]} {_show(run.set[key])}" for key in self.axes)
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
        if most > 1 and not base.model.network.multi_temporal:
            raise ConfigError(
                f"{base.title!r} takes one image: expected a base for series, such as tiny-temporal, to study {most}"
            )
        aux = changes.get("model.aux", dump(base.model.aux))
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


def _show(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def study_names() -> list[str]:
    """All studies, in the paper's order."""
    return list(_all_studies())


def load_study(name: str) -> Study:
    """A study by name."""
    studies = _all_studies()
    if not isinstance(name, str) or name not in studies:
        raise ConfigError(f"unknown study {name!r}{nearest(name, studies)}")
    return parse(Study, studies[name], name)


def _all_studies() -> dict[str, Any]:
    return read_toml(files("emrdm.presets").joinpath("studies.toml").read_text("utf-8"), "studies.toml")
