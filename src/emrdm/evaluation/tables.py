"""Scores as text: for the screen, for Markdown, CSV and JSON. No score without its protocol."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

from emrdm.evaluation.results import Evaluation, Published
from emrdm.metrics import METRICS, PROTOCOLS, Scores
from emrdm.metrics.protocols import describe, show
from emrdm.wording import many

_ARROWS = {"higher": " ^", "lower": " v", "": ""}
_REGIONS = {"": "all pixels", "cloudy": "cloudy pixels", "clear": "clear pixels"}


def as_text(evaluation: Evaluation) -> str:
    """The tables for a terminal."""
    parts = [_headline(evaluation)]
    for protocol in evaluation.protocols:
        for region in _regions(evaluation, protocol):
            head, *body = _rows(evaluation, protocol, region)
            where = f", {_REGIONS.get(region, region)}" if region else ""
            parts.append(f"protocol {protocol}{where} (^ higher is better, v lower is better)")
            parts.append(_aligned([head, *body]))
    others = _others(evaluation)
    if others:
        parts.append("published by other protocols: not comparable with the tables above")
        parts.append(_aligned(others))
    parts += [f"note: {note}" for note in evaluation.notes]
    parts += [*_remarks(evaluation), *_counted(evaluation)]
    return "\n".join(parts)


def as_markdown(evaluation: Evaluation) -> str:
    """The summary for a repository or a model card."""
    parts = [f"# {_headline(evaluation)}", *(f"**Note:** {note}" for note in evaluation.notes)]
    for protocol in evaluation.protocols:
        for region in _regions(evaluation, protocol):
            parts.append(f"## Protocol `{protocol}`" + (f", {_REGIONS.get(region, region)}" if region else ""))
            parts.append(_markdown(_rows(evaluation, protocol, region)))
        parts.append("\n".join(f"- {quirk}" for quirk in PROTOCOLS[protocol].quirks))
    others = _others(evaluation)
    if others:
        parts += ["## Published by other protocols: not comparable", _markdown(others)]
    parts += [*_remarks(evaluation), *_counted(evaluation)]
    parts += ["## How it was made", "\n".join(f"- {name}: {value}" for name, value in evaluation.facts.items())]
    return "\n\n".join(parts) + "\n"


def as_csv(evaluation: Evaluation) -> str:
    """One line an image, method and protocol."""
    metrics = list(dict.fromkeys(metric for scores in evaluation.scores.values() for metric in scores.metrics))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["image", "method", "protocol", *metrics])
    for method in evaluation.methods:
        for protocol in evaluation.protocols:
            for image, values in evaluation.of(method.name, protocol).values.items():
                row = [repr(values[metric]) if metric in values else "" for metric in metrics]
                writer.writerow([_harmless(image), method.name, protocol, *row])
    return buffer.getvalue()


def as_json(evaluation: Evaluation) -> str:
    """The summary for scripts. Infinity is the text "inf", and what is not defined is null: both are valid JSON."""
    return json.dumps(
        {
            "dataset": evaluation.dataset,
            "title": evaluation.title,
            "split": evaluation.split,
            "rule": evaluation.rule,
            "images": len(evaluation.images),
            "notes": evaluation.notes,
            "facts": dict(evaluation.facts),
            "methods": {
                method.name: {
                    "title": method.title,
                    "kind": method.kind,
                    "protocols": {
                        protocol: _summary(evaluation.of(method.name, protocol)) for protocol in evaluation.protocols
                    },
                }
                for method in evaluation.methods
            },
            "published": [
                {
                    "method": p.method,
                    "source": p.source,
                    "protocol": p.protocol,
                    "note": p.note,
                    "scores": dict(p.scores),
                }
                for p in evaluation.published
            ],
        },
        indent=2,
        allow_nan=False,
    )


def _headline(evaluation: Evaluation) -> str:
    rule = f", rule {evaluation.rule}" if evaluation.rule else ""
    return f"{evaluation.title}: {evaluation.split}{rule}, {many(len(evaluation.images), 'image')}"


def _summary(scores: Scores) -> dict[str, Any]:
    def number(value: float) -> float | str | None:
        return None if math.isnan(value) else value if math.isfinite(value) else str(value)

    found: dict[str, Any] = {}
    for metric in scores.metrics:
        if describe(metric).better:
            mean = scores.mean(metric)
            found[metric] = {"mean": number(mean.value), "images": mean.count, "left_out": mean.left_out}
        else:
            found[metric] = {"total": scores.total(metric)}
    return found


def _regions(evaluation: Evaluation, protocol: str) -> list[str]:
    """All pixels (an empty name), then the regions that any method was scored on."""
    metrics = [m for method in evaluation.methods for m in evaluation.of(method.name, protocol).metrics]
    return list(dict.fromkeys(["", *(metric.partition("/")[2] for metric in metrics)]))


def _rows(evaluation: Evaluation, protocol: str, region: str) -> list[list[str]]:
    """Heading, our methods, then what others published by this protocol, for all pixels."""
    suffix = f"/{region}" if region else ""
    metrics = [m for m in PROTOCOLS[protocol].metrics if METRICS[m].better]
    ours = []
    for method in evaluation.methods:
        scores = evaluation.of(method.name, protocol)
        cells = [show(m, scores.mean(m + suffix).value) for m in metrics]
        ours.append([method.title, *cells, str(len(scores)), "" if method.kind == "baseline" else method.kind])
    if len({row[-2] for row in ours}) == 1:  # all methods have all images: no need to say so
        ours = [[*row[:-2], "", row[-1]] for row in ours]
    theirs = [
        _published_row(p, [*metrics, "images"]) for p in evaluation.published if p.protocol == protocol and not region
    ]
    heading = ["", *(METRICS[m].label + _ARROWS[METRICS[m].better] for m in metrics), "images", "source"]
    rows = [heading, *ours, *theirs]
    used = [j for j in range(len(heading)) if j == 0 or any(row[j] not in ("", "-") for row in rows[1:])]
    return [[row[j] for j in used] for row in rows]


def _others(evaluation: Evaluation) -> list[list[str]]:
    """Published figures by protocols that were not used here."""
    others = [p for p in evaluation.published if p.protocol not in evaluation.protocols]
    if not others:
        return []
    metrics = [metric for metric in METRICS if any(metric in p.scores for p in others)]
    heading = ["", *(METRICS[metric].label for metric in metrics), "source", "protocol"]
    return [heading, *([*_published_row(p, metrics), p.protocol] for p in others)]


def _published_row(published: Published, metrics: Sequence[str]) -> list[str]:
    cells = [f"{published.scores[metric]:g}" if metric in published.scores else "" for metric in metrics]
    return [published.method, *cells, published.source]


def _remarks(evaluation: Evaluation) -> list[str]:
    """What to know about published figures, each said once."""
    notes: dict[str, list[str]] = {}
    for published in evaluation.published:
        if published.note:
            notes.setdefault(f"{published.source}: {published.note}", []).append(published.method)
    return [f"published: {remark} ({', '.join(methods)})" for remark, methods in notes.items()]


def _counted(evaluation: Evaluation) -> list[str]:
    """What the means leave out."""
    lines = []
    for method in evaluation.methods:
        for protocol in evaluation.protocols:
            scores = evaluation.of(method.name, protocol)
            for metric in PROTOCOLS[protocol].metrics:
                where = f"protocol {protocol}, {method.title}"
                label = METRICS[metric].label
                if not METRICS[metric].better and (total := scores.total(metric)):
                    lines.append(f"{where}: {total:,.0f} {label}, left out of SAM")
                elif METRICS[metric].better and (left_out := scores.mean(metric).left_out):
                    lines.append(f"{where}: {left_out} images without a {label}, left out of its mean")
    return lines


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    numeric = [j > 0 and all(_is_number(row[j]) for row in rows[1:]) for j in range(len(rows[0]))]
    lines = [
        "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(["  " + line for line in lines])


def _is_number(cell: str) -> bool:
    return cell in ("", "-", "inf") or cell.replace(".", "", 1).isdigit()


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _harmless(name: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{name}" if name[:1] in "=+-@" else name
