"""From files and wishes to results, without a web page."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import rasterio
from tests.serve.samples import geotiff, pixels, png, shelf

from emrdm import EMRDM, InputError, open_scene, restore_scene
from emrdm.rasters.read import read
from emrdm.restoration import Settings
from emrdm.serve.work import CancelledError, Order, look, restore


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return shelf(tmp_path_factory.mktemp("models"))


def done(order, models, folder, stopped=None):
    heard = []
    found = restore(order, models, folder / "job", heard.append, stopped or threading.Event())
    return found, heard


def test_a_geotiff_becomes_what_emrdm_restore_makes_of_it(models, tmp_path):
    path = geotiff(tmp_path / "field.tif", pixels())
    (found,), heard = done(Order((path,), "tiny", steps=3, samples=2, seed=4), models, tmp_path)
    names = [file.name for file in found.downloads]
    assert names == ["field_clear.tif", "field_clear.png", "field_uncertainty.tif", "field_uncertainty.png"]
    with rasterio.open(found.downloads[0]) as clear:
        assert clear.crs.to_epsg() == 32632
        assert clear.tags()["EMRDM_SEED"] == "4"
        assert "steps=3" in clear.tags()["EMRDM_SAMPLER"]
        result = clear.read()
    model = models.load("tiny")
    settings = Settings(seed=4, samples=2, sampler=replace(model.config.sampler, steps=3))
    np.testing.assert_array_equal(result, restore_scene(open_scene(path), model, settings=settings).pixels)
    np.testing.assert_array_equal(read(found.after).pixels, result)  # 8 bits are shown as they are
    np.testing.assert_array_equal(read(found.before).pixels, pixels())
    assert found.highest > 0
    assert [caption for _, caption in found.steps] == ["step 1 of 3", "step 2 of 3", "step 3 of 3"]
    assert all(read(step).pixels.shape == (3, 48, 56) for step, _ in found.steps)
    assert found.masks == ()
    seen = [news for news in heard if news.picture is not None]
    assert len(seen) == 6  # every step of every sample
    assert seen[0].text == "Step 1 of 3, sample 1 of 2 is done"
    shares = [news.share for news in heard if news.share is not None]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_picture_becomes_a_picture(models, tmp_path):
    (found,), _ = done(Order((png(tmp_path / "x.png", pixels()),), "tiny"), models, tmp_path)
    assert [file.name for file in found.downloads] == ["x_clear.png"]
    assert found.uncertainty is None


def test_several_images_are_restored_each_by_itself_by_a_model_of_one(models, tmp_path):
    files = tuple(geotiff(tmp_path / f"{name}.tif", pixels(i)) for i, name in enumerate("ab"))
    found, heard = done(Order(files, "tiny"), models, tmp_path)
    assert [outcome.name for outcome in found] == ["a.tif", "b.tif"]
    assert any(news.text.startswith("Image 2 of 2: Step 1 of 4") for news in heard)
    (alone,), _ = done(Order(files[1:], "tiny"), models, tmp_path / "alone")
    assert alone.downloads[0].read_bytes() == found[1].downloads[0].read_bytes()


def test_several_images_are_one_series_for_a_model_of_series_and_its_eyes_are_shown(models, tmp_path):
    days = ("2024-05-11", "2024-05-01")
    files = tuple(geotiff(tmp_path / f"{day}.tif", pixels(i)) for i, day in enumerate(days))
    (found,), _ = done(Order(files, "series"), models, tmp_path)
    assert found.name == "2024-05-11.tif"  # the newest
    captions = [caption for _, caption in found.masks]
    assert [caption.partition(":")[0] for caption in captions] == ["2024-05-01", "2024-05-11"]
    shares = [int(caption.split()[-2]) for caption in captions]
    assert 99 <= sum(shares) <= 101
    (plain,), _ = done(Order(files, "series", masks=False), models, tmp_path / "plain")
    assert plain.masks == ()


def test_looking_says_what_was_dropped(models, tmp_path):
    one = geotiff(tmp_path / "a.tif", pixels())
    two = geotiff(tmp_path / "b.tif", pixels(1))
    picture, words = look(Order((one,), "tiny"), models, tmp_path)
    assert words == "One image: 56 x 48 pixels, 3 bands, WGS 84 / UTM zone 32N."
    np.testing.assert_array_equal(read(picture).pixels, pixels())
    assert look(Order((one, two), "tiny"), models, tmp_path)[1].startswith("2 images; the last: 56 x 48")
    assert look(Order((one, two), "series"), models, tmp_path)[1].startswith("A series of 2 images: 56 x 48")


def test_what_is_wrong_with_a_file_is_said_with_its_name_alone_before_a_model_is_loaded(models, tmp_path, monkeypatch):
    monkeypatch.setattr(EMRDM, "load", lambda _: pytest.fail("loaded"))
    text = tmp_path / "text.tif"
    text.write_text("I am no image")
    dark = geotiff(tmp_path / "dark.tif", pixels().astype(np.uint16) * 50)
    four = geotiff(tmp_path / "four.tif", pixels(bands=4).astype(np.uint16), names=("",) * 4)
    other = geotiff(tmp_path / "other.tif", pixels(height=20))
    for order, expected in (
        (Order((text,), "series"), "text.tif is not a whole GeoTIFF: it is not a TIFF file"),
        (Order((dark,), "series"), "say what they mean under “Range of values”"),
        (Order((four,), "series"), "say which ones they are under “Band names”"),
        (Order((dark, other), "series"), "other.tif does not fit dark.tif"),
        (Order((dark,), "series", radar=(dark,)), "dark.tif is given as image and as radar image: expected"),
        (Order((tmp_path / "gone.tif",), "series"), "gone.tif is no longer there: drop it again"),
        (Order((dark,), "series", range="from 1"), "range of values 'from 1': expected LOW:HIGH"),
        (Order((four, other), "series", dates="yesterday, today"), "expected a day such as 2024-05-01"),
        (Order((dark,), "none"), "model 'none' is not offered"),
    ):
        for act in (look, lambda order, models, folder: done(order, models, folder)):
            with pytest.raises(InputError) as caught:
                act(order, models, tmp_path)
            assert expected in str(caught.value)
            assert str(tmp_path) not in str(caught.value)
            assert "--" not in str(caught.value)


def test_help_that_was_offered_helps(models, tmp_path):
    dark = geotiff(tmp_path / "dark.tif", pixels().astype(np.uint16) * 50, names=("",) * 3)
    look(Order((dark,), "tiny", range="0:12750", bands="red, green, blue"), models, tmp_path)
    look(Order((dark,), "tiny", range="Auto"), models, tmp_path)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"files": ()}, "there is no image yet"),
        ({"files": ("x",) * 33}, "33 files: expected 32 at most"),
        ({"steps": 0}, "steps is 0: expected 1 to 100"),
        ({"samples": 99}, "samples is 99: expected 1 to 32"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wishes_have_limits(wrong, words):
    with pytest.raises(InputError, match=words):
        Order(**{"files": ("x",), "model": "tiny", **wrong})


def test_stopping_ends_it_within_a_step_and_leaves_no_result(models, tmp_path):
    path, stopped, heard = geotiff(tmp_path / "a.tif", pixels()), threading.Event(), []

    def tell(news):
        heard.append(news)
        if news.picture is not None:
            stopped.set()

    with pytest.raises(CancelledError):
        restore(Order((path,), "tiny", steps=50), models, tmp_path / "job", tell, stopped)
    assert sum(news.picture is not None for news in heard) == 1
    assert not list((tmp_path / "job").rglob("*_clear.tif"))
