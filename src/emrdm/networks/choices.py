"""What was found to be fastest on this machine, kept in the user's cache: found once, and the same in every process."""

from __future__ import annotations

import json
import logging
import os
from functools import lru_cache
from pathlib import Path

from emrdm.files import atomic_path

_LOG = logging.getLogger(__name__)


def cache_file() -> Path:
    """Where choices are kept."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "emrdm" / "choices.json"


def known(key: str) -> float | None:
    """The number that was kept, if any."""
    return _all().get(key)


def keep(key: str, value: float) -> None:
    """Keep a number; a cache that cannot be written is no reason to fail."""
    choices = _all()
    choices[key] = value
    try:
        cache_file().parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(cache_file()) as path:
            path.write_text(json.dumps(choices, indent=1), encoding="utf-8")
    except OSError as error:
        _LOG.info("choices are not kept: %s", error)


@lru_cache(maxsize=1)
def _all() -> dict[str, float]:
    try:
        found = json.loads(cache_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if type(value) in (int, float)}
