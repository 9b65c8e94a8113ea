"""A study as text: for the screen, Markdown, CSV and JSON. The paper's scores stand beside ours, and are named so."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emrdm.ablation.findings import Findings, Result
from emrdm.errors import InputError
from emrdm.metrics import METRICS, PROTOCOLS
from emrdm.metrics.protocols import show
from emrdm.presets.studies import short_names

TABLE = "table.json"
_ARROWS = {"higher": " ^", "lower": " v"}
_DIGITS = {"psnr": 2}  # as the paper prints them; all others have three
_PAPER_BY = "sen2-mtc-new"  # data and protocol of all studies in the paper


def as_text(findings: Findings) -> str:
    """The table for a terminal."""
    rows = _rows(findings)
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = [
        "  "
        + "  ".join(cell.rjust(w) if j else cell.ljust(w) for j, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    head = f"{findings.title} (^ higher is better, v lower is better, * best)"
    return "\n".join([head, *(line.rstrip() for line in lines), *_words(findings)])


def as_markdown(findings: Findings) -> str:
    """The table for a repository; the best of each column is bold."""
    head, *body = [[cell.replace("|", "\\|") for cell in row] for row in _rows(findings, bold="**")]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    words = "\n".join(f"- {line}" for line in _words(findings))
    return f"# {findings.title}\n\n{table}\n\n{words}\n"


def as_csv(findings: Findings) -> str:
    """One line a case, numbers in full."""
    metrics, several = findings.metrics, findings.seeds > 1
    theirs = _papers(findings)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    axes = short_names(findings.axes)
    spreads = [f"{metric}_std" for metric in metrics] if several else []
    writer.writerow(
        ["case", *axes, "protocol", "images", "seeds", *metrics, *spreads, *(f"paper_{metric}" for metric in theirs)]
    )
    for result in findings.results:
        cells: list[Any] = [result.label, *(result.point[key] for key in findings.axes)]
        cells += [findings.protocol, findings.images, len(result.seeds)]
        cells += [_full(result.mean(metric)) for metric in metrics]
        cells += [_full(result.deviation(metric)) for metric in metrics] if several else []
        writer.writerow([*cells, *(_full(result.paper.get(metric, math.nan)) for metric in theirs)])
    return buffer.getvalue()


def as_json(findings: Findings) -> str:
    """All of it for scripts. Infinity is the text "inf", and what is not defined is null: both are valid JSON."""
    facts = {
        "study": findings.name,
        "title": findings.title,
        "axes": list(findings.axes),
        "protocol": findings.protocol,
        "images": findings.images,
        "caption": dict(findings.caption),
        "notes": list(findings.notes),
        "left": list(findings.left),
        "paper": _paper(findings),
        "cases": [
            {
                "case": result.label,
                "point": dict(result.point),
                "scores": {metric: _number(result.mean(metric)) for metric in findings.metrics},
                "deviation": {metric: _number(result.deviation(metric)) for metric in findings.metrics},
                "seeds": [
                    {metric: _number(scores.get(metric, math.nan)) for metric in findings.metrics}
                    for scores in result.seeds
                ],
                "paper": dict(result.paper),
            }
            for result in findings.results
        ],
    }
    return json.dumps(facts, indent=2, allow_nan=False)


def from_json(text: str, where: str = "the study") -> Findings:
    """A study that :func:`as_json` wrote, without its pictures."""
    wrong = f"{where} is no table of a study: expected JSON that emrdm ablate wrote"
    try:
        facts = json.loads(text)
        results = tuple(
            Result(
                str(case["case"]),
                {str(key): value for key, value in case["point"].items()},
                {str(metric): float(value) for metric, value in case["paper"].items()},
                tuple(
                    {metric: math.nan if value is None else float(value) for metric, value in scores.items()}
                    for scores in case["seeds"]
                ),
            )
            for case in facts["cases"]
        )
        found = Findings(
            name=str(facts["study"]),
            title=str(facts["title"]),
            source="" if facts["paper"] is None else str(facts["paper"]["source"]),
            axes=tuple(map(str, facts["axes"])),
            results=results,
            protocol=str(facts["protocol"]),
            images=int(facts["images"]),
            caption={str(key): str(value) for key, value in facts["caption"].items()},
            notes=tuple(map(str, facts["notes"])),
            left=tuple(map(str, facts["left"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(wrong) from None
    if found.protocol not in PROTOCOLS or "data" not in found.caption:
        raise InputError(wrong)
    if any(key not in result.point for result in results for key in found.axes):
        raise InputError(wrong)
    return found


def read(path: Path) -> Findings:
    """A study from its folder, or from the JSON file in it."""
    file = path / TABLE if path.is_dir() else path
    if path.is_dir() and not file.is_file():
        raise InputError(f"{path} has no {TABLE}: expected the folder of a study that emrdm ablate has finished")
    try:
        return from_json(file.read_text("utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from None


def _paper(findings: Findings) -> dict[str, str] | None:
    """Where the paper has it; a study of one's own is nowhere in it."""
    if not findings.source:
        return None
    return {"source": findings.source, "protocol": _PAPER_BY, "dataset": "Sen2_MTC_New"}


def _rows(findings: Findings, bold: str = "") -> list[list[str]]:
    """Heading and a row a case: our scores, then the paper's. The best are marked by bold signs or a star."""
    ours, theirs = findings.metrics, _papers(findings)
    heading = [
        "case",
        *(METRICS[metric].label + _ARROWS[METRICS[metric].better] for metric in ours),
        *(f"paper: {METRICS[metric].label}" for metric in theirs),
    ]
    best = {metric: _best(metric, [_cell(result, metric) for result in findings.results]) for metric in ours}
    rows = [heading]
    for result in findings.results:
        cells = []
        for metric in ours:
            cell, mark = _cell(result, metric), _cell(result, metric) == best[metric]
            cells.append(
                cell if bold and not mark else f"{bold}{cell}{bold}" if bold else f"{cell}{'*' if mark else ' '}"
            )
        printed = [
            f"{result.paper[metric]:.{_DIGITS.get(metric, 3)}f}" if metric in result.paper else "" for metric in theirs
        ]
        rows.append([result.label, *cells, *printed])
    return rows


def _cell(result: Result, metric: str) -> str:
    spread = result.deviation(metric)
    return show(metric, result.mean(metric)) + ("" if math.isnan(spread) else f" ± {show(metric, spread)}")


def _best(metric: str, cells: Sequence[str]) -> str | None:
    """The best as it is printed: what looks equal is equally good."""
    numbers = {cell: float(cell.partition(" ")[0]) for cell in cells if cell != "-"}
    if len(set(numbers.values())) < 2:
        return None
    return (max if METRICS[metric].better == "higher" else min)(numbers, key=lambda cell: numbers[cell])


def _papers(findings: Findings) -> list[str]:
    """Metrics that the paper prints for this study, ours first."""
    printed = [metric for metric in METRICS if any(metric in result.paper for result in findings.results)]
    return sorted(printed, key=lambda metric: (metric not in findings.metrics, *_place(findings.metrics, metric)))


def _place(metrics: Sequence[str], metric: str) -> tuple[int]:
    return (metrics.index(metric) if metric in metrics else list(METRICS).index(metric),)


def _words(findings: Findings) -> list[str]:
    """Caption, where the paper's numbers are from, notes, and what is left."""
    lines = [f"{name}: {text}" for name, text in findings.caption.items()]
    if _papers(findings):
        other = "compare which case is better, not the numbers"
        hint = "comparable after as much training on all of it" if findings.protocol == _PAPER_BY else other
        lines.append(f"paper: {findings.source} as printed, Sen2_MTC_New by protocol {_PAPER_BY}, 500 epochs: {hint}")
    elif findings.source:
        lines.append(f"paper: {findings.source}, which has no numbers")
    lines += [f"note: {note}" for note in findings.notes]
    return lines + [f"not done yet: {line}" for line in findings.left]


def _full(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def _number(value: float) -> float | str | None:
    return None if math.isnan(value) else value if math.isfinite(value) else str(value)


def tables(findings: Findings) -> Mapping[str, str]:
    """The files of a study by name."""
    return {
        "table.md": as_markdown(findings),
        "table.csv": as_csv(findings),
        TABLE: as_json(findings) + "\n",
    }
