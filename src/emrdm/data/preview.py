"""Samples as rows of pictures: cloudy frames, auxiliary bands, masks, target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emrdm import pictures
from emrdm.config import Band
from emrdm.data.bands import colours
from emrdm.data.sample import Sample


def tiles(sample: Sample, bands: Sequence[Band], aux: Sequence[Band]) -> list[pictures.Tile]:
    """The pictures of one sample, all optical ones with the same black and white."""
    shown = visible(bands)
    black_white = display_limits(sample, bands)
    row = []
    for i, frame in enumerate(sample.cloudy.numpy()):
        label = sample.dates[i] if sample.dates else f"{'cloudy' if len(sample.cloudy) == 1 else f'frame {i + 1}'}"
        label = f"{sample.name}  {label}" if i == 0 else label
        row.append(pictures.Tile(label, pictures.colour(frame, shown, black_white)))
        if sample.aux is not None:
            row += _auxiliary(sample.aux[i].numpy(), aux)
        if sample.classes is not None:
            row.append(pictures.Tile("mask", pictures.classes(sample.classes[i].numpy())))
    if sample.target is not None:
        row.append(pictures.Tile("target", pictures.colour(sample.target.numpy(), shown, black_white)))
    return row


def visible(bands: Sequence[Band]) -> tuple[int, ...]:
    """The bands to show: red, green and blue, or else the first."""
    return colours(tuple(bands)) or (0,)


def display_limits(sample: Sample, bands: Sequence[Band]) -> pictures.Limits:
    """Black and white for all pictures of a sample, in [-1, 1].

    8-bit pictures are shown as they are; for others the range of the clear image decides, so that land is not black
    beside cloud.
    """
    if all(band.unit == "8-bit value" for band in bands):
        return -1.0, 1.0
    if sample.target is not None:
        image, valid = sample.target.numpy()[list(visible(bands))], sample.valid
        return pictures.limits(image if valid is None else image[:, valid.numpy()])
    frames = sample.cloudy.numpy()[:, list(visible(bands))]
    darkest = frames[np.argmin(frames.mean((1, 2, 3)))]
    return pictures.limits(darkest)


def _auxiliary(image: np.ndarray, aux: Sequence[Band]) -> list[pictures.Tile]:
    return [
        pictures.Tile(band.name, pictures.colour(image, (i,), pictures.limits(image[i : i + 1])))
        for i, band in enumerate(aux)
    ]
