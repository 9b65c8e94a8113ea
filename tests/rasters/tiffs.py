"""TIFF files made by hand, entry by entry: what no library would write."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

SHORT, LONG, BYTES, LONG8, ASCII = 3, 4, 7, 16, 2
_LETTERS = {SHORT: "H", LONG: "I", LONG8: "Q"}

Value = int | Sequence[int] | bytes


def tags(width: int, height: int, **changes: Value) -> dict[int, Value]:
    """Entries of an 8-bit gray image in one strip; changes are called ``tag_258`` and so on."""
    entries: dict[int, Value] = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 277: 1, 278: height}
    return entries | {int(name.removeprefix("tag_")): value for name, value in changes.items()}


def tiff(
    entries: Mapping[int, Value],
    blocks: Sequence[bytes] = (),
    *,
    tiled: bool = False,
    big: bool = False,
    order: str = "<",
    following: int | None = None,
    length: int | None = None,
) -> bytes:
    """A file of one directory and its blocks; ``following`` is where the next directory is said to be.

    With -1, that is the directory itself. ``length`` pads the file. Entries of block places are made from the blocks,
    unless they are given.
    """
    starts, sizes = (324, 325) if tiled else (273, 279)
    head, offset, inline = (16, "Q", 8) if big else (8, "I", 4)
    count_format = "Q" if big else "H"
    wanted = dict(entries)
    wanted.setdefault(starts, [0] * len(blocks))
    wanted.setdefault(sizes, [len(block) for block in blocks])
    after = head + struct.calcsize(f"<{count_format}") + len(wanted) * (12 if not big else 20) + inline
    packed = {tag: _packed(value, order, big=big) for tag, value in wanted.items()}
    if starts not in entries:  # blocks come after all values
        place = after + sum(len(data) for _, _, data in packed.values() if len(data) > inline)
        places = []
        for block in blocks:
            places.append(place)
            place += len(block)
        packed[starts] = _packed(places, order, big=big)
    body, outside = b"", b""
    for tag in sorted(packed):
        kind, count, data = packed[tag]
        if len(data) > inline:
            value = struct.pack(f"{order}{offset}", after + len(outside))
            outside += data
        else:
            value = data.ljust(inline, b"\0")
        body += struct.pack(f"{order}HH{offset}", tag, kind, count) + value
    magic = {"<": b"II", ">": b"MM"}[order] + struct.pack(f"{order}H", 43 if big else 42)
    magic += struct.pack(f"{order}HHQ", 8, 0, head) if big else struct.pack(f"{order}I", head)
    next_one = head if following == -1 else following or 0
    content = magic + struct.pack(f"{order}{count_format}", len(packed)) + body
    content += struct.pack(f"{order}{offset}", next_one) + outside + b"".join(blocks)
    return content if length is None else content.ljust(length, b"\0")


def _packed(value: Value, order: str, *, big: bool) -> tuple[int, int, bytes]:
    """Type, count and bytes of a value; whole numbers are 32 bits wide, or 64 where they have to be."""
    if isinstance(value, bytes):
        return ASCII, len(value), value
    numbers = [value] if isinstance(value, int) else list(value)
    kind = LONG8 if big and any(number >= 1 << 32 for number in numbers) else LONG
    return kind, len(numbers), struct.pack(f"{order}{len(numbers)}{_LETTERS[kind]}", *numbers)


def gray(width: int = 16, height: int = 16, **options) -> bytes:
    """A whole small image; pixel values count up."""
    return tiff(tags(width, height), [bytes(i % 251 for i in range(width * height))], **options)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
