"""A TIFF file's directories, read by hand before GDAL sees the file: limits, loops, and whether it is all there.

GDAL opens a file that was cut off and tells when the missing pixels are asked for, which may be hours later; and it
trusts sizes of blocks. A directory is a list of entries: tag, type, count, and the value or where it stands.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from emrdm.errors import DataError
from emrdm.rasters.guard import misnamed
from emrdm.wording import many

_SIDE = 1_000_000  # rows or columns
_BANDS = 512
_BLOCK = 128 << 20  # bytes of a decoded block, which is what the smallest window costs
_BLOCKS = 1 << 26
_DIRECTORIES = 256  # one, its mask, and their overviews; or pages
_ALWAYS_PLAUSIBLE = 64 << 30  # bytes; an empty country takes a few kilobytes in a sparse file
_RATIO = 2000  # bytes of pixels for a byte of file; deflate reaches 1032
_CODECS = {1, 5, 7, 8, 32773, 32946, 34887, 34925, 50000, 50001, 50002}  # LZW, JPEG, deflate, LERC, LZMA, zstd, ...
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_WHOLE = {1: "u1", 3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}  # types of whole numbers
_WIDTH, _HEIGHT, _BITS, _CODEC, _SAMPLES, _PLANAR, _ROWS = 256, 257, 258, 259, 277, 284, 278
_TILE_WIDTH, _TILE_HEIGHT, _INSIDE = 322, 323, 330
_TILES, _STRIPS = (324, 325), (273, 279)  # where blocks begin, how long they are
_CHUNK = 1 << 18  # numbers of a long table that are looked at together


def check_directories(path: Path) -> None:
    """Refuse a TIFF file that is cut off, goes round in circles, or promises more than can be; in one line."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            for directory in _directories(path, file, size):
                _check(path, directory, size)
    except struct.error:
        raise DataError(f"{path} is cut off: it has {size:,} bytes, and a directory would lie beyond") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


@final
@dataclass(frozen=True)
class _Entry:
    kind: int
    count: int
    place: int  # of the value in the file


@final
@dataclass(frozen=True)
class _Directory:
    file: BinaryIO
    order: str
    entries: dict[int, _Entry]

    def numbers(self, tag: int, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Whole numbers of an entry; none where it is not there."""
        entry = self.entries.get(tag)
        if entry is None or entry.kind not in _WHOLE:
            return np.zeros(0)
        dtype = np.dtype(self.order + _WHOLE[entry.kind])
        count = max(0, min(entry.count, entry.count if stop is None else stop) - start)
        self.file.seek(entry.place + start * dtype.itemsize)
        return np.frombuffer(self.file.read(count * dtype.itemsize), dtype).astype(np.float64)  # which cannot overflow

    def number(self, tag: int, default: int) -> int:
        """The largest of the first few numbers of an entry: bits of a sample, say, are given for each."""
        values = self.numbers(tag, stop=_BANDS)
        return int(values.max()) if len(values) else default


def _directories(path: Path, file: BinaryIO, size: int) -> Iterator[_Directory]:
    start = file.read(16)
    order = {b"II": "<", b"MM": ">"}.get(start[:2])
    version = struct.unpack(f"{order}H", start[2:4])[0] if order else 0
    if version not in (42, 43):
        raise DataError(f"{path} is not a whole GeoTIFF: {misnamed(path, 'TIFF') or 'it is not a TIFF file'}")
    big = version == 43
    place = struct.unpack(f"{order}Q", start[8:16])[0] if big else struct.unpack(f"{order}I", start[4:8])[0]
    seen: set[int] = set()
    waiting = [place]
    while waiting:
        place = waiting.pop()
        if place in seen or len(seen) >= _DIRECTORIES:
            what = "its directories go round in circles" if place in seen else f"over {_DIRECTORIES} directories"
            raise DataError(f"{path} is not a whole GeoTIFF: {what}")
        seen.add(place)
        entries, following = _entries(path, file, size, place, order or "<", big=big)
        directory = _Directory(file, order or "<", entries)
        yield directory
        inside = directory.numbers(_INSIDE, stop=_DIRECTORIES + 1)
        waiting += [int(place) for place in (*inside, following) if place]


def _entries(
    path: Path, file: BinaryIO, size: int, place: int, order: str, *, big: bool
) -> tuple[dict[int, _Entry], int]:
    """The entries of a directory, and where the next directory is."""
    length, head, inline = (20, "Q", 8) if big else (12, "H", 4)
    begin = place + struct.calcsize(f"<{head}")
    file.seek(min(place, size))
    count = struct.unpack(f"{order}{head}", file.read(struct.calcsize(f"<{head}")))[0]
    if begin + count * length + inline > size or count > 1 << 16:
        raise DataError(f"{path} is cut off: it has {size:,} bytes, and a directory of {count} entries at {place:,}")
    body = file.read(count * length)
    entries: dict[int, _Entry] = {}
    for i in range(count):
        tag, kind, number = struct.unpack_from(f"{order}HH{'Q' if big else 'I'}", body, i * length)
        value = begin + (i + 1) * length - inline
        if _SIZES.get(kind, 1) * number > inline:
            value = struct.unpack_from(f"{order}{'Q' if big else 'I'}", body, (i + 1) * length - inline)[0]
        if value + _SIZES.get(kind, 1) * number > size:
            raise DataError(f"{path} is cut off: it has {size:,} bytes, and entry {tag} ends beyond")
        entries.setdefault(tag, _Entry(kind, number, value))
    return entries, struct.unpack(f"{order}{'Q' if big else 'I'}", file.read(inline))[0]


def _check(path: Path, directory: _Directory, size: int) -> None:
    width, height = directory.number(_WIDTH, 0), directory.number(_HEIGHT, 0)
    samples, bits = directory.number(_SAMPLES, 1), directory.number(_BITS, 1)
    codec, apart = directory.number(_CODEC, 1), directory.number(_PLANAR, 1) == 2
    if not 0 < width <= _SIDE or not 0 < height <= _SIDE:
        raise DataError(f"{path} is {width} x {height} pixels: expected 1 to {_SIDE:,} a side")
    if not 0 < samples <= _BANDS:
        raise DataError(f"{path} has {samples} bands: expected 1 to {_BANDS}")
    if codec not in _CODECS:
        raise DataError(f"{path} is compressed in way {codec}: expected deflate, LZW, zstd, LERC, JPEG or none")
    tiled = _TILES[0] in directory.entries
    rows = directory.number(_TILE_HEIGHT, 0) if tiled else min(directory.number(_ROWS, height), height)
    columns = directory.number(_TILE_WIDTH, 0) if tiled else width
    if rows < 1 or columns < 1:
        raise DataError(f"{path} has blocks of {columns} x {rows} pixels: expected some pixels")
    block = rows * columns * bits * (1 if apart else samples) // 8
    if block > _BLOCK and (tiled or codec != 1):  # GDAL takes bare rows as they come
        raise DataError(
            f"{path} has blocks of {columns} x {rows} pixels, {block:,} bytes: expected at most {_BLOCK:,}; "
            "rewrite it with gdal_translate -co TILED=YES"
        )
    declared = width * height * samples * bits // 8
    if declared > max(_ALWAYS_PLAUSIBLE, _RATIO * size):
        raise DataError(f"{path} is not a whole GeoTIFF: it promises {declared:,} bytes of pixels in {size:,}")
    blocks = -(-height // rows) * -(-width // columns) * (samples if apart else 1)
    _check_blocks(path, directory, _TILES if tiled else _STRIPS, blocks, size)


def _check_blocks(path: Path, directory: _Directory, tags: tuple[int, int], blocks: int, size: int) -> None:
    """All blocks must be in the file; one of no bytes is in none, by intent."""
    entries: list[Any] = [directory.entries.get(tag) for tag in tags]
    if entries[0] is None or entries[0].count < blocks or blocks > _BLOCKS:
        found = entries[0].count if entries[0] else 0
        raise DataError(f"{path} has {many(found, 'block')} of pixels: expected {min(blocks, _BLOCKS):,}")
    if entries[1] is None:  # some programs leave it out for one block that is not compressed
        return
    for start in range(0, blocks, _CHUNK):
        begin, length = (directory.numbers(tag, start, min(start + _CHUNK, blocks)) for tag in tags)
        if len(begin) != len(length) or (begin + length > size)[length > 0].any():
            raise DataError(f"{path} is cut off: it has {size:,} bytes, and some of its pixels would lie beyond")
