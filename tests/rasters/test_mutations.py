"""Small GeoTIFFs with damaged bytes: read or refused in a line; no crash, no hang, nothing but our own errors."""

import warnings

import numpy as np
import pytest

rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs are read by rasterio")
from rasterio.control import GroundControlPoint  # noqa: E402
from tests.data import trees  # noqa: E402
from tests.rasters.attempts import attempt  # noqa: E402

SECONDS = 5
BATCH = 500
TELLING = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
PLACE = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500_000, 0, -10, 5_000_000)}
TILES = {"tiled": True, "blockxsize": 16, "blockysize": 16}


def originals(folder):
    """Small files of every kind that is read: codecs, layouts, number types, masks, places, metadata."""
    gray, colour = trees.texture((1, 24, 24), 1), trees.texture((3, 24, 24), 2)
    alpha = np.concatenate([colour, np.full((1, 24, 24), 255, np.uint8)])
    wide = trees.texture((4, 24, 24), 3, high=9000, dtype="uint16")
    real = trees.texture((2, 24, 24), 4, low=-30, high=5, dtype="float32")
    kinds = [
        (gray, {"compress": "none"}),
        (colour, {"compress": "none", "interleave": "pixel", **PLACE}),
        (colour, {"compress": "lzw", **TILES, **PLACE}),
        (colour, {"compress": "jpeg", "photometric": "YCBCR", **TILES}),
        (alpha, {"photometric": "RGB", "alpha": "YES", **PLACE}),
        (wide, {"compress": "deflate", "predictor": 2, "nodata": 0, **TILES, **PLACE}),
        (wide, {"compress": "zstd", "interleave": "pixel", "BIGTIFF": "YES"}),
        (wide, {"compress": "packbits", "ENDIANNESS": "BIG", "nodata": 7}),
        (real, {"compress": "deflate", "predictor": 3, "nodata": float("nan"), **PLACE}),
        (real, {"compress": "lerc", **TILES}),
        (real, {"compress": "lzma", "nodata": -9999}),
        (colour, {"compress": "webp", "WEBP_LOSSLESS": True, **TILES}),
    ]
    files = [
        trees.save_tiff(folder / f"{i}.tif", pixels, names=[f"B{band}" for band in range(len(pixels))], **how)
        for i, (pixels, how) in enumerate(kinds)
    ]
    return [path.read_bytes() for path in (*files, _masked(folder, colour), _with_points(folder, gray))]


def _masked(folder, pixels):
    path = trees.save_tiff(folder / "mask.tif", pixels, **PLACE)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as file:
        file.write_mask(np.arange(576).reshape(24, 24) % 5 > 0)
        file.update_tags(ACQUISITION_DATE="2024-05-01")
        file.build_overviews([2])
    return path


def _with_points(folder, pixels):
    path = trees.save_tiff(folder / "points.tif", pixels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rasterio.open(path, "r+") as file:
            points = [GroundControlPoint(row, column, column * 2.0, row * 3.0) for row in (0, 24) for column in (0, 24)]
            file.gcps = (points, rasterio.crs.CRS.from_epsg(4326))
    return path


def damaged(content, rng):
    """Another file, by one of a few ways to damage this one; mostly where the header is."""
    changed = bytearray(content)
    reach = len(changed) if rng.random() < 0.3 else min(400, len(changed))
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(0, min(reach, len(changed)) or 1))
        way = rng.integers(0, 7)
        if way == 0:
            changed[place : place + 1] = bytes([rng.integers(0, 256)])
        elif way == 1:
            changed[place : place + 1] = bytes([(changed[place] if changed else 0) ^ (1 << int(rng.integers(0, 8)))])
        elif way in (2, 3):
            width = int(rng.choice([2, 4, 8]))
            number = int(rng.choice(TELLING)) & ((1 << 8 * width) - 1)
            changed[place : place + width] = number.to_bytes(width, str(rng.choice(["little", "big"])))
        elif way == 4:
            del changed[place : place + int(rng.integers(1, 30))]
        elif way == 5:
            changed[place:place] = changed[place : place + int(rng.integers(1, 30))]
        elif rng.random() < 0.2:
            del changed[max(place, 8) :]
        changed = changed or bytearray(b"I")
    return bytes(changed)


def attack(folder, count, seed):
    """Outcomes of so many damaged files."""
    (folder / "whole").mkdir()
    kinds, rng, found = originals(folder / "whole"), np.random.default_rng(seed), []
    for start in range(0, count, BATCH):
        paths = []
        for i in range(start, min(start + BATCH, count)):
            paths.append(folder / f"{i}.tif")
            paths[-1].write_bytes(damaged(kinds[i % len(kinds)], rng))
        results = attempt(paths)
        for path, result in zip(paths, results, strict=True):
            if result["outcome"] in ("read", "refused") and result["seconds"] <= SECONDS:
                path.unlink()  # what remains is worth looking at
        found += results
    return found


def check(found):
    strange = [result for result in found if result["outcome"] not in ("read", "refused")]
    assert not strange
    assert not [result for result in found if result["seconds"] > SECONDS]
    assert all(result["message"].count("\n") == 0 for result in found)
    outcomes = [result["outcome"] for result in found]
    assert min(outcomes.count("read"), outcomes.count("refused")) > len(found) // 20  # else the damage is of one sort


def test_whole_files_are_read(tmp_path):
    contents = originals(tmp_path)
    paths = [tmp_path / f"again{i}.tif" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    assert [result["outcome"] for result in attempt(paths)] == ["read"] * len(paths)


def test_three_hundred_damaged_files(tmp_path):
    check(attack(tmp_path, 300, seed=1))


@pytest.mark.slow
def test_ten_thousand_damaged_files(tmp_path):
    check(attack(tmp_path, 10_000, seed=2))
