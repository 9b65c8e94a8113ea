"""When a run is to end early: a signal, or the time is up."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any, Self, final

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AT_ONCE = 0.3  # seconds; a person who presses twice takes longer


@final
class Stopping:
    """Hears SIGINT and SIGTERM while it is entered, and watches the clock.

    The first signal asks for an end at the next step, so that a checkpoint can be written. Pressing Ctrl-C again ends
    at once. Schedulers, and the command timeout, often signal twice in a moment: that is once.
    """

    def __init__(self, *, max_minutes: float | None = None, started: float | None = None) -> None:
        self.signal: signal.Signals | None = None
        self._heard = 0.0
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
        now = time.monotonic()
        if self.signal is None:
            self.signal, self._heard = signal.Signals(number), now
        elif number == signal.SIGINT and now - self._heard > _AT_ONCE:
            raise KeyboardInterrupt

    def heard(self) -> bool:
        """Whether there was a signal."""
        return self.signal is not None

    def time_is_up(self, seconds_needed: float = 0.0) -> bool:
        """Whether so many seconds are not left."""
        return self._deadline is not None and time.monotonic() + seconds_needed >= self._deadline
