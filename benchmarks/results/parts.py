"""Parts of the page beside the test lists: the sampler, the paper's studies, the search for a recipe."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.results import figures
from benchmarks.results.tables import bold_best, cell, heading, markdown, mean_of, number, order_in_words, seconds

from emrdm.metrics import METRICS
from emrdm.metrics.protocols import show
from emrdm.presets.studies import load_study
from emrdm.wording import many

Draw = Callable[[Path], None]
SETS = {"rice1": "RICE1", "rice2": "RICE2"}
_SHOWN = ("psnr", "ssim", "lpips")
_DRAWN = ("psnr", "lpips")
_PAPER = "paper, Sen2_MTC_New"
_TITLES = {
    "steps": ("sampling steps N", "Number of sampling steps"),
    "churn": ("S_churn", "Churn"),
    "methods": ("calls of the network", "Samplers"),
}
_MOST_CHANGES = 8


@dataclass(frozen=True)
class Part:
    """Text, and how to draw the figures that it shows, by name of file."""

    text: str
    figures: Mapping[str, Draw] = field(default_factory=dict)


def _figure(name: str, alt: str) -> str:
    return f"![{alt}](images/{name})"


def _made_by(*commands: str) -> str:
    return "Made by\n\n```\n" + "\n".join(commands) + "\n```"


# ---------------------------------------------------------------- the sampler


def sampler(name: str, sweeps: Sequence[Mapping[str, Any]]) -> Part | None:
    """A part of the sweeps: a figure of all models, then a table and what it says for each."""
    if not sweeps:
        return None
    x_label = _TITLES[name][0]
    title = f"{_TITLES[name][1]}: {', '.join(sweep['name'] for sweep in sweeps)}, validation images"
    several = len(sweeps) > 1
    panels = []
    for metric in _DRAWN:
        for key, dataset in SETS.items():
            lines: dict[str, figures.Line] = {}
            for sweep in sweeps:
                for line, rows in _lines(name, sweep["parts"][name]).items():
                    label = " ".join([sweep["name"]] * (several or not line) + [line] * bool(line))
                    lines[label] = figures.Line(
                        [_x(name, row) for row in rows],
                        [mean_of(row["datasets"][key]["scores"], metric) for row in rows],
                        [_half(row["datasets"][key]["gain"].get(metric, {})) for row in rows],
                    )
            panels.append(figures.Panel(dataset, metric, lines))
    file = f"results-{name}.png"
    logarithmic = name != "churn"

    def draw(path: Path) -> None:
        figures.draw(panels, path, columns=len(SETS), x_label=x_label, title=title, log_x=logarithmic)

    blocks = [_figure(file, f"{_TITLES[name][1]}: PSNR and LPIPS on validation images of RICE1 and RICE2")]
    blocks.append("*Bars: 95 % interval of the difference from the model's own setting, on the same images.*")
    for sweep in sweeps:
        blocks += [*_sweep_in_words(name, sweep), _sweep_table(name, sweep)]
    if name == "steps":
        theirs = [run for run in load_study("steps").runs if run.scores]
        best = max(theirs, key=lambda run: (run.scores or {})["psnr"])
        steps = best.set["model.sampler.steps"]
        blocks.append(f"The paper finds N = {steps} best on Sen2_MTC_New (Table 3, deterministic sampler).")
    blocks.append(_made_by(*(sweep["command"] for sweep in sweeps)))
    return Part("\n\n".join(blocks), {file: draw})


def _lines(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Rows by what is one line in a figure: a method, or all of them."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["method"] if name == "methods" else "", []).append(row)
    return found


def _x(name: str, row: Mapping[str, Any]) -> float | str:
    if name == "churn":
        return f"{row['churn']:g}"  # 0 has no place on a logarithmic axis
    return float(row["steps"] if name == "steps" else row["calls"])


def _half(found: Mapping[str, Any]) -> float | None:
    return (number(found["high"]) - number(found["low"])) / 2 if "low" in found else None


def _setting(name: str, row: Mapping[str, Any]) -> str:
    if name == "methods":
        return f"{row['method']}, N = {row['steps']}"
    return f"N = {row['steps']}" if name == "steps" else f"churn {row['churn']:g}"


def _sweep_in_words(name: str, sweep: Mapping[str, Any]) -> list[str]:
    """For each data set and metric: the best setting, and by how much it is better than the model's own."""
    own, lines = sweep["sampler"], []
    words = f"{own['method']}, N = {own['steps']}, churn {own['churn']:g}"
    for key, dataset in SETS.items():
        said = []
        for metric in _DRAWN:
            facts, rows = METRICS[metric], sweep["parts"][name]
            sign = 1 if facts.better == "higher" else -1
            known = [row for row in rows if not math.isnan(mean_of(row["datasets"][key]["scores"], metric))]
            if not known:
                continue
            best = max(known, key=lambda row: sign * mean_of(row["datasets"][key]["scores"], metric))
            gain = best["datasets"][key]["gain"].get(metric, {})
            text = f"best {facts.label} with {_setting(name, best)}, {cell(best['datasets'][key]['scores'], metric)}"
            said.append(text + _against_own(gain, metric))
        images = sweep["datasets"][key]["images"]
        lines.append(f"- {dataset}, {many(images, 'validation image')}: {'; '.join(said)}")
    return [f"`{sweep['name']}`, whose own setting is {words}; protocol `{sweep['protocol']}`:", "\n".join(lines)]


def _against_own(gain: Mapping[str, Any], metric: str) -> str:
    mean = number(gain.get("mean"))
    if math.isnan(mean) or mean == 0:
        return ", its own setting" if mean == 0 else ""
    text = f", {mean:+.{METRICS[metric].digits}f} against its own"
    if "low" not in gain:
        return text
    low, high = number(gain["low"]), number(gain["high"])
    apart = "" if low > 0 or high < 0 else ", not told apart"
    return f"{text} ({show(metric, low)} to {show(metric, high)}{apart})"


def _sweep_table(name: str, sweep: Mapping[str, Any]) -> str:
    rows = []
    for row in sweep["parts"][name]:
        scores = [cell(row["datasets"][key]["scores"], metric) for key in SETS for metric in _SHOWN]
        times = [number(row["datasets"][key]["seconds_an_image"]) for key in SETS]
        rows.append([_setting(name, row), str(row["calls"]), *scores, seconds(sum(times) / len(times))])
    head = [
        "",
        "calls",
        *(f"{dataset} {heading(metric)}" for dataset in SETS.values() for metric in _SHOWN),
        "an image",
    ]
    return markdown([head, *bold_best(rows, _SHOWN * len(SETS), first=2)])


# ---------------------------------------------------------------- the paper's studies


def study(facts: Mapping[str, Any], chance: Mapping[str, Mapping[str, float]] | None = None) -> Part:
    """A study beside the paper's: figure, table, and whether the order is the same, as far as chance lets one tell."""
    name, cases = facts["study"], facts["cases"]
    sets = {key: dataset for key, dataset in SETS.items() if any(key in case["datasets"] for case in cases)}
    panels = []
    for metric in _DRAWN:
        for key, dataset in sets.items():
            done = [case for case in cases if key in case["datasets"]]
            line = figures.Line(
                [_point(case["label"]) for case in done],
                [mean_of(case["datasets"][key].get("scores", {}), metric) for case in done],
                _halves(done, facts["pairs"].get(key, []), key, metric),
            )
            panels.append(figures.Panel(dataset, metric, {"here": line}))
        line = figures.Line([_point(case["label"]) for case in cases], [case["paper"].get(metric) for case in cases])
        panels.append(figures.Panel(_PAPER, metric, {"paper": line}))
    file = f"results-{name}.png"
    x_label = "alpha" if name == "alpha" else "configuration"

    def draw(path: Path) -> None:
        figures.draw(panels, path, columns=len(sets) + 1, x_label=x_label, title=facts["title"])

    names = {case["label"]: _short(case["label"]) for case in cases}
    blocks = [
        _figure(file, f"{facts['title']}: PSNR and LPIPS on validation images, and in the paper"),
        *(
            ["*Bars: 95 % interval of the difference from the best case, on the same images.*"]
            if any(facts["pairs"].values())
            else []
        ),
        _study_table(facts, sets),
    ]
    for key, dataset in sets.items():
        pairs = facts["pairs"].get(key, [])
        seeds = (chance or {}).get(key, {})
        said = [f"- {order_in_words(cases, pairs, key, metric, names, seeds.get(metric, 0.0))}" for metric in _SHOWN]
        blocks.append(f"**{dataset}**: does the paper's order ({facts['source']}) hold?\n\n" + "\n".join(said))
    blocks.append(
        f"Base: {facts['base']}; protocol `{facts['protocol']}`, validation images. The paper's scores are of "
        "Sen2_MTC_New after 500 epochs: compare orders, not numbers."
    )
    blocks += [f"Note: {note}." for note in facts["notes"]]
    return Part("\n\n".join([*blocks, _made_by(*facts["commands"])]), {file: draw})


def _halves(
    cases: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]], key: str, metric: str
) -> list[float | None]:
    """Half the width of the interval of each case's difference from the best; the means' own hide what differs."""
    sign = 1 if METRICS[metric].better == "higher" else -1
    means = {case["label"]: mean_of(case["datasets"][key].get("scores", {}), metric) for case in cases}
    known = [label for label, mean in means.items() if not math.isnan(mean)]
    if not known:
        return []
    best = max(known, key=lambda label: sign * means[label])
    found = {
        pair[end]: pair for pair in pairs for end in ("first", "second") if best in (pair["first"], pair["second"])
    }
    return [None if label == best else _half(found.get(label, {}).get(metric, {})) for label in means]


def _study_table(facts: Mapping[str, Any], sets: Mapping[str, str]) -> str:
    rows = []
    for case in facts["cases"]:
        row = [_short(case["label"], long=True)]
        for key in sets:
            scores = case["datasets"].get(key, {}).get("scores", {})
            row += [cell(scores, metric) for metric in _SHOWN]
        row += [show(metric, case["paper"].get(metric)) for metric in _SHOWN]
        budgets = [
            f"{found['steps']:,} x {found['samples_a_step']}, {seconds(found['seconds'])}"
            for found in case["datasets"].values()
        ]
        rows.append([*row, " / ".join(dict.fromkeys(budgets))])
    head = ["", *(f"{dataset} {heading(metric)}" for dataset in sets.values() for metric in _SHOWN)]
    head += [*(f"paper: {heading(metric)}" for metric in _SHOWN), "steps x samples, training"]
    return markdown([head, *bold_best(rows, _SHOWN * (len(sets) + 1))])


def _point(label: str) -> float | str:
    return float(label.removeprefix("alpha ")) if label.startswith("alpha ") else _short(label)


def _short(label: str, *, long: bool = False) -> str:
    """config-b -> B; with what it adds, if long."""
    if not label.startswith("config-"):
        return label
    letter = label.removeprefix("config-").upper()
    if not long:
        return letter
    from emrdm.presets import load_preset

    return f"{letter}: {load_preset(label).title.partition(': ')[2]}"


# ---------------------------------------------------------------- the search for a recipe


def recipes(facts: Mapping[str, Any]) -> Part:
    """Runs by what they are compared with: a search, and what it led to."""
    bases = list(dict.fromkeys(run["base"] for run in facts["runs"]))
    groups = [_recipes(base, [run for run in facts["runs"] if run["base"] == base]) for base in bases]
    text = "\n\n".join([*(group.text for group in groups), _made_by(facts["command"])])
    return Part(text, {name: draw for group in groups for name, draw in group.figures.items()})


def _recipes(base: str, runs: Sequence[Mapping[str, Any]]) -> Part:
    """The runs of one group, the best first, and their validation curves."""
    runs = sorted(runs, key=lambda run: -_mean_end(run))
    sets = {key: dataset for key, dataset in SETS.items() if any(key in run["end"] for run in runs)}
    panels = [
        figures.Panel(
            dataset,
            "psnr",
            {run["name"]: figures.Line(run["curve"]["step"], run["curve"][key]) for run in runs if key in run["end"]},
        )
        for key, dataset in sets.items()
    ]
    file = f"results-recipes-{base}.png"
    curves = any(len(run["curve"]["step"]) > 1 for run in runs)

    def draw(path: Path) -> None:
        figures.draw(panels, path, columns=len(sets), x_label="step", title="Validation while training")

    ends = [f"{dataset} PSNR ↑" for dataset in sets.values()]
    rows = [
        [
            f"`{run['name']}`",
            _changes(run),
            f"{run['steps']:,}" + ("" if run["steps"] == run["planned"] else f" of {run['planned']:,}"),
            str(run["samples_a_step"]),
            seconds(run["seconds"]),
            f"{number(run['steps_a_second']):.3g}",
            *(show("psnr", number(run["end"].get(key, {}).get("psnr"))) for key in sets),
            f"{run['best']['step']:,}",
        ]
        for run in runs
    ]
    head = ["run", "changed", "steps", "samples a step", "training", "steps/s", *ends, "best at step"]
    untouched = "; ".join(
        f"{dataset} {show('psnr', number(run['untouched'].get(key)))}"
        for key, dataset in sets.items()
        for run in [next(run for run in runs if key in run["end"])]
    )
    notes = dict.fromkeys(run["note"] for run in runs if run.get("note"))
    blocks = [
        *([_figure(file, "PSNR of validation images against the step, for each run")] if curves else []),
        markdown([head, *bold_best(rows, ("psnr",) * len(sets), first=6)], left=2),
        "PSNR at the end, of averaged weights, on validation images, protocol `standard`; the cloudy images "
        f"themselves have {untouched}. Runs on {', '.join(dict.fromkeys(str(run['device']) for run in runs))}.",
        *notes,
    ]
    return Part("\n\n".join(blocks), {file: draw} if curves else {})


def _mean_end(run: Mapping[str, Any]) -> float:
    values = [number(scores.get("psnr")) for scores in run["end"].values()]
    return math.fsum(values) / len(values) if values else -math.inf


def _changes(run: Mapping[str, Any]) -> str:
    changed = list(run["changed"])
    if not changed:
        return f"nothing: `{run['base']}` as it is"
    more = f" and {len(changed) - _MOST_CHANGES} more" if len(changed) > _MOST_CHANGES else ""
    return "; ".join(changed[:_MOST_CHANGES]) + more
