"""Where a run is, and how a call ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, final

from emrdm.training.folder import RunFolder


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
        quarantine: samples that could not be read, and why.
        window: sum and number of losses since the last line of the log.
        seconds: of training, over all processes that took turns.
    """

    step: int = 0
    validated: int = -1
    best: dict[str, Any] | None = None
    validations: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    quarantine: dict[str, str] = field(default_factory=dict)
    window: tuple[float, int] = (0.0, 0)
    seconds: float = 0.0


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
