"""How the numbers of files are understood, and that what a user typed is either heeded or refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from emrdm import EMRDM, EmrdmError, InputError, open_scene, restore_scene
from emrdm.bench.paths import lively
from emrdm.config import Band
from emrdm.rasters.grid import Grid
from emrdm.rasters.source import ArraySource
from emrdm.restoration import Inputs, Keeping, Reading, Settings, Writing
from emrdm.window import Window

TILES = Settings(tile=64)
OPTICAL = ("B4", "B3", "B2")
WHOLE = Window(0, 0, 80, 90)


@pytest.fixture(scope="module")
def model():
    return lively(EMRDM.from_preset("tiny"))


def reflectance(config, *, clip=True, aux=()):
    bands = tuple(Band(name, "reflectance x 10000", 0, 10000, clip) for name in OPTICAL)
    inputs = ("noisy", "aux", "cloudy") if aux else ("noisy", "cloudy")
    return dataclasses.replace(config, bands=bands, aux=aux, inputs=inputs)


@pytest.fixture(scope="module")
def optical(model):
    return reflectance(model.config)


def source(pixels, names=OPTICAL, **options):
    grid = Grid(*pixels.shape[1:], crs=None, transform=(10.0, 0.0, 5e5, 0.0, -10.0, 4e6))
    return ArraySource(pixels, names=names, grid=grid, **options)


def numbers(low=500, high=4000, *, bands=3, seed=0, dtype=np.uint16):
    return np.random.default_rng(seed).integers(low, high, (bands, 80, 90)).astype(dtype)


def seen(config, *sources, **reading):
    return Inputs(open_scene(*sources), config, Reading(**reading)).read(WHOLE).cloudy


def test_bands_come_out_in_the_order_of_the_file(model):
    image = numbers(0, 255, dtype=np.uint8)
    turned = restore_scene(open_scene(source(image[::-1], ("blue", "green", "red"))), model, settings=TILES)
    plain = restore_scene(open_scene(source(image, ("red", "green", "blue"))), model, settings=TILES)
    assert turned.names == ("blue", "green", "red")
    np.testing.assert_array_equal(turned.pixels[::-1], plain.pixels)


def test_the_offset_of_newer_products_is_taken_off_with_and_without_a_range(optical):
    plain = seen(optical, source(numbers()))
    newer = source(numbers() + 1000, tags={"PROCESSING_BASELINE": "05.09"})
    for reading in ({}, {"range": (0.0, 10000.0)}):
        np.testing.assert_allclose(seen(optical, newer, **reading), plain, atol=1e-6)
    np.testing.assert_allclose(seen(optical, source(numbers() + 1000), offset="-1000"), plain, atol=1e-6)


def test_the_offset_is_put_back(optical):
    inputs = Inputs(open_scene(source(numbers() + 1000)), optical, Reading(offset="-1000"))
    back = inputs.to_file_numbers(inputs.read(WHOLE).cloudy[0])
    np.testing.assert_allclose(back, numbers() + 1000, atol=0.01)


def test_a_files_own_scale_is_heeded(optical):
    landsat = ((numbers() / 1e4 + 0.2) / 2.75e-5).round().astype(np.uint16)
    found = seen(optical, source(landsat, scales=[2.75e-5] * 3, offsets=[-0.2] * 3))
    np.testing.assert_allclose(found, seen(optical, source(numbers())), atol=1e-4)


@pytest.mark.parametrize("which", [0, 1])
def test_units_are_checked_on_every_date(which):
    series = reflectance(EMRDM.from_preset("tiny-temporal").config)
    images = [source(numbers(seed=i)) for i in range(2)]
    images[which] = source(numbers(40000, 60000))
    with pytest.raises(InputError, match="--range"):
        seen(series, *images)


def test_radar_for_a_model_without_is_refused_and_asked_for_by_one_with(model, optical):
    scene = open_scene(source(numbers()), sar=source(np.full((2, 80, 90), -10.0, np.float32), ("VV", "VH"), name="s1"))
    with pytest.raises(InputError, match="sees no radar"):
        Inputs(scene, optical)
    radar = reflectance(model.config, aux=(Band("VV", "dB", -25, 0), Band("VH", "dB", -25, 0)))
    with pytest.raises(InputError, match="expected --sar"):
        Inputs(open_scene(source(numbers())), radar)
    found = Inputs(open_scene(source(numbers())), radar, Reading(fill={"VV": -12.5, "vh": -25.0})).read(WHOLE)
    assert found.aux[0, 0].max() == 0
    assert found.aux[0, 1].max() == -1


def test_auxiliary_bands_may_all_be_filled_for_a_file_as_well(model, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    kind = {"driver": "GTiff", "height": 80, "width": 90, "count": 3, "dtype": "uint16", "crs": "EPSG:32632"}
    with rasterio.open(tmp_path / "a.tif", "w", transform=rasterio.Affine(10, 0, 5e5, 0, -10, 4e6), **kind) as file:
        file.write(numbers())
        file.descriptions = OPTICAL
    radar = reflectance(model.config, aux=(Band("VV", "dB", -25, 0),))
    with open_scene(tmp_path / "a.tif") as scene:
        found = Inputs(scene, radar, Reading(fill={"VV": -12.5})).read(WHOLE)
    assert (found.aux == 0).all()
    assert found.known.all()


def test_bands_that_were_not_clipped_in_training_are_not_clipped(model):
    bright = numbers(500, 9000)
    bright[:, :10] = 15000
    assert seen(reflectance(model.config), source(bright)).max() == 1
    assert seen(reflectance(model.config, clip=False), source(bright)).max() == pytest.approx(2)


def test_a_fill_for_a_band_that_is_there_is_refused(optical):
    with pytest.raises(InputError, match="has that band"):
        seen(optical, source(numbers()), fill={"B04": 0.0})
    with pytest.raises(InputError, match="expected a band of the model"):
        seen(optical, source(numbers()), fill={"B11": 0.0})


def test_an_input_is_never_overwritten(model, tmp_path):
    pytest.importorskip("rasterio")
    restore_scene(
        open_scene(source(numbers(0, 255, dtype=np.uint8), ("red", "green", "blue"))), model, settings=TILES
    ).save(tmp_path / "cloudy.tif")
    before = (tmp_path / "cloudy.tif").read_bytes()
    with pytest.raises(InputError, match="one of the inputs"):
        restore_scene(
            open_scene(tmp_path / "cloudy.tif"),
            model,
            tmp_path / "cloudy.tif",
            settings=TILES,
            write=Writing(overwrite=True),
        )
    assert (tmp_path / "cloudy.tif").read_bytes() == before
    with pytest.raises(InputError, match="JPEG changes every pixel"):
        restore_scene(
            open_scene(tmp_path / "cloudy.tif"), model, tmp_path / "clear.jpg", settings=TILES, keeping=Keeping("score")
        )


def test_a_run_that_understands_its_files_otherwise_does_not_go_on(model, tmp_path):
    pytest.importorskip("rasterio")
    image = numbers(0, 255, dtype=np.uint8)
    first, second = source(image, ("red", "green", "blue")), source(image, ("blue", "green", "red"))

    class StopError(Exception):
        pass

    def stop(done, total):
        if done >= 3:
            raise StopError

    with pytest.raises(StopError):
        restore_scene(open_scene(first), model, tmp_path / "clear.tif", settings=TILES, progress=stop)
    with pytest.raises(InputError, match="another images"):
        restore_scene(open_scene(second), model, tmp_path / "clear.tif", settings=TILES)
    summary = restore_scene(open_scene(first), model, tmp_path / "clear.tif", settings=TILES).summary
    assert summary.resumed
    assert 0 < summary.calls <= 4 * summary.tiles - 3


def test_a_state_that_lost_a_tile_is_not_gone_on_from(model, tmp_path):
    pytest.importorskip("rasterio")
    scene = open_scene(source(numbers(0, 255, dtype=np.uint8), ("red", "green", "blue")))

    class StopError(Exception):
        pass

    def stop(done, total):
        if done >= 9:
            raise StopError

    with pytest.raises(StopError):
        restore_scene(scene, model, tmp_path / "clear.tif", settings=TILES, progress=stop, batch=1)
    folder = tmp_path / ".clear.tif.emrdm" / "sample-0"
    done = sorted(folder.glob("*/done"))[-1].parent
    tile = next(path for path in done.rglob("c/*/*/0/0/0"))
    tile.write_bytes(tile.read_bytes()[:100])
    with pytest.raises(EmrdmError, match="has lost 1 of its"):
        restore_scene(scene, model, tmp_path / "clear.tif", settings=TILES)


def test_many_samples_are_finished_in_small_windows(model):
    from emrdm.restoration.output import Finisher

    inputs = Inputs(open_scene(source(numbers(0, 255, dtype=np.uint8), ("red", "green", "blue"))), model.config)
    few, many = (Finisher(inputs, [None] * count, dtype=np.dtype("uint8"), spread=True) for count in (2, 500))
    assert few.side(10**9) == 512
    assert 32 <= many.side(10**8) < 128


@pytest.mark.parametrize(("preset", "size", "tile"), [("rgb-small", (20, 20), 256), ("rgb-small", (300, 50), 64)])
def test_default_overlaps_always_work(preset, size, tile):
    from emrdm.restoration import Plan

    plan = Plan.of(*size, EMRDM.from_preset(preset), Settings(tile=tile, exact=True))
    assert len(plan.tiles) >= 1


def test_dates_of_older_and_newer_products_agree_in_an_automatic_range():
    series = reflectance(EMRDM.from_preset("tiny-temporal").config)
    newer = source(numbers() + 1000, tags={"PROCESSING_BASELINE": "05.09"}, name="newer")
    found = seen(series, source(numbers(), name="older"), newer, range="auto")
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
    assert found.std() > 0.1


def test_the_uncertainty_map_has_the_scales_of_the_image(model, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    config = reflectance(model.config)
    scaled = source(numbers() + 1000, scales=[1e-4] * 3, offsets=[-0.1] * 3)
    write = Writing(uncertainty=tmp_path / "std.tif", quantiles=(0.05,))
    restored = lively(EMRDM.fresh(config))
    restore_scene(open_scene(scaled), restored, tmp_path / "clear.tif", settings=TILES, samples=2, write=write)
    with rasterio.open(tmp_path / "clear.tif") as image, rasterio.open(tmp_path / "std.tif") as spread:
        assert image.scales == (1e-4,) * 3
        assert image.offsets == (-0.1,) * 3
        assert spread.descriptions[:2] == ("B4_std", "B4_q5")
        assert spread.scales == (1e-4,) * 6
        assert spread.offsets == (0.0, -0.1) * 3


@pytest.mark.parametrize(
    ("low", "high", "span", "refused"),
    [(0, 255, (1000, 10000), True), (7000, 20000, (0, 0.3), True), (5000, 9000, (0, 2000), False)],
)
def test_a_range_that_has_nothing_to_do_with_the_image_is_refused(low, high, span, refused, model):
    scene = open_scene(source(numbers(low, high), ("red", "green", "blue"), scales=[2.75e-5] * 3))
    if not refused:  # bright clouds everywhere are no mistake
        assert any("outside of the range" in note for note in Inputs(scene, model.config, Reading(range=span)).notes)
        return
    with pytest.raises(InputError, match=r"in numbers of the file; the scale and offset in the file are not applied$"):
        Inputs(scene, model.config, Reading(range=span))


def test_a_black_picture_is_a_picture(model):
    black = np.zeros((3, 80, 90), np.uint8)
    assert Inputs(open_scene(source(black, ("red", "green", "blue"))), model.config).read(WHOLE).cloudy.max() == -1
    with pytest.raises(InputError, match="--range LOW:HIGH"):
        Inputs(open_scene(source(black.astype(np.float32) + 0.3, ("red", "green", "blue"))), model.config)
