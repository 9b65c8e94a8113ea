"""SEN12MS-CR (Ebel et al. 2020): Sentinel-2 with 13 bands, cloudy and clear, and Sentinel-1 beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import final

from emrdm.data.layout import Decoded, Item, Layout, Listing, folder, natural, read_like
from emrdm.wording import brief, many

_SIZE = (256, 256)
_KINDS = ("s1", "s2", "s2_cloudy")
SEASONS = ("ROIs1158_spring", "ROIs1868_summer", "ROIs1970_fall", "ROIs2017_winter")


@final
@dataclass(frozen=True)
class Sen12msCr(Layout):
    """SEN12MS-CR, 256 x 256 GeoTIFF.

    ROOT/ROIs1158_spring_s1/s1_N/ROIs1158_spring_s1_N_pK.tif, the same with s2 and with s2_cloudy, for four seasons
    """

    def scan(self, root: Path, rule: str) -> Listing:
        """Triplets by season, region and patch, in natural order."""
        folder(root, self.layout_help())
        items: list[Item] = []
        problems: list[str] = []
        unlisted: list[str] = []
        for season in SEASONS:
            for region in _numbers(root, season):
                splits = region_splits(f"{season}_s1/s1_{region}", rule)
                if not splits:
                    unlisted.append(f"{season} {region}")
                _scan_region(root, season, region, splits, items, problems)
        notes = [f"{len(unlisted)} regions are on no list: {brief(unlisted)}"] if unlisted else []
        if rule == "paper":
            notes += _leak_notes(items)
        return Listing(tuple(items), tuple(problems), tuple(notes))

    def complete(self, rule: str) -> Mapping[str, int]:
        """The paper's counts; its number of training images holds for its own rule only."""
        return {split: n for split, n in self.expected.items() if split != "train" or rule == "paper"}

    def decode(self, item: Item) -> Decoded:
        """Digital numbers and dB as they are; clipping comes with the bands' scaling."""
        assert item.target is not None
        cloudy = read_like(item.cloudy[0], 13, size=_SIZE, eight_bit=False).pixels
        target = read_like(item.target, 13, size=_SIZE, eight_bit=False).pixels
        radar = read_like(item.aux[0], 2, size=_SIZE, eight_bit=False).pixels
        return Decoded(cloudy[None], target, radar[None])


def region_splits(region: str, rule: str) -> tuple[str, ...]:
    """Splits of a region such as "ROIs1970_fall_s1/s1_139".

    "strict" matches names exactly. "paper" asks whether a listed name is the beginning of the region's, as the
    published code does in effect: s1_1 on the training list then takes in s1_139 of the test list.
    """
    lists = split_lists()
    if rule == "strict":
        return tuple(split for split, names in lists.items() if region in names)
    return tuple(split for split, names in lists.items() if any(region.startswith(name) for name in names))


def leaking_regions(regions: Iterable[str]) -> list[str]:
    """Those of the regions that rule "paper" has in training as well."""
    return [region for region in dict.fromkeys(regions) if "train" in region_splits(region, "paper")]


def _leak_notes(items: Iterable[Item]) -> list[str]:
    """What rule "paper" does to the test and validation regions that are there."""
    notes = []
    for split, what in (("test", "test region"), ("val", "validation region")):
        held_out = dict.fromkeys(item.group for item in items if split in item.splits)
        leaks = leaking_regions(held_out)
        if leaks:
            notes.append(
                f"rule paper reproduces the published leak: {len(leaks)} of {many(len(held_out), what)} "
                f"are also in training ({', '.join(leaks)})"
            )
    return notes


@cache
def split_lists() -> dict[str, frozenset[str]]:
    """The 155, 10 and 10 regions of the published lists."""
    text = files(__package__).joinpath("sen12ms_cr_split.json").read_text("utf-8")
    return {split: frozenset(names) for split, names in json.loads(text).items()}


def _scan_region(
    root: Path, season: str, region: str, splits: tuple[str, ...], items: list[Item], problems: list[str]
) -> None:
    folders = {kind: root / f"{season}_{kind}" / f"{kind}_{region}" for kind in _KINDS}
    patches = {kind: set(_patches(folders[kind], f"{season}_{kind}_{region}_p")) for kind in _KINDS}
    for patch in sorted(set().union(*patches.values()), key=natural):
        paths = {kind: folders[kind] / f"{season}_{kind}_{region}_p{patch}.tif" for kind in _KINDS}
        missing = [kind for kind in _KINDS if patch not in patches[kind]]
        if missing:
            present = next(paths[kind] for kind in _KINDS if kind not in missing)
            problems.append(f"{present} has no partner in {' and '.join(missing)}")
            continue
        items.append(
            Item(
                name=f"{season}_{region}_p{patch}",
                cloudy=(paths["s2_cloudy"],),
                target=paths["s2"],
                aux=(paths["s1"],),
                splits=splits,
                group=f"{season}_s1/s1_{region}",
            )
        )


def _numbers(root: Path, season: str) -> list[str]:
    """Numbers of the regions in a season's folders, also of those that only one kind of image has."""
    found = (
        entry.name.removeprefix(f"{kind}_")
        for kind in _KINDS
        if (path := root / f"{season}_{kind}").is_dir()
        for entry in path.iterdir()
        if entry.name.startswith(f"{kind}_")
    )
    return sorted({number for number in found if number.isdigit()}, key=natural)


def _patches(path: Path, prefix: str) -> list[str]:
    if not path.is_dir():
        return []
    return [
        entry.name.removeprefix(prefix).removesuffix(".tif")
        for entry in path.iterdir()
        if entry.name.startswith(prefix) and entry.name.endswith(".tif")
    ]
