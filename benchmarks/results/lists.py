"""How hard the test lists are: flat ground, which is easy, and ground that training shows as well."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import torch
from benchmarks.results import store
from benchmarks.results.measuring import open_both
from torch import Tensor

from emrdm.data import Dataset
from emrdm.errors import InputError

FLAT = 4.0
"""Standard deviation of a thumbnail, of 255, below which ground is called flat: sea, sand, snow."""
TWIN = 0.9
"""Correlation of two thumbnails above which they are called twins."""
_SIDE = 32


def lists(arguments: argparse.Namespace) -> None:
    """Compare the clear images of the test lists with those of all other images."""
    # validation images belong to the training list, too
    parts = {split: open_both(arguments.rice, split, None) for split in ("train", "val", "test")}
    found = {}
    for key, (dataset, _) in parts["test"].items():
        others = torch.cat([_thumbnails(parts[split][key][0]) for split in ("train", "val")])
        found[key] = compare(_thumbnails(dataset), others)
        print(f"{key}: {found[key]}")
    command = "python -m benchmarks.results lists --rice ROOT --out RUNS"
    print(store.write(arguments.out, "lists", {"kind": "lists", "command": command, "datasets": found}))


def compare(test: Tensor, others: Tensor) -> dict[str, Any]:
    """Numbers of flat images, and the nearest training image of each that is not; both (N, C, S, S) from 0 to 255."""
    ours, theirs = _around_their_means(test), _around_their_means(others)
    textured = ours.std(1, correction=0) >= FLAT
    alike = torch.nn.functional.normalize(ours, dim=1) @ torch.nn.functional.normalize(theirs, dim=1).T
    nearest = alike.max(1).values[textured]
    return {
        "images": len(test),
        "flat": len(test) - int(textured.sum()),
        "twins": int((nearest > TWIN).sum()),
        "nearest": float(nearest.max()) if len(nearest) else None,
    }


def sentences(facts: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """For the page."""
    rows = facts["datasets"]
    flat = ", ".join(f"{row['flat']} of {row['images']} on {names[key]}" for key, row in rows.items())
    twins = ", ".join(f"{row['twins']} on {names[key]}" for key, row in rows.items())
    highest = max(row["nearest"] or 0.0 for row in rows.values())
    return (
        f"- **Flat ground** (sea, sand, snow: a standard deviation below {FLAT:g} of 255 in a thumbnail) is easy and\n"
        f"  lifts the mean of every method: {flat}.\n"
        f"  Test images with texture that have a twin in the training list: {twins} (thumbnails\n"
        f"   correlate by {highest:.2f} at most; `{facts['command']}`)."
    )


def _thumbnails(dataset: Dataset) -> Tensor:
    """The clear images, made small; 0 to 255."""
    small = []
    for i in range(len(dataset)):
        target = dataset[i].target
        if target is None:
            raise InputError(f"{dataset[i].name} has no clear image: expected the pairs of RICE")
        small.append(torch.nn.functional.adaptive_avg_pool2d((target + 1) * 127.5, _SIDE))
    return torch.stack(small)


def _around_their_means(images: Tensor) -> Tensor:
    """Without the mean of each band, so that one colour is no likeness."""
    return (images - images.mean((2, 3), keepdim=True)).flatten(1)
