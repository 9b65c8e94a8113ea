"""From files and wishes to clear images, pictures and downloads. Knows nothing of web pages."""

from __future__ import annotations

import dataclasses
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from emrdm import pictures
from emrdm.attention_maps import attention_maps
from emrdm.diffusion import Step
from emrdm.errors import EmrdmError, InputError
from emrdm.files import as_path
from emrdm.model import EMRDM
from emrdm.rasters.memory import ArraySource
from emrdm.rasters.scene import Scene, open_scene
from emrdm.rasters.source import open_source
from emrdm.restoration import Inputs, Reading, Settings, Writing, overview, restore_scene
from emrdm.restoration.watching import Estimate
from emrdm.serve.shelf import Offer, Shelf
from emrdm.window import Window
from emrdm.wording import many

MOST_FILES, MOST_STEPS, MOST_SAMPLES = 32, 100, 32
_SHOWN, _WATCHED, _DOWNLOADED = 1280, 640, 4096  # longest sides of pictures: of results, of steps, to keep
_OFTEN = 0.15  # seconds between words on progress
_SEEN = 256  # pixels along a side of what attention is shown of
_GEOTIFF = (".tif", ".tiff")
_ON_THE_PAGE = {
    "--range LOW:HIGH or --range auto says what they mean": "say what they mean under “Range of values”",
    "--bands says which ones they are": "say which ones they are under “Band names”",
    "expected --sar with such an image": "add such an image under “Radar image”",
    "--sar files": "radar images",
    "as --sar": "as radar image",
}


class CancelledError(EmrdmError):
    """Somebody asked to stop."""


@final
@dataclass(frozen=True)
class Order:
    """What somebody wants.

    Attributes:
        files: images: one series for models of series, else each by itself.
        model: its name on the shelf.
        steps: of the sampler; None for the model's own.
        samples: restorations to average; two or more give an uncertainty map.
        seed: of the noise.
        radar: radar images, for models that see them.
        range: "", "auto" or "LOW:HIGH": which numbers become the ends of the model's range.
        bands: names of the bands, where files have none, separated by commas.
        dates: of the images of a series, where files do not tell.
        masks: whether to show where a model of series looks.
    """

    files: tuple[Path, ...]
    model: str
    steps: int | None = None
    samples: int = 1
    seed: int = 0
    radar: tuple[Path, ...] = ()
    range: str = ""
    bands: str = ""
    dates: str = ""
    masks: bool = True

    def __post_init__(self) -> None:
        if not self.files:
            raise InputError("there is no image yet: drop one, or take the example")
        if len(self.files) > MOST_FILES:
            raise InputError(f"{len(self.files)} files: expected {MOST_FILES} at most")
        for name, value, most in (("steps", self.steps, MOST_STEPS), ("samples", self.samples, MOST_SAMPLES)):
            if value is not None and not 1 <= value <= most:
                raise InputError(f"{name} is {value}: expected 1 to {most}")
        if not 0 <= self.seed < 1 << 53:
            raise InputError(f"seed is {self.seed}: expected 0 or a whole number above")

    @property
    def reading(self) -> Reading:
        """How the files' numbers are to be understood."""
        text = self.range.strip().lower()
        if text in ("", "auto"):
            return Reading(range=text or None)
        try:
            low, high = (float(part) for part in text.split(":"))
        except ValueError:
            raise InputError(
                f"range of values {self.range!r}: expected LOW:HIGH, such as 0:10000, or auto, or nothing"
            ) from None
        return Reading(range=(low, high))


@final
@dataclass(frozen=True)
class News:
    """What is going on: words, how much is done, and what the clear image is thought to be."""

    text: str
    share: float | None = None
    picture: Path | None = None


@final
@dataclass(frozen=True)
class Outcome:
    """A restored image or series.

    Attributes:
        name: of its file.
        summary: what was done, in a line.
        before, after: pictures of the newest date and of the clear image, with the same contrast.
        uncertainty: picture of the clear image under its uncertainty, of two samples or more.
        highest: standard deviation that has the brightest colour there.
        steps: pictures of what the clear image was thought to be, with captions.
        masks: pictures of the dates, coloured where the model looked, with captions.
        downloads: files to keep.
    """

    name: str
    summary: str
    before: Path
    after: Path
    uncertainty: Path | None
    highest: float
    steps: tuple[tuple[Path, str], ...]
    masks: tuple[tuple[Path, str], ...]
    downloads: tuple[Path, ...]


Tell = Callable[[News], None]


def look(order: Order, shelf: Shelf, folder: Path) -> tuple[Path, str]:
    """A picture of the newest image and a line about all, or the reason why they cannot be restored."""
    offer = shelf.offer(order.model)
    with said_for_the_page(order):
        shown, text = None, ""
        for group in _groups(order, offer):
            with _opened(order, group) as scene:
                Inputs(scene, offer.config, order.reading)
                shown, newest = overview.picture(scene.frames[-1], size=_WATCHED)[0], scene.frames[-1]
            place = f", {_called(newest.grid.crs)}" if newest.grid.crs else ""
            text = f"{newest.grid.width} x {newest.grid.height} pixels, {many(newest.count, 'band')}{place}"
    assert shown is not None
    count = len(order.files)
    path = folder / f"look-{secrets.token_hex(4)}.png"
    _save(shown, path)
    if count == 1:
        return path, f"One image: {text}."
    return path, f"A series of {count} images: {text}." if offer.series else f"{count} images; the last: {text}."


def restore(order: Order, shelf: Shelf, folder: Path, tell: Tell, stopped: threading.Event) -> tuple[Outcome, ...]:
    """Do what was ordered; everything is written into ``folder``. ``stopped`` ends it within a tile."""
    offer = shelf.offer(order.model)
    with said_for_the_page(order, folder):
        groups = _groups(order, offer)
        for group in groups:  # what is wrong with a file is said before a model is loaded
            with _opened(order, group) as scene:
                Inputs(scene, offer.config, order.reading)
        tell(News("Loading the model."))
        model = shelf.load(order.model)
        outcomes = []
        for i, group in enumerate(groups):
            target = folder / str(i)
            target.mkdir(parents=True)
            which = f"Image {i + 1} of {len(groups)}: " if len(groups) > 1 else ""
            with _opened(order, group) as scene:
                outcomes.append(_One(order, model, scene, target, which, tell, stopped).outcome())
        return tuple(outcomes)


@final
class _One:
    """The restoration of one scene."""

    def __init__(
        self, order: Order, model: EMRDM, scene: Scene, folder: Path, which: str, tell: Tell, stopped: threading.Event
    ) -> None:
        self.order, self.model, self.scene, self.folder = order, model, scene, folder
        self.which, self.tell, self.stopped = which, tell, stopped
        sampler = model.config.sampler
        self.sampler = sampler if order.steps is None else dataclasses.replace(sampler, steps=order.steps)
        self.started = self.told = time.monotonic()
        self.steps: list[tuple[Path, str]] = []

    def outcome(self) -> Outcome:
        first = Path(self.scene.frames[-1].name)
        stem = first.stem[:80] or "image"
        several, is_tiff = self.order.samples > 1, first.suffix.lower() in _GEOTIFF
        output = self.folder / f"{stem}_clear{'.tif' if is_tiff else '.png'}"
        spread = self.folder / f"{stem}_uncertainty.tif" if several else None
        found = restore_scene(
            self.scene,
            self.model,
            output,
            settings=Settings(seed=self.order.seed, samples=self.order.samples, sampler=self.sampler),
            reading=self.order.reading,
            write=Writing(uncertainty=spread),
            progress=self._progress,
            finishing=lambda _done, _total: self._pause(),
            watch=self._watch,
        )
        with open_source(output) as clear:
            after, contrast = overview.picture(clear, size=_SHOWN)
            before, _ = overview.picture(self.scene.frames[-1], size=_SHOWN, black_white=contrast)
            downloads = [output]
            if is_tiff:
                large, _ = overview.picture(clear, size=_DOWNLOADED, black_white=contrast)
                downloads.append(self._save(large, f"{stem}_clear.png"))
        shown, highest = None, 0.0
        if spread is not None:
            with open_source(spread) as source:
                share, highest = overview.spread(source, size=_SHOWN)
            shown = self._save(overview.overlaid(after, share), f"{stem}_uncertainty.png")
            downloads += [spread, shown]
        seconds = found.summary.seconds
        masks = self._masks() if self.order.masks and self.model.config.network.multi_temporal else ()
        return Outcome(
            name=first.name,
            summary=f"{found.grid.width} x {found.grid.height} pixels, {many(len(found.names), 'band')}, "
            f"{many(found.summary.tiles, 'tile')} in {seconds:.0f} s"
            + (f"; {'; '.join(found.summary.notes)}" if found.summary.notes else ""),
            before=self._save(before, "before.png"),
            after=self._save(after, "after.png"),
            uncertainty=shown,
            highest=highest,
            steps=tuple(self.steps),
            masks=masks,
            downloads=tuple(downloads),
        )

    def _pause(self) -> None:
        if self.stopped.is_set():
            raise CancelledError("cancelled")

    def _progress(self, done: int, total: int) -> None:
        self._pause()
        now = time.monotonic()
        if now - self.told < _OFTEN and done < total:
            return
        self.told, spent = now, now - self.started
        rounds = self.order.samples * self.sampler.steps
        words = f"{self._round(min(done * rounds // total, rounds - 1))}: {100 * done // total} %"
        if done and spent > 3 and done < total:
            words += f", about {spent * (total - done) / done:.0f} s left"
        self.tell(News(words, done / total))

    def _watch(self, estimate: Estimate) -> None:
        self._pause()
        picture, _ = overview.picture(estimate, size=_WATCHED)
        path = self._save(picture, f"sample-{estimate.sample}-step-{estimate.step}.png")
        if estimate.sample == 0:
            self.steps.append((path, estimate.name))
        done = estimate.sample * estimate.steps + estimate.step
        self.tell(News(f"{self._round(done)} is done", (done + 1) / (self.order.samples * estimate.steps), path))

    def _round(self, number: int) -> str:
        """What is done in a round of all tiles."""
        sample, step = divmod(number, self.sampler.steps)
        of = f", sample {sample + 1} of {self.order.samples}" if self.order.samples > 1 else ""
        return f"{self.which}Step {step + 1} of {self.sampler.steps}{of}"

    def _masks(self) -> tuple[tuple[Path, str], ...]:
        """The dates in the middle of the scene, coloured by how much the model took from each."""
        grid = self.scene.grid
        height, width = min(grid.height, _SEEN), min(grid.width, _SEEN)
        window = Window((grid.height - height) // 2, (grid.width - width) // 2, height, width)
        inputs = Inputs(self.scene, self.model.config, self.order.reading)
        seen = inputs.read(window)
        cloudy, aux = seen.cloudy[seen.present], None if seen.aux is None else seen.aux[seen.present]
        if not len(cloudy):
            return ()
        self.tell(News(f"{self.which}Looking at what the model looked at", None))

        def pause(step: Step) -> None:
            del step
            self._pause()

        maps = attention_maps(
            self.model, cloudy, aux, seed=self.order.seed, sampler=self.sampler, scaled=True, callback=pause
        ).mean()
        frames = [frame for frame, there in zip(self.scene.frames, seen.present, strict=True) if there]
        found = []
        for i, (frame, share) in enumerate(zip(frames, maps, strict=True)):
            pixels, valid = frame.read(window)
            part = ArraySource(pixels, valid, frame.names, scales=frame.scales, offsets=frame.offsets)
            picture, _ = overview.picture(part, size=_SEEN)
            label = str(frame.date or Path(frame.name).name)
            path = self._save(overview.overlaid(picture, share / maps.max(), strength=0.6), f"attention-{i}.png")
            found.append((path, f"{label}: {100 * float(share.mean()):.0f} %"))
        return tuple(found)

    def _save(self, picture: np.ndarray, name: str) -> Path:
        path = self.folder / name
        _save(picture, path)
        return path


def _save(picture: np.ndarray, path: Path) -> None:
    pictures.save(pictures.shrunk(picture, max(picture.shape)), path, sweep=False)


def _called(crs: str) -> str:
    """The name of a coordinate system, which a file describes at length."""
    found = re.search(r'\["([^"]+)"', crs)
    return found[1] if found else crs[:80]


def _groups(order: Order, offer: Offer) -> list[tuple[Path, ...]]:
    """Files that are restored together."""
    return [order.files] if offer.series else [(file,) for file in order.files]


def _opened(order: Order, files: Sequence[Path]) -> Scene:
    for file in files:
        if not as_path(file, "image").is_file():
            raise InputError(f"{file.name} is no longer there: drop it again")
    return open_scene(
        *files,
        sar=order.radar,
        bands=[name.strip() for name in order.bands.split(",")] if order.bands.strip() else None,
        dates=[date.strip() for date in order.dates.split(",")] if order.dates.strip() else None,
    )


@final
class said_for_the_page:  # noqa: N801 - read as a sentence: with said_for_the_page(order)
    """Turns what is refused into words of the page: names without folders, fields instead of options."""

    def __init__(self, order: Order, folder: Path | None = None) -> None:
        self.paths = (*order.files, *order.radar)
        self.folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, EmrdmError) or isinstance(error, CancelledError):
            return
        text = str(error)
        for path in self.paths:
            text = text.replace(str(path), path.name)
        if self.folder is not None:
            text = text.replace(f"{self.folder}/", "")
        for option, words in _ON_THE_PAGE.items():
            text = text.replace(option, words)
        raise InputError(text) from None
