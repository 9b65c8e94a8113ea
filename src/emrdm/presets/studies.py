"""The paper's ablations and parameter studies as sweeps over presets (paper, section 4.3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, final

from emrdm.errors import ConfigError
from emrdm.presets import Preset, load_preset
from emrdm.presets.reading import read_toml
from emrdm.strict import nearest, parse


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
    """One point of a study, ready to run."""

    label: str
    preset: Preset
    scores: Mapping[str, float] | None


@final
@dataclass(frozen=True)
class Study:
    """A sweep over presets.

    Attributes:
        retrain: whether each point is trained anew; sampler studies share one model.
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

    def cases(self) -> Iterator[Case]:
        """All points, in order."""
        for run in (*self.runs, *self._grid_runs()):
            base = run.preset or self.base
            if base is None:
                raise ConfigError(f"study {self.title!r} has a point without a base preset")
            preset = load_preset(base).replace({**self.set, **run.set})
            scores = (
                run.scores
                if run.scores is not None or run.preset is None
                else (preset.paper and preset.paper.results.scores)
            )
            label = ", ".join(f"{key.rpartition('.')[2]} {_show(value)}" for key, value in run.set.items()) or base
            yield Case(label=label, preset=preset, scores=scores)

    def _grid_runs(self) -> Iterator[Run]:
        if not self.grid:
            return
        for values in itertools.product(*self.grid.values()):
            point = dict(zip(self.grid, values, strict=True))
            if self.less_than and not point[self.less_than[0]] < point[self.less_than[1]]:
                continue
            yield Run(set=point)


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
