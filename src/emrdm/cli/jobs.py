"""Which scenes ``emrdm restore`` is for and where their results go, known and checked before any work."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from emrdm.cli import terminal
from emrdm.errors import EmrdmError, InputError

if TYPE_CHECKING:
    from emrdm.rasters.scene import Scene


@final
@dataclass(frozen=True)
class Job:
    """A scene: what opens it, its images, and the file to write."""

    open: Callable[[], Scene]
    images: tuple[str, ...]
    output: Path

    def failure(self, error: EmrdmError) -> dict[str, Any]:
        """What --json says where it could not be done."""
        return {"input": list(self.images), "output": str(self.output), "error": str(error), "code": error.exit_code}


@final
@dataclass(frozen=True)
class Found:
    """What a command line asks for.

    Attributes:
        jobs: to be done.
        done: outputs that are there already, with --resume.
        unreadable: images that were left out, with --on-error skip, as :meth:`Job.failure` says it.
        notes: lines on all that.
    """

    jobs: list[Job] = field(default_factory=list)
    done: list[Path] = field(default_factory=list)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find(arguments: argparse.Namespace, images: list[str]) -> Found:
    """All scenes of a command line; each was opened once."""
    bands = None if arguments.bands is None else [name.strip() for name in arguments.bands.split(",")]
    return _one(arguments, images, bands) if arguments.output is not None else _many(arguments, images, bands)


def _one(arguments: argparse.Namespace, images: list[str], bands: list[str] | None) -> Found:
    from emrdm.rasters.scene import open_scene

    output, spread = arguments.output, arguments.uncertainty
    if arguments.resume and _is_done(output):
        if spread is not None and not _exists(spread):
            raise InputError(f"{output} is there and {spread} is not: expected both, or --overwrite to make both anew")
        return Found(done=[output], notes=[f"{output} is there: nothing to do"])
    _refuse_existing(arguments, [output])
    dates = None if arguments.dates is None else [date.strip() for date in arguments.dates.split(",")]
    scene = open_scene(
        *images, sar=arguments.sar or (), mask=arguments.mask, nodata=arguments.nodata, dates=dates, bands=bands
    )
    return Found([Job(lambda: scene, tuple(images), output)])


def _many(arguments: argparse.Namespace, images: list[str], bands: list[str] | None) -> Found:
    from emrdm.rasters.scene import open_scene

    outputs = [arguments.out_dir / Path(image).name for image in images]
    if len(set(outputs)) < len(outputs):
        twice = next(path for path in outputs if outputs.count(path) > 1)
        raise InputError(f"two images would be written to {twice}: expected names that differ")
    for image, path in zip(images, outputs, strict=True):
        if Path(image).resolve() == path.resolve():
            raise InputError(f"{image} is in {arguments.out_dir} itself: expected another folder")
        if Path(image).is_dir():
            raise InputError(f"{image} is a folder: expected images, such as {Path(image) / '*.tif'}")
    found = Found(done=[path for path in outputs if _is_done(path)] if arguments.resume else [])
    if found.done:
        found.notes.append(f"{len(found.done)} of {len(outputs)} images are restored already")
    todo = [
        Job(partial(open_scene, image, nodata=arguments.nodata, bands=bands), (image,), path)
        for image, path in zip(images, outputs, strict=True)
        if path not in found.done
    ]
    _refuse_existing(arguments, [job.output for job in todo])
    errors: list[EmrdmError] = []
    for job in todo:  # all are looked at before the first is restored; none stays open until its turn
        try:
            job.open().close()
        except EmrdmError as error:
            errors.append(error)
            found.unreadable.append(job.failure(error))
        else:
            found.jobs.append(job)
    refused = bool(errors) and (arguments.on_error == "stop" or not found.jobs)
    for one in errors[: len(errors) - refused]:
        terminal.complain("emrdm restore", str(one), plain=arguments.json)
    if refused:
        raise errors[-1]
    return found


def _is_done(output: Path) -> bool:
    """Whether a file is there, and no run was killed right after writing it."""
    from emrdm.restoration.journal import own_files, run_folder

    return _exists(output) and output.is_file() and output.resolve() not in own_files(run_folder(output))


def _refuse_existing(arguments: argparse.Namespace, outputs: list[Path]) -> None:
    """Refuse what could not be written in the end, before anything is computed."""
    from emrdm.files import remove_leftovers
    from emrdm.restoration.journal import own_files, run_folder

    for output in outputs:
        own = own_files(run_folder(output))
        for path in (output, *(() if arguments.uncertainty is None else (arguments.uncertainty,))):
            if _exists(path) and not path.is_file():
                raise InputError(f"{path} is no file: expected the name of a file to write")
            if _exists(path) and not arguments.overwrite and path.resolve() not in own:
                remove_leftovers(path.resolve().parent)  # of a run that was killed when all was done
                raise InputError(
                    f"{path} is there already: expected a new name, --overwrite, or --resume to leave out what is done"
                )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # such as a name that is too long
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
