"""The small JSON files that the page is made from: writing, reading, and the numbers in them."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emrdm.errors import InputError
from emrdm.files import atomic_path, make_folder
from emrdm.metrics import Scores
from emrdm.metrics.protocols import describe
from emrdm.training.log import plain

NORMAL = 1.959964  # of a 95 % interval


def check_name(name: str) -> str:
    """A name that can be part of a file's."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,60}", name):
        raise InputError(f"--name is {name!r}: expected letters, digits, dots and dashes, such as rgb-small")
    return name


def write(folder: Path, name: str, facts: Mapping[str, Any]) -> Path:
    """Write a file whole or not at all; numbers are kept to six digits."""
    make_folder(folder, "the runs")
    path = folder / f"{name}.json"
    text = json.dumps(plain(_short(facts)), indent=1, allow_nan=False)
    # what holds no other list or group is one line: a curve is not worth a page of it
    text = re.sub(r"([\[{])\n\s*([^\[\]{}]*?)\n\s*([\]}])", _on_one_line, text)
    with atomic_path(path) as temporary:
        temporary.write_text(text + "\n", "utf-8")
    return path


def _on_one_line(found: re.Match[str]) -> str:
    return found[1] + re.sub(r",\n\s*", ", ", found[2]) + found[3]


def read(path: Path) -> dict[str, Any]:
    """The facts in a file."""
    try:
        facts = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if not isinstance(facts, dict):
        raise InputError(f"{path} holds no facts: expected a file that this program wrote")
    return facts


def summary(scores: Scores) -> dict[str, dict[str, Any]]:
    """Mean and 95 % interval of every metric that has a better end."""
    return {
        metric: mean_and_interval([values[metric] for values in scores.values.values() if metric in values])
        for metric in scores.metrics
        if describe(metric).better
    }


def mean_and_interval(values: Sequence[float]) -> dict[str, Any]:
    """Mean over images with its normal 95 % interval, which says how much depends on the choice of images."""
    defined = [value for value in values if not math.isnan(value)]
    if not defined:
        return {"mean": math.nan, "images": 0}
    mean = math.fsum(defined) / len(defined)
    found = {"mean": mean, "images": len(defined)}
    if len(defined) > 1 and all(map(math.isfinite, defined)):
        half = NORMAL * statistics.stdev(defined) / len(defined) ** 0.5
        found |= {"low": mean - half, "high": mean + half}
    return found


def difference(ours: Scores, theirs: Scores, metric: str) -> dict[str, Any]:
    """Mean of the differences on the same images: far sharper than the difference of two intervals."""
    common = [image for image in ours.values if image in theirs.values]
    return mean_and_interval([ours.values[image][metric] - theirs.values[image][metric] for image in common])


def _short(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value
