"""RICE1 and RICE2 (Lin et al. 2019): Google Earth under thin cloud, Landsat 8 under thick cloud."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from emrdm.data.layout import Decoded, Item, Layout, Listing, folder, images_by_name, read_like, read_lists
from emrdm.data.sample import CLEAR, SHADOW, THICK, THIN


@final
@dataclass(frozen=True)
class Rice(Layout):
    """RICE, 8-bit RGB of any size, as PNG or lossless WebP.

    ROOT/cloud/N.png (or .webp) and ROOT/label/N.png, for RICE2 ROOT/mask/N.png;
    ROOT/train.txt and ROOT/test.txt name the split
    """

    def scan(self, root: Path, rule: str) -> Listing:  # noqa: ARG002 - it has one way only
        """Pairs by name; the lists say which split each belongs to."""
        cloudy = images_by_name(folder(root / "cloud", self.layout_help()))
        clear = images_by_name(folder(root / "label", self.layout_help()))
        masks = images_by_name(root / "mask") if (root / "mask").is_dir() else {}
        lists, missing = read_lists(root, ("train", "test"), cloudy)
        problems = [f"{clear[name]} has no cloudy image cloud/{name}" for name in clear if name not in cloudy]
        problems += [f"{cloudy[name]} has no clear image label/{name}" for name in cloudy if name not in clear]
        if masks:
            problems += [f"{cloudy[name]} has no mask mask/{name}" for name in cloudy if name not in masks]
        problems += missing
        items = [
            Item(
                name=name,
                cloudy=(cloudy[name],),
                target=clear[name],
                masks=(masks[name],) if masks else (),
                splits=tuple(split for split, names in lists.items() if name in names),
            )
            for name in cloudy
            if name in clear and (not masks or name in masks)
        ]
        odd = {"rice1": "this folder has masks, RICE1 has none", "rice2": "this folder has no masks, RICE2 has some"}
        notes = [f"{odd[self.name]}: is it the other one?"] if (self.name == "rice2") != bool(masks) else []
        notes += [] if lists else ["no train.txt and test.txt: all pairs are one set"]
        unlisted = [item.name for item in items if lists and not item.splits]
        if unlisted:
            notes.append(f"{len(unlisted)} pairs are on neither list")
        return Listing(tuple(items), tuple(problems), tuple(notes))

    def decode(self, item: Item) -> Decoded:
        """Both images as they are, the mask's colours as classes."""
        cloudy = read_like(item.cloudy[0], 3, size=None, eight_bit=True)
        size = (cloudy.pixels.shape[1], cloudy.pixels.shape[2])
        assert item.target is not None
        target = read_like(item.target, 3, size=size, eight_bit=True)
        classes = None
        if item.masks:
            classes = _classes(read_like(item.masks[0], 3, size=size, eight_bit=True).pixels)[None]
        return Decoded(cloudy.pixels[None], target.pixels, classes=classes)


def _classes(mask: np.ndarray) -> np.ndarray:
    """White is cloud, black is clear; yellow (darker than the label on average) is taken as shadow, blue as thin."""
    red, green, blue = mask > 127
    classes = np.full(red.shape, CLEAR, np.uint8)
    classes[blue & ~red] = THIN
    classes[green & ~(red & blue)] = SHADOW
    classes[red & green & blue] = THICK
    return classes
