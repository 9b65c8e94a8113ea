"""The arguments by which every verb names a data set."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm.errors import InputError

if TYPE_CHECKING:
    from emrdm.data import Dataset, Layout, Numbers


def add(parser: argparse.ArgumentParser, *, split: bool = True, default_split: str | None = None) -> None:
    """Declare them."""
    parser.add_argument("dataset", metavar="DATASET", help="name of a data set (see emrdm data list)")
    parser.add_argument("root", type=Path, metavar="ROOT", help="its folder")
    add_refinements(parser, split=split, default_split=default_split)


def add_refinements(parser: argparse.ArgumentParser, *, split: bool = True, default_split: str | None = None) -> None:
    """Declare those that say more about it."""
    group = parser.add_argument_group("data set")
    if split:
        chosen = default_split or "test where there is one, else all"
        group.add_argument(
            "--split",
            choices=("train", "val", "test", "all"),
            default=default_split,
            help=f"part of the data set (default: {chosen})",
        )
        group.add_argument("--frames", type=int, metavar="L", help="take the first L frames; draw L for synthetic")
        group.add_argument(
            "--on-error",
            choices=("stop", "skip"),
            default="stop",
            help="missing or unreadable files: stop, or leave them out and say so (default: %(default)s)",
        )
    group.add_argument("--rule", metavar="RULE", help="how the data set's own lists are read (emrdm data list NAME)")
    group.add_argument("--bands", metavar="NAMES", help="names of the bands of your own images, such as B4,B3,B2")
    group.add_argument(
        "--clouds",
        choices=("thin", "thick", "mixed", "varied"),
        help="kind of clouds that synthetic draws (default: mixed)",
    )
    group.add_argument("--range", metavar="LOW:HIGH", help="black and white of your own images, such as 0:10000")


def layout(arguments: argparse.Namespace) -> Layout:
    """The data set's description with what the user says of the folder."""
    from emrdm.data import find_layout
    from emrdm.data.clouds import STYLES

    found = numbers(arguments)
    changes: dict[str, Any] = {} if found is None else {"numbers": found}
    if arguments.clouds is not None:
        changes["style"] = STYLES[arguments.clouds]
    if arguments.dataset == "synthetic" and getattr(arguments, "frames", None):
        changes["frames"] = arguments.frames
    return find_layout(arguments.dataset, **changes)


def open_dataset(arguments: argparse.Namespace, **options: Any) -> Dataset:
    """The data set; without --split, test where the folder has such a split, else everything."""
    from emrdm.data import Dataset

    if arguments.frames is not None and arguments.frames < 1:
        raise InputError(f"--frames is {arguments.frames}: expected 1 or more")
    common = {"rule": arguments.rule, "on_error": arguments.on_error, "frames": arguments.frames, **options}
    return Dataset(layout(arguments), arguments.root, split=arguments.split, **common)


def numbers(arguments: argparse.Namespace) -> Numbers | None:
    """What the user says of the numbers of their own images."""
    from emrdm.data import Numbers

    if arguments.bands is None and arguments.range is None:
        return None
    names = tuple(name.strip() for name in arguments.bands.split(",")) if arguments.bands is not None else ()
    if "" in names:
        raise InputError(f"--bands is {arguments.bands!r}: expected names with commas between them, such as B4,B3,B2")
    low, high = (None, None) if arguments.range is None else _range(arguments.range)
    return Numbers(names, low, high)


def _range(text: str) -> tuple[float, float]:
    parts = text.split(":")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"--range is {text!r}: expected two numbers LOW:HIGH, the first smaller, such as 0:10000")
    return low, high
