"""CUHK-CR1 and CUHK-CR2 (Sui et al. 2024): Jilin-1 images at 0.5 m, red, green, blue and near infrared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from emrdm.data.layout import Decoded, Item, Layout, Listing, folder, images_by_name, read_like
from emrdm.data.resize import halve
from emrdm.errors import InputError
from emrdm.wording import brief

_SIZE = (512, 512)


@final
@dataclass(frozen=True)
class Cuhk(Layout):
    """CUHK-CR, 512 x 512, halved on loading as published.

    ROOT/CUHK-CR1/{train,test}/{label,cloud}/N.png and ROOT/nir/CUHK-CR1/{train,test}/{label,cloud}/N.png
    """

    part: str = "CUHK-CR1"

    def layout_help(self) -> str:
        """What the folder of this part must look like."""
        return super().layout_help().replace("CUHK-CR1", self.part)

    def scan(self, root: Path, rule: str) -> Listing:
        """Colour pairs by name; near infrared by name, or by rank in the sorted list as the published code does."""
        items: list[Item] = []
        problems: list[str] = []
        notes: list[str] = []
        for split in ("train", "test"):
            colour, nir = root / self.part / split, root / "nir" / self.part / split
            clear, cloudy, nir_clear, nir_cloudy = (
                images_by_name(folder(path, self.layout_help()))
                for path in (colour / "label", colour / "cloud", nir / "label", nir / "cloud")
            )
            problems += [f"{clear[name]} has no cloudy image" for name in clear if name not in cloudy]
            problems += [f"{cloudy[name]} has no clear image" for name in cloudy if name not in clear]
            partner = {name: name for name in clear}
            if set(nir_clear) != set(clear):
                notes.append(_difference(split, set(clear), set(nir_clear), rule))
                if rule == "by-rank":
                    partner = _by_rank(split, clear, nir_clear)
            for name in clear:
                other = partner.get(name, "")
                if other not in nir_clear or other not in nir_cloudy:
                    problems.append(f"{clear[name]} has no near infrared image of the same name in {nir}")
                elif name in cloudy:
                    items.append(
                        Item(
                            name=f"{split}_{name}",
                            cloudy=(cloudy[name], nir_cloudy[other]),
                            target=clear[name],
                            aux=(nir_clear[other],),
                            splits=(split,),
                        )
                    )
        return Listing(tuple(items), tuple(problems), tuple(notes))

    def decode(self, item: Item) -> Decoded:
        """Four bands at half the size, float32: values may leave 0 to 255 slightly."""
        assert item.target is not None
        return Decoded(_four_bands(*item.cloudy)[None], _four_bands(item.target, item.aux[0]))


def _four_bands(colour: Path, nir: Path) -> np.ndarray:
    rgb = read_like(colour, 3, size=_SIZE, eight_bit=True).pixels
    infrared = read_like(nir, 3, size=_SIZE, eight_bit=True).pixels[:1]  # saved as gray in three channels
    return halve(np.concatenate((rgb, infrared)))


def _by_rank(split: str, colour: dict[str, Path], nir: dict[str, Path]) -> dict[str, str]:
    """Partners by place in the lists sorted as the published code does, character by character: 10 before 2."""
    if len(colour) != len(nir):
        raise InputError(
            f"{split} has {len(colour)} colour and {len(nir)} near infrared images: expected as many, to pair by rank"
        )
    ranks = [[path.stem for path in sorted(images.values(), key=lambda path: path.name)] for images in (colour, nir)]
    return dict(zip(*ranks, strict=True))


def _difference(split: str, colour: set[str], nir: set[str], rule: str) -> str:
    names = brief(sorted(colour ^ nir))
    how = "paired by rank, as published" if rule == "by-rank" else "only equal names are paired"
    return f"{split}: names of the colour and near infrared images differ ({names}); {how}"
