"""What can be scored: a model, a folder of images that another program made, a baseline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from emrdm import pictures
from emrdm.card import ModelCard
from emrdm.config import Band, SamplerConfig
from emrdm.data import Batch, Dataset, Sample
from emrdm.data.dataset import scale
from emrdm.data.folders import read_frame
from emrdm.data.layout import images_by_name, key_of, read_like
from emrdm.data.loading import collate
from emrdm.data.matching import Matching
from emrdm.data.preview import display_limits, visible
from emrdm.errors import DataError, InputError
from emrdm.evaluation.baselines import Baseline
from emrdm.evaluation.results import Method
from emrdm.files import as_path, fingerprint
from emrdm.metrics import Data
from emrdm.model import EMRDM
from emrdm.noise import fold
from emrdm.rasters import Raster, read
from emrdm.strict import dump


class Predictor(ABC):
    """Gives an image (B, C, H, W) in [-1, 1] for each sample of a batch."""

    method: Method
    data: Data  # of the bands that it restores
    places: list[int] | None = None  # these bands in the data set; None for all of them
    notes: tuple[str, ...] = ()  # what a reader must know about it

    @abstractmethod
    def predict(self, batch: Batch) -> Tensor:
        """The clear images, as this method sees them."""

    def applies(self, batch: Batch) -> bool:  # noqa: ARG002 - most apply everywhere
        """Whether it can be used on these samples."""
        return True

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What its results depend on: two runs with the same answer give the same scores."""


@final
class ModelPredictor(Predictor):
    """A model; each image has a seed of its own, made of the run's seed and the image's name."""

    def __init__(
        self,
        model: EMRDM,
        dataset: Dataset,
        *,
        name: str,
        digest: str,
        sampler: SamplerConfig,
        seed: int = 0,
        exact: bool = False,
    ) -> None:
        self.model, self.seed, self.sampler, self.digest, self.exact = model, seed, sampler, digest, exact
        fetched = (dataset.fetch(i) for i in range(len(dataset)))
        example = next((sample for sample in fetched if isinstance(sample, Sample)), None)
        frames = 1 if example is None else len(example.cloudy)  # nothing can be read: the run will say so
        self.matching = Matching(model.config, dataset.bands, dataset.aux, frames=frames)
        self.places, self.data = self.matching.places, self.matching.data(dataset.layout.levels)
        self.method = Method("model", name, "model")
        if model.card.source == ModelCard().source:
            self.notes = (f"{name} was not trained: its weights are random, and so are its scores",)

    def predict(self, batch: Batch) -> Tensor:
        """Restore the batch; an image comes out as it would alone."""
        cloudy, aux = self.matching.inputs(batch.cloudy, batch.aux)
        if not self.model.config.network.multi_temporal:
            if cloudy.shape[1] > 1:
                count = cloudy.shape[1]
                raise DataError(f"{batch.names[0]} has {count} frames and the model takes one image: add --frames 1")
            cloudy, aux = cloudy[:, 0], None if aux is None else aux[:, 0]
        seeds = [fold(self.seed, key_of(name)) for name in batch.names]
        restored = self.model.restore(cloudy, aux, seed=seeds, sampler=self.sampler, scaled=True, exact=self.exact)
        return self.matching.outputs(restored)

    def picture(self, sample: Sample, bands: Sequence[Band]) -> np.ndarray:
        """What it makes of one sample of a data set with these bands, (H, W, 3), as the sample itself is shown."""
        (batch,) = collate([sample])
        assert isinstance(batch, Batch)
        cloudy, aux = (None if x is None else x.to(self.model.device) for x in (batch.cloudy, batch.aux))
        image = sample.cloudy[0].clone().fill_(-1.0)
        image[self.matching.places] = self.predict(replace(batch, cloudy=cloudy, aux=aux))[0].cpu()  # type: ignore[arg-type]
        return pictures.colour(image.numpy(), visible(bands), display_limits(sample, bands))

    def identity(self) -> dict[str, object]:
        """Weights, sampler, seed, and the numbers that are computed with."""
        numbers = self.model.numbers(exact=self.exact)
        return {"weights": self.digest, "sampler": dump(self.sampler), "seed": self.seed, "numbers": numbers}


@final
class FolderPredictor(Predictor):
    """Images from a folder, by the names of the samples or of their target files; in the units of the data set."""

    def __init__(self, folder: str | Path, dataset: Dataset) -> None:
        folder = as_path(folder, "the folder of predictions")
        if not folder.is_dir():
            raise InputError(f"--predictions {folder} is not a folder")
        self.folder, self.dataset, self.data = folder, dataset, dataset.data
        self.files = images_by_name(folder)
        stems = [item.target.stem if item.target else item.name for item in dataset.items]
        unique = len(set(stems)) == len(stems)
        self.names = {
            item.name: {item.name, stem} if unique else {item.name}
            for item, stem in zip(dataset.items, stems, strict=True)
        }
        if not any(self.files.keys() & names for names in self.names.values()):
            example = dataset.items[0].name
            raise InputError(f"--predictions {folder} has no image of the data set's names, such as {example}.png")
        self.method = Method("predictions", f"images in {folder.name}", "predictions")

    def predict(self, batch: Batch) -> Tensor:
        """Read the images of the batch."""
        return torch.stack([self._read(name, batch.cloudy.shape[-2:]) for name in batch.names]).to(batch.cloudy.device)

    def _read(self, name: str, size: torch.Size) -> Tensor:
        found = sorted(self.files.keys() & self.names[name])
        if not found:
            raise DataError(f"{self.folder} has no {name} (.png, .webp, .jpg or .tif): expected a prediction")
        path = self.files[found[0]]
        bands = self.dataset.bands
        raster = self._with_infrared(path, size) or read_frame(path, bands, (size[0], size[1]), "")
        levels = self.dataset.layout.levels
        if raster.pixels.dtype == np.uint8 and (levels is None or levels > 255):
            expected = f"{bands[0].low:g} to {bands[0].high:g}"
            raise DataError(f"{path} has 8 bits: expected numbers as in the data set, {expected}")
        if raster.valid is not None:
            raise DataError(f"{path} has {(~raster.valid).sum():,} pixels without data: expected an image")
        repaired: dict[str, int] = {}
        image = scale(raster.pixels, [replace(band, clip=False) for band in bands], repaired)  # protocols clip, or not
        if repaired.get("nan"):
            raise DataError(f"{path} has {repaired['nan']} values that are NaN or infinite: expected numbers")
        return image

    def _with_infrared(self, path: Path, size: torch.Size) -> Raster | None:
        """A colour picture with near infrared in ``nir/`` beside it, as CUHK-CR has them; None if it is not that."""
        partner = path.parent / "nir" / path.name
        if [band.name for band in self.dataset.bands] != ["red", "green", "blue", "nir"] or not partner.is_file():
            return None
        colour, infrared = read_like(path, 3, size=(size[0], size[1]), eight_bit=True), read(partner)
        if infrared.pixels.shape[1:] != (size[0], size[1]) or infrared.pixels.dtype != np.uint8:
            found = f"{infrared.pixels.dtype} of {infrared.pixels.shape[2]} x {infrared.pixels.shape[1]} pixels"
            raise DataError(
                f"{partner} is {found}: expected 8 bits and {size[1]} x {size[0]}, as {path.name} beside it"
            )
        return Raster(np.concatenate((colour.pixels, infrared.pixels[:1])), colour.valid, ("",) * 4)

    def identity(self) -> dict[str, object]:
        """The folder and what is in it."""
        infrared = [path.parent / "nir" / path.name for path in self.files.values()]
        files = fingerprint([*self.files.values(), *infrared])
        return {"predictions": str(self.folder.absolute()), "files": files}


@final
class BaselinePredictor(Predictor):
    """A simple method."""

    def __init__(self, baseline: Baseline, data: Data) -> None:
        self.baseline, self.data = baseline, data
        self.method = Method(baseline.name, baseline.title, "baseline")

    def predict(self, batch: Batch) -> Tensor:
        """Its answer."""
        return self.baseline.predict(batch, self.data.rgb)

    def applies(self, batch: Batch) -> bool:
        """Some need one frame, others several, or masks."""
        return self.baseline.applies(batch, self.data.rgb)

    def identity(self) -> dict[str, object]:
        """Nothing but its name."""
        return {}
