"""Small made-up folders of every data set, and ways to damage them."""

import os
import shutil
import struct
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import rasterio
from PIL import Image
from rasterio.errors import NotGeoreferencedWarning

from emrdm.data import Numbers

RGB = (3, 8, 12)  # bands, height and width of small images
ALL_BANDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B10", "B11", "B12")

# ---------------------------------------------------------------- images


def texture(shape: Sequence[int], seed: int, *, low=0, high=256, dtype="uint8", block: int = 1) -> np.ndarray:
    """Random numbers of [low, high), the same for the same seed, in blocks of so many pixels."""
    bands, height, width = shape
    coarse = (bands, -(-height // block), -(-width // block))
    numbers = np.random.default_rng(seed).uniform(low, high, coarse)
    return numbers.repeat(block, 1).repeat(block, 2)[:, :height, :width].astype(dtype)


def _make_way(path: Path) -> None:
    """For a new file, never into one that a copy of the tree shares."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def save_picture(path: Path, pixels: np.ndarray, **options) -> Path:
    """Write (C, H, W) uint8, or one band of uint16, as the suffix says; WebP without loss."""
    _make_way(path)
    options = {".png": {"compress_level": 1}, ".webp": {"lossless": True}}.get(path.suffix, {}) | options
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    image.save(path, **options)
    return path


def save_tiff(path: Path, pixels: np.ndarray, *, names: Sequence[str] = (), **options) -> Path:
    """Write (C, H, W) as a compressed GeoTIFF."""
    _make_way(path)
    count, height, width = pixels.shape
    shape = {"count": count, "height": height, "width": width, "dtype": pixels.dtype}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, "w", driver="GTiff", **shape, **{"compress": "deflate"} | options) as file:
            file.write(pixels)
            if names:
                file.descriptions = tuple(names)
    return path


def save(path: Path, pixels: np.ndarray, **options) -> Path:
    """Write an image as the suffix says."""
    return (save_tiff if path.suffix == ".tif" else save_picture)(path, pixels, **options)


def deep_png(path: Path, shape: Sequence[int] = RGB, *, colour: int = 2) -> Path:
    """A 16-bit PNG of this colour type, which no common library writes."""
    _, height, width = shape
    samples = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    rows = b"".join(b"\0" + os.urandom(2 * samples * width) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    path.write_bytes(png(("IHDR", header), ("IDAT", zlib.compress(rows)), ("IEND", b"")))
    return path


def png(*chunks: tuple[str, bytes]) -> bytes:
    """A PNG file of these chunks."""
    content = b"\x89PNG\r\n\x1a\n"
    for kind, data in chunks:
        body = kind.encode() + data
        content += struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    return content


# ---------------------------------------------------------------- data sets


def rice(root: Path, train=("1", "2", "10"), test=("3",), *, shape=RGB, masks=False, suffix=".png", lists=True) -> Path:
    """RICE1, or RICE2 with masks."""
    for seed, name in enumerate((*train, *test)):
        for kind, offset in (("cloud", 0), ("label", 1000)):
            save(root / kind / f"{name}{suffix}", texture(shape, seed + offset))
        if masks:
            colours = np.array([(0, 0, 0), (255, 255, 255), (0, 0, 255), (255, 255, 0)], np.uint8)
            choice = texture((1, *shape[1:]), seed, high=4)[0]
            save_picture(root / "mask" / f"{name}.png", colours[choice].transpose(2, 0, 1))
    if lists:
        write_list(root / "train.txt", train)
        write_list(root / "test.txt", test)
    return root


def cuhk(root: Path, part="CUHK-CR1", train=("1", "2"), test=("1",), *, nir: Callable[[str], str] = str) -> Path:
    """CUHK-CR; ``nir`` gives the names of the near infrared images."""
    for split, names in (("train", train), ("test", test)):
        for i, name in enumerate(names):
            for j, kind in enumerate(("label", "cloud")):
                seed = 1000 * (split == "test") + 10 * i + j
                save(root / part / split / kind / f"{name}.png", texture((3, 512, 512), seed, block=16))
                gray = texture((1, 512, 512), seed + 5000, block=16).repeat(3, 0)
                save(root / "nir" / part / split / kind / f"{nir(name)}.png", gray)
    return root


def sen12ms_cr(root: Path, patches: Iterable[tuple[str, int | str]], *, empty: bool = False) -> Path:
    """SEN12MS-CR with these (region, patch), region as in "ROIs1970_fall_s1/s1_139"; empty files only list."""
    for seed, (region, patch) in enumerate(patches):
        season, number = region.split("_s1/s1_")
        for kind in ("s1", "s2", "s2_cloudy"):
            path = sen12ms_cr_file(root, season, kind, number, patch)
            path.parent.mkdir(parents=True, exist_ok=True)
            if empty:
                path.touch()
            elif kind == "s1":
                save(path, texture((2, 256, 256), seed, low=-30, high=5, dtype="float32", block=32))
            else:
                save(path, texture((13, 256, 256), seed + 100 * len(kind), high=12000, dtype="uint16", block=32))
    return root


def sen12ms_cr_file(root: Path, season: str, kind: str, number: str, patch: int | str) -> Path:
    return root / f"{season}_{kind}" / f"{kind}_{number}" / f"{season}_{kind}_{number}_p{patch}.tif"


def sen2_mtc_new(root: Path, tiles: Mapping[str, Mapping[str, Sequence[str]]]) -> Path:
    """Sen2_MTC_New: for each split its tiles, and for each tile the names of its patches."""
    seed = 0
    for split in ("train", "val", "test"):
        write_list(root / f"{split}.txt", tiles.get(split, {}))
        for tile, names in tiles.get(split, {}).items():
            for name in names:
                files = [f"cloudless/{name}", *(f"cloud/{name}_{i}" for i in range(3))]
                for file in files:
                    seed += 1
                    pixels = texture((4, 256, 256), seed, high=13000, dtype="uint16", block=32)
                    save(root / "Sen2_MTC" / tile / f"{file}.tif", pixels)
    return root


def pairs(
    root: Path,
    names: Sequence[str] = ("1", "2", "10"),
    *,
    suffix=".tif",
    dtype="uint16",
    high=10000,
    shape=(4, 8, 12),
    folders=("cloudy", "clear"),
    masks=False,
    **options,
) -> Path:
    """Pairs of one's own."""
    for seed, name in enumerate(names):
        for folder, offset in zip(folders, (0, 1000), strict=True):
            save(root / folder / f"{name}{suffix}", texture(shape, seed + offset, high=high, dtype=dtype), **options)
        if masks:
            save(root / "mask" / f"{name}.png", texture((1, *shape[1:]), seed, high=2) * 255)
    return root


def series(
    root: Path,
    places: Mapping[str, Sequence[str]],
    *,
    shape=(4, 8, 12),
    dtype="uint16",
    classes: Mapping[str, np.ndarray] | None = None,
    **options,
) -> Path:
    """Series of one's own: for each place (also "train/place") the names of its images, and masks by name of image."""
    seed = 0
    for place, names in places.items():
        for name in names:
            seed += 1
            save(root / place / f"{name}.tif", texture(shape, seed, low=1, high=10000, dtype=dtype), **options)
            if classes is not None and name in classes:
                save(root / place / f"{name}_mask.tif", classes[name][None])
    return root


def write_list(path: Path, names: Iterable[str]) -> Path:
    _make_way(path)
    path.write_text("".join(f"{name}\n" for name in names))
    return path


# ---------------------------------------------------------------- the same questions for all of them


@dataclass(frozen=True)
class Case:
    """A data set with three samples or more, and the files of one of them.

    Attributes:
        dataset: its name in the catalogue.
        build: makes its folder.
        sample: the name of one of its samples.
        files: of that sample.
        partners: those of the files that are missed when they are not there.
        numbers: bands and range, for folders of one's own.
        harmless: damages that a file may have all the same.
    """

    dataset: str
    build: Callable[[Path], Path]
    sample: str
    files: tuple[str, ...]
    partners: tuple[str, ...]
    numbers: Numbers | None = None
    harmless: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def options(self) -> dict:
        return {} if self.numbers is None else {"numbers": self.numbers}


MASKS = {f"2020-0{i}-01": np.full((8, 12), i - 1, np.uint8) for i in (1, 2, 3)}
_RANGE = Numbers(low=0, high=10000)
_PATCH = "ROIs1158_spring_{0}/{1}_106/ROIs1158_spring_{0}_106_p2.tif"
_CUHK = ("{}/train/cloud/2.png", "{}/train/label/2.png", "nir/{}/train/cloud/2.png", "nir/{}/train/label/2.png")
_SEN12 = tuple(_PATCH.format(kind, kind) for kind in ("s2_cloudy", "s2", "s1"))
_MTC = tuple(f"Sen2_MTC/T12/{file}.tif" for file in ("cloud/b_0", "cloud/b_1", "cloud/b_2", "cloudless/b"))


def _cuhk_case(part: str) -> Case:
    files = tuple(file.format(part) for file in _CUHK)
    return Case(part.lower(), lambda root: cuhk(root, part), "train_2", files, files)


CASES = {
    "rice1": Case("rice1", rice, "2", ("cloud/2.png", "label/2.png"), ("cloud/2.png", "label/2.png")),
    "rice2": Case(
        "rice2",
        lambda root: rice(root, masks=True, suffix=".webp"),
        "2",
        ("cloud/2.webp", "label/2.webp", "mask/2.png"),
        ("cloud/2.webp", "label/2.webp", "mask/2.png"),
        harmless=dict.fromkeys(("cloud/2.webp", "label/2.webp"), ("other bands",)),  # WebP has three, always
    ),
    "cuhk-cr1": _cuhk_case("CUHK-CR1"),
    "cuhk-cr2": _cuhk_case("CUHK-CR2"),
    "sen12ms-cr": Case(
        "sen12ms-cr",
        lambda root: sen12ms_cr(root, [("ROIs1158_spring_s1/s1_106", patch) for patch in (1, 2, 30)]),
        "ROIs1158_spring_106_p2",
        _SEN12,
        _SEN12,
    ),
    "sen2-mtc-new": Case(
        "sen2-mtc-new",
        lambda root: sen2_mtc_new(root, {"train": {"T12": ("a", "b")}, "test": {"T3": ("a",)}}),
        "T12_b",
        _MTC,
        _MTC,
    ),
    "pairs": Case(
        "pairs",
        lambda root: pairs(root, masks=True),
        "2",
        ("cloudy/2.tif", "clear/2.tif", "mask/2.png"),
        ("cloudy/2.tif", "clear/2.tif", "mask/2.png"),
        _RANGE,
        harmless={"mask/2.png": ("other bands", "other type")},
    ),
    "pairs of pictures": Case(
        "pairs",
        lambda root: pairs(root, suffix=".png", dtype="uint8", high=256, shape=RGB),
        "2",
        ("cloudy/2.png", "clear/2.png"),
        ("cloudy/2.png", "clear/2.png"),
    ),
    "series": Case(
        "series",
        lambda root: series(root, dict.fromkeys(("a", "b", "c"), tuple(MASKS)), classes=MASKS),
        "b",
        ("b/2020-01-01.tif", "b/2020-02-01.tif", "b/2020-02-01_mask.tif"),
        ("b/2020-02-01.tif", "b/2020-02-01_mask.tif"),
        _RANGE,
    ),
    "synthetic": Case(
        "synthetic",
        lambda root: pairs(root, folders=("clear", "clear")),
        "2",
        ("clear/2.tif",),
        (),
        _RANGE,
        harmless={"clear/2.tif": ("other size",)},
    ),
}


def linked(built: Path, root: Path) -> Path:
    """A copy of a tree that shares its files: replace them, do not write into them."""
    shutil.copytree(built, root, copy_function=os.link)
    return root


def _rewrite(path: Path, change: Callable[[np.ndarray], np.ndarray]) -> None:
    if path.suffix == ".tif":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            with rasterio.open(path) as file:
                pixels = file.read()
    else:
        with Image.open(path) as image:
            array = np.asarray(image)
        pixels = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
    save(path, change(pixels))


def _replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def _cut(share: float) -> Callable[[Path], None]:
    return lambda path: _replace(path, path.read_bytes()[: int(path.stat().st_size * share)])


def _other_type(path: Path) -> None:
    if path.suffix == ".tif":
        _rewrite(path, lambda pixels: (pixels % 200 + 7).astype("uint16" if pixels.dtype == "uint8" else "uint8"))
    else:
        path.unlink()
        deep_png(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _other_count(pixels: np.ndarray) -> np.ndarray:
    """Two bands for one, one for three, one less for more."""
    return np.concatenate((pixels, pixels))[: {1: 2, 3: 1}.get(len(pixels), len(pixels) - 1)]


# What can happen to a file that is there.
DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: _replace(path, b""),
    "text": lambda path: _replace(path, b"<html>404 not found</html>" * 20),
    "cut to a byte": lambda path: _replace(path, path.read_bytes()[:1]),
    "cut to a third": _cut(1 / 3),
    "cut to two thirds": _cut(2 / 3),
    "a folder": _folder,
    "other size": lambda path: _rewrite(path, lambda pixels: pixels[:, :-2]),
    "other bands": lambda path: _rewrite(path, _other_count),
    "other type": _other_type,
}
