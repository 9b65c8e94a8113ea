"""A place at one or several times, with what else is known of it: files that fit together, or one line why not."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from emrdm.errors import DataError
from emrdm.rasters.dates import first_day
from emrdm.rasters.grid import Grid
from emrdm.rasters.source import Source, open_source
from emrdm.wording import many

Image = str | Path | Source | Any  # or an xarray.DataArray, which need not be installed


@final
@dataclass(frozen=True)
class Scene:
    """Images of one place on one grid.

    Attributes:
        frames: cloudy images in order of time.
        sar: radar images: none, one for all frames, or one a frame.
        mask: one band, not zero where there is cloud.
        grid: of all of them.
    """

    frames: tuple[Source, ...]
    sar: tuple[Source, ...]
    mask: Source | None
    grid: Grid

    @property
    def sources(self) -> tuple[Source, ...]:
        """All images."""
        return (*self.frames, *self.sar, *(() if self.mask is None else (self.mask,)))

    def close(self) -> None:
        """Let go of open files; reading opens them again."""
        for source in self.sources:
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_scene(
    *paths: Image,
    sar: Image | Sequence[Image] = (),
    mask: Image | None = None,
    nodata: float | None = None,
    dates: Sequence[str | datetime.date] | None = None,
    bands: Sequence[str] | None = None,
) -> Scene:
    """Open images of one place and check that they fit together; no pixel of a GeoTIFF is read.

    Args:
        paths: cloudy images: files, :class:`Source` objects or xarray.DataArray objects. They are put in order of
            their dates where all have one, and stay in the order given otherwise.
        sar: radar images: none, one for all frames, or one for each, in the same order as ``paths``.
        mask: one band that is not zero where there is cloud. One without a georeference has to have the same size.
        nodata: the number that stands for no data in the frames, instead of the files' own.
        dates: of the frames, where files do not tell theirs or tell them wrong.
        bands: names of the frames' bands, for files without names or with wrong ones.
    """
    frames = _opened(paths, nodata)
    if not frames:
        raise DataError("no image given: expected at least one")
    frames = _dated([frame if bands is None else frame.replaced(names=bands) for frame in frames], dates)
    radar = _opened(sar if isinstance(sar, list | tuple) else (sar,), None)
    masks = _opened(() if mask is None else (mask,), None)
    _refuse_twice({"image": frames, "--sar": radar, "--mask": masks})
    _check_frames(frames)
    _check_radar(radar, frames)
    _check_mask(masks, frames[0])
    order = _order(frames)
    pairs = radar if len(radar) <= 1 else [radar[i] for i in order]
    return Scene(tuple(frames[i] for i in order), tuple(pairs), masks[0] if masks else None, frames[0].grid)


def _opened(images: Sequence[Image], nodata: float | None) -> list[Source]:
    sources: list[Source] = []
    for image in images:
        if isinstance(image, Source):
            sources.append(image)
        elif type(image).__module__.partition(".")[0] == "xarray":
            from emrdm.rasters.dataarray import sources_of

            sources += sources_of(image, nodata=nodata)
        else:
            sources.append(open_source(image, nodata=nodata))
    return sources


def _dated(frames: list[Source], dates: Sequence[str | datetime.date] | None) -> list[Source]:
    if dates is None:
        return frames
    if len(dates) != len(frames):
        raise DataError(f"{many(len(dates), 'date')} for {many(len(frames), 'image')}: expected one for each")
    return [frame.replaced(date=_day(date)) for frame, date in zip(frames, dates, strict=True)]


def _day(date: str | datetime.date) -> datetime.date:
    if isinstance(date, datetime.date):
        return date.date() if isinstance(date, datetime.datetime) else date
    day = first_day(date)
    if day is None:
        raise DataError(f"date {date!r}: expected a day such as 2024-05-01")
    return day


def _check_frames(frames: list[Source]) -> None:
    first = frames[0]
    for frame in frames[1:]:
        _check_grid(frame, first)
        if frame.count != first.count:
            bands = f"{many(frame.count, 'band')} against {first.count}"
            raise DataError(f"{frame.name} does not fit {first.name}: {bands}")
        if frame.names != first.names:
            raise DataError(
                f"{frame.name} does not fit {first.name}: bands {_listed(frame.names)} against {_listed(first.names)}"
            )
        if frame.dtype != first.dtype:
            raise DataError(f"{frame.name} does not fit {first.name}: numbers of {frame.dtype} against {first.dtype}")
    for day, count in Counter(frame.date for frame in frames if frame.date).items():
        if count > 1:
            one, other = [frame.name for frame in frames if frame.date == day][:2]
            raise DataError(f"{other} is of {day}, as is {one}: expected one image a day, or dates given by hand")


def _check_radar(radar: list[Source], frames: list[Source]) -> None:
    if len(radar) not in (0, 1, len(frames)):
        names = _listed([image.name for image in radar])
        raise DataError(
            f"{names}: {many(len(radar), 'radar image')} for {many(len(frames), 'frame')}: "
            "expected one, or one for each frame"
        )
    for image in radar:
        _check_grid(image, frames[0])
        if (image.count, image.names) != (radar[0].count, radar[0].names):
            raise DataError(
                f"{image.name} does not fit {radar[0].name}: "
                f"bands {_listed(image.names)} against {_listed(radar[0].names)}"
            )


def _check_mask(masks: list[Source], frame: Source) -> None:
    for mask in masks:
        if mask.count != 1:
            raise DataError(f"{mask.name} has {mask.count} bands: expected 1 in a cloud mask")
        if mask.grid.georeferenced or mask.grid.crs:
            _check_grid(mask, frame)
        elif (mask.grid.height, mask.grid.width) != (frame.grid.height, frame.grid.width):
            raise DataError(f"{mask.name} does not fit {frame.name}: size {mask.grid.size} against {frame.grid.size}")


def _check_grid(source: Source, first: Source) -> None:
    difference = source.grid.difference(first.grid)
    if difference is not None:
        raise DataError(f"{source.name} does not fit {first.name}: {difference}")


def _refuse_twice(roles: Mapping[str, list[Source]]) -> None:
    """One file in two roles, or under two names, is a slip of the hand."""
    seen: dict[object, tuple[str, str]] = {}
    for role, source in ((role, source) for role, sources in roles.items() for source in sources):
        if source.identity not in seen:
            seen[source.identity] = role, source.name
            continue
        before, name = seen[source.identity]
        how = "twice" if before == role else f"as {before} and as {role}"
        first = "" if name == source.name else f", first by the name {name}"
        raise DataError(f"{source.name} is given {how}{first}: expected different images")


def _order(frames: list[Source]) -> list[int]:
    days = [frame.date for frame in frames]
    if any(day is None for day in days):
        return list(range(len(frames)))
    return sorted(range(len(frames)), key=lambda i: days[i] or datetime.date.min)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name or "(no name)" for name in names)
