"""What a data set's own file has to say: how a folder is listed and how one item of it is read."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, final

import numpy as np

from emrdm.config import Band
from emrdm.data.augment import Augmentation
from emrdm.errors import DataError, InputError
from emrdm.files import why_unreadable
from emrdm.rasters import SUFFIXES, Raster, read
from emrdm.strict import nearest

SPLITS = ("train", "val", "test", "all")
VALIDATION = 0.1  # share of the training items that "val" takes where a data set has no such split of its own


@final
@dataclass(frozen=True)
class Item:
    """One sample's files, not yet opened.

    Attributes:
        name: unique in the data set, usable as the name of a file.
        cloudy: one file a frame.
        target: the clear image, or None.
        aux: auxiliary files, one a frame, or none.
        masks: cloud masks, one a frame, or none.
        splits: which of train, val and test it belongs to; empty where the folder does not say.
        group: what may not be shared by training and test, such as a region; the name itself by default.
        dates: of the frames, ISO, or none.
    """

    name: str
    cloudy: tuple[Path, ...]
    target: Path | None = None
    aux: tuple[Path, ...] = ()
    masks: tuple[Path, ...] = ()
    splits: tuple[str, ...] = ()
    group: str = ""
    dates: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of the item."""
        return (*self.cloudy, *((self.target,) if self.target else ()), *self.aux, *self.masks)


@final
@dataclass(frozen=True)
class Listing:
    """A folder as a data set: its items in a stable order, what is wrong with it, and what is worth knowing."""

    items: tuple[Item, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Decoded:
    """The numbers of one item in the units of its bands and the smallest type that holds them: what a cache keeps.

    Axes as in :class:`~emrdm.data.sample.Sample`.
    """

    cloudy: np.ndarray
    target: np.ndarray | None = None
    aux: np.ndarray | None = None
    classes: np.ndarray | None = None
    valid: np.ndarray | None = None
    dates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout(ABC):
    """A data set's description and habits; subclasses are one file each.

    Attributes:
        name: what users type.
        title: what it is, in a line.
        bands: of the cloudy frames and the target, in order.
        aux: auxiliary bands.
        levels: steps from black to white of the target's files; None for real numbers.
        protocols: how its scores are computed, the customary one first.
        expected: number of items of each split in the complete data set; empty where there is no such thing.
        own_validation: whether its own lists have a "val"; where they have not, one is carved from "train".
        rules: ways to read the data set's own lists, the default first; empty where there is only one.
        homepage: where people get it.
    """

    name: str
    title: str
    bands: tuple[Band, ...]
    aux: tuple[Band, ...] = ()
    frames: int = 1
    levels: int | None = 255
    protocols: tuple[str, ...] = ("standard",)
    expected: Mapping[str, int] = field(default_factory=dict)
    own_validation: bool = False
    rules: tuple[str, ...] = ()
    augmentation: Augmentation = "none"
    homepage: str = ""

    def prepared(self, root: Path) -> Self:  # noqa: ARG002 - for folders of a user's own
        """The layout with what only the folder itself can tell, such as its bands."""
        return self

    @abstractmethod
    def scan(self, root: Path, rule: str) -> Listing:
        """List the folder; nothing is decoded."""

    @abstractmethod
    def decode(self, item: Item) -> Decoded:
        """Read an item's files; what is wrong is a :class:`~emrdm.errors.DataError` that names the file."""

    def render(self, item: Item, decoded: Decoded, key: int | None) -> Decoded:  # noqa: ARG002 - for drawn images
        """What depends on the draw and is not worth keeping in a cache; nothing, for images that were read."""
        return decoded

    def complete(self, rule: str) -> Mapping[str, int]:  # noqa: ARG002 - for data sets with several ways to be read
        """Number of items of each split in the complete data set, read by this rule."""
        return self.expected

    def layout_help(self) -> str:
        """What the folder must look like, for messages."""
        return " ".join((type(self).__doc__ or "").partition("\n\n")[2].split())


# ---------------------------------------------------------------- what several data sets share


def folder(path: Path, layout: str) -> Path:
    """The path, if it is a folder."""
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "does not exist"
        raise InputError(f"{path} {what}: expected {layout}")
    return path


def images_by_name(path: Path) -> dict[str, Path]:
    """The images of a folder by their name without suffix, in natural order (2 before 10)."""
    found: dict[str, Path] = {}
    for entry in sorted(path.iterdir(), key=lambda entry: natural(entry.name)):
        if entry.suffix.lower() in SUFFIXES and not entry.name.startswith("."):
            if entry.stem in found:
                raise InputError(
                    f"{path} has both {found[entry.stem].name} and {entry.name}: expected one image a name"
                )
            found[entry.stem] = entry
    return found


def natural(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """Key that sorts digits by their value; texts that differ never tie, as 1 and 01 would."""
    parts = (part for part in re.split(r"([0-9]+)", text) if part)
    return [(0, len(p.lstrip("0")), p.lstrip("0")) if p[0] in "0123456789" else (1, 0, p) for p in parts], text


def read_names(path: Path) -> list[str]:
    """The lines of a list file, without suffixes of images and empty lines; duplicates are refused."""
    reason = why_unreadable(path)
    if reason is not None:
        raise InputError(f"{path} cannot be read as a list of names: {reason}")
    try:
        lines = [line.strip() for line in path.read_text("utf-8-sig").splitlines()]
    except UnicodeError as error:
        raise InputError(f"{path} cannot be read as a list of names: {error}") from None
    names = [Path(line).stem if Path(line).suffix.lower() in SUFFIXES else line for line in lines if line]
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) != len(names) else set()
    if twice:
        raise InputError(f"{path} names {sorted(twice)[0]!r} twice: expected each name once")
    return names


def read_like(
    path: Path, bands: int, *, size: tuple[int, int] | None, dtype: str = "", eight_bit: bool | None = None
) -> Raster:
    """Read an image that must have so many bands and, where given, this height, width and type of number.

    Args:
        path: the file.
        bands: how many it must have.
        size: its height and width.
        dtype: its type of number, such as "uint16".
        eight_bit: whether its numbers have 8 bits; where more are needed, a picture of the data is not the data.
    """
    raster = read(path)
    count, *found = raster.pixels.shape
    if count != bands:
        raise DataError(f"{path} has {count} band{'s' * (count != 1)}: expected {bands}")
    if size is not None and tuple(found) != size:
        raise DataError(f"{path} is {found[1]} x {found[0]} pixels: expected {size[1]} x {size[0]}")
    found_type = raster.pixels.dtype
    if dtype and found_type != dtype:
        raise DataError(f"{path} has numbers of type {found_type}: expected {dtype}")
    if eight_bit is not None and (found_type == np.uint8) != eight_bit:
        raise DataError(f"{path} has numbers of type {found_type}: expected {'' if eight_bit else 'more than '}8 bits")
    return raster


def read_lists(root: Path, splits: Sequence[str], known: Container[str]) -> tuple[dict[str, set[str]], list[str]]:
    """The names on each of a folder's own lists, such as train.txt, and the lines about those that do not exist."""
    lists = {split: read_names(path) for split in splits if (path := root / f"{split}.txt").is_file()}
    problems = [
        f"{root / split}.txt names {name}, which does not exist"
        for split, names in lists.items()
        for name in names
        if name not in known
    ]
    return {split: set(names) for split, names in lists.items()}, problems


def without_twins(listing: Listing) -> Listing:
    """The listing with every name once; what comes a second time is a problem."""
    first: dict[str, Item] = {}
    twins = [item.name for item in listing.items if first.setdefault(item.name, item) is not item]
    problems = (*listing.problems, *(f"{name} occurs twice: names must be unique" for name in twins))
    return Listing(tuple(first.values()), problems, listing.notes)


def choose(items: Sequence[Item], split: str, *, carve: float = VALIDATION) -> tuple[Item, ...]:
    """The items of a split.

    Where no item is listed as "val", the share ``carve`` of the training items is taken, by a hash of their groups:
    the same ones on every machine and whatever else is in the folder, never one of the test items. A small folder in
    which the hash takes none gives the group with the lowest one, unless that is all there is.
    """
    if split not in SPLITS:
        raise InputError(f"split is {split!r}{nearest(split, SPLITS)}")
    if split == "all":
        return tuple(items)
    if split == "test" or not carve or any("val" in item.splits for item in items):
        return tuple(item for item in items if split in item.splits)
    listed = any(item.splits for item in items)
    training = [item for item in items if ("train" in item.splits and "test" not in item.splits) or not listed]
    shares = {group: share(group) for group in (item.group or item.name for item in training)}
    held_out = {group for group, value in shares.items() if value < carve}
    if not held_out and len(shares) > 1:
        held_out = {min(shares, key=lambda group: shares[group])}
    return tuple(item for item in training if ((item.group or item.name) in held_out) == (split == "val"))


def key_of(name: str) -> int:
    """A whole number that belongs to a name for ever: for seeds that do not depend on what else is in a folder."""
    return int(share(name) * 2**52)


def share(name: str) -> float:
    """A number in [0, 1) that belongs to a name for ever: how validation samples are chosen."""
    content = name.encode(errors="surrogatepass")  # a file's name need not be text
    return int.from_bytes(hashlib.sha256(content).digest()[:8]) / 2**64
