"""A benchmark as text: for the screen and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from emrdm.bench.results import Difference, Kernel, Measured, Report, Row, Scaling
from emrdm.bench.scaling import argument, shares
from emrdm.wording import many

_NONE = "-"
_REPEAT = "repeat: "
_Lines = list[list[str]]


def as_text(report: Report) -> str:
    """Tables for a terminal, a hundred columns wide at most, with what they were measured on and how to repeat it."""
    parts = ["\n".join(map(_wrapped, _head(report)))]
    parts += [f"{title}\n{_columns(lines)}".lstrip("\n") for title, lines, _ in _tables(report)]
    parts.append("\n".join(map(_wrapped, _words(report))))
    return "\n\n".join(parts)


def as_markdown(report: Report) -> str:
    """The same for a page."""
    parts = [f"# Speed of {report.model}", "\n".join(f"- {line}" for line in _head(report)[1:])]
    for title, lines, rule in _tables(report):
        head, *body = [[cell.replace("|", "\\|").strip() for cell in line] for line in lines]
        table = "\n".join("| " + " | ".join(line) + " |" for line in [head, rule.split(), *body])
        parts.append(f"{title}\n\n{table}".strip())
    parts.append("\n".join(f"- {line}" for line in _words(report)))
    return "\n\n".join(parts) + "\n"


def _wrapped(line: str) -> str:
    """A line on lines of a hundred letters; a command stays whole, to be copied."""
    if line.startswith(_REPEAT):
        return line
    return textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _head(report: Report) -> list[str]:
    return [
        f"{report.model}, {report.size} x {report.size} pixels; weights: {report.weights}",
        f"machine: {report.machine}",
        f"ours: {report.path}",
        f"{report.baseline_name}: {report.baseline}, same weights, same images",
    ]


def _tables(report: Report) -> list[tuple[str, _Lines, str]]:
    """Title, cells with their heading, and Markdown's line below it."""
    found = []
    if report.rows:
        found.append(("", _rows(report), _rule(len(COLUMNS))))
    if report.kernels:
        lines = _kernels(report.kernels)
        found.append((f"attention alone: {report.kernel_label}", lines, "--- --- " + _rule(len(lines[0]) - 2, "---:")))
    for scaling in report.scalings:
        lines = _points(scaling, report.baseline_name)
        found.append((scaling.label, lines, _rule(len(lines[0]), "---:")))
    return found


def _rule(columns: int, first: str = "---") -> str:
    return " ".join([first, *["---:"] * (columns - 1)])


COLUMNS = ("case", "published-style", "ours", "ratio", "memory", "accuracy", "first call")


def _rows(report: Report) -> _Lines:
    heading = list(COLUMNS)
    heading[1] = report.baseline_name
    return [heading, *(_row(row) for row in report.rows)]


def _row(row: Row) -> list[str]:
    return [
        row.label,
        _value(row.baseline, row.unit),
        _value(row.ours, row.unit),
        _NONE if row.ratio is None else _times(row.ratio),
        f"{_memory(row.baseline)} -> {_memory(row.ours)}",
        _accuracy(row.difference),
        _NONE if row.ours is None else time(row.ours.first),
    ]


def _value(measured: Measured | None, unit: str) -> str:
    if measured is None:
        return _NONE
    return f"{1 / measured.each:.4g} img/s" if unit == "rate" else time(measured.seconds)


def _accuracy(found: Difference | None) -> str:
    if found is None:
        return _NONE
    if found.psnr is None:
        return "same bits"
    return f"{found.psnr:.1f} dB{'' if found.good else ' (!)'}"


def _memory(measured: Measured | None) -> str:
    if measured is None or measured.memory is None:
        return _NONE
    megabytes = measured.memory / 1e6
    return f"{megabytes / 1e3:.2f} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}x" if ratio >= 1.95 else f"{ratio:.2f}x"


def time(seconds: float) -> str:
    """Seconds with three digits, in the unit that suits them."""
    if seconds >= 100:
        return f"{seconds:.0f} s"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 1e-3:
        return f"{1e3 * seconds:.3g} ms"
    return f"{1e6 * seconds:.3g} us"


def _kernels(kernels: Sequence[Kernel]) -> _Lines:
    names = [name for name in ("flex", "reference") if any(k.backend == name and k.forward for k in kernels)]
    against = [f"vs {_named(name)}" for name in names]
    lines = [["back-end", "numbers", "forward", *against, "with backward", *against, "memory", "largest gap"]]
    for kernel in kernels:
        if kernel.forward is None:
            lines.append([_named(kernel.backend), kernel.dtype, *[_NONE] * (len(lines[0]) - 2)])
            continue
        both = kernel.both or kernel.forward
        cells = [_named(kernel.backend), kernel.dtype, time(kernel.forward.seconds)]
        cells += [_against(kernels, kernel, name, backward=False) for name in names]
        cells += [time(kernel.both.seconds) if kernel.both else _NONE]
        cells += [_against(kernels, kernel, name, backward=True) for name in names]
        largest = _NONE if kernel.largest is None else f"{kernel.largest:.0e}"
        lines.append([*cells, _memory(both), largest])
    return lines


def _named(backend: str) -> str:
    return "gather" if backend == "reference" else backend


def _against(kernels: Sequence[Kernel], kernel: Kernel, name: str, *, backward: bool) -> str:
    """How often faster than another back-end in the same numbers; a gather is always in float32."""
    dtype = "float32" if name == "reference" else kernel.dtype
    other = next((k for k in kernels if k.backend == name and k.dtype == dtype), None)
    mine, theirs = ((k and (k.both if backward else k.forward)) for k in (kernel, other))
    return _NONE if mine is None or theirs is None else _times(theirs.seconds / mine.seconds)


def _points(scaling: Scaling, baseline: str) -> _Lines:
    by_size = scaling.axis == "size"
    ends = ["ns a pixel", "linear", "GMAC", "of it global"] if by_size else ["ms a frame", "GMAC"]
    lines = [["side" if by_size else "frames", baseline, "ours", "ratio", "memory ours", *ends]]
    for point in scaling.points:
        ratio = point.baseline.each / point.ours.each if point.baseline and point.ours else None
        parts = shares(scaling, point)
        cells = [str(point.value), _value(point.baseline, "time"), _value(point.ours, "time")]
        cells += [_NONE if ratio is None else _times(ratio), _memory(point.ours)]
        seconds = point.ours.seconds / argument(scaling, point) if point.ours else None
        if by_size:
            cells += [_NONE if seconds is None else f"{1e9 * seconds:.1f}"]
            cells += [_NONE if parts is None else f"{100 * parts[1]:.0f} %", f"{point.macs / 1e9:.1f}"]
            cells += [f"{100 * point.macs_global / point.macs:.0f} %"]
        else:
            cells += [_NONE if seconds is None else f"{1e3 * seconds:.2f}", f"{point.macs / 1e9:.1f}"]
        lines.append(cells)
    return lines


def _words(report: Report) -> list[str]:
    """What the tables do not say by themselves."""
    lines = [f"warning: {report.busy}"] if report.busy else []
    if report.rows:
        runs = sorted({m.runs for row in report.rows for m in (row.baseline, row.ours) if m is not None})
        often = many(runs[-1], "call") if len(runs) < 2 else f"{runs[0]} to {many(runs[-1], 'call')}"
        lines.append(f"median of {often}, each until its result is there; the first call of each path is left out")
        lines.append(f"memory: {report.memory}")
    gaps = [row.difference for row in report.rows if row.difference is not None]
    if gaps:
        worst = max(gap.largest for gap in gaps)
        lines.append(
            f"accuracy: PSNR of ours against float32 for values in [-1, 1], at least {gaps[0].bound:g} dB expected; "
            f"largest difference {worst:.1e}"
        )
    lines += [f"{row.label.strip()}: {row.note}" for row in report.rows if row.note]
    lines += [scaling.words for scaling in report.scalings if scaling.words]
    lines += [f"{_named(k.backend)}, {k.dtype}: {k.why_not}" for k in report.kernels if k.why_not]
    lines += [f"left out: {line}" for line in report.left_out]
    return [*lines, f"{_REPEAT}{report.command}"] if report.command else lines


def _columns(lines: _Lines) -> str:
    widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]

    def placed(line: list[str]) -> str:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        return "  ".join([line[0].ljust(len(first)), *others]).rstrip()

    return "\n".join(map(placed, lines))
