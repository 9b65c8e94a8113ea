"""How much is said: ``-v``, ``-vv`` and ``-q``, the same for every verb.

=======  ==================================================================================================
``-q``   results and errors alone
none     also progress, warnings and hints
``-v``   also what was decided on the way: which model, which kernels, which samples were left out
``-vv``  also details, messages of libraries such as GDAL, and behind an error where it was raised
=======  ==================================================================================================

Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import logging
import sys

from emrdm.cli import terminal
from emrdm.errors import InputError

_LEVELS = {-1: logging.ERROR, 0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG}


def add(parser: argparse.ArgumentParser, depth: int) -> None:
    """Declare the options, for the command itself (depth 0), a verb or a task of one."""
    volume = parser.add_mutually_exclusive_group()
    default = argparse.SUPPRESS if depth else None
    for names, step, text in (
        (("-v", "--verbose"), 1, "say more about what is done; -vv: everything"),
        (("-q", "--quiet"), -1, "say only what was asked for, and errors"),
    ):
        volume.add_argument(
            *names, action="append_const", const=step, dest=f"volume{depth}", default=default, help=text
        )


def read(arguments: argparse.Namespace) -> int:
    """The volume asked for before the verb, after it, or both: -1 to 2. Sets ``quiet`` for the verbs."""
    steps = [step for depth in range(3) for step in getattr(arguments, f"volume{depth}", None) or ()]
    if len(set(steps)) > 1:
        raise InputError("both -v and -q were given: expected one of them")
    level: int = max(-1, min(2, sum(steps)))
    arguments.quiet = level < 0
    return level


def set_up_messages(level: int, *, plain: bool) -> None:
    """Send messages of the package, and of libraries where they are wanted, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(lambda record: level > 1 or _of_interest(record))
    handler.setFormatter(_Formatter(plain=plain))
    logging.basicConfig(level=_LEVELS[level], handlers=[handler])


def _of_interest(record: logging.LogRecord) -> bool:
    library = record.name.partition(".")[0]
    if library == "rasterio":  # GDAL grumbles about odd tags of images that are fine
        return False
    return library == "emrdm" or record.levelno >= logging.WARNING


class _Formatter(logging.Formatter):
    """A line that begins with the program's name, yellow if it warns."""

    def __init__(self, *, plain: bool) -> None:
        super().__init__("%(message)s")
        self.plain = plain

    def format(self, record: logging.LogRecord) -> str:
        plain = self.plain or record.levelno < logging.WARNING
        return f"{terminal.paint('emrdm:', 'yellow', sys.stderr, plain=plain)} {super().format(record)}"
