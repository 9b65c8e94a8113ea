"""Folders of dated series of a user's own."""

from pathlib import Path

import numpy as np
import pytest
from tests.data import trees

from emrdm.data import CLEAR, NODATA, SHADOW, THICK, THIN, UNKNOWN, Numbers, open_dataset
from emrdm.data.series import _date
from emrdm.errors import DataError, InputError

RANGE = Numbers(low=0, high=10000)
SHAPE = (4, 8, 12)


def mask(kind, *rows):
    """All of one class, these rows of another each."""
    found = np.full(SHAPE[1:], kind, np.uint8)
    for row, other in rows:
        found[row] = other
    return found


def opened(root, **options):
    return open_dataset("series", root, **{"split": "all", "numbers": RANGE} | options)


def pixels(seed):
    return trees.texture(SHAPE, seed, low=1, high=10000, dtype="uint16") / 10000.0 * 2 - 1


@pytest.mark.parametrize(
    ("stem", "date"),
    [
        ("2018-03-07", "2018-03-07"),
        ("s2_ROIs2017_146_ImgNo_5_2018-03-07_patch_0", "2018-03-07"),
        ("S2A_MSIL2A_20180307T101021_N0500", "2018-03-07"),
        ("LC08_L1TP_224078_20200518_RGB", "2020-05-18"),
        ("date_0", ""),
        ("2018-13-07", ""),
        ("2018-02-30", ""),
        ("120180307", ""),
        ("201803071", ""),
    ],
)
def test_dates_are_found_in_names(stem, date):
    assert _date(stem) == date


def test_frames_come_in_the_order_of_their_dates_not_of_their_names(tmp_path):
    trees.series(tmp_path, {"lake": ("b_2020-01-05", "a_2020-03-01", "c_20191231")})
    sample = opened(tmp_path)[0]
    assert sample.dates == ("2019-12-31", "2020-01-05", "2020-03-01")
    for frame, seed in zip(sample.cloudy, (3, 1, 2), strict=True):
        np.testing.assert_allclose(frame.numpy(), pixels(seed), rtol=0, atol=1e-6)
    assert (sample.name, sample.target, sample.classes) == ("lake", None, None)


def test_without_dates_they_come_in_natural_order(tmp_path):
    trees.series(tmp_path, {"lake": ("t10", "t2", "2020-01-01")})
    sample = opened(tmp_path)[0]
    assert sample.dates == ()
    np.testing.assert_allclose(sample.cloudy[0].numpy(), pixels(3), rtol=0, atol=1e-6)
    np.testing.assert_allclose(sample.cloudy[1].numpy(), pixels(2), rtol=0, atol=1e-6)


def test_a_folder_of_images_alone_is_one_place_named_after_it(tmp_path, monkeypatch):
    root = trees.series(tmp_path / "lake", {"": ("2020-01-01", "2020-01-02")})
    assert opened(root).names == ["lake"]
    monkeypatch.chdir(root)
    assert opened(Path()).names == ["lake"]
    (root / "inner").mkdir()
    assert opened(Path("inner/..")).names == ["lake"]


def test_splits_are_folders(tmp_path):
    trees.series(tmp_path, dict.fromkeys(("train/a", "train/b", "val/a", "test/c", "other"), ("t1", "t2")))
    names = {split: opened(tmp_path, split=split).names for split in ("train", "val", "test", "all")}
    assert names == {
        "train": ["train_a", "train_b"],
        "val": ["val_a"],
        "test": ["test_c"],
        "all": ["other", "test_c", "train_a", "train_b", "val_a"],
    }


def test_a_clear_image_beside_the_dates_is_the_target(tmp_path):
    trees.series(tmp_path, {"lake": ("2020-01-01", "2020-01-02", "Clear")})
    sample = opened(tmp_path)[0]
    assert sample.dates == ("2020-01-01", "2020-01-02")
    np.testing.assert_allclose(sample.target.numpy(), pixels(3), rtol=0, atol=1e-6)
    trees.save(tmp_path / "lake/target.tif", trees.texture(SHAPE, 9, high=10000, dtype="uint16"))
    with pytest.raises(DataError, match=r"lake has Clear\.tif and target\.tif: expected one clear image"):
        opened(tmp_path)


def test_the_clearest_date_becomes_the_target(tmp_path):
    """Without any cloud, and of those the one with the most data."""
    classes = {
        "2020-01-01": mask(CLEAR, (0, THIN)),
        "2020-01-02": mask(CLEAR, (0, NODATA), (1, NODATA)),
        "2020-01-03": mask(CLEAR, (3, NODATA)),
        "2020-01-04": mask(THICK, (0, SHADOW)),
    }
    trees.series(tmp_path, {"lake": tuple(classes)}, classes=classes)
    sample = opened(tmp_path)[0]
    assert sample.dates == ("2020-01-01", "2020-01-02", "2020-01-04")
    np.testing.assert_allclose(sample.target.numpy(), pixels(3), rtol=0, atol=1e-6)
    expected = np.stack([classes[date] for date in sample.dates])
    assert sample.classes.tolist() == expected.tolist()
    assert sample.valid.tolist() == (classes["2020-01-03"] != NODATA).tolist()


def test_without_a_clear_date_there_is_no_target(tmp_path):
    classes = {"2020-01-01": mask(CLEAR, (0, THIN)), "2020-01-02": mask(NODATA)}
    trees.series(tmp_path, {"lake": tuple(classes)}, classes=classes)
    sample = opened(tmp_path)[0]
    assert (sample.target, sample.valid) == (None, None)
    assert len(sample.cloudy) == 2


def test_a_single_date_that_is_clear_is_no_sample(tmp_path):
    trees.series(tmp_path, {"lake": ("2020-01-01",)}, classes={"2020-01-01": mask(CLEAR)})
    assert "lake has one date, which is clear" in opened(tmp_path).fetch(0).reason


def test_pixels_without_data_are_marked_and_the_target_is_not_known_there(tmp_path):
    classes = {"2020-01-01": mask(CLEAR), "2020-01-02": mask(THICK)}
    trees.series(tmp_path, {"lake": tuple(classes)}, classes=classes)
    for date, row in (("2020-01-01", 2), ("2020-01-02", 5)):
        image = trees.texture(SHAPE, 1, low=1, high=10000, dtype="uint16")
        image[:, row] = 0
        trees.save(tmp_path / f"lake/{date}.tif", image, nodata=0)
    sample = opened(tmp_path)[0]
    known = mask(0, (2, 1)) == 0
    known[5] = False  # seen by no cloudy frame
    assert sample.valid.tolist() == known.tolist()
    assert sample.classes[0].tolist() == mask(THICK, (5, NODATA)).tolist()


def test_places_that_cannot_be_scored_are_told(tmp_path):
    trees.series(tmp_path, {"lake": ("t1", "t2"), "hill": ("t1", "clear")})
    assert opened(tmp_path).notes == (
        "the folder has no split: all places are one set",
        "no clear image and no masks to find one by: lake can be shown, not scored",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda place: (place / "2020-01-02_mask.tif").unlink(), r"2020-01-02\.tif has no mask 2020-01-02_mask"),
        (lambda place: (place / "2020-01-02.tif").unlink(), r"2020-01-02_mask\.tif has no image of that name"),
        (
            lambda place: trees.series(place, {"": ("x20200102",)}, classes={"x20200102": mask(1)}),
            "lake has two images of one date",
        ),
    ],
)
def test_dates_that_miss_something_are_problems(change, message, tmp_path):
    classes = {"2020-01-01": mask(CLEAR), "2020-01-02": mask(THICK), "2020-01-03": mask(THIN)}
    trees.series(tmp_path, {"lake": tuple(classes), "hill": tuple(classes)}, classes=classes)
    change(tmp_path / "lake")
    with pytest.raises(DataError, match=message):
        opened(tmp_path)
    assert "hill" in opened(tmp_path, on_error="skip").names


def test_values_that_are_no_class_are_refused(tmp_path):
    classes = {"2020-01-01": mask(CLEAR), "2020-01-02": mask(THICK, (1, 9))}
    trees.series(tmp_path, {"lake": tuple(classes)}, classes=classes)
    assert "2020-01-02_mask.tif has the value 9: expected 0 clear" in opened(tmp_path).fetch(0).reason


def test_a_date_of_another_type_or_size_is_refused(tmp_path):
    trees.series(tmp_path, {"lake": ("t1", "t2", "t3")})
    dataset = opened(tmp_path)
    trees.save(tmp_path / "lake/t2.tif", trees.texture(SHAPE, 1))
    assert "t2.tif has numbers of type uint8: expected uint16" in dataset.fetch(0).reason
    trees.save(tmp_path / "lake/t2.tif", trees.texture((4, 8, 8), 1, dtype="uint16"))
    assert "t2.tif is 8 x 8 pixels: expected 12 x 8" in dataset.fetch(0).reason


def test_a_broken_first_file_does_not_hide_the_others(tmp_path):
    trees.series(tmp_path, {"a": ("t1", "t2"), "b": ("t1", "t2")})
    (tmp_path / "a/t1.tif").write_bytes(b"II*\0")
    dataset = opened(tmp_path)
    assert str(tmp_path / "a/t1.tif") in dataset.fetch(0).reason
    assert dataset[1].cloudy.shape == (2, *SHAPE)


def test_a_folder_without_images_is_said(tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/readme.txt").touch()
    with pytest.raises(InputError, match=r"has no images: expected ROOT/PLACE/NAME\.tif"):
        opened(tmp_path)


def test_a_place_with_a_clear_image_alone_is_a_problem(tmp_path):
    trees.series(tmp_path, {"hill": ("clear",), "lake": ("t1", "clear")})
    dataset = opened(tmp_path, on_error="skip")
    assert dataset.problems == (f"{tmp_path / 'hill'} has no cloudy images",)
    assert dataset.names == ["lake"]


def test_hidden_files_are_left_alone(tmp_path):
    classes = {"t1": mask(CLEAR), "t2": mask(THICK)}
    trees.series(tmp_path, {"lake": ("t1", "t2")}, classes=classes)
    for name in ("._t1.tif", "._t1_mask.tif"):
        (tmp_path / "lake" / name).write_bytes(b"x")
    assert opened(tmp_path).problems == ()


def test_a_picture_beside_the_places_is_left_out_and_said(tmp_path):
    from PIL import Image

    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        for name in ("2020-01-01", "2020-02-01", "clear"):
            Image.fromarray(np.full((8, 8, 3), 90, np.uint8)).save(tmp_path / place / f"{name}.png")
    Image.fromarray(np.full((8, 8, 3), 90, np.uint8)).save(tmp_path / "sheet.png")
    dataset = open_dataset("series", tmp_path, split="all")
    assert dataset.names == ["one", "two"]
    assert any("sheet.png beside the folders of places: left out" in note for note in dataset.notes)


def test_without_masks_it_is_known_which_pixels_have_data(tmp_path):
    trees.series(tmp_path, {"lake": ("2020-01-01", "2020-01-02", "clear")})
    image = trees.texture(SHAPE, 1, low=1, high=10000, dtype="uint16")
    image[:, 2] = 0
    trees.save(tmp_path / "lake/2020-01-02.tif", image, nodata=0)
    sample = opened(tmp_path)[0]
    assert (sample.classes[0] == UNKNOWN).all()
    assert sample.classes[1].tolist() == mask(UNKNOWN, (2, NODATA)).tolist()
    assert sample.valid is None  # the other frame has seen it


def test_pixels_that_the_chosen_frames_have_not_seen_are_not_known(tmp_path):
    classes = {"2020-01-01": mask(THICK, (5, NODATA)), "2020-01-02": mask(THICK), "2020-01-03": mask(CLEAR)}
    trees.series(tmp_path, {"lake": tuple(classes)}, classes=classes)
    assert opened(tmp_path)[0].valid is None
    assert (~opened(tmp_path, frames=1)[0].valid).nonzero()[:, 0].unique().tolist() == [5]
