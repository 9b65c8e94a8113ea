"""The same few images for every case, side by side: cloudy, as each case restores them, clear."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from emrdm import pictures
from emrdm.ablation.findings import Findings
from emrdm.data import Dataset, Failure
from emrdm.data.preview import tiles
from emrdm.evaluation import ModelPredictor
from emrdm.metrics import Scores
from emrdm.metrics.protocols import show

COLUMNS = 10  # cases of a sheet at most: more could not be looked at
Labelled = tuple[str, np.ndarray]


def restored(
    predictor: ModelPredictor, dataset: Dataset, indices: Sequence[int], scores: Scores
) -> dict[str, Labelled]:
    """What a model makes of these images, by name, with its PSNR; one that was not scored is missing."""
    found = {}
    for index in indices:
        sample = dataset.fetch(index)
        if isinstance(sample, Failure) or sample.name not in scores:
            continue
        shown = predictor.picture(sample, dataset.bands)
        found[sample.name] = (f"{show('psnr', scores.values[sample.name].get('psnr'))} dB", shown)
    return found


def frames_of(dataset: Dataset, indices: Sequence[int]) -> dict[str, list[Labelled]]:
    """The cloudy frames of these images and the clear one, by name, with their labels."""
    rows = {}
    for index in indices:
        sample = dataset.fetch(index)
        if not isinstance(sample, Failure):
            count = len(sample.cloudy)
            dates = sample.dates or (tuple(f"cloudy {i + 1}" for i in range(count)) if count > 1 else ())
            plain = dataclasses.replace(sample, aux=None, classes=None, dates=dates)
            rows[sample.name] = [(tile.label, tile.pixels) for tile in tiles(plain, dataset.bands, ())]
    return rows


def write_sheet(findings: Findings, path: Path) -> None:
    """Draw the sheet: a row an image, a column a case. Needs Pillow."""
    shown = list(findings.pictures)
    rows = []
    for name, (*cloudy, clear) in findings.frames.items():
        cases = [
            pictures.Tile(f"{label}: {images[name][0]}", images[name][1])
            for label, images in findings.pictures.items()
            if name in images
        ]
        rows.append([*(pictures.Tile(*frame) for frame in cloudy), *cases, pictures.Tile(*clear)])
    of = f"{len(shown)} of {len(findings.results)} cases" if len(shown) < len(findings.results) else "all cases"
    pictures.save(pictures.sheet(rows, title=f"{findings.title}: {of}; {findings.caption['data']}"), path)
