"""A scene as the network sees it: its bands by name, in [-1, 1], gaps filled; and the way back to the files' numbers.

Everything is decided when it is made, before any work, and said in ``notes``. What a window holds depends on the window
alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from emrdm.config import Band, ModelConfig
from emrdm.errors import InputError
from emrdm.rasters import bands as naming
from emrdm.rasters.scene import Scene
from emrdm.rasters.source import Source
from emrdm.rasters.tiles import common
from emrdm.window import Window
from emrdm.wording import many

_FARTHEST_ASKED = 39.0  # twenty times as bright as white: clouds are not, other units are
_FARTHEST = 10.0  # what the network sees at most of bands that are not clipped
_MOST_CLIPPED = 0.9  # of the values looked at: more is a mistake about units
_SHARES = (0.005, 0.995)  # of the values that an automatic range spans


@final
@dataclass(frozen=True)
class Reading:
    """How the numbers of files are to be understood.

    Attributes:
        offset: of Sentinel-2's newer products: "auto" by what the file says, or "0" or "-1000".
        range: values that become the ends of the model's bands; "auto" for those of the scene; None where the files
            have the model's units.
        fill: values for bands that the files do not have.
        sar: "db", "linear", or "auto" by what the values look like.
    """

    offset: str = "auto"
    range: tuple[float, float] | str | None = None
    fill: Mapping[str, float] = field(default_factory=dict)
    sar: str = "auto"


@final
@dataclass(frozen=True)
class Seen:
    """A window as the network sees it.

    Attributes:
        cloudy: (L, C, H, W) in [-1, 1].
        aux: (L, A, H, W) in [-1, 1], or None.
        known: (H, W) bool: some date has data there.
        present: (L,) bool: the date has data somewhere in the window.
        fill: (C,): what pixels that no date knows were filled with.
    """

    cloudy: np.ndarray
    aux: np.ndarray | None
    known: np.ndarray
    present: np.ndarray
    fill: np.ndarray


@final
@dataclass(frozen=True)
class _Channel:
    """A band of the model: where its numbers stand, and value * scale + shift is what the network sees."""

    band: Band
    index: int | None
    value: float
    scale: float
    shift: float
    clips: bool = True

    @property
    def filled(self) -> float:
        return float(np.clip(self.value * self.scale + self.shift, -1, 1))


@final
class Inputs:
    """A scene, bound to the bands of a model."""

    def __init__(self, scene: Scene, config: ModelConfig, reading: Reading | None = None) -> None:
        self.scene, self.config = scene, config
        self.reading = reading = reading or Reading()
        self.notes: list[str] = []
        self._offsets: defaultdict[str, set[str]] = defaultdict(set)
        self.frames = len(scene.frames)
        if self.frames > 1 and not config.network.multi_temporal:
            raise InputError(
                f"{self.frames} images were given to a model that restores one at a time: "
                "expected one image, a multi-temporal model, or --out-dir to restore each by itself"
            )
        if scene.sar and not config.aux:
            raise InputError(f"{scene.sar[0].name}: this model sees no radar; expected --sar for models that do")
        self._check_fill()
        first = scene.frames[0]
        places = self._match(config.bands, first)
        self._numbers = [self._meaning(frame, places) for frame in scene.frames]
        span = self._span(places)
        self._channels = [
            [self._channel(band, place, meaning, span) for band, place in zip(config.bands, places, strict=True)]
            for meaning in self._numbers
        ]
        for words, files in self._offsets.items():
            self.notes.append(f"{many(len(files), 'image')}: {words}")
        order = sorted((place, i) for i, place in enumerate(places) if place is not None)
        self.kept = tuple(i for _, i in order)  # as the bands stand in the files
        self._aux = self._auxiliary() if config.aux else []
        seen = {place for place in places if place is not None}
        seen |= {
            c.index for source, channels, _ in self._aux if source is None for c in channels if c.index is not None
        }
        left = [name or f"band {i + 1}" for i, name in enumerate(first.names) if i not in seen]
        if left:
            self.notes.append(f"not restored, for the model does not know them: {', '.join(left)}")
        self._check_units(asked=span is not None)

    # ---------------------------------------------------------------- what the network sees

    def read(self, window: Window) -> Seen:
        """A window, which may stick out below and to the right: the scene is mirrored there."""
        part = common(window, Window(0, 0, self.scene.grid.height, self.scene.grid.width))
        shape = (part.height, part.width)
        cloudy = np.empty((self.frames, len(self.config.bands), *shape), np.float32)
        valid = np.empty((self.frames, *shape), bool)
        extra = np.empty((self.frames, len(self.config.aux), *shape), np.float32) if self.config.aux else None
        for i, frame in enumerate(self.scene.frames):
            valid[i] = self._fetch(frame, self._channels[i], part, cloudy[i])
            if extra is not None:
                source, channels, decibels = self._aux[min(i, len(self._aux) - 1)]
                known = self._fetch(source or frame, channels, part, extra[i], decibels=decibels)
                _fill_gaps(extra[i : i + 1], known[None])
        fill = _fill_gaps(cloudy, valid)
        known = np.asarray(valid.any(0))
        cloudy, known = _mirrored(cloudy, window), _mirrored(known, window)
        extra = None if extra is None else _mirrored(extra, window)
        return Seen(cloudy, extra, known, np.asarray(valid.any((1, 2))), fill)

    def _fetch(
        self, source: Source, channels: Sequence[_Channel], window: Window, out: np.ndarray, *, decibels: bool = False
    ) -> np.ndarray:
        """Put the bands of a source into ``out``, scaled and clipped; which pixels have data."""
        wanted = [channel.index for channel in channels if channel.index is not None]
        pixels, valid = source.read(window, wanted or [0])  # where all bands are filled, to know which pixels are there
        values = naming.to_decibels(pixels) if decibels and wanted else pixels
        found = iter(values)
        for row, channel in zip(out, channels, strict=True):
            if channel.index is None:
                row[:] = channel.filled
            else:
                np.multiply(next(found), channel.scale, out=row, dtype=np.float32, casting="unsafe")
                row += np.float32(channel.shift)
        if values.dtype.kind == "f":
            np.nan_to_num(out, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)
        if all(channel.clips for channel in channels):
            np.clip(out, -1, 1, out=out)
        else:
            for row, channel in zip(out, channels, strict=True):
                np.clip(row, *(-1, 1) if channel.clips else (-_FARTHEST, _FARTHEST), out=row)
        return valid

    # ---------------------------------------------------------------- the files' own numbers

    def original(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """The restored bands of the newest date as they stand in the file, and which of its pixels have data."""
        return self.scene.frames[-1].read(window, self.places)

    def known(self, window: Window) -> np.ndarray:
        """(H, W) bool: where some date has data."""
        valid = [frame.read(window, [0])[1] for frame in self.scene.frames]
        return np.asarray(np.logical_or.reduce(valid))

    def clipped(self, pixels: np.ndarray, valid: np.ndarray) -> int:
        """How many values of an :meth:`original` window lie outside of the model's range."""
        scale, shift = self._factors()
        outside = np.abs(pixels.astype(np.float32) * scale + shift) > 1 + 1e-6
        return int((outside & valid).sum())

    def to_file_numbers(self, values: np.ndarray) -> np.ndarray:
        """(C, H, W) of the kept bands from [-1, 1] to the numbers of the newest date's file, as floats."""
        scale, shift = self._factors()
        return np.asarray((values - shift) / scale)

    def spread_to_file_numbers(self, values: np.ndarray) -> np.ndarray:
        """Differences instead of values."""
        return np.asarray(values / self._factors()[0])

    def _factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Scale and shift of the kept bands of the newest date, (C, 1, 1)."""
        kept = [self._last[i] for i in self.kept]
        pairs = np.array([[c.scale, c.shift] for c in kept], np.float32)
        return pairs[:, 0, None, None], pairs[:, 1, None, None]

    @property
    def _last(self) -> list[_Channel]:
        return self._channels[-1]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the restored bands, as the files have them."""
        found = self.scene.frames[-1].names
        return tuple(found[i] or self._last[k].band.name for i, k in zip(self.places, self.kept, strict=True))

    @property
    def colours(self) -> tuple[str, ...]:
        """Red, green and blue where the restored bands are that; empty texts for others."""
        return tuple(naming.colour_of(self._last[k].band.name) for k in self.kept)

    @property
    def places(self) -> tuple[int, ...]:
        """Where the restored bands stand in the files."""
        return tuple(c.index for c in (self._last[i] for i in self.kept) if c.index is not None)

    # ---------------------------------------------------------------- decisions

    def _match(self, bands: Sequence[Band], source: Source) -> tuple[int | None, ...]:
        names = [band.name for band in bands]
        fill = {name: value for name in names if (value := self._fill(name)) is not None}
        if bands is self.config.aux and not self.scene.sar and len(fill) < len(names):
            self._want_radar(names, source)
        places, words = naming.match(names, source.names, source=source.name, fill=fill, colours=source.colours)
        if words:
            self.notes.append(words)
        for name, place in zip(names, places, strict=True):
            if place is not None and name in fill:
                raise InputError(f"--fill-band {name}: {source.name} has that band; expected one that is missing")
        if bands is self.config.bands and all(place is None for place in places):
            listed = ", ".join(names)
            raise naming.UnfitError(f"{source.name} has none of the model's bands ({listed}): expected one at least")
        return places

    def _want_radar(self, names: Sequence[str], source: Source) -> None:
        """A plain word to those who do not know that this model sees radar."""
        own = {naming.canonical(name) for name in source.names}
        if any(band.unit == "dB" for band in self.config.aux) and not own & {naming.canonical(name) for name in names}:
            raise InputError(f"this model sees radar as well ({', '.join(names)}): expected --sar with such an image")

    def _check_fill(self) -> None:
        known = {naming.canonical(band.name): band.name for band in (*self.config.bands, *self.config.aux)}
        for name in self.reading.fill:
            if naming.canonical(name) not in known:
                raise InputError(f"--fill-band {name}: expected a band of the model: {', '.join(known.values())}")

    def _fill(self, name: str) -> float | None:
        """The value asked for a band, however its name is written."""
        wanted = naming.canonical(name)
        return next((value for key, value in self.reading.fill.items() if naming.canonical(key) == wanted), None)

    def _meaning(self, frame: Source, places: Sequence[int | None]) -> tuple[float, float]:
        """Factor and offset from a file's numbers to the model's units, but for a range that was asked for."""
        unit = self.config.bands[0].unit
        scales = {(frame.scales[i], frame.offsets[i]) for i in places if i is not None}
        if self.reading.offset == "auto" and unit == "reflectance x 10000" and len(scales) == 1:
            ((scale, offset),) = scales
            if scale not in (0, 1) and np.isfinite([scale, offset]).all():
                words = f"numbers are {scale:g} x reflectance {offset:+g}, as the file says"
                if (round(1e4 * scale, 9), offset) != (1, 0):
                    self._offsets[words.replace("x reflectance", "of reflectance")].add(frame.name)
                return 1e4 * scale, 1e4 * offset
        offset, why = naming.sentinel2_offset(frame, self.reading.offset)
        if why and (offset or unit == "reflectance x 10000"):  # of no interest to models of pictures
            self._offsets[f"Sentinel-2 offset {offset:g} ({why})"].add(frame.name)
        return 1.0, offset

    def _span(self, places: Sequence[int | None]) -> tuple[float, float] | None:
        asked = self.reading.range
        if asked is None:
            return None
        if isinstance(asked, str):
            if asked != "auto":
                raise InputError(f"range is {asked!r}: expected LOW:HIGH or auto")
            found = [p for p in places if p is not None]
            looks = zip(self.scene.frames, self._numbers, strict=True)
            values = np.concatenate(
                [frame.some_values(found).ravel().astype(np.float32) * a + b for frame, (a, b) in looks]
            )
            low, high = (float(np.quantile(values, share)) for share in _SHARES) if values.size else (0.0, 1.0)
            high = high if high > low else low + 1
            self.notes.append(f"range: {low:g} to {high:g}, which holds 99 % of the values looked at")
            return low, high
        low, high = asked
        if not (np.isfinite([low, high]).all() and low < high):
            raise InputError(f"range is {low:g}:{high:g}: expected two numbers, the smaller one first")
        return low, high

    def _channel(
        self, band: Band, place: int | None, meaning: tuple[float, float], span: tuple[float, float] | None
    ) -> _Channel:
        """Numbers times a factor plus an offset are in the model's units, or in those of the range asked for."""
        factor, offset = meaning
        low, high = span or (band.low, band.high)
        scale = 2 / (high - low)
        clips = band.clip or span is not None or band.unit == "8-bit value"
        value = self._fill(band.name) or 0.0
        if place is None:  # filled in the model's units
            scale = 2 / (band.high - band.low)
            return _Channel(band, place, value, scale, -1 - band.low * scale)
        return _Channel(band, place, value, factor * scale, (offset - low) * scale - 1, clips)

    def _auxiliary(self) -> list[tuple[Source | None, list[_Channel], bool]]:
        """For all frames, or each: where auxiliary bands are (None: in the frame's file), how, whether to take logs."""
        found: list[tuple[Source | None, list[_Channel], bool]] = []
        if self.scene.sar and len(self.scene.sar) not in (1, self.frames):
            raise InputError(
                f"{len(self.scene.sar)} --sar files for {many(self.frames, 'image')}: expected one, or one each"
            )
        for source in self.scene.sar or (None,):
            places = self._match(self.config.aux, source or self.scene.frames[0])
            decibels = False
            if source is not None and any(band.unit == "dB" for band in self.config.aux):
                decibels = naming.is_linear(source, self.reading.sar)
                self.notes.append(f"{source.name}: {'linear, turned to dB' if decibels else 'dB'}")
            channels = []
            for band, place in zip(self.config.aux, places, strict=True):
                scale = 2 / (band.high - band.low)
                value = self._fill(band.name) or 0.0
                channels.append(_Channel(band, place, value, scale, -1 - band.low * scale))
            found.append((source, channels, decibels))
        return found

    def _check_units(self, *, asked: bool) -> None:
        """Refuse numbers that are clearly not in the model's units: the result would be black, or white."""
        for frame, channels in zip(self.scene.frames, self._channels, strict=True):
            found = [c for c in channels if c.index is not None]
            pixels = frame.some_values([c.index for c in found if c.index is not None]).astype(np.float32)
            if not pixels.size:
                continue
            factors = np.array([[c.scale, c.shift] for c in found], np.float32)
            seen = pixels * factors[:, :1] + factors[:, 1:]
            band = found[0].band
            expected = f"{band.low:g} to {band.high:g} ({band.unit})"
            dark = frame.dtype != np.uint8 and float(seen.max()) < -1 + 0.02  # 8 bits are what they are
            clipped, flat = float((np.abs(seen) > 1 + 1e-6).mean()), dark
            if asked and (float(seen.max()) < -1 or float(np.median(seen)) > _FARTHEST_ASKED):
                scaled = any(frame.scales[c.index] not in (0, 1) for c in found if c.index is not None)
                hint = "; the scale and offset in the file are not applied" if scaled else ""
                raise naming.UnfitError(
                    f"{frame.name} has values around {np.median(pixels):g}, up to {pixels.max():g}, far from the "
                    f"range: expected --range LOW:HIGH in numbers of the file{hint}"
                )
            if (clipped > _MOST_CLIPPED or flat) and not asked:
                raise naming.UnfitError(
                    f"{frame.name} has values around {np.median(pixels):g}, up to {pixels.max():g}: "
                    f"expected {expected} for this model; --range LOW:HIGH or --range auto says what they mean"
                )
            if clipped > _MOST_CLIPPED:
                self.notes.append(f"{frame.name}: {100 * clipped:.0f} % of the values lie outside of the range")


def _fill_gaps(frames: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Fill (L, C, H, W) where a date has no data: by the mean of the others there, else by the mean of all, (C,)."""
    count = valid.sum(0)
    if count.min() == len(frames):
        return np.zeros(frames.shape[1], np.float32)
    known = np.where(valid[:, None], frames, 0).sum(0)
    total = int(count.sum())
    mean = known.sum((1, 2), dtype=np.float64) / max(total, 1)
    fill: np.ndarray = mean.astype(np.float32)
    others = np.where(count > 0, known / np.maximum(count, 1), fill[:, None, None])
    np.copyto(frames, others[None], where=~valid[:, None])
    return fill


def _mirrored(image: np.ndarray, window: Window) -> np.ndarray:
    """Extend (..., h, w) to the size of a window by mirroring."""
    for axis, target in ((-2, window.height), (-1, window.width)):
        length = image.shape[axis]
        if target > length:
            wave = np.arange(target) % (2 * length - 2)
            image = np.take(image, np.minimum(wave, 2 * length - 2 - wave), axis=axis)
    return image
