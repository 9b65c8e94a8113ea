"""A part of a scene as a model sees it, for verbs that look at a model at work, and how it is shown."""

from __future__ import annotations

import argparse
import dataclasses
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from emrdm import embedded
from emrdm.cli import models
from emrdm.cli.preview import read_window
from emrdm.cli.restore import read_fills, read_span
from emrdm.errors import InputError
from emrdm.window import Window

if TYPE_CHECKING:
    import numpy as np

    from emrdm import pictures
    from emrdm.config import ModelConfig, SamplerConfig
    from emrdm.model import EMRDM
    from emrdm.rasters.scene import Scene
    from emrdm.rasters.source import Source
    from emrdm.restoration import Inputs, Reading

_LARGEST = 1024  # pixels along a side: a picture in a figure shows no more, and all of it is in memory


@final
@dataclass(frozen=True)
class View:
    """What is looked at.

    Attributes:
        model: that looks.
        sampler: its settings.
        cloudy: (L, C, H, W) in [-1, 1]; dates without any data are left out.
        aux: (L, A, H, W) in [-1, 1], or None.
        truth: (C, H, W) in [-1, 1], or None.
        names: of the frames: their days, or their files.
        bands: which are shown as red, green and blue, or one as gray.
        limits: what is black and what is white.
    """

    model: EMRDM
    sampler: SamplerConfig
    cloudy: np.ndarray
    aux: np.ndarray | None
    truth: np.ndarray | None
    names: tuple[str, ...]
    bands: tuple[int, ...]
    limits: pictures.Limits

    @property
    def series(self) -> np.ndarray:
        """The frames as ``EMRDM.restore`` takes them: a model of single images has no axis for them."""
        return self.cloudy if self.model.config.network.multi_temporal else self.cloudy[0]

    @property
    def beside(self) -> np.ndarray | None:
        """Auxiliary bands alike."""
        return self.aux if self.aux is None or self.model.config.network.multi_temporal else self.aux[0]

    def shown(self, image: np.ndarray) -> np.ndarray:
        """(C, H, W) as a picture (H, W, 3) uint8."""
        from emrdm import pictures

        return pictures.colour(image, self.bands, self.limits)


def add(parser: argparse.ArgumentParser, *, side: int, truth: bool = True) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="IMAGE",
        help="cloudy images of one place, and settings of the sampler (sampler.KEY=VALUE)",
    )
    if truth:
        parser.add_argument("--truth", type=Path, metavar="FILE", help="the clear image, on the same grid")
    parser.add_argument("--model", metavar="MODEL", help="weights, folder of a run, or preset (default: the package's)")
    parser.add_argument(
        "--window", metavar="ROW,COLUMN,HEIGHT,WIDTH", help=f"look at this part (default: {side} pixels in the middle)"
    )
    parser.add_argument("--sar", action="append", metavar="FILE", help="radar image; one for all, or one for each")
    parser.add_argument("--bands", metavar="A,B", help="names of the images' bands, where the files have none")
    parser.add_argument("--fill-band", action="append", metavar="NAME=X", help="a value for a band that is not there")
    parser.add_argument("--range", metavar="LOW:HIGH", help="values that become the ends of the model's range")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the noise (default: 0)")
    parser.add_argument("--device", metavar="NAME", help="cpu or cuda (default: cuda where there is one)")
    parser.set_defaults(side=side)


def open_view(arguments: argparse.Namespace, *, method: str | None = None) -> View:
    """Load the model and read the part of the images; settings may be those of a ``method`` that is not the model's."""
    images, overrides = models.sampler_words(arguments.words)
    if overrides and method is not None:
        overrides.setdefault("method", method)
    if not images:
        raise InputError("no image was given: expected one or more")
    asked = read_window(arguments.window)
    from emrdm.rasters.scene import open_scene
    from emrdm.restoration import Inputs, Reading

    reading = Reading(range=read_span(arguments.range), fill=read_fills(arguments.fill_band))
    own = None if arguments.bands is None else [name.strip() for name in arguments.bands.split(",")]
    truth = getattr(arguments, "truth", None)
    if truth is not None and reading.range == "auto":
        raise InputError("--range auto with --truth: expected LOW:HIGH, the range of each by itself would differ")
    with ExitStack() as files:
        scene = files.enter_context(open_scene(*images, sar=arguments.sar or (), bands=own))
        clear = None if truth is None else files.enter_context(open_scene(truth, bands=own))
        if clear is not None and (difference := clear.grid.difference(scene.grid)):
            raise InputError(f"--truth {truth} is not on the grid of {scene.frames[0].name}: {difference}")
        window = _checked(asked, scene.grid.height, scene.grid.width, arguments.side)
        name = embedded.DEFAULT if arguments.model is None else arguments.model
        model = models.load(name).to(models.device(arguments.device))
        sampler = models.sampler(model, overrides) if overrides else model.config.sampler
        seen = Inputs(scene, model.config, reading).read(window)
        target = None if clear is None else _restored_bands(clear, model.config, reading).read(window).cloudy[0]
        names = [_name(frame) for frame in scene.frames]
    if not seen.present.any():
        raise InputError(f"no image has data in {window.width} x {window.height} pixels: expected another --window")
    there = seen.present.nonzero()[0].tolist()
    cloudy, aux = seen.cloudy[there], None if seen.aux is None else seen.aux[there]
    bands, limits = _showing(model.config, cloudy, target)
    return View(model, sampler, cloudy, aux, target, tuple(names[i] for i in there), bands, limits)


def _restored_bands(scene: Scene, config: ModelConfig, reading: Reading) -> Inputs:
    """A truth, bound to the bands that are restored: it has nothing beside them."""
    from emrdm.restoration import Inputs

    inputs = tuple(name for name in config.inputs if name != "aux")
    known = [band.name for band in config.bands]
    fill = {name: value for name, value in reading.fill.items() if name in known}
    alone = dataclasses.replace(config, aux=(), inputs=inputs, frames=1)
    return Inputs(scene, alone, dataclasses.replace(reading, fill=fill))


def _checked(asked: Window | None, height: int, width: int, side: int) -> Window:
    if asked is None:
        rows, columns = min(side, height), min(side, width)
        return Window((height - rows) // 2, (width - columns) // 2, rows, columns)
    inside = asked.row + asked.height <= height and asked.column + asked.width <= width
    if not inside or not min(asked.height, asked.width) >= 2 or max(asked.height, asked.width) > _LARGEST:
        numbers = ",".join(map(str, asked))
        raise InputError(
            f"--window {numbers}: expected a part of {width} x {height} pixels, from 2 to {_LARGEST} along a side"
        )
    return asked


def _name(source: Source) -> str:
    return str(source.date) if source.date else Path(source.name).stem


def _showing(
    config: ModelConfig, cloudy: np.ndarray, truth: np.ndarray | None
) -> tuple[tuple[int, ...], pictures.Limits]:
    """The bands to show, and black and white, as sheets of data sets have them."""
    import torch

    from emrdm.data.preview import display_limits, visible
    from emrdm.data.sample import Sample

    target = None if truth is None else torch.from_numpy(truth)
    return visible(config.bands), display_limits(Sample("", torch.from_numpy(cloudy), target), config.bands)
