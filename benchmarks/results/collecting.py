"""Studies and runs that are finished, as small files: what was trained, for how long, and how good it is.

A study's folder is what ``emrdm ablate`` leaves, a run's what ``emrdm train`` leaves. Files that are there already keep
what they have of other cases, data sets and runs.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.results import store
from benchmarks.results.measuring import COMPARED, DATASETS, evaluate_all, open_both, predictor_of

from emrdm.ablation.plan import SCORES, STUDY
from emrdm.cli import models
from emrdm.errors import InputError
from emrdm.metrics import Scores
from emrdm.model import EMRDM
from emrdm.presets import Preset, load_preset
from emrdm.presets.studies import Case, load_study
from emrdm.strict import dump, parse
from emrdm.training.folder import RECIPE, RunFolder, differences
from emrdm.training.log import read_log

STUDIES = ("alpha", "modules")
RECIPES = "recipes"
_COLLECT = "python -m benchmarks.results collect --out RUNS"
_MOST = 40  # points of a validation curve


def collect(arguments: argparse.Namespace) -> None:
    """Gather what is in the folders, by kind."""
    studies: dict[str, list[Path]] = {}
    runs: list[Path] = []
    for folder in arguments.folders:
        for found in _found_in(folder):
            if (found / STUDY).is_file():
                studies.setdefault(str(store.read(found / STUDY).get("study")), []).append(found)
            else:
                runs.append(found)
    for name, folders in studies.items():
        if name not in STUDIES:
            raise InputError(f"{folders[0]} is a study of {name}: expected one of {' or '.join(STUDIES)}")
        for folder in folders:
            _keep_study(arguments.out, name, _from_study(folder, name), [_ablate(folder, name), f"{_COLLECT} STUDY"])
    if runs and arguments.kind in STUDIES:
        _keep_study(arguments.out, arguments.kind, _from_runs(runs, arguments), _train(arguments))
    elif runs:
        _keep_recipes(arguments.out, runs, arguments.base, arguments.note)


def _found_in(folder: Path) -> Iterator[Path]:
    """The studies and runs in a folder: itself, or those right below it."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: expected a study, a run, or a folder of them")
    below = sorted(path for path in folder.iterdir() if path.is_dir())
    here = [folder] if _is_one(folder) else [path for path in below if _is_one(path)]
    if not here:
        raise InputError(f"{folder} holds no study and no run: expected {STUDY} or {RECIPE} in it or right below")
    yield from here


def _is_one(path: Path) -> bool:
    return (path / STUDY).is_file() or (path / RECIPE).is_file()


# ---------------------------------------------------------------- runs


def run_facts(folder: Path) -> dict[str, Any]:
    """What a run was, how far it came, and what validation said on the way."""
    facts, rows = RunFolder(folder).facts(), read_log(folder / "log.jsonl")
    steps = [row for row in rows if row["kind"] == "step"]
    validations = [row for row in rows if row["kind"] == "validation"]
    begun = next((row for row in rows if row["kind"] == "start"), {})
    if not steps or not validations:
        raise InputError(f"{folder} has no step or no validation in its log: expected a run that has come so far")
    seconds, done = float(steps[-1]["seconds"]), int(steps[-1]["step"])
    best = max(validations, key=lambda row: float(row["value"]))
    kept = [validations[i * (len(validations) - 1) // max(1, _MOST - 1)] for i in range(_MOST)]
    kept = validations if len(validations) <= _MOST else kept
    sets = list(validations[-1]["scores"])
    return {
        "title": facts["recipe"].get("title", ""),
        "steps": done,
        "planned": facts["recipe"]["train"]["steps"],
        "samples_a_step": facts["samples_a_step"],
        "samples": begun.get("samples"),
        "parameters": begun.get("parameters"),
        "seconds": seconds,
        "steps_a_second": done / seconds if seconds else None,
        "device": begun.get("device"),
        "protocol": {name: validations[-1]["scores"][name]["protocol"] for name in sets},
        "images": {name: validations[-1]["scores"][name]["images"] for name in sets},
        "untouched": {name: validations[-1]["scores"][name].get("untouched", {}).get("psnr") for name in sets},
        "end": {name: _chosen(validations[-1]["scores"][name]) for name in sets},
        "best": {"step": best["step"], **{name: _chosen(best["scores"][name]) for name in sets}},
        "curve": {
            "step": [row["step"] for row in kept],
            **{name: [row["scores"].get(name, {}).get("psnr") for row in kept] for name in sets},
        },
    }


def _chosen(scores: Mapping[str, Any]) -> dict[str, Any]:
    return {metric: scores[metric] for metric in COMPARED if metric in scores}


def _keep_recipes(out: Path, runs: Sequence[Path], given: str, note: str) -> None:
    """Runs beside those that are kept already, each with what differs from a preset or from another run."""
    path = out / f"{RECIPES}.json"
    known = {run["name"]: run for run in store.read(path)["runs"]} if path.exists() else {}
    base = Path(given).name
    against = _recipe(RunFolder(Path(given)).facts()) if (Path(given) / RECIPE).is_file() else load_preset(given)
    for folder in runs:
        facts = RunFolder(folder).facts()
        changed = differences({"recipe": dump(against)}, {"recipe": dump(_recipe(facts))})
        started = ["weights that were there already"] if facts.get("start") else []
        compared = {"base": base, "note": note, "changed": changed + started}
        known[folder.name] = {"name": folder.name, **compared, **run_facts(folder)}
        print(f"{folder.name}: {len(changed)} settings differ from {base}")
    about = {"kind": RECIPES, "command": f"{_COLLECT} --base {base} RUN ..."}
    print(store.write(out, RECIPES, {**about, "runs": list(known.values())}))


def _recipe(facts: Mapping[str, Any]) -> Preset:
    """A run's recipe with today's settings: what it was trained without, since it is older, has its default."""
    return parse(Preset, facts["recipe"])


# ---------------------------------------------------------------- studies


def _from_study(folder: Path, name: str) -> dict[str, Any]:
    """Cases of a study with their scores image by image."""
    facts = store.read(folder / STUDY)
    (source,) = facts["recipe"]["data"]
    key, split = source["dataset"], facts["scoring"]["split"]
    if key not in DATASETS:
        raise InputError(f"{folder} is a study of {key}: expected {' or '.join(DATASETS)}")
    if split != "val":
        raise InputError(f"{folder} was scored on {split}: expected emrdm ablate ... --split val --rescore")
    table = store.read(folder / "table.json")
    cases, scores = {}, {}
    for row in table["cases"]:
        label = row["case"]
        path = folder / label.replace(" ", "-")
        if not (path / SCORES / "scores.csv").is_file():
            continue  # not done yet
        scores[label] = _read_scores(path / SCORES / "scores.csv", table["protocol"])
        cases[label] = {key: {**_trained(run_facts(path)), "seeds": len(row["seeds"]), "split": split}}
    return {"name": name, "protocol": table["protocol"], "base": table["caption"]["base"], "notes": table["notes"]} | {
        "cases": cases,
        "scores": {key: scores},
    }


def _from_runs(runs: Sequence[Path], arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs as cases of a study: told apart by what the study varies, scored on validation images."""
    cases: dict[str, dict[str, Any]] = {}
    scores: dict[str, dict[str, Scores]] = {}
    weights: dict[str, Path] = {}
    for folder in runs:
        label, facts = _case_of(folder, arguments.kind).label, run_facts(folder)
        if label in cases:
            raise InputError(f"{folder} is {label}, as {weights[label].parent} is: expected one run for each case")
        weights[label] = folder / "model.safetensors"
        cases[label] = {
            key: {**_trained(facts), "split": "val", "seeds": 1, "scores": _as_means(facts, key)}
            for key in facts["end"]
        }
    if arguments.rice is not None:
        scores = _scored(weights, arguments)
    base = f"{arguments.base}, one model for both data sets" if len(next(iter(cases.values()))) > 1 else arguments.base
    return {"name": arguments.kind, "protocol": "standard", "base": base, "notes": []} | {
        "cases": cases,
        "scores": scores,
    }


def _trained(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: facts[key] for key in ("steps", "planned", "samples_a_step", "seconds", "device")}


def _as_means(facts: Mapping[str, Any], key: str) -> dict[str, Any]:
    """What the last validation said, in the form of a summary; a log has no scores by image, hence no interval."""
    return {metric: {"mean": value, "images": facts["images"][key]} for metric, value in facts["end"][key].items()}


def _scored(weights: Mapping[str, Path], arguments: argparse.Namespace) -> dict[str, dict[str, Scores]]:
    """Scores of exported weights on all validation images."""
    device = models.device(arguments.device)
    loaded = {label: EMRDM.load(path).to(device) for label, path in weights.items()}
    found: dict[str, dict[str, Scores]] = {}
    for key, (dataset, indices) in open_both(arguments.rice, "val", None).items():
        found[key] = {}
        for label, model in loaded.items():
            predictor = predictor_of(model, dataset, "", model.config.sampler, label)
            result = evaluate_all(dataset, [predictor], ("standard",), indices, device, arguments.batch_size)
            found[key][label] = result.of("model", "standard")
    return found


def _case_of(folder: Path, study: str) -> Case:
    """The case of a study that a run is."""
    model = RunFolder(folder).recipe().model
    for case in load_study(study).cases():
        theirs = case.preset.model
        same = theirs.process == model.process
        if study == "modules":  # infrared is an input that pictures do not have
            seen = [[name for name in inputs if name != "aux"] for inputs in (theirs.inputs, model.inputs)]
            same = same and theirs.preconditioning == model.preconditioning and seen[0] == seen[1]
        if same:
            return case
    raise InputError(f"{folder} is none of the cases of {study}: expected one of the paper's")


def _read_scores(path: Path, protocol: str) -> Scores:
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["protocol"] == protocol]
    return Scores(
        {row["image"]: {metric: float(row[metric]) for metric in COMPARED if row.get(metric)} for row in rows}
    )


def _keep_study(out: Path, name: str, found: Mapping[str, Any], commands: Sequence[str]) -> None:
    """Add the cases to those that the file has, and compare each two of them on the images that they share."""
    path = out / f"study-{name}.json"
    before = store.read(path) if path.exists() else {"cases": [], "pairs": {}, "commands": [], "notes": []}
    study = load_study(name)
    paper = {case.label: case.scores or {} for case in study.cases()}
    kept = {case["label"]: case for case in before["cases"]}
    for label, sets in found["cases"].items():
        case = kept.setdefault(label, {"label": label, "datasets": {}})
        case["paper"] = paper.get(label, {})
        for key, facts in sets.items():
            scores = found["scores"].get(key, {}).get(label)
            if scores is not None:
                means = {metric: each for metric, each in store.summary(scores).items() if metric in COMPARED}
                facts = {**facts, "scores": means}
            case["datasets"][key] = facts
    order = list(paper)
    cases = sorted(kept.values(), key=lambda case: order.index(case["label"]) if case["label"] in order else len(order))
    pairs = {key: _pairs(scores) for key, scores in found["scores"].items()}
    for key, old in before["pairs"].items():  # what was compared with a case as it was before goes
        touched = {label for label, sets in found["cases"].items() if key in sets}
        pairs[key] = [pair for pair in old if not touched & {pair["first"], pair["second"]}] + pairs.get(key, [])
    about = {
        "kind": "study",
        "study": name,
        "title": study.title,
        "source": study.source,
        "protocol": found["protocol"],
        "base": found["base"],
        "commands": list(dict.fromkeys([*before["commands"], *commands])),
        "notes": list(dict.fromkeys([*before["notes"], *found["notes"]])),
        "cases": cases,
        "pairs": pairs,
    }
    print(store.write(out, f"study-{name}", about))


def _pairs(scores: Mapping[str, Scores]) -> list[dict[str, Any]]:
    """Differences of each two cases on the same images, first less second."""
    return [
        {"first": one, "second": other}
        | {metric: store.difference(scores[one], scores[other], metric) for metric in COMPARED}
        for one, other in combinations(scores, 2)
    ]


def _ablate(folder: Path, name: str) -> str:
    """The command of a study."""
    (source,) = store.read(folder / STUDY)["recipe"]["data"]
    key = source["dataset"]
    return f"emrdm ablate {name} --base RECIPE --data {key}=ROOT/{DATASETS.get(key, '')} --split val -o STUDY"


def _train(arguments: argparse.Namespace) -> list[str]:
    """The commands of cases that were trained one by one."""
    data = " ".join(f"--data {key}=ROOT/{name}" for key, name in DATASETS.items())
    scored = " --rice ROOT" if arguments.rice is not None else ""
    return [f"emrdm train RECIPE {data} -o RUN", f"{_COLLECT} --as {arguments.kind}{scored} RUN ..."]
