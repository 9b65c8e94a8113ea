"""Sen2_MTC_New (Huang and Wu 2022): three cloudy Sentinel-2 dates and a clear one, red, green, blue, near infrared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from emrdm.data.layout import Decoded, Item, Layout, Listing, folder, natural, read_like, read_names

_SIZE = (256, 256)


@final
@dataclass(frozen=True)
class Sen2MtcNew(Layout):
    """Sen2_MTC_New, 256 x 256 GeoTIFF with 4 bands.

    ROOT/{train,val,test}.txt, one tile a line; ROOT/Sen2_MTC/TILE/cloudless/NAME.tif and
    ROOT/Sen2_MTC/TILE/cloud/NAME_{0,1,2}.tif
    """

    def scan(self, root: Path, rule: str) -> Listing:  # noqa: ARG002 - it has one way only
        """Patches tile by tile, sorted, whatever order the file system has."""
        folder(root / "Sen2_MTC", self.layout_help())
        items: list[Item] = []
        problems: list[str] = []
        listed: dict[str, list[str]] = {}
        for split in ("train", "val", "test"):
            for tile in read_names(root / f"{split}.txt"):
                listed.setdefault(tile, []).append(split)
        for tile, splits in listed.items():
            path = root / "Sen2_MTC" / tile
            if path.name != tile:
                problems.append(f"{root / splits[0]}.txt names {tile}: expected the name of a folder in Sen2_MTC")
                continue
            if not (path / "cloudless").is_dir() or not (path / "cloud").is_dir():
                problems.append(f"{path} is on the list of {splits[0]} and has no folders cloudless and cloud")
                continue
            _scan_tile(path, tile, tuple(splits), items, problems)
        on_disk = {entry.name for entry in (root / "Sen2_MTC").iterdir() if entry.is_dir()}
        unlisted = sorted(on_disk - set(listed), key=natural)
        notes = [f"tiles on no list: {', '.join(unlisted)}"] if unlisted else []
        return Listing(tuple(items), tuple(problems), tuple(notes))

    def decode(self, item: Item) -> Decoded:
        """Red, green and blue to restore, near infrared beside them; the values are not clipped."""
        assert item.target is not None
        frames = np.stack([read_like(path, 4, size=_SIZE, eight_bit=False).pixels for path in item.cloudy])
        target = read_like(item.target, 4, size=_SIZE, eight_bit=False).pixels
        return Decoded(frames[:, :3].copy(), target[:3].copy(), frames[:, 3:].copy())


def _scan_tile(path: Path, tile: str, splits: tuple[str, ...], items: list[Item], problems: list[str]) -> None:
    cloudy, clear = (_images(path / kind) for kind in ("cloud", "cloudless"))
    for file in clear:
        target, name = path / "cloudless" / file, file.partition(".")[0]
        frames = [f"{name}_{i}.tif" for i in range(3)]
        missing = [frame for frame in frames if frame not in cloudy]
        if missing:
            problems.append(f"{target} has no cloudy frame {', '.join(missing)}")
            continue
        items.append(
            Item(
                name=name if name.startswith(tile) else f"{tile}_{name}",
                cloudy=tuple(path / "cloud" / frame for frame in frames),
                target=target,
                splits=splits,
                group=tile,
            )
        )
    names = {file.partition(".")[0] for file in clear}
    problems += [
        f"{path / 'cloud' / frame} has no clear image in cloudless"
        for frame in cloudy
        if frame.removesuffix(".tif").rpartition("_")[0] not in names
    ]


def _images(path: Path) -> list[str]:
    names = (entry.name for entry in path.iterdir())
    return sorted((name for name in names if name.endswith(".tif") and not name.startswith(".")), key=natural)
