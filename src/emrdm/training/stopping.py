"""When a run is to end early: a signal, or the time is up."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any, Self, final

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@final
class Stopping:
    """Hears SIGINT and SIGTERM while it is entered, and watches the clock.

    The first signal asks for an end at the next step, so that a checkpoint can be written; a second one ends at once.
    """

    def __init__(self, *, max_minutes: float | None = None, started: float | None = None) -> None:
        self.signal: signal.Signals | None = None
        started = time.monotonic() if started is None else started
        self._deadline = None if max_minutes is None else started + 60 * max_minutes
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python lets no other thread do this
            self._before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)

    def wanted(self, seconds_needed: float = 0.0) -> bool:
        """Whether to end now, if what comes next takes so many seconds."""
        return self.signal is not None or self.time_is_up(seconds_needed)

    def time_is_up(self, seconds_needed: float = 0.0) -> bool:
        """Whether so many seconds are not left."""
        return self._deadline is not None and time.monotonic() + seconds_needed >= self._deadline
