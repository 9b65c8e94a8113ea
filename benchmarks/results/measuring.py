"""Measuring a model: the test lists once, and settings of the sampler on validation images."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from benchmarks.results import store
from torch import Tensor

import emrdm
from emrdm import pictures
from emrdm.cli import models
from emrdm.cli.progress import Progress
from emrdm.config import SamplerConfig
from emrdm.data import Batch, Dataset, Failure, open_dataset
from emrdm.data.cache import MemoryCache
from emrdm.data.preview import tiles
from emrdm.errors import DataError, InputError
from emrdm.evaluation import BASELINES, BaselinePredictor, ModelPredictor, Predictor, Settings, evaluate
from emrdm.evaluation.results import Evaluation, Method
from emrdm.metrics import find_protocols
from emrdm.model import EMRDM
from emrdm.strict import dump
from emrdm.training.validation import spread

DATASETS = {"rice1": "RICE1", "rice2": "RICE2"}
PROTOCOLS = ("standard", "cuhk")
STEPS = (1, 2, 3, 4, 5, 8, 16)
CHURNS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)  # gamma is S_churn / N without a cap; the paper's figure goes to 10
METHODS: tuple[Literal["euler", "heun", "multistep", "stochastic"], ...] = ("euler", "heun", "multistep", "stochastic")
METHOD_STEPS = (3, 4, 5, 8)
_USUAL_CHURN = 0.1  # of the paper's preset for single images, where a model has none of its own
COMPARED = ("psnr", "ssim", "lpips")
_ROWS = 4  # of a picture sheet, for each data set


class TimedPredictor(Predictor):
    """A model, with the seconds that it takes for an image, batch by batch."""

    def __init__(self, model: ModelPredictor, name: str = "model") -> None:
        self.model = model
        self.method = Method(name, model.method.title, "model")
        self.data, self.places, self.notes = model.data, model.places, model.notes
        self.seconds: list[float] = []

    def predict(self, batch: Batch) -> Tensor:
        """The model's answer."""
        began = self._now()
        found = self.model.predict(batch)
        self.seconds.append((self._now() - began) / len(batch.names))
        return found

    def _now(self) -> float:
        if self.model.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.model.device)
        return time.perf_counter()

    def identity(self) -> dict[str, object]:
        """The model's."""
        return self.model.identity()

    @property
    def typical(self) -> float:
        """Median over batches; the first ones compile and record."""
        return statistics.median(self.seconds)


# ---------------------------------------------------------------- the test lists


def score(arguments: argparse.Namespace) -> None:
    """Score a model on the test lists of both data sets, beside what needs no training."""
    name = store.check_name(arguments.name)
    datasets = open_both(arguments.rice, "test", arguments.limit)
    model, device, digest = _model(arguments)
    found, rows = {}, []
    for key, (dataset, indices) in datasets.items():
        predictor = TimedPredictor(predictor_of(model, dataset, digest, model.config.sampler, arguments.name))
        baselines = [] if arguments.no_baselines else [BaselinePredictor(b, dataset.data) for b in BASELINES.values()]
        result = evaluate_all(dataset, [predictor, *baselines], PROTOCOLS, indices, device, arguments.batch_size)
        found[key] = {**facts_of(result), "seconds_an_image": predictor.typical, "methods": _methods(result)}
        rows += _rows(predictor.model, dataset, indices) if arguments.sheet else []
    path = store.write(arguments.out, f"test-{name}", {**_about(arguments, model, digest, "score"), "datasets": found})
    if arguments.sheet:
        pictures.save(pictures.sheet(rows, title=f"{name}: images of the test lists"), arguments.sheet)
    _say(found)
    print(path)


def _methods(result: Evaluation) -> dict[str, Any]:
    return {
        method.name: {
            "title": method.title,
            "kind": method.kind,
            "protocols": {protocol: store.summary(result.of(method.name, protocol)) for protocol in result.protocols},
        }
        for method in result.methods
    }


def _rows(predictor: ModelPredictor, dataset: Dataset, indices: Sequence[int]) -> list[list[pictures.Tile]]:
    """A few images, cloudy, restored and clear."""
    rows = []
    for place in spread(len(indices), _ROWS):
        sample = dataset[indices[place]]
        row = tiles(sample, dataset.bands, dataset.aux)
        row.insert(len(row) - 1, pictures.Tile("restored", predictor.picture(sample, dataset.bands)))
        rows.append(row)
    return rows


def _say(found: Mapping[str, Any]) -> None:
    for key, facts in found.items():
        print(f"{key}: {facts['images']} images, {facts['seconds_an_image']:.4f} s an image")
        for method in facts["methods"].values():
            for protocol, scores in method["protocols"].items():
                shown = "  ".join(
                    f"{metric} {each['mean']:.4f}" for metric, each in scores.items() if "/" not in metric
                )
                print(f"  {method['title']}, protocol {protocol}: {shown}")


# ---------------------------------------------------------------- settings of the sampler


def sweep(arguments: argparse.Namespace) -> None:
    """Score settings of the sampler on validation images; the test lists are not opened."""
    name = store.check_name(arguments.name)
    datasets = open_both(arguments.rice, "val", arguments.images)
    model, device, digest = _model(arguments)
    base = model.config.sampler
    parts = grid(base)
    unique = list(dict.fromkeys([_same(base), *(_same(setting) for part in parts.values() for setting in part)]))
    found: dict[str, Any] = {}
    points: dict[SamplerConfig, dict[str, Any]] = {setting: {} for setting in unique}
    for key, (dataset, indices) in datasets.items():
        predictors = [
            TimedPredictor(predictor_of(model, dataset, digest, setting, arguments.name), f"setting {i}")
            for i, setting in enumerate(unique)
        ]
        result = evaluate_all(dataset, predictors, ("standard",), indices, device, arguments.batch_size)
        found[key] = facts_of(result)
        scores = [result.of(predictor.method.name, "standard") for predictor in predictors]
        for setting, predictor, mine in zip(unique, predictors, scores, strict=True):
            points[setting][key] = {
                "scores": {metric: {"mean": mine.mean(metric).value} for metric in COMPARED},
                "gain": {metric: store.difference(mine, scores[0], metric) for metric in COMPARED},
                "seconds_an_image": predictor.typical,
            }
    about = {**_about(arguments, model, digest, "sweep"), "protocol": "standard", "datasets": found}
    about["parts"] = {
        part: [{**_setting(setting), "datasets": points[_same(setting)]} for setting in settings]
        for part, settings in parts.items()
    }
    path = store.write(arguments.out, f"sweep-{name}", about)
    for part, rows in about["parts"].items():
        for row in rows:
            psnr = "  ".join(f"{key} {row['datasets'][key]['scores']['psnr']['mean']:.2f}" for key in found)
            print(f"{part}: {row['method']}, N {row['steps']}, churn {row['churn']:g}: {psnr}")
    print(path)


def grid(base: SamplerConfig) -> dict[str, list[SamplerConfig]]:
    """What is tried: numbers of steps, amounts of churn, and methods; all else is as the model has it."""
    churn = base.churn or _USUAL_CHURN
    chosen = replace(base, method="stochastic", churn=churn)
    return {
        "steps": [replace(base, steps=steps) for steps in STEPS],
        "churn": [replace(chosen, churn=amount) for amount in CHURNS],
        "methods": [
            replace(base, method=method, steps=steps, churn=churn if method == "stochastic" else 0.0)
            for method in METHODS
            for steps in METHOD_STEPS
        ],
    }


def _same(setting: SamplerConfig) -> SamplerConfig:
    """One setting for all that give the same bits: without churn the stochastic sampler is Euler's."""
    if setting.churn or setting.method not in ("stochastic", "euler"):
        return setting
    return replace(setting, method="euler", noise=1.0, t_min=0.0, t_max=SamplerConfig().t_max)


def _setting(setting: SamplerConfig) -> dict[str, Any]:
    calls = 2 * setting.steps - 1 if setting.method == "heun" else setting.steps
    return {"method": setting.method, "steps": setting.steps, "churn": setting.churn, "calls": calls}


# ---------------------------------------------------------------- what both need


def open_both(rice: Path, split: str, most: int | None) -> dict[str, tuple[Dataset, list[int]]]:
    """Both data sets, with the images that are looked at in memory; decoding takes longer than scoring on a GPU."""
    if most is not None and most < 1:
        raise InputError(f"the number of images is {most}: expected 1 or more")
    opened = {}
    for key, name in DATASETS.items():
        if not (rice / name).is_dir():
            raise InputError(f"--rice {rice} has no {name}: expected a folder with RICE1 and RICE2")
        dataset = open_dataset(key, rice / name, split=split, cache=MemoryCache())
        indices = spread(len(dataset), most)
        failures: list[Failure] = dataset.preload(indices, workers=min(16, os.cpu_count() or 1))
        if failures:
            raise DataError(failures[0].reason)
        opened[key] = (dataset, indices)
    return opened


def _model(arguments: argparse.Namespace) -> tuple[EMRDM, str, str]:
    """The model on its device, the device's name, and what tells the weights apart."""
    device = models.device(arguments.device)
    model = models.load(str(arguments.model))
    digest = model.digest()
    return model.to(device), device, digest


def predictor_of(model: EMRDM, dataset: Dataset, digest: str, sampler: SamplerConfig, name: str) -> ModelPredictor:
    """A model with this sampler; the noise of an image is the same in every setting."""
    return ModelPredictor(model, dataset, name=name, digest=digest, sampler=sampler, seed=0)


def evaluate_all(
    dataset: Dataset,
    predictors: Sequence[Predictor],
    protocols: Sequence[str],
    indices: Sequence[int],
    device: str,
    batch_size: int,
) -> Evaluation:
    """Score methods on some images of a data set."""
    if batch_size < 1:
        raise InputError(f"--batch-size is {batch_size}: expected 1 or more")
    return evaluate(
        dataset,
        predictors,
        find_protocols(protocols),
        settings=Settings(batch_size=batch_size, device=device),
        indices=indices,
        progress=Progress(dataset.layout.name, unit="images"),
    )


def facts_of(result: Evaluation) -> dict[str, Any]:
    """What was scored on, and what a reader must know of it."""
    return {
        "title": result.title,
        "split": result.split,
        "images": len(result.images),
        "notes": list(result.notes),
    }


def _about(arguments: argparse.Namespace, model: EMRDM, digest: str, verb: str) -> dict[str, Any]:
    """What was measured, with what, and by which command."""
    options = {"limit": "--limit", "images": "--images"}
    words = ["python -m benchmarks.results", verb, Path(arguments.model).name, f"--name {arguments.name}"]
    words += ["--rice ROOT", "--out RUNS", f"--batch-size {arguments.batch_size}"]
    words += [f"{flag} {value}" for key, flag in options.items() if (value := getattr(arguments, key, None))]
    words += ["--no-baselines"] if getattr(arguments, "no_baselines", False) else []
    cuda = model.device.type == "cuda"
    return {
        "kind": verb,
        "name": arguments.name,
        "command": " ".join(words),
        "emrdm": emrdm.__version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(model.device) if cuda else f"CPU, {torch.get_num_threads()} threads",
        "batch_size": arguments.batch_size,
        "seed": 0,
        "sampler": dump(model.config.sampler),
        "model": {
            "title": model.card.title,
            "source": model.card.source,
            "training": model.card.training,
            "digest": digest,
            "parameters": sum(parameter.numel() for parameter in model.network.parameters()),
            "numbers": model.numbers(),
        },
    }
