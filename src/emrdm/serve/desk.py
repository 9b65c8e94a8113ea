"""Who comes first: orders of all visitors in one line, one at a time, each in a folder that goes when they do."""

from __future__ import annotations

import logging
import queue
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from emrdm.errors import EmrdmError, InputError
from emrdm.serve.shelf import Shelf
from emrdm.serve.work import CancelledError, News, Order, Outcome, look, restore

_LOG = logging.getLogger(__name__)
_MOST_WAITING = 16


@final
@dataclass(eq=False)
class Job:
    """An order under way.

    Attributes:
        visitor: whose it is.
        order: what is wanted.
        folder: where its files go, inside the visitor's own.
        stopped: set to end it.
        said: what is told of it; the last is None, or why it could not be done.
        outcomes: what came of it.
    """

    visitor: str
    order: Order
    folder: Path
    stopped: threading.Event = field(default_factory=threading.Event)
    said: queue.SimpleQueue[News | EmrdmError | None] = field(default_factory=queue.SimpleQueue)
    outcomes: tuple[Outcome, ...] = ()


@final
class Desk:
    """Takes orders, and does them one after the other in a thread of its own.

    Visitors see their own jobs only. A job does not depend on somebody listening to it: it ends when it is done,
    cancelled, or its visitor has left.
    """

    def __init__(self, shelf: Shelf, folder: Path, uploads: Path | None = None) -> None:
        self.shelf, self.folder, self.uploads = shelf, folder, uploads
        self._line: list[Job] = []  # the first is under way
        self._last: dict[str, Job] = {}
        self._rooms: dict[str, Path] = {}
        self._uploads: dict[Path, set[str]] = {}
        self._changed = threading.Condition()
        self._open = True
        self._worker = threading.Thread(target=self._work, name="emrdm-desk", daemon=True)
        self._worker.start()

    def look(self, visitor: str, order: Order) -> tuple[Path, str]:
        """A picture of what was dropped and a line about it, or the reason why it cannot be restored."""
        room = self._room(visitor)
        for path in room.glob("look-*.png"):
            path.unlink(missing_ok=True)
        return look(order, self.shelf, room)

    def submit(self, visitor: str, order: Order) -> Job:
        """Put an order into the line; what the visitor's last one left is removed."""
        job = Job(visitor, order, self._room(visitor) / secrets.token_hex(4))
        with self._changed:
            if any(other.visitor == visitor and not other.stopped.is_set() for other in self._line):
                raise InputError("your last order is still being worked on: wait for it, or cancel it")
            if len(self._line) > _MOST_WAITING:
                raise InputError(f"{len(self._line)} orders are waiting already: try again later")
            last = self._last.get(visitor)
            self._last[visitor] = job
            self._line.append(job)
            self._changed.notify_all()
        if last is not None and self._before(last) < 0:
            shutil.rmtree(last.folder, ignore_errors=True)
        return job

    def news(self, job: Job) -> Iterator[News]:
        """What happens to a job until it is done: its place in the line, then what is told of it.

        Raises:
            EmrdmError: why it could not be done, or that it was cancelled.
        """
        place = -1
        while True:
            before = self._before(job)
            if before > 0 and before != place:
                place = before
                yield News(f"Waiting: {place} before you" if place > 1 else "Waiting: yours is next")
            try:
                said = job.said.get(timeout=0.2)
            except queue.Empty:
                continue
            if said is None:
                return
            if isinstance(said, EmrdmError):
                raise said
            yield said

    def uploaded(self, visitor: str, files: Iterable[Path]) -> None:
        """These files are a visitor's, and perhaps others' as well: they go with the last of them.

        Only what lies in the folder of uploads does, whatever a visitor may claim.
        """
        with self._changed:
            for file in map(Path.resolve, files):
                if self.uploads is not None and file.is_relative_to(self.uploads.resolve()):
                    self._uploads.setdefault(file, set()).add(visitor)

    def cancel(self, visitor: str) -> bool:
        """Stop what a visitor has ordered; whether there was something."""
        with self._changed:
            jobs = [job for job in self._line if job.visitor == visitor and not job.stopped.is_set()]
            for job in jobs:
                job.stopped.set()
                if job is not self._line[0]:
                    self._line.remove(job)
                    job.said.put(CancelledError("cancelled"))
            return bool(jobs)

    def leave(self, visitor: str) -> None:
        """A visitor is gone: their work is stopped, their files are removed."""
        self.cancel(visitor)
        with self._changed:
            self._last.pop(visitor, None)
            room = self._rooms.pop(visitor, None)
            if room is not None:
                shutil.rmtree(room, ignore_errors=True)
            for file, owners in list(self._uploads.items()):
                owners.discard(visitor)
                if not owners:
                    del self._uploads[file]
                    file.unlink(missing_ok=True)
                    with suppress(OSError):  # not empty
                        file.parent.rmdir()

    def close(self) -> None:
        """Stop everything, and wait for it."""
        with self._changed:
            self._open = False
            visitors = {job.visitor for job in self._line}
            self._changed.notify_all()
        for visitor in visitors:
            self.cancel(visitor)
        self._worker.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _room(self, visitor: str) -> Path:
        """A visitor's own folder; nobody can guess its name."""
        with self._changed:
            if visitor not in self._rooms:
                self._rooms[visitor] = self.folder / secrets.token_urlsafe(18)
                self._rooms[visitor].mkdir(parents=True)
            return self._rooms[visitor]

    def _before(self, job: Job) -> int:
        """How many are before a job; -1 when it is out of the line."""
        with self._changed:
            return self._line.index(job) if job in self._line else -1

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._line or not self._open)
                if not self._line:
                    return
                job = self._line[0]
            answer = self._answer(job)
            with self._changed:
                self._line.remove(job)
                gone = job.visitor not in self._rooms
            if gone or job.stopped.is_set():
                shutil.rmtree(job.folder.parent if gone else job.folder, ignore_errors=True)
            job.said.put(answer)

    def _answer(self, job: Job) -> EmrdmError | None:
        """Do a job; why it was not done, if so. Nothing that goes wrong with one may keep the others waiting."""
        try:
            if job.stopped.is_set():
                return CancelledError("cancelled")
            job.folder.mkdir(parents=True)
            job.outcomes = restore(job.order, self.shelf, job.folder, job.said.put, job.stopped)
        except EmrdmError as error:
            return error
        except OSError as error:
            return EmrdmError(f"the server could not do it: {error.strerror or error}")
        except MemoryError:
            return EmrdmError("the server has too little memory for this")
        except Exception as error:
            _LOG.exception("a job failed")
            return EmrdmError(f"the server could not do it: {type(error).__name__}, see its log")
        return None
