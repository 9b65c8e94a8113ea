"""What a benchmark found, as data: written as JSON and read back without loss."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

from emrdm.errors import InputError
from emrdm.strict import dump, parse

BOUND = 50.0  # dB that a fast path has to reach against the float32 reference
FORMAT = 1


@final
@dataclass(frozen=True)
class Measured:
    """One path, timed.

    Attributes:
        path: its name.
        seconds: median wall time of a call, as its caller waits for it.
        first: seconds of the very first call: compiling, tuning, capturing.
        memory: bytes at the peak above what there was before the model; None where it cannot be measured.
        runs: calls that the median is of.
        items: images a call.
        fastest: seconds of the fastest of them; far from the median where something else was running.
        device_seconds: median time between events on the GPU around a call.
    """

    path: str
    seconds: float
    first: float
    memory: int | None
    runs: int
    items: int = 1
    fastest: float = 0.0
    device_seconds: float | None = None

    @property
    def each(self) -> float:
        """Seconds an image."""
        return self.seconds / self.items


@final
@dataclass(frozen=True)
class Difference:
    """How far two results are apart.

    Attributes:
        psnr: in dB for values in [-1, 1]; None where both are the same to the bit.
        largest: difference of a value.
        bound: dB that are expected.
    """

    psnr: float | None
    largest: float
    bound: float = BOUND

    @property
    def good(self) -> bool:
        """Whether it is small enough."""
        return self.psnr is None or self.psnr >= self.bound


@final
@dataclass(frozen=True)
class Row:
    """A line of the table: the same work on two paths.

    Attributes:
        case: which it belongs to, see ``cases``.
        label: what was done.
        unit: "time" a call, or "rate" in images a second.
        baseline: the published-style path; None where it could not be measured.
        ours: the path users get; None likewise.
        difference: of our result from the float32 reference.
        note: what else there is to say.
    """

    case: str
    label: str
    baseline: Measured | None
    ours: Measured | None
    unit: Literal["time", "rate"] = "time"
    difference: Difference | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times faster ours is, image by image."""
        if self.baseline is None or self.ours is None:
            return None
        return self.baseline.each / self.ours.each


@final
@dataclass(frozen=True)
class Kernel:
    """An attention back-end alone.

    Attributes:
        forward: without gradients.
        both: forward and backward.
        largest: difference of a value from the reference in float32.
        why_not: it could not run, in words.
    """

    backend: str
    dtype: str
    forward: Measured | None = None
    both: Measured | None = None
    largest: float | None = None
    why_not: str = ""


@final
@dataclass(frozen=True)
class Point:
    """Sampling at one size or number of frames, with the multiply-accumulates of a call and their quadratic part."""

    value: int
    pixels: int
    ours: Measured | None
    baseline: Measured | None
    macs: float
    macs_global: float


@final
@dataclass(frozen=True)
class Scaling:
    """Cost against the side of an image or the number of frames.

    Attributes:
        axis: "size" or "frames".
        label: what was done.
        points: in rising order.
        fit: seconds, seconds a pixel (or frame) and seconds a pixel (or frame) squared of our path.
        words: what it shows.
    """

    axis: Literal["size", "frames"]
    label: str
    points: tuple[Point, ...]
    fit: tuple[float, float, float] | None = None
    words: str = ""


@final
@dataclass(frozen=True)
class Report:
    """All of a run.

    Attributes:
        model: preset or file.
        weights: which ones, in words.
        machine: where it ran, in words.
        path: what users get there, in words.
        baseline: what it is compared with, in words.
        baseline_name: heading of its column.
        memory: how memory was measured.
        command: to repeat it.
        busy: a warning where something else was running; empty where not.
        left_out: what could not be measured, and why.
    """

    model: str
    weights: str
    device: str
    machine: str
    path: str
    baseline: str
    baseline_name: str
    memory: str
    command: str
    size: int
    rows: tuple[Row, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    kernel_label: str = ""
    scalings: tuple[Scaling, ...] = ()
    busy: str = ""
    left_out: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def failures(self) -> list[str]:
        """A line for each row that is less accurate than it has to be."""
        return [
            f"{row.label}: the fast path is {row.difference.psnr:.1f} dB from the float32 reference, "
            f"expected {row.difference.bound:g} dB at least"
            for row in self.rows
            if row.difference is not None and row.difference.psnr is not None and not row.difference.good
        ]


def as_json(report: Report) -> str:
    """The whole report; ratios are added for readers and ignored when it is read back."""
    facts = dump(report)
    for row, found in zip(facts["rows"], report.rows, strict=True):
        row["ratio"] = found.ratio
    return json.dumps(facts, indent=2, allow_nan=False)


def from_json(text: str, where: str = "the report") -> Report:
    """A report that :func:`as_json` wrote."""
    try:
        facts = json.loads(text)
        for row in facts["rows"]:
            row.pop("ratio", None)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{where} is no report of a benchmark: expected JSON that emrdm bench wrote") from None
    if facts.get("format") != FORMAT:
        raise InputError(f"{where} has format {facts.get('format')!r}: expected {FORMAT}")
    return parse(Report, facts, where)


def read(path: Path) -> Report:
    """A report from its file."""
    try:
        return from_json(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from None
