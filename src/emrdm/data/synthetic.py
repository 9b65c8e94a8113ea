"""Clear images of one's own under drawn clouds: training data from scenes that never had a cloudy twin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, final

import numpy as np
import torch

from emrdm.data.clouds import CloudStyle, draw_series
from emrdm.data.folders import CLEAR_NAMES, Numbers, find_folder, read_frame
from emrdm.data.layout import Decoded, Item, Layout, Listing, folder, images_by_name, key_of, read_lists
from emrdm.data.sample import NODATA
from emrdm.errors import DataError
from emrdm.noise import fold


@final
@dataclass(frozen=True)
class Synthetic(Layout):
    """A folder of clear images; clouds are drawn over them, always the same for the same name and seed.

    ROOT/NAME.tif or ROOT/clear/NAME.tif (PNG, WebP, JPEG or GeoTIFF); train.txt and test.txt if there is a split
    """

    numbers: Numbers = field(default_factory=Numbers)
    style: CloudStyle = field(default_factory=CloudStyle)
    seed: int = 0

    def prepared(self, root: Path) -> Self:
        """With the bands of the folder's images."""
        images = images_by_name(self._images(root)).values()
        numbers, bands, levels = self.numbers.seen(images, f"{root} has no images: expected {self.layout_help()}")
        return replace(self, numbers=numbers, bands=bands, levels=levels)

    def _images(self, root: Path) -> Path:
        return find_folder(folder(root, self.layout_help()), CLEAR_NAMES) or root

    def scan(self, root: Path, rule: str) -> Listing:  # noqa: ARG002 - it has one way only
        """One item an image."""
        images = images_by_name(self._images(root))
        lists, problems = read_lists(root, ("train", "val", "test"), images)
        items = tuple(
            Item(name, (), path, splits=tuple(split for split, names in lists.items() if name in names))
            for name, path in images.items()
        )
        notes = () if lists else ("the folder has no split: all images are one set",)
        return Listing(items, tuple(problems), notes)

    def decode(self, item: Item) -> Decoded:
        """The clear image; its clouds are drawn by :meth:`render`."""
        assert item.target is not None
        raster = read_frame(item.target, self.bands, None, self.numbers.dtype)
        if min(raster.pixels.shape[1:]) < 2:
            raise DataError(f"{item.target} is too small for clouds: expected 2 x 2 pixels at least")
        return Decoded(raster.pixels[None][:0], raster.pixels, valid=raster.valid)

    def render(self, item: Item, decoded: Decoded, key: int | None) -> Decoded:
        """As many cloudy frames as there should be: always the same without a key, others for every key."""
        pixels, valid = decoded.target, decoded.valid
        assert pixels is not None
        low, high = self.bands[0].low, self.bands[0].high
        with np.errstate(over="ignore"):
            numbers = torch.from_numpy(pixels.astype(np.float32))
        clear = ((numbers - low) / (high - low)).nan_to_num(0).clamp(0, 1)
        seed = fold(self.seed, key_of(item.name)) if key is None else fold(self.seed, key)
        names = [band.name for band in self.bands]
        drift = 0.04 if self.frames > 1 else 0.0  # light differs from date to date; a lone pair is of one date
        draws = draw_series(clear, seed, frames=self.frames, bands=names, style=self.style, drift=drift)
        cloudy = torch.stack([draw.cloudy for draw in draws]).numpy() * (high - low) + low
        classes = torch.stack([draw.classes for draw in draws]).numpy()
        if pixels.dtype.kind in "ui":  # the range may reach beyond what the file's numbers can hold
            holds = np.iinfo(pixels.dtype)
            cloudy = cloudy.round().clip(holds.min, holds.max)
        if valid is not None:
            cloudy[..., ~valid] = pixels[:, ~valid]
            classes[:, ~valid] = NODATA
        return replace(decoded, cloudy=cloudy.astype(pixels.dtype), classes=classes)
