"""A training run as it is watched: one line that stays, on a terminal; now and then a line elsewhere."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO, final

from emrdm.cli.progress import duration
from emrdm.errors import printable
from emrdm.wording import many

_QUIET = 15.0  # seconds between lines where nobody watches, such as in a log
_SMOOTH = 0.9


@final
class Live:
    """Hears the rows of a run's log and shows them."""

    def __init__(self, name: str, *, silent: bool = False, stream: TextIO | None = None) -> None:
        self.name, self.silent, self.stream = name, silent, stream or sys.stderr
        self.shown = 0.0
        self.width = 0
        self.speed: float | None = None
        self.samples_a_step = 1

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Show a row, if it is time to."""
        if self.silent:
            return
        if row["kind"] == "start":
            self.samples_a_step = row["samples_a_step"]
            self._say(self._start(row))
        elif row["kind"] == "step":
            self._step(row)
        elif row["kind"] == "validating":
            if 0 < row["done"] < row["total"]:
                self._show(f"step {row['step']:,}: validating, {row['done']}/{row['total']} images")
        elif row["kind"] == "validation":
            words = "   ".join(
                f"{name}: PSNR {scores['psnr']:.2f} dB, SSIM {scores['ssim']:.4f} (protocol {scores['protocol']}, "
                f"{many(scores['images'], 'validation image')}; {scores['untouched']['what']}: "
                f"{scores['untouched']['psnr']:.2f} dB)"
                for name, scores in row["scores"].items()
            )
            self._say(f"step {row['step']:,}: {words}{', the best so far' if row['best'] else ''}")

    def make_way(self, _record: logging.LogRecord) -> bool:
        """Leave the line that stays to a message of the log; a filter of its handlers."""
        self.end()
        return True

    def end(self) -> None:
        """Leave the line that stays."""
        if self.width:
            self.stream.write("\n")
            self.stream.flush()
        self.width = 0

    def _start(self, row: Mapping[str, Any]) -> str:
        factors = [str(row["batch_size"])]
        factors += [f"{row['processes']} processes"] if row["processes"] > 1 else []
        factors += [f"{row['accumulate']} batches"] if row["accumulate"] > 1 else []
        product = " x ".join(factors)
        batch = f"{many(row['samples_a_step'], 'sample')} a step{f' ({product})' if factors[1:] else ''}"
        goes = f"goes on from step {row['step']:,} of" if row["step"] else "starts;"
        goes = "has done all" if row["step"] == row["steps"] else goes
        changes = f"; changed: {'; '.join(row['changes'])}" if row["changes"] else ""
        return (
            f"{self.name}: {row['parameters']:,} parameters, {row['samples']:,} training and "
            f"{many(row['validation_images'], 'validation image')}, {batch}, {row['device']}; "
            f"{goes} {row['steps']:,} steps{changes}"
        )

    def _step(self, row: Mapping[str, Any]) -> None:
        speed = row["images_per_s"]
        self.speed = speed if self.speed is None else _SMOOTH * self.speed + (1 - _SMOOTH) * speed
        left = (row["steps"] - row["step"]) * self.samples_a_step / max(self.speed, 1e-9)
        text = (
            f"step {row['step']:,}/{row['steps']:,} ({100 * row['step'] // row['steps']} %)  loss {row['loss']:.4f}  "
            f"{self.speed:.1f} images/s  {row['memory'] / 1e9:.1f} GB  {duration(left)} left"
        )
        self._show(text, last=row["step"] == row["steps"])

    def _show(self, text: str, *, last: bool = False) -> None:
        """The line that stays, if it is time for it."""
        now, terminal = time.monotonic(), self.stream.isatty()
        if now - self.shown < (0.1 if terminal else _QUIET) and not last:
            return
        self.shown = now
        if terminal:
            text = text[: shutil.get_terminal_size().columns - 1]  # a line that wraps would not be overwritten
            self.stream.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def _say(self, text: str) -> None:
        """A line of its own, above the one that stays."""
        text = printable(text)
        self.stream.write(("\r" + text.ljust(self.width) if self.width else text) + "\n")
        self.width = 0
        self.stream.flush()
