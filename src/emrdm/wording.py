"""How counts and lists are said in messages."""

from __future__ import annotations

from collections.abc import Iterable


def brief(names: Iterable[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def many(count: int, thing: str) -> str:
    """1 image, 2 images."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
