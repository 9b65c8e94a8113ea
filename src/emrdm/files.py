"""Files that are either absent or complete."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from emrdm.errors import InputError


def as_path(value: str | Path, what: str) -> Path:
    """A path from what a user gave, or one line about what it is instead."""
    if not isinstance(value, str | Path):
        raise InputError(f"{what} is a {type(value).__name__}: expected a path")
    if "\0" in str(value):
        raise InputError(f"{what} {str(value)!r} has a null character: expected a path")
    return Path(value)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; move it into place when the block ends well, remove it otherwise.

    The data is flushed to disk before the move and the folder after it, so a crash at any point leaves either the
    old file or the new one, never a part of it. Callers that can should read the temporary file back before leaving.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: expected the name of a file to write")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".partial", dir=path.parent)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _fsync(temporary)
        # mkstemp makes private files; give the result the permissions an ordinary new file would have.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # some network and Windows file systems cannot sync a folder
        _fsync(path.parent)


def sha256(path: Path, *, start: int = 0) -> str:
    """Hexadecimal SHA-256 of a file from byte ``start`` on."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        stream.seek(start)
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
