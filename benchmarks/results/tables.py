"""Numbers as Markdown, and what they say about an order, in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from emrdm.metrics import METRICS
from emrdm.metrics.protocols import show

_NUMBER = re.compile(r"\**[-+]?[\d.,]+( ± [\d.]+| of [\d,]+| ms| s| min)?\**")
_ARROWS = {"higher": " ↑", "lower": " ↓", "": ""}


def markdown(rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A table; the first ``left`` columns are words, and so are those without numbers."""
    head, *body = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    words = [j < left or not any(_NUMBER.fullmatch(row[j]) for row in body) for j in range(len(head))]
    lines = [head, ["---" if word else "---:" for word in words], *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def heading(metric: str) -> str:
    """A metric with an arrow to its better end."""
    return METRICS[metric].label + _ARROWS[METRICS[metric].better]


def number(value: Any) -> float:
    """A number from a file; what is none is NaN, and infinity a text there."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def mean_of(scores: Mapping[str, Any], metric: str) -> float:
    """The mean of a metric in a summary."""
    return number(scores.get(metric, {}).get("mean"))


def cell(scores: Mapping[str, Any], metric: str, *, interval: bool = False) -> str:
    """A mean, with half the width of its 95 % interval where there is one."""
    text = show(metric, mean_of(scores, metric))
    found = scores.get(metric, {})
    if interval and "low" in found:
        text += f" ± {show(metric, (number(found['high']) - number(found['low'])) / 2)}"
    return text


def bold_best(rows: list[list[str]], metrics: Sequence[str], *, first: int = 1) -> list[list[str]]:
    """The same rows with the best of each metric bold; what looks equal is equally good."""
    for j, metric in enumerate(metrics, first):
        values = {row[j]: number(row[j].partition(" ")[0]) for row in rows}
        known = {text: value for text, value in values.items() if not math.isnan(value)}
        if len(set(known.values())) < 2:
            continue
        best = (max if METRICS[metric].better == "higher" else min)(known.values())
        for row in rows:
            if known.get(row[j]) == best:
                row[j] = f"**{row[j]}**"
    return rows


def seconds(value: Any) -> str:
    """Seconds as people say them."""
    value = number(value)
    if math.isnan(value):
        return "-"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.1f} min"


def order_in_words(
    cases: Sequence[Mapping[str, Any]],
    pairs: Sequence[Mapping[str, Any]],
    dataset: str,
    metric: str,
    names: Mapping[str, str],
    chance: float = 0.0,
) -> str:
    """Whether the paper's order holds on a data set: pair by pair, with what the images and other seeds can tell.

    Args:
        cases: of a study's file.
        pairs: differences on the same images, first less second; there may be none.
        dataset: key of the scores to look at.
        metric: that is compared.
        names: what the cases are called in a sentence.
        chance: how far two seeds of one recipe may be apart.
    """
    sign = 1 if METRICS[metric].better == "higher" else -1
    ours = {
        case["label"]: mean_of(case["datasets"][dataset].get("scores", {}), metric)
        for case in cases
        if dataset in case["datasets"]
    }
    theirs = {case["label"]: number(case["paper"].get(metric)) for case in cases if case["label"] in ours}
    known = [label for label in ours if not math.isnan(ours[label]) and not math.isnan(theirs[label])]
    if len(known) < 2:
        return f"{METRICS[metric].label}: fewer than two cases, so there is no order to compare."
    agree, against = 0, []
    for one, other in combinations(known, 2):
        better, worse = (one, other) if sign * (theirs[one] - theirs[other]) > 0 else (other, one)
        if theirs[one] == theirs[other]:
            continue
        if sign * (ours[better] - ours[worse]) > 0:
            agree += 1
        else:
            against.append((worse, better))
    count = agree + len(against)
    if not count:
        return f"{METRICS[metric].label}: the paper has the same for all of them, so there is no order to compare."
    tau = (agree - len(against)) / count
    label = METRICS[metric].label
    sentence = (
        f"{label}: the paper has {_chain(theirs, known, sign, names)}; here it is {_chain(ours, known, sign, names)}. "
        f"{agree} of {count} pairs agree (Kendall's tau {tau:.2f})"
    )
    doubts = (
        f"{_doubts(known, ours, theirs, pairs, metric, names)} {_close(known, ours, chance, metric, names)}".strip()
    )
    if not against:
        return f"{sentence}: the paper's order holds. {doubts}".strip()
    parts = [_pair_in_words(*pair, ours, theirs, pairs, metric, names) for pair in against]
    clear = [told_apart(*pair, pairs, metric) for pair in against]
    verdict = "the paper's order does not hold"
    if all(known_apart is False for known_apart in clear):
        verdict = "the means have another order than the paper's, but the images tell apart no pair that differs"
    return f"{sentence}: {verdict}. The other way round: {'; '.join(parts)}. {doubts}".strip()


def _close(
    known: Sequence[str], ours: Mapping[str, float], chance: float, metric: str, names: Mapping[str, str]
) -> str:
    """Pairs that another seed could turn round."""
    close = [
        f"{names.get(one, one)} and {names.get(other, other)} ({gap:.{METRICS[metric].digits}f})"
        for one, other in combinations(known, 2)
        if (gap := abs(ours[one] - ours[other])) < chance
    ]
    return f"Closer than two seeds of one recipe may be: {', '.join(close)}." if close else ""


def _chain(values: Mapping[str, float], known: Sequence[str], sign: int, names: Mapping[str, str]) -> str:
    ordered = sorted(known, key=lambda label: -sign * values[label])
    return " > ".join(names.get(label, label) for label in ordered)


def _pair_in_words(
    better: str,
    worse: str,
    ours: Mapping[str, float],
    theirs: Mapping[str, float],
    pairs: Sequence[Mapping[str, Any]],
    metric: str,
    names: Mapping[str, str],
) -> str:
    digits = METRICS[metric].digits
    here, there = abs(ours[better] - ours[worse]), abs(theirs[better] - theirs[worse])
    one, other = names.get(better, better), names.get(worse, worse)
    known = told_apart(better, worse, pairs, metric)
    words = {True: "told apart by the images", False: "not told apart by the images", None: "no interval"}[known]
    return f"{one} is before {other} by {here:.{digits}f}, in the paper behind by {there:.{digits}f} ({words})"


def told_apart(one: str, other: str, pairs: Sequence[Mapping[str, Any]], metric: str) -> bool | None:
    """Whether the 95 % interval of the difference of two cases leaves out zero; None where there is no interval."""
    for pair in pairs:
        if {pair["first"], pair["second"]} == {one, other} and "low" in pair.get(metric, {}):
            return bool(number(pair[metric]["low"]) > 0 or number(pair[metric]["high"]) < 0)
    return None


def _doubts(
    known: Sequence[str],
    ours: Mapping[str, float],
    theirs: Mapping[str, float],
    pairs: Sequence[Mapping[str, Any]],
    metric: str,
    names: Mapping[str, str],
) -> str:
    """Pairs that agree and could as well be chance."""
    sign = 1 if METRICS[metric].better == "higher" else -1
    unsure = [
        f"{names.get(one, one)} and {names.get(other, other)}"
        for one, other in combinations(known, 2)
        if sign * (theirs[one] - theirs[other]) * sign * (ours[one] - ours[other]) > 0
        and told_apart(one, other, pairs, metric) is False
    ]
    return f"Of the pairs that agree, the images do not tell apart {', '.join(unsure)}." if unsure else ""
