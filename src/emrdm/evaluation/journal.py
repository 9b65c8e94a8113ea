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

_NAME = "journal.jsonl"


@final
class Journal:
    """The scores of a run, in memory and, with a folder, on disk.

    The file begins with what the scores depend on. A run that depends on something else does not go on with it.
    """

    def __init__(self, folder: Path | None, identity: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.scores: dict[tuple[str, str], Scores] = {}
        self.path = None if folder is None else folder / _NAME
        self._seen: set[tuple[str, str]] = set()
        identity = json.loads(json.dumps(identity))
        if self.path is None:
            return
        if overwrite or not self.path.exists() or not self._read(identity):
            self.path.write_text(json.dumps({"identity": identity}) + "\n", "utf-8")

    def done(self, image: str, method: str) -> bool:
        """Whether a method has been through with an image."""
        return (image, method) in self._seen

    def add(self, images: Sequence[str], method: str, values: Mapping[str, Scores]) -> None:
        """Keep a batch's scores, by protocol; none where the method does not apply. They are on disk on return."""
        lines = []
        for image in images:
            entry = {protocol: scores.values[image] for protocol, scores in values.items()}
            lines.append(json.dumps({"image": image, "method": method, "scores": entry}) + "\n")
            self._keep(image, method, entry)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())

    def _keep(self, image: str, method: str, entry: Mapping[str, dict[str, float]]) -> None:
        self._seen.add((image, method))
        for protocol, values in entry.items():
            self.scores.setdefault((method, protocol), Scores()).values.setdefault(image, values)

    def _read(self, identity: Mapping[str, Any]) -> bool:
        """Take over an earlier run's scores; False if there is nothing to take over."""
        assert self.path is not None
        text = self.path.read_text("utf-8", errors="replace")
        lines = text.splitlines()
        entries = [entry for line in lines if (entry := _parse(line)) is not None]
        if not entries or "identity" not in entries[0]:
            return False
        _refuse_other(self.path.parent, entries[0]["identity"], identity)
        for entry in entries[1:]:
            self._keep(entry["image"], entry["method"], entry["scores"])
        if not text.endswith("\n") or len(entries) < len(lines):  # killed while writing: a torn line must not stay
            with atomic_path(self.path) as temporary:
                temporary.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")
        return True


def _parse(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return (
        entry
        if isinstance(entry, dict) and ("identity" in entry or {"image", "method", "scores"} <= set(entry))
        else None
    )


def _refuse_other(folder: Path, old: Any, new: Mapping[str, Any]) -> None:
    """Say what differs between the run in the folder and this one."""
    if old == new:
        return
    was = old if isinstance(old, dict) else {}
    key = next(key for key in [*new, *was] if was.get(key) != new.get(key))
    raise InputError(
        f"{folder} holds another evaluation ({key}: {was.get(key)} there, {new.get(key)} now): "
        "choose another folder, or add --overwrite"
    )
