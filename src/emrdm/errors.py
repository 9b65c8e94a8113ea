"""The one tree of exceptions this package raises on purpose.

Each class knows the exit code the command line ends with (README, "Exit codes"). Every message is one line:
what was wrong, where, and what was expected.
"""

from __future__ import annotations

_LONGEST = 600


def printable(text: str) -> str:
    """Text from a file as it may be shown: line breaks and what steers a terminal are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shorten(text: str) -> str:
    """Leave out the middle: a message says where at its beginning and what was expected at its end."""
    half = _LONGEST // 2 - 3
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


class EmrdmError(Exception):
    """Anything this package refuses or cannot do.

    Messages quote names and values from files, which may be long, have line breaks or steer a terminal: they are
    shortened, and what cannot be printed is escaped.
    """

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(_shorten(printable(_shorten(message))))


class InputError(EmrdmError, ValueError):
    """An image or an argument that does not fit the model."""

    exit_code = 2


class ConfigError(EmrdmError, ValueError):
    """A configuration or preset that is misspelt, of the wrong type, or out of range."""

    exit_code = 2


class WeightsError(EmrdmError, ValueError):
    """A model file that cannot be trusted or does not match its configuration."""

    exit_code = 2


class DataError(EmrdmError, ValueError):
    """A file of a data set that is missing, cannot be read or is not what it should be; the rest may be fine."""

    exit_code = 2


class MissingDependencyError(EmrdmError, ImportError):
    """An optional package is needed for what was asked."""


class InterruptedRunError(EmrdmError):
    """A signal ended the work; what was done is kept."""

    exit_code = 130
