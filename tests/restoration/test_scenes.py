"""Whole scenes: equal to the model on one tile, the same whatever the batch, seams that do not show."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from emrdm import EMRDM, DataError, InputError, SamplerConfig, open_scene, restore_scene
from emrdm.bench.paths import lively
from emrdm.rasters.grid import Grid
from emrdm.rasters.source import ArraySource
from emrdm.restoration import Keeping, Reading, Settings

TILES = Settings(tile=64)
FOUR = ("red", "green", "blue", "nir")


@pytest.fixture(scope="module")
def model():
    return lively(EMRDM.from_preset("tiny"))


@pytest.fixture(scope="module")
def series_model():
    return lively(EMRDM.from_preset("tiny-temporal"))


def source(pixels, names=("red", "green", "blue"), **options):
    grid = Grid(*pixels.shape[1:], crs=None, transform=(10.0, 0.0, 5e5, 0.0, -10.0, 4e6))
    return ArraySource(pixels, names=names, grid=grid, **options)


def picture(height, width, *, seed=0, bands=3):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(1, bands, 6, 6, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0]
    return (127 + 50 * smooth + 5 * torch.randn(smooth.shape, generator=generator)).clamp(0, 255).byte().numpy()


def test_a_scene_of_one_tile_is_what_the_model_restores(model):
    image = picture(64, 64).astype(np.float32)
    found = restore_scene(open_scene(source(image)), model, settings=dataclasses.replace(TILES, exact=True), seed=3)
    np.testing.assert_allclose(found.pixels, model.restore(image, seed=3, exact=True), atol=2e-3)
    assert found.summary.tiles == 1


def test_without_a_model_it_is_the_one_inside_the_package():
    scene = open_scene(source(picture(40, 50)))
    found = restore_scene(scene, settings=TILES)
    assert found.tags["EMRDM_MODEL"] == EMRDM.default().card.title
    np.testing.assert_array_equal(found.pixels, restore_scene(scene, EMRDM.default(), settings=TILES).pixels)


def test_what_the_default_model_cannot_take_names_it_and_others_are_not_named(model):
    four = open_scene(source(picture(40, 50, bands=4), names=("",) * 4))
    with pytest.raises(DataError, match=r"4 bands without names: expected 3, .*; this is the default model, for one"):
        restore_scene(four)
    with pytest.raises(DataError, match=r"--bands says which ones they are$"):
        restore_scene(four, model)


@pytest.mark.parametrize("size", [(40, 50), (2, 70), (64, 63)])
def test_a_small_scene_is_what_the_model_restores(model, size):
    image = picture(*size).astype(np.float32)
    found = restore_scene(open_scene(source(image)), model, settings=dataclasses.replace(TILES, exact=True))
    if max(size) <= 64:
        np.testing.assert_allclose(found.pixels, model.restore(image, exact=True), atol=2e-3)
    assert found.pixels.shape == image.shape


def test_churn_gives_what_the_model_gives(model):
    sampler = SamplerConfig(steps=4, churn=5.0, noise=1.02)
    image = picture(64, 64)
    settings = dataclasses.replace(TILES, exact=True, sampler=sampler)
    found = restore_scene(open_scene(source(image)), model, settings=settings)
    expected = model.restore(image, exact=True, sampler=sampler).round().clip(0, 255)
    assert np.abs(found.pixels - expected).max() <= 1  # one-raster form: equal up to rounding


def test_a_series_of_one_tile_is_what_the_model_restores(series_model):
    images = np.stack([picture(64, 64, seed=seed, bands=4) for seed in range(3)]).astype(np.float32)
    scene = open_scene(*[source(image, FOUR) for image in images])
    found = restore_scene(scene, series_model, settings=dataclasses.replace(TILES, exact=True))
    assert found.names == FOUR[:3]  # near infrared is seen and not restored
    np.testing.assert_allclose(found.pixels, series_model.restore(images[:, :3], images[:, 3:], exact=True), atol=2e-3)


def test_batches_make_no_difference(model):
    scene = open_scene(source(picture(150, 200)))
    results = [restore_scene(scene, model, settings=TILES, batch=batch).pixels for batch in (1, 3)]
    assert np.array_equal(*results)
    other = restore_scene(scene, model, settings=TILES, seed=1).pixels
    assert not np.array_equal(other, results[0])


def test_gaps_are_filled_for_the_network_and_stay_gaps(model):
    image = picture(150, 200).astype(np.float32)
    image[:, 40:90, 60:140] = np.nan
    found = restore_scene(open_scene(source(image)), model, settings=TILES)
    assert np.array_equal(~found.valid, np.isnan(image[0]))
    assert np.array_equal(np.isnan(found.pixels[0]), np.isnan(image[0]))


def test_what_lies_in_a_gap_has_no_effect(model):
    images = [picture(150, 200).astype(np.float32) for _ in range(2)]
    gap = np.zeros((150, 200), bool)
    gap[:, 100:] = True
    images[1][:, gap] = 5.0
    found = [restore_scene(open_scene(source(x, valid=~gap)), model, settings=TILES).pixels for x in images]
    assert np.array_equal(found[0][:, ~gap], found[1][:, ~gap])


def test_a_date_without_data_counts_as_left_out(series_model):
    images = [picture(64, 64, seed=seed, bands=4).astype(np.float32) for seed in range(2)]
    nothing = np.full_like(images[0], np.nan)
    exact = dataclasses.replace(TILES, exact=True)
    two = restore_scene(open_scene(*[source(x, FOUR) for x in images]), series_model, settings=exact)
    three = restore_scene(open_scene(*[source(x, FOUR) for x in (*images, nothing)]), series_model, settings=exact)
    np.testing.assert_allclose(two.pixels, three.pixels, atol=2e-3)
    assert three.valid.all()


def test_restored_pixels_are_nodata_in_no_band(model):
    image = picture(80, 90)
    found = restore_scene(open_scene(source(image, nodata=0)), model, settings=TILES)
    assert found.nodata == 0
    assert (found.pixels[:, found.valid] > 0).all()
    assert (restore_scene(open_scene(source(image)), model, settings=TILES).pixels == 0).any()  # it would be


def test_clear_pixels_stay_to_the_bit(model):
    image = picture(150, 200)
    cloud = np.zeros((1, 150, 200), np.uint8)
    cloud[:, 50:100, 60:150] = 1
    scene = open_scene(source(image), mask=source(cloud, ("cloud",)))
    found = restore_scene(scene, model, settings=TILES, keeping=Keeping("mask"))
    clear = cloud[0] == 0
    assert np.array_equal(found.pixels[:, clear], image[:, clear])
    assert not np.array_equal(found.pixels[:, ~clear], image[:, ~clear])
    assert found.summary.replaced == pytest.approx((~clear).mean())


def test_a_mask_may_call_its_zeros_nodata_and_kept_pixels_have_no_spread(model):
    image, cloud = picture(80, 90), np.zeros((1, 80, 90), np.uint8)
    cloud[:, 30:60, 20:70] = 255
    scene = open_scene(source(image), mask=source(cloud, ("cloud",), nodata=0))
    found = restore_scene(scene, model, settings=TILES, keeping=Keeping("mask"), samples=2)
    clear = cloud[0] == 0
    assert np.array_equal(found.pixels[:, clear], image[:, clear])
    assert not found.spread[:, clear].any()
    assert found.spread[:, ~clear].mean() > 0


@pytest.mark.parametrize("by", ["score", "change"])
def test_clear_pixels_can_be_found(model, by):
    found = restore_scene(open_scene(source(picture(80, 90))), model, settings=TILES, keeping=Keeping(by))
    assert 0 <= found.summary.replaced <= 1


def test_samples_have_a_mean_and_a_spread(model):
    image = picture(80, 90)
    scene = open_scene(source(image))
    singles = [restore_scene(scene, model, settings=TILES, seed=0, samples=k + 1) for k in range(3)]
    three = singles[2]
    assert three.spread.shape == (3, 80, 90)
    assert three.spread.min() >= 0
    assert three.spread.mean() > 0
    assert three.spread_names == ("red_std", "green_std", "blue_std")


def test_values_outside_of_the_range_are_counted(model):
    image = picture(64, 64).astype(np.float32)
    image[:, :8, :8] = 300
    found = restore_scene(open_scene(source(image)), model, settings=TILES)
    assert found.summary.clipped == pytest.approx(64 / 64**2)


def test_numbers_that_are_not_in_the_models_units_are_refused(model):
    image = picture(64, 64).astype(np.uint16) * 60
    with pytest.raises(InputError, match="--range"):
        restore_scene(open_scene(source(image)), model, settings=TILES)
    found = restore_scene(open_scene(source(image)), model, settings=TILES, reading=Reading(range=(0, 255 * 60)))
    assert found.pixels.dtype == np.uint16
    assert any(
        "range" in note
        for note in restore_scene(
            open_scene(source(image)), model, settings=TILES, reading=Reading(range="auto")
        ).summary.notes
    )


def test_a_missing_band_can_be_filled(model):
    image = picture(64, 64)[:2]
    scene = open_scene(source(image, ("red", "green")))
    with pytest.raises(Exception, match="blue"):
        restore_scene(scene, model, settings=TILES)
    found = restore_scene(scene, model, settings=TILES, reading=Reading(fill={"blue": 90.0}))
    assert found.names == ("red", "green")


def test_series_need_a_model_for_series(model):
    scene = open_scene(source(picture(64, 64)), source(picture(64, 64, seed=1)))
    with pytest.raises(InputError, match="one at a time"):
        restore_scene(scene, model, settings=TILES)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(tile=62), "multiple of"),
        (Settings(tile=64, overlap=40), "overlap"),
        (Settings(sampler=SamplerConfig(method="heun")), "heun"),
    ],
)
@pytest.mark.parametrize("size", [200, 40])  # several tiles, and one
def test_settings_that_cannot_work_are_refused(model, settings, words, size):
    with pytest.raises(InputError, match=words):
        restore_scene(open_scene(source(picture(size, size))), model, settings=settings)


@pytest.mark.filterwarnings("ignore:Dataset has no geotransform")
def test_a_path_is_a_scene_and_other_things_are_named(model, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    image, path = picture(64, 80), tmp_path / "x.tif"
    tags = {"LINE_OFF": "1", "SAMP_OFF": "2", "LAT_OFF": "50", "LONG_OFF": "8", "HEIGHT_OFF": "0"}
    tags |= {name.replace("OFF", "SCALE"): "1" for name in tags}
    ones = " ".join(["1"] * 20)
    tags |= {f"{axis}_{part}_COEFF": ones for axis in ("LINE", "SAMP") for part in ("NUM", "DEN")}
    with rasterio.open(path, "w", driver="GTiff", count=3, height=64, width=80, dtype="uint8") as file:
        file.write(image)
        file.update_tags(ns="RPC", **tags)
    restore_scene(str(path), model, tmp_path / "clear.tif", settings=TILES)
    expected = restore_scene(open_scene(path), model, settings=TILES).pixels
    with rasterio.open(tmp_path / "clear.tif") as file:
        assert np.array_equal(file.read(), expected)
        assert file.rpcs.lat_off == 50  # what places a scene without a grid is handed on
    with pytest.raises(InputError, match="scene is a ndarray: expected a path"):
        restore_scene(image, model)
    with pytest.raises(InputError, match="model is a str: expected an EMRDM"):
        restore_scene(path, "default")
