"""Scores on disk as they are made, one line an image, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from emrdm.errors import InputError
from emrdm.files import atomic_path
from emrdm.metrics import Scores

JOURNAL = "journal.jsonl"
_DIGESTS = ("files", "names", "settings of the data set")  # parts of an identity that say nothing to people


@final
class Journal:
    """The scores of a run, in memory and, with a folder, on disk.

    The file begins with what the scores depend on. A run that depends on something else does not go on with it.
    """

    def __init__(self, folder: Path | None, identity: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.scores: dict[tuple[str, str], Scores] = {}
        self.path = None if folder is None else folder / JOURNAL
        self.repaired: dict[str, Mapping[str, int]] = {}
        self._seen: set[tuple[str, str]] = set()
        identity = json.loads(json.dumps(identity))
        if self.path is None:
            return
        if overwrite or not self.path.exists() or not self.path.stat().st_size:
            self.path.write_text(json.dumps({"identity": identity}) + "\n", "utf-8")
        else:
            self._read(identity)

    def done(self, image: str, method: str) -> bool:
        """Whether a method has been through with an image."""
        return (image, method) in self._seen

    def add(
        self, images: Sequence[str], method: str, values: Mapping[str, Scores], repaired: Sequence[Mapping[str, int]]
    ) -> None:
        """Keep a batch's scores, by protocol; none where the method does not apply. They are on disk on return.

        ``repaired`` says of each image which values had to be changed when it was read.
        """
        lines = []
        for image, changed in zip(images, repaired, strict=True):
            scores = {protocol: found.values[image] for protocol, found in values.items()}
            entry = {"image": image, "method": method, "scores": scores, "repaired": dict(changed)}
            lines.append(json.dumps(entry) + "\n")
            self._keep(entry)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())

    def _keep(self, entry: Mapping[str, Any]) -> None:
        image, method = entry["image"], entry["method"]
        self._seen.add((image, method))
        self.repaired[image] = entry["repaired"]
        for protocol, values in entry["scores"].items():
            self.scores.setdefault((method, protocol), Scores()).values.setdefault(image, values)

    def _read(self, identity: Mapping[str, Any]) -> None:
        """Take over an earlier run's scores."""
        assert self.path is not None
        text = self.path.read_text("utf-8", errors="replace")
        lines = text.splitlines()
        first, *rest = [_parse(line) for line in lines]
        if first is None or not isinstance(first.get("identity"), dict):
            raise InputError(f"{self.path} is not a journal of this program: choose another folder, or add --overwrite")
        _refuse_other(self.path.parent, first["identity"], identity)
        entries = [entry for entry in rest if entry is not None and _is_entry(entry)]
        for entry in entries:
            self._keep(entry)
        if not text.endswith("\n") or len(entries) < len(rest):  # killed while writing: a torn line must not stay
            with atomic_path(self.path) as temporary:
                temporary.write_text("".join(json.dumps(entry) + "\n" for entry in (first, *entries)), "utf-8")


def _parse(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _is_entry(entry: Mapping[str, Any]) -> bool:
    """Whether a line is whole."""
    kinds = {"image": str, "method": str, "scores": dict, "repaired": dict}
    return all(isinstance(entry.get(key), kind) for key, kind in kinds.items()) and all(
        isinstance(values, dict) and all(isinstance(value, float | int) for value in values.values())
        for values in entry["scores"].values()
    )


def _refuse_other(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Say what differs between the run in the folder and this one."""
    if old == new:
        return
    key, was, now = _difference(old, new)
    what = f"{key} have changed since" if key in _DIGESTS else f"{key}: {was} there, {now} now"
    raise InputError(f"{folder} holds another evaluation ({what}): choose another folder, or add --overwrite")


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """The first thing that differs, as deep as it goes, with both values."""
    key = next(key for key in [*new, *old] if old.get(key) != new.get(key))
    was, now = old.get(key), new.get(key)
    if isinstance(was, dict) and isinstance(now, dict):
        inner, was, now = _difference(was, now)
        return (inner if inner in _DIGESTS else f"{key}.{inner}"), was, now
    return key, was, now
