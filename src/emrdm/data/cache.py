"""Decoded images, kept in memory or on disk, so that no epoch repeats the work of the one before."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import numpy as np

from emrdm.data.layout import Decoded, Item
from emrdm.errors import InputError, printable
from emrdm.files import atomic_path, remove_leftovers

_LOG = logging.getLogger(__name__)
_ARRAYS = ("cloudy", "target", "aux", "classes", "valid")


class Cache(ABC):
    """Remembers decoded items."""

    @abstractmethod
    def get(self, item: Item, decode: Callable[[Item], Decoded], recipe: str = "") -> Decoded:
        """The decoded item, from the cache or else by decoding it; ``recipe`` names the way it is decoded."""


@final
class MemoryCache(Cache):
    """Keeps items in memory, up to a number of bytes; what does not fit is decoded each time."""

    def __init__(self, limit: float = 16e9) -> None:
        self.limit = limit
        self.bytes = 0
        self._kept: dict[tuple[Item, str], Decoded] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:  # for worker processes: a lock stays where it is
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, item: Item, decode: Callable[[Item], Decoded], recipe: str = "") -> Decoded:
        """From memory, or decoded and kept while there is room."""
        key = (item, recipe)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        decoded = decode(item)
        size = sum(array.nbytes for name in _ARRAYS if (array := getattr(decoded, name)) is not None)
        with self._lock:
            if key not in self._kept and self.bytes + size <= self.limit:
                self._kept[key] = decoded
                self.bytes += size
        return decoded


@final
class DiskCache(Cache):
    """Keeps items as files in a folder that runs and processes share.

    A file's name depends on the names, sizes and times of what it was made from: a changed image is decoded anew.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
        except OSError as error:
            raise InputError(f"{folder} cannot be a folder for decoded images: {error.strerror}") from None

    def get(self, item: Item, decode: Callable[[Item], Decoded], recipe: str = "") -> Decoded:
        """From its file, or decoded and written."""
        path = self.folder / f"{_digest(item, recipe)}.safetensors"
        kept = _load(path)
        if kept is not None:
            return kept
        decoded = decode(item)
        try:
            _save(path, decoded)
        except (OSError, InputError) as error:  # a full disk costs speed, not the run
            _LOG.warning("%s: the image is decoded again next time", printable(str(error)))
        return decoded


def _digest(item: Item, recipe: str) -> str:
    """Of what the decoded item depends on: the way it is decoded, and names, sizes and times of its files."""
    facts = [
        [str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns] for path in item.files if path.exists()
    ]
    return hashlib.sha256(json.dumps([recipe, item.name, facts]).encode()).hexdigest()[:32]


def _load(path: Path) -> Decoded | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is not a dictionary
            dates = tuple(json.loads((file.metadata() or {}).get("dates", "[]")))
    except (OSError, SafetensorError, ValueError):  # not there, or not whole: decode again
        return None
    if "cloudy" not in arrays or not arrays.keys() <= set(_ARRAYS):  # somebody else's file
        return None
    if "valid" in arrays:
        arrays["valid"] = arrays["valid"].astype(np.bool_)
    return Decoded(**arrays, dates=dates)


def _save(path: Path, decoded: Decoded) -> None:
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name in _ARRAYS if (array := getattr(decoded, name)) is not None}
    content = save(arrays, metadata={"dates": json.dumps(dataclasses.asdict(decoded)["dates"])})
    with atomic_path(path, sweep=False) as temporary:
        temporary.write_bytes(content)
