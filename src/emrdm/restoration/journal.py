"""Where unfinished work is kept: a hidden folder beside the output, for one process at a time.

The folder says what is being computed. A run that was killed goes on from there if it would compute the same; anything
else is refused, so that nothing is lost and nothing is mixed. It is removed when the output is in place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from emrdm.errors import EmrdmError, InputError
from emrdm.files import atomic_path, locked, make_folder, temporary_folder
from emrdm.restoration.state import has_tiles

_FACTS, _ENDING = "run.json", "ending.json"
_TEMPORARY = re.compile(r"[A-Za-z0-9]+-[0-9]+-[0-9a-f]+\.partial")


def run_folder(output: Path) -> Path:
    """Where unfinished work for an output is kept."""
    output = Path(os.path.realpath(output))
    name = output.name
    if len(os.fsencode(name)) > 200:  # names may have 255 bytes
        name = name[:40] + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return output.parent / f".{name}.emrdm"


@contextmanager
def journal(output: Path, facts: Mapping[str, object], *, anew: bool = False) -> Iterator[tuple[Path, bool]]:
    """The folder of a run, locked, and whether it holds work of an earlier one.

    It is removed when the block ends well, and when it ends without a single finished tile.

    Args:
        output: what the run is for.
        facts: everything that decides what is computed.
        anew: throw away what an earlier run has left, unless it computed the same.
    """
    folder = run_folder(output)
    make_folder(folder.parent, "the output")
    make_folder(folder, "unfinished work")
    with locked(folder, f"restoration of {output.name}"):
        resumed = _compare(folder, output, facts, anew=anew)
        _sweep(output)
        try:
            yield folder, resumed
        except BaseException:
            if not has_tiles(folder):
                _discard(folder, output)
            raise
        _discard(folder, output)


def begun_with(output: Path, fact: str) -> object:
    """What an unfinished run for an output says about itself; None where there is none."""
    facts = _read(run_folder(output) / _FACTS)
    return facts.get(fact) if isinstance(facts, dict) else None


def note_ending(folder: Path, outputs: Iterable[Path]) -> None:
    """Note that these files are not there yet and about to be: who finds them after a kill knows whose they are."""
    _write(folder / _ENDING, [str(path.resolve()) for path in outputs])


def own_files(folder: Path) -> set[Path]:
    """Files that are there, if at all, because the run of this folder was killed between writing them and its end."""
    found = _read(folder / _ENDING)
    return {Path(name) for name in found} if isinstance(found, list) else set()


def _compare(folder: Path, output: Path, facts: Mapping[str, object], *, anew: bool) -> bool:
    before, now = _read(folder / _FACTS), json.loads(json.dumps(facts))
    if before == now:
        return True
    if isinstance(before, dict) and not anew:  # without that file, nothing was computed
        raise InputError(
            f"{folder} holds an unfinished run for {output.name} with {_differing(before, now)}: "
            "give the same options to go on, or --overwrite to begin anew"
        )
    _empty(folder)
    _write(folder / _FACTS, now)
    return False


def _differing(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    """The first thing that is another, and the parts of it that are."""
    key = next((key for key in now if before.get(key) != now[key]), "something")
    was, is_now = before.get(key), now.get(key)
    if isinstance(was, dict) and isinstance(is_now, dict):
        parts = [part for part in is_now if was.get(part) != is_now[part]]
        return " and ".join(f"another {part} ({_short(was.get(part))}, now {_short(is_now[part])})" for part in parts)
    return f"another {key} ({_short(was)}, now {_short(is_now)})"


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write(path: Path, content: object) -> None:
    try:
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    except OSError as error:
        raise EmrdmError(f"{path} cannot be written: {error.strerror}") from None


def _sweep(output: Path) -> None:
    """Remove what killed runs for this output left beside it, on whatever host: there is no other while it is held."""
    output = Path(os.path.realpath(output))
    start = f".{output.name}."
    for entry in output.parent.iterdir():
        if entry.name.startswith(start) and _TEMPORARY.fullmatch(entry.name.removeprefix(start)):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _discard(folder: Path, output: Path) -> None:
    """Remove a run: at once, so that a kill leaves all of it or nothing that could be taken for one."""
    with suppress(OSError, EmrdmError), temporary_folder(output) as hidden:
        folder.rename(hidden / "run")
    shutil.rmtree(folder, ignore_errors=True)  # where it could not be moved


def _empty(folder: Path) -> None:
    (folder / _FACTS).unlink(missing_ok=True)  # first: a kill must not leave it beside half of what it stands for
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
