"""A line that says how far long work is and how long it still takes, on a terminal; now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO, final

_QUIET = 15.0  # seconds between lines where nobody watches, such as in a log


@final
class Progress:
    """Call it with the number of things done and their total, the first time before any work."""

    def __init__(self, what: str, *, unit: str, silent: bool = False, stream: TextIO | None = None) -> None:
        self.what, self.unit, self.silent = what, unit, silent
        self.stream = stream or sys.stderr
        self.started = time.monotonic()
        self.skipped: int | None = None
        self.shown = self.started
        self.width = 0

    def __call__(self, done: int, total: int) -> None:
        """Show the state, if it is time to."""
        if self.silent:
            return
        if self.skipped is None:
            self.started = self.shown = time.monotonic()  # it may have been made long before
            self.skipped = done  # what an earlier run had done says nothing about today's speed
            if done < total:  # a sign of life: the first thing may take long
                line = f"{self.what}: {done}/{total} {self.unit}"
                self.width = len(line)
                self.stream.write(line if self.stream.isatty() else line + "\n")
                self.stream.flush()
                return
        now, terminal = time.monotonic(), self.stream.isatty()
        if now - self.shown < (0.1 if terminal else _QUIET) and done < total:
            return
        self.shown = now
        text = self._line(done, total, now - self.started)
        if terminal:
            self.stream.write("\r" + text.ljust(self.width) + ("\n" if done >= total else ""))
            self.width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def _line(self, done: int, total: int, seconds: float) -> str:
        fresh = done - (self.skipped or 0)
        rate = fresh / seconds if seconds > 0 else 0.0
        left = f", {duration((total - done) / rate)} left" if rate and done < total else f" in {duration(seconds)}"
        return f"{self.what}: {done}/{total} {self.unit} ({100 * done // max(total, 1)} %), {rate:.1f}/s{left}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"
