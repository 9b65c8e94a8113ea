"""A folder of pairs of one's own: cloudy and clear images of the same names, any format, any bands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, final

import numpy as np

from emrdm.data.folders import CLEAR_NAMES, CLOUDY_NAMES, Numbers, find_folder, read_frame, together
from emrdm.data.layout import Decoded, Item, Layout, Listing, folder, images_by_name, read_lists
from emrdm.data.sample import CLEAR, NODATA, THICK
from emrdm.errors import DataError, InputError
from emrdm.rasters import read


@final
@dataclass(frozen=True)
class Pairs(Layout):
    """A folder of pairs: PNG, WebP, JPEG or GeoTIFF.

    ROOT/cloudy/NAME.tif and ROOT/clear/NAME.tif (also cloud, input and label, target, cloudless); ROOT/mask/NAME.png,
    not zero where there is cloud, if there are masks; train.txt and test.txt, or ROOT/train and ROOT/test with those
    folders, if there is a split
    """

    numbers: Numbers = field(default_factory=Numbers)

    def prepared(self, root: Path) -> Self:
        """With the bands of the folder's images."""
        images = (path for part in self._parts(root).values() for path in images_by_name(part).values())
        numbers, bands, levels = self.numbers.seen(images, f"{root} has no images: expected {self.layout_help()}")
        return replace(self, numbers=numbers, bands=bands, levels=levels)

    def _parts(self, root: Path) -> dict[str, Path]:
        """Folders of cloudy images by split; "" where the folder has no split."""
        folder(root, self.layout_help())
        found = {split: find_folder(root / split, CLOUDY_NAMES) for split in ("", "train", "val", "test")}
        parts = {split: path for split, path in found.items() if path is not None}
        if not parts:
            raise InputError(f"{root} has no folder {' or '.join(CLOUDY_NAMES[:3])}: expected {self.layout_help()}")
        return parts

    def scan(self, root: Path, rule: str) -> Listing:  # noqa: ARG002 - it has one way only
        """Pairs by name."""
        items: list[Item] = []
        problems: list[str] = []
        for split, part in self._parts(root).items():
            found, wrong = self._scan_part(part, split, root)
            items += found
            problems += wrong
        notes = [] if any(item.splits for item in items) else ["the folder has no split: all pairs are one set"]
        return Listing(tuple(items), tuple(problems), tuple(notes))

    def _scan_part(self, part: Path, split: str, root: Path) -> tuple[list[Item], list[str]]:
        clear_folder = find_folder(part.parent, CLEAR_NAMES)
        if clear_folder is None:
            raise InputError(
                f"{part.parent} has no folder {' or '.join(CLEAR_NAMES[:3])}: expected {self.layout_help()}"
            )
        mask_folder = find_folder(part.parent, ("mask", "masks"))
        cloudy, clear = images_by_name(part), images_by_name(clear_folder)
        masks = images_by_name(mask_folder) if mask_folder else {}
        problems = [
            f"{path} has no clear image {clear_folder / name}" for name, path in cloudy.items() if name not in clear
        ]
        problems += [f"{path} has no cloudy image {part / name}" for name, path in clear.items() if name not in cloudy]
        lists, missing = read_lists(root, () if split else ("train", "val", "test"), cloudy)
        problems += missing
        items = []
        for name, path in cloudy.items():
            if mask_folder and name not in masks:
                problems.append(f"{path} has no mask {mask_folder / name}")
            elif name in clear:
                splits = (split,) if split else tuple(s for s, names in lists.items() if name in names)
                mask = (masks[name],) if masks else ()
                full = f"{split}_{name}" if split else name
                items.append(Item(full, (path,), clear[name], masks=mask, splits=splits))
        return items, problems

    def decode(self, item: Item) -> Decoded:
        """Both images as they are; pixels without data in either are not scored."""
        assert item.target is not None
        cloudy = read_frame(item.cloudy[0], self.bands, None, self.numbers.dtype)
        size = (cloudy.pixels.shape[1], cloudy.pixels.shape[2])
        target = read_frame(item.target, self.bands, size, self.numbers.dtype)
        classes = None
        if item.masks:
            mask = read(item.masks[0]).pixels
            if mask.shape[1:] != size:
                raise DataError(
                    f"{item.masks[0]} is {mask.shape[2]} x {mask.shape[1]} pixels: expected {size[1]} x {size[0]}"
                )
            classes = np.where(mask.any(0), THICK, CLEAR).astype(np.uint8)[None]
            if cloudy.valid is not None:
                classes[0, ~cloudy.valid] = NODATA
        return Decoded(cloudy.pixels[None], target.pixels, classes=classes, valid=together(cloudy.valid, target.valid))
