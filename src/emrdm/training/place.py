"""Where a run is, and how a call ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, final

from emrdm.data import Failure
from emrdm.errors import DataError, EmrdmError
from emrdm.training.folder import RunFolder
from emrdm.wording import brief

_RECENT = 1000  # steps among which skipped ones are counted
_QUARANTINE_SHARE = 0.1  # of the samples; more than that means that the disk is broken, not a file


@final
@dataclass
class Place:
    """Where a run is: what a checkpoint keeps beside tensors.

    Attributes:
        step: steps that are done.
        validated: step of the last validation.
        best: step, criterion and scores of the best one.
        validations: all of them.
        skipped: steps whose loss or gradient was not finite.
        exported: step of the weights in the folder, if there are any.
        quarantine: samples that could not be read, and why.
        window: sum and number of losses since the last line of the log.
        seconds: of training, over all processes that took turns.
    """

    step: int = 0
    validated: int = -1
    best: dict[str, Any] | None = None
    validations: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    exported: int | None = None
    quarantine: dict[str, str] = field(default_factory=dict)
    window: tuple[float, int] = (0.0, 0)
    seconds: float = 0.0

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> Self:
        """The place that a checkpoint's state tells; what else is in it is left."""
        kept = {item.name: state[item.name] for item in fields(cls)}
        return cls(**{**kept, "window": tuple(state["window"])})

    @property
    def marks(self) -> tuple[int, int, int | None]:
        """What a new checkpoint is worth writing for."""
        return self.step, self.validated, self.exported

    def skip(self, step: int, what: str, names: Sequence[str], *, limit: int) -> None:
        """Count a step that was not finite; too many of them are an error."""
        self.skipped.append(step)
        recent = [skipped for skipped in self.skipped if skipped > step - _RECENT]
        if len(recent) > limit:
            raise EmrdmError(
                f"{what}: {len(recent)} of the last {min(_RECENT, step + 1):,} steps were not finite, expected "
                f"{limit} at most; try a lower optimizer.lr, or optimizer.clip=1 (the last samples: {brief(names, 3)})"
            )

    def quarantine_new(self, failures: Iterable[Failure]) -> list[Failure]:
        """Remember samples that could not be read; those that were not known yet."""
        new = {failure.name: failure for failure in failures if failure.name not in self.quarantine}
        self.quarantine |= {name: failure.reason for name, failure in new.items()}
        return list(new.values())

    def check_quarantine(self, samples: int) -> None:
        """Refuse to go on when so many of the samples cannot be read that it is not the files that are broken."""
        most = 10 + _QUARANTINE_SHARE * samples
        if len(self.quarantine) > most:
            raise DataError(
                f"{len(self.quarantine)} of {samples} samples cannot be read: "
                f"expected {most:.0f} at most; see the log ({brief(self.quarantine, 3)})"
            )


@final
@dataclass(frozen=True)
class Outcome:
    """How a call of :func:`train` ended.

    Attributes:
        reason: "finished", "time" when the minutes were up, or "signal".
        place: where the run is.
        steps: of the whole run.
        folder: of the run.
        first: whether this is the first of several processes, the one to speak.
        signal: name of the signal, if there was one in this process.
    """

    reason: Literal["finished", "time", "signal"]
    place: Place
    steps: int
    folder: RunFolder
    first: bool = True
    signal: str | None = None
