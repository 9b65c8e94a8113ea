"""The terminal, or what stands in for it: colours where somebody looks, streams that may be closed."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO, final

_STYLES = {"bold": "1", "red": "31", "yellow": "33"}


def coloured(stream: TextIO) -> bool:
    """Whether a stream gets colours: a terminal, unless NO_COLOR or TERM=dumb forbid; FORCE_COLOR wants them anyway."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, style: str, stream: TextIO, *, plain: bool = False) -> str:
    """Text as it is written to a stream: in a style where it has colours, else as it is."""
    return text if plain or not coloured(stream) else f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def complain(who: str, what: str, *, plain: bool = False) -> None:
    """Say in one line what went wrong."""
    print(f"{paint(f'{who}:', 'red', sys.stderr, plain=plain)} {what}", file=sys.stderr)


@final
class _Forgiving:
    """A stream whose reader may leave early, such as head: what is left is dropped, and the work goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            drop(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            drop(self._stream)


def drop(stream: TextIO) -> None:
    """Send what is written to a stream from now on, and what waits in it, to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def settle() -> None:
    """Make this process's streams such that nobody has to think of readers who left, or were never there."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # closed: the next file would get its number, and its text
        pass
    os.close(number)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream: TextIO | None = getattr(sys, name)
        setattr(sys, name, _Forgiving(stream or open(number, "w", encoding="utf-8", closefd=False)))  # noqa: SIM115
