"""Right pixels: the same bytes whatever the way, gaps as they were, numbers that never wrap."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.restoration import small

from emrdm import EMRDM
from emrdm.restoration import local, scenes, state

rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs of the tests are written by rasterio")
pytest.importorskip("rasterio.shutil")

pytestmark = pytest.mark.usefixtures("settled")


@pytest.fixture
def run(capsys):
    """Runs a command line: exit code, lines of output, lines of messages."""
    before = torch.get_num_threads()
    yield lambda words: small.run(capsys, words)
    torch.set_num_threads(before)


@pytest.fixture
def calls(monkeypatch):
    """Tiles that the network sees."""
    return small.counted(monkeypatch)


def read(path):
    with rasterio.open(path) as file:
        return file.read()


def valid(path):
    """Where a file says that there is data, as GDAL sees it: in some band, since 0 in one may be dark water."""
    with rasterio.open(path) as file:
        return file.dataset_mask() > 0


# ---------------------------------------------------------------- the same bytes


@pytest.mark.parametrize("more", [("--batch", 1), ("--batch", 3), ("--memory", "3GB"), ("--memory", "20GB")])
def test_batches_and_memory_change_nothing(more, given, reference, run, tmp_path):
    code, _, errors = run(small.words(*given, tmp_path / "clear.tif", *more, "-q"))
    assert (code, errors) == (0, [])
    assert small.digest(tmp_path / "clear.tif") == reference.digest


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_tiles_changes_nothing(seed, given, reference, run, calls, tmp_path, monkeypatch):
    original = local.on_this_machine

    def shuffled(denoiser, room):
        within, chance = original(denoiser, room), random.Random(seed)
        return lambda sample, step, tiles, tick: within(sample, step, chance.sample(tiles, len(tiles)), tick)

    monkeypatch.setattr(scenes, "on_this_machine", shuffled)
    run(small.words(*given, tmp_path / "clear.tif", "-q", "--batch", 1))
    assert calls[: small.TILES - 1] != sorted(calls[: small.TILES - 1])
    assert small.digest(tmp_path / "clear.tif") == reference.digest


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_of_openmp_change_nothing(threads, given, reference, tmp_path, monkeypatch):
    program = "import sys; from emrdm.cli import main; from tests.restoration import small; small.settle(); main()"
    found = subprocess.run(
        [sys.executable, "-c", program, *small.words(*given, tmp_path / "clear.tif", "-q")],
        env={**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )
    assert not found.stderr
    assert small.digest(tmp_path / "clear.tif") == reference.digest


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_of_torch_change_nothing(threads, given, reference, run, tmp_path):
    torch.set_num_threads(threads)
    run(small.words(*given, tmp_path / "clear.tif", "-q"))
    assert torch.get_num_threads() == threads
    assert small.digest(tmp_path / "clear.tif") == reference.digest


@pytest.mark.slow
def test_five_runs_give_the_same_bytes(given, reference, run, tmp_path):
    for i in range(5):
        assert run(small.words(*given, tmp_path / f"{i}.tif", "-q"))[0] == 0
        assert small.digest(tmp_path / f"{i}.tif") == reference.digest


def test_another_seed_gives_another_image(given, reference, run, tmp_path):
    run(small.words(*given, tmp_path / "clear.tif", "-q", "--seed", 1))
    assert (read(tmp_path / "clear.tif") != read(reference.path)).mean() > 0.5


# ---------------------------------------------------------------- gaps


HEIGHT, WIDTH, TILES = 70, 100, 4  # of scenes with gaps


def _ragged(share):
    """(H, W) bool, without data along a slanted, ragged edge; about so much of it."""
    rng = np.random.default_rng(4)
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    height = rows / HEIGHT + columns / WIDTH + rng.normal(0, 0.05, rows.shape)
    return height < np.quantile(height, share) if 0 < share < 1 else np.full(rows.shape, bool(share))


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
@pytest.mark.parametrize("kind", ["nodata", "NaN", "Inf", "NaN without a tag", "mask"])
def test_gaps_are_those_of_the_input(kind, share, given, run, calls, tmp_path):
    gaps = _ragged(share)
    image, path = small.pixels(3, HEIGHT, WIDTH), tmp_path / "scene.tif"
    if kind in ("nodata", "mask"):
        image[:, gaps] = 0
        small.write(path, image, nodata=0 if kind == "nodata" else None)
        if kind == "mask":
            with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as file:
                file.write_mask(~gaps)
    else:
        image = image.astype(np.float32)
        image[1, gaps] = np.inf if kind == "Inf" else np.nan  # in one band alone
        small.write(path, image, nodata=None if kind == "NaN without a tag" else -9999)
    code, _, errors = run(small.words(path, given[1], tmp_path / "clear.tif", "-q"))
    assert (code, errors) == (0, [])
    found = read(tmp_path / "clear.tif")
    assert np.array_equal(valid(tmp_path / "clear.tif"), ~gaps)
    assert np.isfinite(found[:, ~gaps]).all()
    assert found[:, ~gaps].size == 0 or found[:, ~gaps].std() > 1
    assert len(calls) == 0 if share == 1 else len(calls) > 0
    if share == 0:
        assert len(calls) == TILES * small.STEPS


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_gaps_that_the_number_type_cannot_hold_become_a_mask(dtype, given, run, tmp_path):
    gaps = _ragged(0.3)
    image = small.pixels(3, HEIGHT, WIDTH).astype(np.float32) / 16
    image[:, gaps] = np.nan
    words = small.words(
        small.write(tmp_path / "scene.tif", image), given[1], tmp_path / "clear.tif", "-q", "--dtype", dtype
    )
    words[words.index("--range") + 1] = "0:255"
    code, _, errors = run(words)
    assert (code, errors) == (0, [])
    assert np.array_equal(valid(tmp_path / "clear.tif"), ~gaps)
    with rasterio.open(tmp_path / "clear.tif") as file:
        assert set(file.dtypes) == {dtype}


def test_a_nodata_value_can_be_given(given, run, tmp_path):
    gaps = _ragged(0.3)
    image = small.pixels(3, HEIGHT, WIDTH)
    image[:, gaps] = 4001
    path = small.write(tmp_path / "scene.tif", image)
    assert run(small.words(path, given[1], tmp_path / "clear.tif", "-q", "--nodata", 4001))[0] == 0
    assert np.array_equal(valid(tmp_path / "clear.tif"), ~gaps)


# ---------------------------------------------------------------- the output


def test_the_output_is_on_the_same_grid_and_says_where_it_comes_from(given, reference):
    with rasterio.open(given[0]) as before, rasterio.open(reference.path) as after:
        for what in ("crs", "transform", "nodata", "descriptions", "dtypes", "shape"):
            assert getattr(after, what) == getattr(before, what), what
        assert after.tags()["ACQUIRED"] == "2024-05-01"
        tags = after.tags()
    assert tags["EMRDM_SEED"] == "0"
    assert tags["EMRDM_MODEL_DIGEST"] == EMRDM.load(given[1]).digest()
    assert tags["EMRDM_INPUTS"] == "scene.tif"
    assert "steps=3" in tags["EMRDM_SAMPLER"]
    assert tags["EMRDM_TILES"] == "64 x 64, overlap 16"
    assert not [name for name, value in tags.items() if "/" in value and str(given[0].parent) in value]


def test_floats_are_the_numbers_that_integers_are_rounded_from(given, reference, run, tmp_path):
    run(small.words(*given, tmp_path / "clear.tif", "-q", "--dtype", "float32"))
    found, rounded = read(tmp_path / "clear.tif"), read(reference.path)
    assert found.dtype == np.float32
    assert (
        np.abs(found.clip(0) - rounded)[:, valid(reference.path)].max() <= 1
    )  # 1 where a rounded pixel would be nodata


@pytest.mark.parametrize(
    ("dtype", "span"), [("uint8", "0:4000"), ("uint16", "-60000:60000"), ("int16", "-90000:90000")]
)
def test_integers_saturate_and_never_wrap(dtype, span, given, run, tmp_path, monkeypatch):
    path = small.write(tmp_path / "scene.tif", small.pixels().astype(dtype))

    original = state.StepState.write

    def extreme(self, tile, values):
        original(self, tile, np.broadcast_to(np.float32([-1.5, 0.02, 1.5]).repeat(22)[:64], self.shape))

    monkeypatch.setattr(state.StepState, "write", extreme)
    words = small.words(path, given[1], tmp_path / "clear.tif", "-q")
    words[words.index("--range") : words.index("--range") + 2] = [f"--range={span}"]
    assert run(words)[0] == 0
    found, limits = read(tmp_path / "clear.tif"), np.iinfo(dtype)
    assert found.min() == limits.min
    assert found.max() == limits.max


@pytest.mark.parametrize(
    ("dtype", "span", "said"),
    [
        (
            "uint8",
            "0:4000",
            "uint8 holds 0 to 255, and the images go from 0 to 4000: expected int16, uint16, int32, float32",
        ),
        (
            "uint16",
            "-9:4000",
            "uint16 holds 0 to 65535, and the images go from -9 to 4000: expected int16, int32, float32",
        ),
        ("uint16", "0:1", "uint16 has whole numbers only, for 0 to 1: expected float32"),
    ],
)
def test_a_number_type_that_does_not_hold_the_images_is_refused(dtype, span, said, given, run, tmp_path):
    image = small.pixels().astype(np.float32) / (4000 if span == "0:1" else 1)
    path = small.write(tmp_path / "scene.tif", image)
    words = small.words(path, given[1], tmp_path / "clear.tif", "-q", "--dtype", dtype)
    words[words.index("--range") : words.index("--range") + 2] = [f"--range={span}"]
    code, _, errors = run(words)
    assert code == 2
    assert f"--dtype {said}" in errors[-1]
    assert not (tmp_path / "clear.tif").exists()


def test_a_picture_becomes_a_picture(given, run, tmp_path):
    image = (small.pixels() / 16).astype(np.uint8).transpose(1, 2, 0)
    Image.fromarray(image).save(tmp_path / "cloudy.png")
    words = ["restore", tmp_path / "cloudy.png", "--model", given[1], "-o", tmp_path / "clear.png", "--tile", 64]
    code, out, _ = run([*words, "--overlap", 16])
    assert code == 0
    assert "200 x 150 pixels, 3 bands; 12 tiles" in out[-1]
    with Image.open(tmp_path / "clear.png") as clear:
        assert (clear.size, clear.mode) == ((small.WIDTH, small.HEIGHT), "RGB")
    assert small.hidden(tmp_path) == []


def test_clear_pixels_stay_to_the_bit(given, run, tmp_path):
    cloud = np.zeros((1, small.HEIGHT, small.WIDTH), np.uint8)
    cloud[:, 40:110, 90:170] = 1
    mask = small.write(tmp_path / "mask.tif", cloud, names=("cloud",))
    keep = ("--mask", mask, "--keep-clear", "--feather", 4)
    code, out, _ = run(small.words(*given, tmp_path / "clear.tif", *keep))
    assert code == 0
    assert "% kept as they were" in out[-1]
    before, after, cloud = read(given[0]), read(tmp_path / "clear.tif"), cloud[0] > 0
    assert np.array_equal(after[:, ~cloud], before[:, ~cloud])
    assert (after[:, cloud] != before[:, cloud]).mean() > 0.9


def test_samples_have_a_mean_and_a_map_of_what_is_uncertain(given, run, tmp_path):
    spread = ("--samples", 4, "--uncertainty", tmp_path / "std.tif", "--quantiles", "5,95", "--dtype", "float32")
    code, _, errors = run(small.words(*given, tmp_path / "clear.tif", "-q", *spread))
    assert (code, errors) == (0, [])
    known = valid(tmp_path / "clear.tif")
    with rasterio.open(tmp_path / "std.tif") as file:
        assert file.descriptions == tuple(
            f"{band}_{what}" for band in ("red", "green", "blue") for what in ("std", "q5", "q95")
        )
        assert set(file.dtypes) == {"float32"}
        assert file.crs == rasterio.open(given[0]).crs
        found = file.read().reshape(3, 3, small.HEIGHT, small.WIDTH)
    assert np.isnan(found[:, :, ~known]).all()
    deviation, low, high = found[:, :, known].transpose(1, 0, 2)
    assert (deviation >= 0).all()
    assert deviation.mean() > 1
    mean = read(tmp_path / "clear.tif")[:, known]
    assert (low <= mean + 0.01).all()
    assert (mean <= high + 0.01).all()
    assert (high - low)[deviation > 1].min() > 0
