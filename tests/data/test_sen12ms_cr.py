"""SEN12MS-CR: splits and their published leak, pre-processing, folders."""

import re

import numpy as np
import pytest
import torch
from tests.data import trees

from emrdm.data import open_dataset
from emrdm.data.sen12ms_cr import leaking_regions, region_splits, split_lists
from emrdm.data.verify import verify
from emrdm.errors import DataError, InputError
from emrdm.images import to_user_units

REGIONS = sorted(set().union(*split_lists().values()))
SPRING, SUMMER, FALL, WINTER = (
    f"ROIs{season}_s1/s1_" for season in ("1158_spring", "1868_summer", "1970_fall", "2017_winter")
)
TEST = (
    {SPRING + n for n in ("106", "123", "140", "31", "44")}
    | {SUMMER + n for n in ("119", "73")}
    | {FALL + "139", WINTER + "108", WINTER + "63"}
)
VAL = (
    {WINTER + n for n in ("22", "107", "130", "84")}
    | {SUMMER + n for n in ("19", "80", "127", "17")}
    | {FALL + "65", SPRING + "17"}
)
TEST_IN_TRAINING = {SPRING + "106", SPRING + "123", SPRING + "140", SUMMER + "119", SUMMER + "73", FALL + "139"}
VAL_IN_TRAINING = {FALL + "65", SPRING + "17", WINTER + "84"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All regions, two patches each, listed only; the root's own name has what the published code stumbles over."""
    root = tmp_path_factory.mktemp("data_s1") / "s1" / "s1_all_s2"
    return trees.sen12ms_cr(root, [(region, patch) for region in REGIONS for patch in (2, 10)], empty=True)


def groups(whole, split, **options):
    return {item.group for item in open_dataset("sen12ms-cr", whole, split=split, **options).items}


def test_the_lists_are_the_published_ones():
    lists = split_lists()
    assert {split: len(names) for split, names in lists.items()} == {"train": 155, "val": 10, "test": 10}
    assert (lists["test"], lists["val"]) == (TEST, VAL)
    assert len(REGIONS) == 175
    assert all(re.fullmatch(r"ROIs(1158_spring|1868_summer|1970_fall|2017_winter)_s1/s1_\d+", r) for r in REGIONS)


def test_strict_splits_are_apart_and_cover_all_regions(whole):
    parts = {split: groups(whole, split) for split in ("train", "val", "test")}
    assert {split: len(found) for split, found in parts.items()} == {"train": 155, "val": 10, "test": 10}
    assert parts["train"] | parts["val"] | parts["test"] == set(REGIONS)
    assert not parts["train"] & parts["val"]
    assert not parts["train"] & parts["test"]
    assert not parts["val"] & parts["test"]
    assert (parts["test"], parts["val"]) == (TEST, VAL)


def test_the_rule_of_the_paper_has_six_test_regions_in_training(whole):
    parts = {split: groups(whole, split, rule="paper") for split in ("train", "val", "test")}
    assert parts["train"] & parts["test"] == TEST_IN_TRAINING
    assert parts["train"] & parts["val"] == VAL_IN_TRAINING
    assert (parts["test"], parts["val"]) == (TEST, VAL)
    assert len(parts["train"]) == 155 + 6 + 3
    assert set(leaking_regions(REGIONS)) - split_lists()["train"] == TEST_IN_TRAINING | VAL_IN_TRAINING


def test_the_rule_of_the_paper_is_that_of_the_published_code_for_every_region():
    """The published code asks whether a listed name occurs anywhere in the path of a file."""
    for region in [*REGIONS, SPRING + "1060", FALL + "7", WINTER + "999"]:
        season, number = region.split("_s1/s1_")
        path = f"/data/{season}_s1/s1_{number}/{season}_s1_{number}_p7.tif"
        expected = {split for split, names in split_lists().items() if any(name in path for name in names)}
        assert set(region_splits(region, "paper")) == expected


def test_verifying_tells_the_leak_of_the_paper_and_none_of_the_strict_rule(whole):
    layout = open_dataset("sen12ms-cr", whole, split="all").layout
    leaking = verify(layout, whole, rule="paper", decode=False)
    assert {line.removesuffix(" is in training and in test") for line in leaking.leaks} == TEST_IN_TRAINING
    assert not leaking.good
    assert leaking.counts == {"train": 328, "val": 20, "test": 20, "all": 350}
    assert leaking.expected == {"train": 114050, "val": 7176, "test": 7899}
    note, validation = leaking.notes
    assert "3 of 10 validation regions are also in training" in validation
    assert "6 of 10 test regions are also in training" in note
    assert all(region in note for region in TEST_IN_TRAINING)
    strict = verify(layout, whole, rule="strict", decode=False)
    assert strict.good
    assert strict.counts == {"train": 310, "val": 20, "test": 20, "all": 350}
    assert strict.expected == {"val": 7176, "test": 7899}
    assert strict.notes == []


def test_patches_are_in_natural_order_and_named_by_season_region_and_patch(whole):
    names = open_dataset("sen12ms-cr", whole, split="test").names
    assert names[:4] == [
        "ROIs1158_spring_31_p2",
        "ROIs1158_spring_31_p10",
        "ROIs1158_spring_44_p2",
        "ROIs1158_spring_44_p10",
    ]
    assert len(names) == 20


def test_a_folder_without_validation_regions_has_none_carved_from_training(tmp_path):
    training = sorted(split_lists()["train"])[:40]
    root = trees.sen12ms_cr(tmp_path, [(region, 1) for region in (*training, FALL + "139")], empty=True)
    assert groups(root, "train") == set(training)
    with pytest.raises(InputError, match="no images for split 'val': the folder has test, train"):
        open_dataset("sen12ms-cr", root, split="val")


def test_a_region_on_no_list_is_told_and_belongs_to_no_split(tmp_path):
    root = trees.sen12ms_cr(tmp_path, [(FALL + "9999", 1), (FALL + "139", 1)], empty=True)
    dataset = open_dataset("sen12ms-cr", root, split="all")
    assert dataset.notes == ("1 regions are on no list: ROIs1970_fall 9999",)
    assert dataset.items[1].splits == ()


def test_other_files_and_folders_are_left_alone(tmp_path):
    root = trees.sen12ms_cr(tmp_path, [(FALL + "139", 1)], empty=True)
    for name in ("README.md", "ROIs1970_fall_s1/notes.txt", "ROIs1970_fall_s1/s1_old/x.tif"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
    (root / "ROIs1970_fall_s1/s1_139/._ROIs1970_fall_s1_139_p1.tif").touch()
    assert open_dataset("sen12ms-cr", root, split="all").names == ["ROIs1970_fall_139_p1"]


@pytest.mark.parametrize("kind", ["s1", "s2", "s2_cloudy"])
def test_a_region_without_one_of_its_images_is_missed_whatever_it_is(kind, tmp_path):
    root = trees.sen12ms_cr(tmp_path, [(FALL + "139", 1), (FALL + "6", 1)], empty=True)
    trees.sen12ms_cr_file(root, "ROIs1970_fall", kind, "6", 1).unlink()
    (root / f"ROIs1970_fall_{kind}" / f"{kind}_6").rmdir()
    with pytest.raises(DataError, match=f"_6_p1.tif has no partner in {kind}$"):
        open_dataset("sen12ms-cr", root)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no images: expected ROOT/ROIs1158_spring_s1"):
        open_dataset("sen12ms-cr", tmp_path)


# ---------------------------------------------------------------- pixels


def test_pixels_as_published(tmp_path):
    """Radar clipped to [-25, 0], optical to [0, 10000], both to [0, 1], NaN to 0, and then to [-1, 1]."""
    root = trees.sen12ms_cr(tmp_path / "a_s1/s1/data", [(FALL + "139", 839)], empty=True)
    radar = trees.texture((2, 256, 256), 1, low=-40, high=10, dtype="float32", block=8)
    radar[0, 0, :5] = (np.nan, -np.inf, np.inf, -25, 0)
    cloudy, clear = (trees.texture((13, 256, 256), s, high=20000, dtype="uint16", block=8) for s in (2, 3))
    cloudy[0, 0, :3] = (10000, 10001, 65535)
    for kind, pixels in (("s1", radar), ("s2", clear), ("s2_cloudy", cloudy)):
        trees.save(trees.sen12ms_cr_file(root, "ROIs1970_fall", kind, "139", 839), pixels)
    dataset = open_dataset("sen12ms-cr", root)
    sample = dataset[0]

    optical = {"cloudy": np.clip(cloudy.astype(float), 0, 10000) / 10000, "target": np.minimum(clear, 10000.0) / 10000}
    backscatter = np.nan_to_num((np.clip(radar.astype(float), -25, 0) + 25) / 25, nan=0)
    np.testing.assert_allclose(sample.cloudy[0].numpy(), optical["cloudy"] * 2 - 1, rtol=0, atol=1e-6)
    np.testing.assert_allclose(sample.target.numpy(), optical["target"] * 2 - 1, rtol=0, atol=1e-6)
    np.testing.assert_allclose(sample.aux[0].numpy(), backscatter * 2 - 1, rtol=0, atol=1e-6)
    assert sample.aux[0, 0, 0, :5].tolist() == [-1, -1, 1, -1, 1]

    outside = (cloudy > 10000).sum() + (clear > 10000).sum() + (radar < -25).sum() + (radar > 0).sum()
    assert sample.repaired == {"clipped": int(outside), "nan": 1}
    back = to_user_units(sample.cloudy[0], dataset.bands)
    np.testing.assert_allclose(back.numpy(), np.minimum(cloudy, 10000), rtol=0, atol=2e-3)
    back = to_user_units(sample.aux[0], dataset.aux)
    np.testing.assert_allclose(back.numpy(), np.nan_to_num(np.clip(radar, -25, 0), nan=-25), rtol=0, atol=1e-5)


def test_nan_in_optical_bands_becomes_black_and_is_counted(tmp_path):
    root = trees.sen12ms_cr(tmp_path, [(FALL + "139", 1)])
    optical = trees.texture((13, 256, 256), 1, high=10000, dtype="float32", block=32)
    optical[4, 7] = np.nan
    trees.save(trees.sen12ms_cr_file(root, "ROIs1970_fall", "s2", "139", 1), optical)
    sample = open_dataset("sen12ms-cr", root)[0]
    assert sample.repaired["nan"] == 256
    assert torch.equal(sample.target[4, 7], torch.full((256,), -1.0))


@pytest.mark.parametrize(
    ("kind", "bands", "message"), [("s1", 2, "more than 8 bits"), ("s2", 12, "expected 13"), ("s1", 3, "expected 2")]
)
def test_pictures_of_the_data_are_refused(kind, bands, message, tmp_path):
    root = trees.sen12ms_cr(tmp_path, [(FALL + "139", 1)])
    path = trees.sen12ms_cr_file(root, "ROIs1970_fall", kind, "139", 1)
    trees.save(path, trees.texture((bands, 256, 256), 1, block=32))
    with pytest.raises(DataError, match=message) as caught:
        open_dataset("sen12ms-cr", root)[0]
    assert str(path) in str(caught.value)
