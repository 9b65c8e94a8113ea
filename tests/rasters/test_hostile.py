"""Files and names made to do harm: refused, or read as what they are; at once, in little memory, without a network."""

import os
import socket
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs are read by rasterio")
from tests.data import trees  # noqa: E402
from tests.rasters import tiffs  # noqa: E402
from tests.rasters.attempts import attempt  # noqa: E402
from tests.rasters.tiffs import tags, tiff, write  # noqa: E402

SECONDS, MEMORY = 1.0, 300 << 20
READ, REFUSED = "read", "refused"
TILES = {"tiled": True, "blockxsize": 16, "blockysize": 16}


def vrt(source):
    inside = f"<SimpleSource><SourceFilename>{source}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>"
    band = f'<VRTRasterBand dataType="Byte" band="1">{inside}</VRTRasterBand>'
    return f'<VRTDataset rasterXSize="4" rasterYSize="4">{band}</VRTDataset>'.encode()


def deflated(length):
    """So many zeros, compressed, without ever having them all."""
    packer = zlib.compressobj(9)
    pieces = [packer.compress(bytes(min(1 << 20, length - done))) for done in range(0, length, 1 << 20)]
    return b"".join(pieces) + packer.flush()


def empty_png(side, *chunks):
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return trees.png(("IHDR", header), *chunks, ("IDAT", deflated(side * (side + 1))), ("IEND", b""))


def chain(count):
    """Small images that each name the next."""
    one = tiff(tags(4, 4, tag_273=[8], tag_279=[16]))[8:]
    content = b"II*\0" + struct.pack("<I", 8)
    for i in range(1, count + 1):
        content += one[:-4] + struct.pack("<I", 8 + i * len(one) if i < count else 0)
    return content


def folder(path):
    path.mkdir()
    return path


def pipe(path):
    os.mkfifo(path)
    return path


def link(path, target):
    path.symlink_to(target)
    return path


def beside(path, suffix, content):
    """An honest image, and a file next to it that is not."""
    write(path.with_name(path.name + suffix), content)
    return write(path, tiffs.gray())


def compressed(path, width, height, data, **changes):
    return write(path, tiff(tags(width, height, tag_259=8, **changes), [data]))


def aux(url):
    source = f"<SourceFilename>{url}</SourceFilename>"
    return f"<PAMDataset><SRS>EPSG:4326</SRS><GeoTransform>1,2,3,4,5,6</GeoTransform>{source}</PAMDataset>".encode()


def bomb_of_names(depth=12):
    """A text whose entities stand for 10 of the one before."""
    lines = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, depth))
    text = f'<!DOCTYPE x [<!ENTITY a0 "lol">{lines}]><GDALMetadata><Item name="x">&a{depth - 1};</Item></GDALMetadata>'
    return text.encode() + b"\0"


def hidden(here):
    """A file that nobody may reach through another one."""
    return trees.save_tiff(here / "secret" / "x.tif", np.full((1, 4, 4), 77, np.uint8))


def followed(here, port):
    """Files that name other files, and servers."""
    url, secret = f"http://127.0.0.1:{port}/x.tif", hidden(here)
    service = f'<GDAL_WMS><Service name="TMS"><ServerUrl>{url}</ServerUrl></Service></GDAL_WMS>'.encode()
    place = {"tag_34735": [1, 1, 0, 1, 1024, 0, 1, 1], "tag_34737": f"ESRI PE String = {url}|".encode() + b"\0"}
    return {
        "a recipe": (write(here / "a1.tif", vrt(secret)), REFUSED),
        "a recipe with an address": (write(here / "a2.tif", vrt(f"/vsicurl/{url}")), REFUSED),
        "a recipe with a byte order mark": (write(here / "a3.tif", b"\xef\xbb\xbf" + vrt(hidden(here))), REFUSED),
        "a map service": (write(here / "a4.tif", service), REFUSED),
        "another format": (write(here / "a5.tif", b"\x89HDF\r\n\x1a\n" + bytes(500)), REFUSED),
        "an archive": (write(here / "a6.tif", b"PK\x03\x04" + bytes(500)), REFUSED),
        "a text": (write(here / "a7.tif", b"Id,Name\n1,x\n"), REFUSED),
        "a picture with TIFF's suffix": (write(here / "a8.tif", empty_png(8)), REFUSED),
        "metadata beside it": (beside(here / "a9.tif", ".aux.xml", aux(url)), READ),
        "overviews beside it": (beside(here / "a10.tif", ".ovr", vrt(f"/vsicurl/{url}")), READ),
        "a mask beside it": (beside(here / "a11.tif", ".msk", vrt(hidden(here))), REFUSED),
        "a place by address": (write(here / "a12.tif", tiff(tags(4, 4, **place), [bytes(16)])), READ),
    }


def other_names(here, port):
    """Names that are not paths, or not of files."""
    url, secret = f"http://127.0.0.1:{port}/x.tif", hidden(here)
    return {
        "an address": (url, REFUSED),
        "an address of a store": ("s3://bucket/x.tif", REFUSED),
        "an address for GDAL": (f"/vsicurl/{url}", REFUSED),
        "an address for GDAL with options": (f"/vsicurl?url={url}&x=.tif", REFUSED),
        "an archive for GDAL": (f"/vsizip/{secret}/x.tif", REFUSED),
        "standard input": ("/vsistdin/x.tif", REFUSED),
        "a part of a file": (f"/vsisubfile/0_100,{secret}", REFUSED),
        "a directory of a TIFF": (f"GTIFF_DIR:1:{secret}", REFUSED),
        "a raw TIFF": (f"GTIFF_RAW:{secret}", REFUSED),
        "a recipe as a name": (vrt(secret).decode() + ".tif", REFUSED),
        "a pipe": (pipe(here / "c1.tif"), REFUSED),
        "a folder": (folder(here / "c2.tif"), REFUSED),
        "a device": (link(here / "c3.tif", "/dev/zero"), REFUSED),
        "a circle of links": (
            link(link(here / "c4.tif", here / "c5.tif").with_name("c5.tif"), here / "c4.tif"),
            REFUSED,
        ),
        "a null character": (f"{secret}\0.tif", REFUSED),
    }


def promises(here, _):
    """Headers that promise too much, and blocks that inflate."""
    tile = {"tag_322": 4096, "tag_323": 4096, "tag_324": [0] * 59536, "tag_325": [0] * 59536}
    short = tiff(tags(64, 64), [bytes(64)])
    longer = struct.pack("<HHI", 279, 4, 2**32 - 1)
    return {
        "a terabyte in two megabytes": (
            write(here / "d1.tif", tiff(tags(999_424, 999_424, **tile), tiled=True, length=2 << 20)),
            REFUSED,
        ),
        "a terabyte in a strip": (write(here / "d2.tif", tiff(tags(1_000_000, 1_000_000), [bytes(8)])), REFUSED),
        "two thousand million rows": (write(here / "d3.tif", tiff(tags(2**31 - 1, 2**31 - 1), [bytes(8)])), REFUSED),
        "65,535 bands": (
            write(here / "d4.tif", tiff(tags(4, 4, tag_277=65535, tag_258=[8] * 65535), [bytes(16 * 65535)])),
            REFUSED,
        ),
        "a million bands": (
            write(here / "d5.tif", tiff(tags(1, 1, tag_277=10**6, tag_284=2), [bytes(10**6)])),
            REFUSED,
        ),
        "no pixels": (write(here / "d6.tif", tiff(tags(0, 0), [b""])), REFUSED),
        "huge tiles": (
            write(here / "d7.tif", tiff(tags(64, 64, tag_322=2**31 - 16, tag_323=2**31 - 16), [bytes(64)], tiled=True)),
            REFUSED,
        ),
        "tiles of nothing": (
            write(here / "d8.tif", tiff(tags(64, 64, tag_322=0, tag_323=0), [bytes(64)], tiled=True)),
            REFUSED,
        ),
        "a table longer than the file": (
            write(here / "d9.tif", short.replace(longer[:4] + struct.pack("<I", 1), longer)),
            REFUSED,
        ),
        "a place beyond all files": (
            write(here / "d10.tif", tiff(tags(64, 64, tag_273=[2**63], tag_279=[2**63]), big=True)),
            REFUSED,
        ),
        "a file that inflates": (compressed(here / "d11.tif", 16384, 16384, deflated(1 << 20)), REFUSED),
        "a block that inflates beyond its size": (compressed(here / "d12.tif", 64, 64, deflated(64 << 20)), READ),
        "a block as large as may be": (compressed(here / "d13.tif", 16384, 8192, deflated(128 << 20)), READ),
        "a mask that inflates": (write(here / "d14.tif", _with_mask(deflated(1 << 20))), REFUSED),
    }


def astray(here, _):
    """Directories that lead astray, and files cut off."""
    whole = trees.save_tiff(here / "whole.tif", trees.texture((3, 64, 64), 1), **TILES).read_bytes()
    cuts = (3, 7, 8, 9, 12, 100, 300, len(whole) // 2, len(whole) - 40)
    return {
        "a circle of one": (write(here / "e1.tif", tiffs.gray(following=-1)), REFUSED),
        "a circle of one, 64 bits": (write(here / "e2.tif", tiffs.gray(following=-1, big=True)), REFUSED),
        "a sub-directory of itself": (write(here / "e3.tif", tiff(tags(16, 16, tag_330=8), [bytes(256)])), REFUSED),
        "twenty thousand directories": (write(here / "e4.tif", chain(20_000)), REFUSED),
        "a directory beyond the end": (write(here / "e5.tif", tiffs.gray(following=10**9)), REFUSED),
        "a sub-directory in the pixels": (
            write(here / "e6.tif", tiff(tags(16, 16, tag_330=[190] * 1000), [b"\xff" * 256])),
            REFUSED,
        ),
        "strips on top of each other": (
            write(here / "e7.tif", tiff(tags(16, 16, tag_278=1, tag_273=[8] * 16, tag_279=[16] * 16))),
            READ,
        ),
        "too few strips": (write(here / "e8.tif", tiff(tags(16, 16, tag_278=1), [bytes(16)])), REFUSED),
        "the header as a strip": (
            write(here / "e9.tif", tiff(tags(16, 16, tag_273=[0], tag_279=[256]), length=300)),
            READ,
        ),
        "an unknown way of packing": (
            write(here / "e10.tif", tiff(tags(16, 16, tag_259=34676), [bytes(256)])),
            REFUSED,
        ),
        "a JPEG that is none": (
            write(here / "e11.tif", tiff(tags(16, 16, tag_259=7, tag_347=b"\xff\xd8\xff\xd9"), [bytes(256)])),
            REFUSED,
        ),
        "no directory": (write(here / "e12.tif", b"II*\0" + bytes(4)), REFUSED),
        "nothing": (write(here / "e13.tif", b""), REFUSED),
        **{f"cut at {cut}": (write(here / f"f{cut}.tif", whole[:cut]), REFUSED) for cut in cuts},
    }


def texts(here, _):
    """Metadata that expands, nests or never ends."""

    def put(name, **changes):
        return write(here / name, tiff(tags(16, 16, **changes), [bytes(256)]))

    return {
        "a text of ten million million words": (put("g1.tif", tag_42112=bomb_of_names()), READ),
        "a text of a hundred thousand brackets": (put("g2.tif", tag_42112=b"<a>" * 100_000 + b"\0"), READ),
        "a number that is none": (put("g3.tif", tag_42113=b"9" * 10**6 + b"\0"), READ),
    }


def pictures(here, _):
    """PNG and JPEG."""
    return {
        "a picture that inflates": (write(here / "h1.png", empty_png(12_000)), REFUSED),
        "a picture that inflates a little": (write(here / "h2.png", empty_png(5_000)), READ),
        "a profile that inflates": (
            write(here / "h3.png", empty_png(8, ("iCCP", b"x\0\0" + deflated(64 << 20)))),
            REFUSED,
        ),
        "a text that inflates": (
            write(here / "h4.png", empty_png(8, ("zTXt", b"x\0\0" + deflated(64 << 20)))),
            REFUSED,
        ),
        "a JPEG of four thousand million": (write(here / "h5.jpg", _tall_jpeg(here)), REFUSED),
        "a recipe as a picture": (write(here / "h6.png", vrt(hidden(here))), REFUSED),
        "a picture's place without end": (
            link(write(here / "h7.png", empty_png(8)).with_suffix(".pgw"), "/dev/zero").with_suffix(".png"),
            READ,
        ),
        "a picture's place that is none": (
            write(write(here / "h8.png", empty_png(8)).with_suffix(".pgw"), b"nan " * 6).with_suffix(".png"),
            REFUSED,
        ),
    }


ATTACKS = (followed, other_names, promises, astray, texts, pictures)


def attacks(here, port):
    """Each by its name: what to open, and what must come of it."""
    return {name: case for group in ATTACKS for name, case in group(here, port).items()}


def _with_mask(data):
    """A small image and a mask of one huge block."""
    first = tiffs.gray()
    second = tiff(tags(65_536, 65_536, tag_254=4, tag_258=1, tag_259=8), [data])
    shifted = len(first)
    content = bytearray(tiffs.gray(following=shifted + 8)) + second
    entries = struct.unpack_from("<H", content, shifted + 8)[0]
    for i in range(entries):  # places in the second part count from the beginning of the first
        place = shifted + 10 + 12 * i
        if struct.unpack_from("<H", content, place)[0] == 273:
            struct.pack_into("<I", content, place + 8, struct.unpack_from("<I", content, place + 8)[0] + shifted)
    return bytes(content)


def _tall_jpeg(here):
    Image.new("L", (8, 8)).save(here / "small.jpg")
    content = bytearray((here / "small.jpg").read_bytes())
    frame = content.index(b"\xff\xc0")
    struct.pack_into(">HH", content, frame + 5, 65500, 65500)
    return bytes(content)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What came of every attack, and whether anybody called the server that they name."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        cases = attacks(tmp_path_factory.mktemp("hostile"), server.getsockname()[1])
        found = attempt([path for path, _ in cases.values()])
        try:
            server.accept()
            called = True
        except BlockingIOError:
            called = False
    return {
        name: (expected, result) for (name, (_, expected)), result in zip(cases.items(), found, strict=True)
    }, called


def test_there_are_enough_attacks(outcomes):
    assert len(outcomes[0]) >= 30


def test_nobody_is_called(outcomes):
    assert not outcomes[1]


def test_each_is_refused_in_a_line_or_read_as_what_it_is(outcomes):
    wrong = {name: result for name, (expected, result) in outcomes[0].items() if result["outcome"] != expected}
    assert not wrong
    assert all("\n" not in result["message"] for _, result in outcomes[0].values())


def test_none_takes_long(outcomes):
    slow = {name: result["seconds"] for name, (_, result) in outcomes[0].items() if result["seconds"] > SECONDS}
    assert not slow


def test_none_takes_much_memory(outcomes):
    large = {name: result["extra"] >> 20 for name, (_, result) in outcomes[0].items() if result["extra"] > MEMORY}
    assert not large


def test_what_is_read_is_the_file_itself(outcomes):
    """And not what stands beside it."""
    found = {name: result for name, (expected, result) in outcomes[0].items() if expected == READ}
    honest = sum(i % 251 for i in range(256))
    for name in ("metadata beside it", "overviews beside it"):
        assert found[name]["total"] == honest
        assert found[name]["message"].startswith("(None, ")
    assert found["strips on top of each other"]["total"] > 0
