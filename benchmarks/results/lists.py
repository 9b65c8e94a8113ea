"""How hard the test lists are: flat ground, which is easy, and ground that training shows as well."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from benchmarks.results import store
from benchmarks.results.measuring import evaluate_all, open_both, predictor_of
from benchmarks.results.tables import markdown
from torch import Tensor

from emrdm.cli import models
from emrdm.data import Dataset
from emrdm.errors import InputError
from emrdm.evaluation import BASELINES, BaselinePredictor
from emrdm.model import EMRDM

FLAT = 4.0
"""Standard deviation of a thumbnail, of 255, below which ground is called flat: sea, sand, snow."""
TWIN = 0.9
"""Correlation of two thumbnails above which they are called twins."""
_SIDE = 32
_TITLES = {"one-colour": "its own mean colour, painted over all (an oracle)", "cloudy-image": "the cloudy image itself"}


def lists(arguments: argparse.Namespace) -> None:
    """Compare the clear images of the test lists with all others, and score flat and textured ones apart."""
    # validation images belong to the training list, too
    parts = {split: open_both(arguments.rice, split, None) for split in ("train", "val", "test")}
    model = models.load(arguments.model).to(models.device(arguments.device))
    found = {}
    for key, (dataset, indices) in parts["test"].items():
        clear = _clear(dataset)
        others = _thumbnails([image for split in ("train", "val") for image in _clear(parts[split][key][0]).values()])
        thumbnails = _thumbnails(list(clear.values()))
        flat = {name: bool(yes) for name, yes in zip(clear, _flat(thumbnails), strict=True)}
        psnr = {"one-colour": {name: _one_colour(image) for name, image in clear.items()}}
        psnr |= _scored(model, arguments, dataset, indices)
        found[key] = {**compare(thumbnails, others), "psnr": {name: apart(each, flat) for name, each in psnr.items()}}
        print(f"{key}: {found[key]}")
    words = f"lists {arguments.model} --name {arguments.name} --rice ROOT --out RUNS"
    command = f"python -m benchmarks.results {words} --batch-size {arguments.batch_size}"
    facts = {"kind": "lists", "command": command, "model": arguments.name, "datasets": found}
    print(store.write(arguments.out, "lists", facts))


def compare(test: Tensor, others: Tensor) -> dict[str, Any]:
    """Numbers of flat images, and the nearest training image of each that is not; both (N, C, S, S) from 0 to 255."""
    textured = ~_flat(test)
    ours, theirs = (torch.nn.functional.normalize(_around_their_means(images), dim=1) for images in (test, others))
    nearest = (ours @ theirs.T).max(1).values[textured]
    return {
        "images": len(test),
        "flat": len(test) - int(textured.sum()),
        "twins": int((nearest > TWIN).sum()),
        "nearest": float(nearest.max()) if len(nearest) else None,
    }


def apart(psnr: Mapping[str, float], flat: Mapping[str, bool]) -> dict[str, float]:
    """Means over all images, over the flat ones and over the others, as far as there are any."""
    chosen = {
        "all": list(psnr.values()),
        "flat": [value for name, value in psnr.items() if flat[name]],
        "textured": [value for name, value in psnr.items() if not flat[name]],
    }
    return {part: statistics.fmean(values) for part, values in chosen.items() if values}


def text(facts: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """For the page."""
    rows = facts["datasets"]
    twins = ", ".join(f"{row['twins']} on {names[key]}" for key, row in rows.items())
    highest = max(row["nearest"] or 0.0 for row in rows.values())
    titles = {**_TITLES, "model": f"`{facts['model']}`"}
    table = [["PSNR ↑, protocol `standard`"]]
    for key, row in rows.items():
        counts = {"all": row["images"], "flat": row["flat"], "textured": row["images"] - row["flat"]}
        table[0] += [f"{names[key]}, {part} ({count})" for part, count in counts.items()]
    for method in next(iter(rows.values()))["psnr"]:
        parts = (row["psnr"][method].get(part) for row in rows.values() for part in ("all", "flat", "textured"))
        table.append([titles[method], *("-" if value is None else f"{value:.2f}" for value in parts)])
    return (
        f"Flat ground (sea, sand, snow: a standard deviation below {FLAT:g} of 255 in a thumbnail) is\n"
        "easy, and there is much of it on RICE2: a mean over the list says more of the sea than of fields.\n\n"
        f"{markdown(table)}\n\n"
        f"Test images with texture that show the same view as an image of the training list: {twins} (thumbnails\n"
        f"correlate by {highest:.2f} at most). Neighbouring crops of one scene may still be on both lists: then\n"
        f"images are not independent, and intervals are too narrow.\n\nMade by\n\n```\n{facts['command']}\n```"
    )


def _scored(
    model: EMRDM, arguments: argparse.Namespace, dataset: Dataset, indices: Sequence[int]
) -> dict[str, dict[str, float]]:
    """PSNR of every image: as it is, and restored."""
    predictor = predictor_of(model, dataset, model.digest(), model.config.sampler, arguments.name)
    baseline = BaselinePredictor(BASELINES["cloudy-image"], dataset.data)
    device, batch = str(model.device), arguments.batch_size
    result = evaluate_all(dataset, [baseline, predictor], ("standard",), indices, device, batch)
    return {
        name: {image: values["psnr"] for image, values in result.of(name, "standard").values.items()}
        for name in ("cloudy-image", "model")
    }


def _clear(dataset: Dataset) -> dict[str, Tensor]:
    """The clear images by name, 0 to 255."""
    images = {}
    for i in range(len(dataset)):
        sample = dataset[i]
        if sample.target is None:
            raise InputError(f"{sample.name} has no clear image: expected the pairs of RICE")
        images[sample.name] = (sample.target + 1) * 127.5
    return images


def _one_colour(image: Tensor) -> float:
    """PSNR of the mean of each band, as 8 bits: what needs no texture at all, but the truth."""
    error = (image - image.mean((1, 2), keepdim=True).round()).square().mean()
    return float(10 * torch.log10(255**2 / error.clamp_min(1e-3)))


def _thumbnails(images: Sequence[Tensor]) -> Tensor:
    return torch.stack([torch.nn.functional.adaptive_avg_pool2d(image, _SIDE) for image in images])


def _flat(thumbnails: Tensor) -> Tensor:
    return _around_their_means(thumbnails).std(1, correction=0) < FLAT


def _around_their_means(images: Tensor) -> Tensor:
    """Without the mean of each band, so that one colour is no likeness."""
    return (images - images.mean((2, 3), keepdim=True)).flatten(1)
