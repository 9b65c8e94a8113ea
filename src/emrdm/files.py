"""Paths from users, and files that are either absent or complete."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from emrdm.errors import EmrdmError, InputError


def as_path(value: str | Path, what: str) -> Path:
    """A path from what a user gave, or one line about what it is instead."""
    if not isinstance(value, str | Path):
        raise InputError(f"{what} is a {type(value).__name__}: expected a path")
    if "\0" in str(value):
        raise InputError(f"{what} {str(value)!r} has a null character: expected a path")
    return Path(value)


def make_folder(path: Path, what: str) -> None:
    """Make a folder for something to be written into, or say why it cannot be."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file: expected a folder for {what}")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be a folder for {what}: {error.strerror}") from None
    if not os.access(path, os.W_OK):
        raise InputError(f"{path} cannot be written: expected a folder for {what}")


def why_unreadable(path: Path) -> str | None:
    """Why a path cannot be opened as a file, in a few words; None if it can. Never waits, as a pipe would make it."""
    try:
        if path.exists() and not path.is_file():
            return "it is not a file"
        path.open("rb").close()
    except (OSError, ValueError) as error:  # also names that are not text
        return getattr(error, "strerror", None) or str(error)
    return None


def fingerprint(paths: Iterable[Path]) -> str:
    """A digest of the names, sizes and times of files: another one if any of them was changed."""
    digest = hashlib.sha256()
    for path in paths:
        state = path.stat() if path.exists() else None
        facts = (os.fsencode(path), state and state.st_size, state and state.st_mtime_ns)
        digest.update(repr(facts).encode())
    return digest.hexdigest()[:16]


@contextmanager
def atomic_path(path: Path, *, sweep: bool = True) -> Iterator[Path]:
    """Give a temporary path beside ``path``; move it into place when the block ends well, remove it otherwise.

    The data is flushed to disk before the move and the folder after it, so a crash at any point leaves either the
    old file or the new one, never a part of it. What a killed process left beside it is removed by the next one.
    Callers that can should read the temporary file back before leaving. Who writes thousands of files into one folder
    calls :func:`remove_leftovers` once and turns ``sweep`` off: it lists the folder every time.
    """
    path = Path(os.path.realpath(path))  # a link stays a link, to the new content
    if os.path.isdir(path):  # noqa: PTH112 - never raises, as Path.is_dir does for a name that is too long
        raise InputError(f"{path} is a folder: expected the name of a file to write")
    temporary = _beside(path)
    try:
        if sweep:
            remove_leftovers(path.parent)
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = mode or temporary.stat().st_mode & 0o777
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield temporary
        temporary.chmod(mode)  # some writers make a new, private file of that name
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # some network and Windows file systems cannot sync a folder
        sync(path.parent)


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """A hidden folder beside ``path``, gone with all that is in it when the block ends.

    For what is made by way of other files: they are on the disk where the result will be, whatever the writer calls
    them. What a killed process left is removed by the next one, as with :func:`atomic_path`.
    """
    path = Path(os.path.realpath(path))
    folder = _beside(path)
    try:
        remove_leftovers(path.parent)
        folder.mkdir()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_bytes(folder: Path) -> int:
    """What can still be written into a folder."""
    return shutil.disk_usage(folder).free


def require_space(folder: Path, needed: int, what: str) -> None:
    """Refuse to begin what cannot be kept."""
    free = free_bytes(folder)
    if needed > free:
        raise EmrdmError(f"{what} needs up to {needed:,} bytes, and {free:,} are free in {folder}: make room there")


@contextmanager
def locked(folder: Path, what: str) -> Iterator[None]:
    """Hold a folder for one process: a second one is refused. A killed process holds nothing any more."""
    descriptor = os.open(folder, os.O_RDONLY)  # the folder itself: there is no file to leave behind
    _held.add(descriptor)
    try:
        try:
            _lock(descriptor)
        except BlockingIOError:
            raise InputError(f"{folder} is in use by another process: expected one {what} at a time") from None
        yield
    finally:
        if descriptor in _held:  # not in a process that was forked meanwhile
            _held.remove(descriptor)
            os.close(descriptor)


_held: set[int] = set()


def _let_go() -> None:
    """Close what a forked process has inherited: a lock lasts until the last copy of its descriptor is closed.

    Processes that read ahead would otherwise hold it for seconds after the one that took it was killed.
    """
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _lock(descriptor: int) -> None:
    if os.name == "posix":  # elsewhere two runs on one folder are not noticed
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _beside(path: Path) -> Path:
    """A new hidden name in the folder of ``path`` that says whose it is; short, also where letters take four bytes."""
    name = os.fsencode(path.name)[:100].decode(errors="ignore")
    return path.parent / f".{name}.{_this_host()}-{os.getpid()}-{secrets.token_hex(4)}.partial"


def _this_host() -> str:
    return "".join(c for c in platform.node() if c.isalnum())[:40] or "host"


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders of this module whose process, on this host, is gone."""
    middle = f".{_this_host()}-"
    for entry in folder.iterdir():
        if entry.name.startswith(".") and entry.name.endswith(".partial") and middle in entry.name:
            owner = entry.name.rpartition(middle)[2].partition("-")[0]
            if not owner.isdigit() or _is_running(int(owner)):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":  # signal 0 asks there is somebody there on POSIX alone; elsewhere it would interrupt them
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's process: it exists
        pass
    return True


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk; a full one may say so only now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
