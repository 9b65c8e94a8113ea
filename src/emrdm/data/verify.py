"""Look at all of a data set before hours are spent on it: layout, counts, every file, leaks between splits."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from emrdm.data.layout import VALIDATION, Decoded, Item, Layout, choose, folder, without_twins
from emrdm.errors import DataError
from emrdm.wording import brief

Progress = Callable[[int, int], None]


@final
@dataclass(frozen=True)
class Findings:
    """What was found.

    Attributes:
        counts: items of each split; "train" with those that validation takes from it.
        carved: how many of "train" validation takes, where the data set has no such split of its own.
        expected: of the complete data set, where that is known.
        problems: one line each, naming the file: missing partners, files that cannot be read or are not as expected.
        leaks: groups (regions, tiles, images) of the test split that training has as well, by name or by content.
        notes: what is worth knowing.
        sizes: how many items have each shape.
    """

    counts: dict[str, int]
    expected: dict[str, int]
    problems: list[str]
    leaks: list[str]
    notes: list[str]
    carved: int = 0
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Nothing is missing or broken, and nothing leaks."""
        return not self.problems and not self.leaks


def verify(
    layout: Layout,
    root: Path,
    *,
    rule: str,
    decode: bool = True,
    workers: int = 4,
    progress: Progress | None = None,
) -> Findings:
    """Check a folder; reading goes on after a bad file.

    Args:
        layout: what kind of data set it should be.
        root: its folder.
        rule: how its lists are read.
        decode: open every file, not only list them.
        workers: threads that read.
        progress: called with the items done and their number.
    """
    layout = layout.prepared(folder(root, layout.layout_help()))
    listing = without_twins(layout.scan(root, rule))
    problems, notes = list(listing.problems), list(listing.notes)
    if not listing.items and not problems:
        problems.append(f"{root} has no images: expected {layout.layout_help()}")
    carve = 0 if layout.own_validation else VALIDATION
    counts = {split: len(choose(listing.items, split, carve=carve)) for split in ("train", "val", "test", "all")}
    carved = counts["val"] if not any("val" in item.splits for item in listing.items) else 0
    counts["train"] += carved
    leaks = _leaking_groups(listing.items)
    sizes: Counter[str] = Counter()
    if decode:
        contents: dict[str, list[Item]] = defaultdict(list)
        for item, result in _read_all(layout, listing.items, workers, progress):
            if isinstance(result, str):
                problems.append(result)
                continue
            sizes[result[0]] += 1
            contents[result[1]].append(item)
        leaks += _leaking_contents(contents.values())
        if len(sizes) > 1:
            notes.append(f"images are of {len(sizes)} sizes: {brief(sizes)}")
    return Findings(counts, dict(layout.complete(rule)), problems, leaks, notes, carved, dict(sizes))


def _read_all(
    layout: Layout, items: Iterable[Item], workers: int, progress: Progress | None
) -> Iterable[tuple[Item, tuple[str, str] | str]]:
    """Each item with its size and the digest of its clear image, or with what is wrong with it."""
    items = list(items)

    def look(item: Item) -> tuple[str, str] | str:
        try:
            decoded = layout.decode(item)
        except DataError as error:
            return str(error)
        return _size(decoded), _digest(decoded, item)

    if progress:
        progress(0, len(items))
    with ThreadPoolExecutor(workers) as pool:
        for done, (item, result) in enumerate(zip(items, pool.map(look, items), strict=True), 1):
            if progress:
                progress(done, len(items))
            yield item, result


def _size(decoded: Decoded) -> str:
    height, width = (decoded.cloudy if decoded.target is None else decoded.target).shape[-2:]
    return f"{width} x {height}"


def _digest(decoded: Decoded, item: Item) -> str:
    """Of the clear image's numbers; two flat images (sea, snow) are not the same place, so those never match."""
    target = decoded.target
    if target is None or (target == target.flat[0]).all():
        return item.name
    return hashlib.sha256(target.tobytes()).hexdigest()


def _leaking_groups(items: Iterable[Item]) -> list[str]:
    """Groups that training and test share."""
    splits: dict[str, set[str]] = defaultdict(set)
    for item in items:
        splits[item.group or item.name] |= set(item.splits)
    return [f"{group} is in training and in test" for group, found in splits.items() if {"train", "test"} <= found]


def _leaking_contents(alike: Iterable[list[Item]]) -> list[str]:
    """Test items whose clear image is that of a training item under another name."""
    leaks = []
    for items in alike:
        training = [item.name for item in items if "train" in item.splits and "test" not in item.splits]
        test = [item.name for item in items if "test" in item.splits]
        leaks += [f"{name} (test) has the same clear image as {brief(training)} (train)" for name in test if training]
    return leaks
