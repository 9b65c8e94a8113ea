"""Figures that others published, with where they stand and how they were computed."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from emrdm.evaluation.results import Published
from emrdm.strict import parse


def published_figures(dataset: str) -> tuple[Published, ...]:
    """The rows of a data set's table; none where nobody published any."""
    return _tables().get(dataset, ())


@cache
def _tables() -> dict[str, tuple[Published, ...]]:
    text = files(__package__).joinpath("published.toml").read_text("utf-8")
    tables = {}
    for dataset, table in tomllib.loads(text).items():
        common = {key: table[key] for key in ("source", "protocol", "note") if key in table}
        rows = [parse(Published, {**common, **row}, f"published.{dataset}") for row in table["rows"]]
        tables[dataset] = tuple(rows)
    return tables
