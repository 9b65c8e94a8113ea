"""Files that verbs write: refused before any work where they could not be written in the end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from emrdm.errors import InputError


def check_new(target: Path, suffixes: Iterable[str] = (), *, overwrite: bool, makes_folder: bool = False) -> None:
    """Refuse a name of the wrong kind, a folder that is not there unless it will be made, and a file that is there."""
    suffixes = tuple(suffixes)
    if suffixes and target.suffix.lower() not in suffixes:
        raise InputError(f"OUTPUT {target}: expected a name ending in {', '.join(suffixes)}")
    if not target.parent.is_dir() and not makes_folder:
        raise InputError(f"OUTPUT folder {target.parent} does not exist")
    if target.exists() and not overwrite:
        raise InputError(f"OUTPUT {target} exists: add --overwrite to replace it")
