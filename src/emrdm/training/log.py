"""What a run says of itself on the way: one line of JSON an event, and TensorBoard where it is installed.

The log of a run that was stopped and went on is the log of one that never was: what came after the checkpoint is
taken out before the run goes on, since it will happen again.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from emrdm.errors import EmrdmError
from emrdm.files import atomic_path

_LOG = logging.getLogger(__name__)
LOG = "log.jsonl"
TENSORBOARD = "tensorboard"

Row = Mapping[str, Any]


@final
class Log:
    """The log of a run, as files; ``listener`` hears every row, too."""

    def __init__(
        self, folder: Path, *, step: int, validated: int, listener: Callable[[Row], None] | None = None
    ) -> None:
        """Open the log of a run that goes on behind ``step`` and was last validated at ``validated``."""
        self.path = folder / LOG
        ends = {"validation": validated}  # one that is due at ``step`` itself may have been logged: it comes again
        kept = [row for row in read_log(self.path) if row["step"] <= ends.get(row.get("kind", ""), step)]
        with atomic_path(self.path) as temporary:
            temporary.write_text("".join(_line(row) for row in kept), "utf-8")
        self._file = self.path.open("ab", buffering=0)
        self._board = _tensorboard(folder / TENSORBOARD, step)
        self._listener = listener

    def add(self, kind: str, step: int, **values: Any) -> None:
        """Write a row; it is on its way to the disk when this returns."""
        row = {"kind": kind, "step": step, **values}
        self._write(_line(row).encode())
        with self._forgiving():
            for name, value in _scalars(kind, values) if self._board is not None else ():
                self._board.add_scalar(name, value, step)
        if self._listener is not None:
            self._listener(row)

    def tell(self, kind: str, step: int, **values: Any) -> None:
        """Let the listener hear what is not worth keeping."""
        if self._listener is not None:
            self._listener({"kind": kind, "step": step, **values})

    def picture(self, name: str, step: int, pixels: Any) -> None:
        """Show a picture (H, W, 3) uint8 in TensorBoard."""
        with self._forgiving():
            if self._board is not None:
                self._board.add_image(name, pixels, step, dataformats="HWC")

    def close(self) -> None:
        """Write what is left."""
        self._file.close()
        with self._forgiving():
            if self._board is not None:
                self._board.close()

    def _write(self, line: bytes) -> None:
        try:
            while line:  # a disk that fills up takes a part, then nothing
                line = line[self._file.write(line) :]
        except OSError as error:
            raise EmrdmError(f"{self.path} could not be written: {error.strerror}") from None

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """What is shown in TensorBoard is in the log as well: no run ends for want of it."""
        try:
            yield
        except OSError as error:
            _LOG.warning("TensorBoard is not written any more: %s", error.strerror or error)
            self._board = None


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows of a log; a last line that a killed process left unfinished is not one."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text("utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int) and isinstance(row.get("kind"), str):
            rows.append(row)
    return rows


def _line(row: Row) -> str:
    return json.dumps(plain(row)) + "\n"


def plain(value: Any) -> Any:
    """JSON knows no NaN and no infinity: they become texts that float() reads."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def _scalars(kind: str, values: Row, prefix: str = "") -> list[tuple[str, float]]:
    """Numbers by a name that groups them in TensorBoard, such as validation/rice1/psnr."""
    found = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += _scalars(kind, value, "" if key == "scores" else f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append((f"{'train' if kind == 'step' else kind}/{prefix}{key}", float(value)))
    return found


def _tensorboard(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        _LOG.info("tensorboard is not installed: the log is in %s alone", LOG)
        return None
    # what an earlier process wrote behind the checkpoint is hidden
    return SummaryWriter(folder, purge_step=step + 1)
