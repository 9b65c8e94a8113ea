"""Sen2_MTC_New."""

from pathlib import Path

import numpy as np
import pytest
from tests.data import trees

from emrdm.data import open_dataset
from emrdm.errors import DataError, InputError
from emrdm.images import to_user_units

TILES = {"train": {"T12_R1": ("T12_R1_2", "T12_R1_10", "T12_R1_1")}, "val": {"T3": ("a",)}, "test": {"T20": ("a", "b")}}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return trees.sen2_mtc_new(tmp_path_factory.mktemp("mtc"), TILES)


def test_splits_are_the_lists_of_tiles(tree):
    names = {split: open_dataset("sen2-mtc-new", tree, split=split).names for split in ("train", "val", "test")}
    assert names == {"train": ["T12_R1_1", "T12_R1_2", "T12_R1_10"], "val": ["T3_a"], "test": ["T20_a", "T20_b"]}
    assert {item.group for item in open_dataset("sen2-mtc-new", tree, split="all").items} == {"T12_R1", "T3", "T20"}


@pytest.mark.parametrize("backwards", [False, True])
def test_the_order_does_not_depend_on_that_of_the_directory(backwards, tree, monkeypatch):
    plain = Path.iterdir
    expected = [item.files for item in open_dataset("sen2-mtc-new", tree, split="all").items]
    monkeypatch.setattr(Path, "iterdir", lambda path: iter(sorted(plain(path), reverse=backwards)))
    assert [item.files for item in open_dataset("sen2-mtc-new", tree, split="all").items] == expected


def test_pixels_as_published_and_not_clipped(tmp_path):
    root = trees.sen2_mtc_new(tmp_path, {"test": {"T1": ("x",)}})
    images = {}
    for i, file in enumerate(("cloudless/x", "cloud/x_0", "cloud/x_1", "cloud/x_2")):
        images[file] = trees.texture((4, 256, 256), i, high=65536, dtype="uint16", block=4)
        trees.save(root / "Sen2_MTC/T1" / f"{file}.tif", images[file])
    dataset = open_dataset("sen2-mtc-new", root)
    sample = dataset[0]
    scaled = {file: (pixels.astype(float) / 10000 - 0.5) / 0.5 for file, pixels in images.items()}
    assert (sample.cloudy.shape, sample.aux.shape, sample.target.shape) == (
        (3, 3, 256, 256),
        (3, 1, 256, 256),
        (3, 256, 256),
    )
    np.testing.assert_allclose(sample.target.numpy(), scaled["cloudless/x"][:3], rtol=0, atol=2e-6)
    for i in range(3):
        np.testing.assert_allclose(sample.cloudy[i].numpy(), scaled[f"cloud/x_{i}"][:3], rtol=0, atol=2e-6)
        np.testing.assert_allclose(sample.aux[i].numpy(), scaled[f"cloud/x_{i}"][3:], rtol=0, atol=2e-6)
    assert sample.cloudy.max() > 10
    assert sample.repaired == {}
    back = to_user_units(sample.target, dataset.bands)
    np.testing.assert_allclose(back.numpy(), images["cloudless/x"][:3], rtol=0, atol=0.01)


def test_a_tile_that_is_listed_and_not_there_is_a_problem(tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    trees.write_list(root / "val.txt", ["T3", "T4"])
    with pytest.raises(DataError, match=r"Sen2_MTC/T4 is on the list of val and has no folders"):
        open_dataset("sen2-mtc-new", root)


@pytest.mark.parametrize("name", ["../Sen2_MTC/T3", "T3/cloud", "/tmp"])
def test_a_tile_is_the_name_of_a_folder_and_no_path(name, tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    (root / "val.txt").unlink()
    trees.write_list(root / "val.txt", [name])
    with pytest.raises(DataError, match=r"val\.txt names .*: expected the name of a folder in Sen2_MTC"):
        open_dataset("sen2-mtc-new", root)


def test_tiles_on_no_list_are_told(tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    for tile in ("T100", "T99"):
        (root / "Sen2_MTC" / tile).mkdir()
    assert open_dataset("sen2-mtc-new", root).notes == ("tiles on no list: T99, T100",)


def test_a_missing_list_is_said(tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    (root / "val.txt").unlink()
    with pytest.raises(InputError, match=r"val\.txt cannot be read as a list of names: No such file"):
        open_dataset("sen2-mtc-new", root)


def test_frames_and_clear_images_that_miss_each_other_are_problems(tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    (root / "Sen2_MTC/T20/cloudless/a.tif").unlink()
    (root / "Sen2_MTC/T20/cloud/b_1.tif").unlink()
    dataset = open_dataset("sen2-mtc-new", root, split="all", on_error="skip")
    assert [line.partition(str(root))[2] for line in dataset.problems] == [
        "/Sen2_MTC/T20/cloudless/b.tif has no cloudy frame b_1.tif",
        *(f"/Sen2_MTC/T20/cloud/a_{i}.tif has no clear image in cloudless" for i in range(3)),
    ]
    assert "T20_a" not in dataset.names
    assert "T20_b" not in dataset.names


def test_files_that_a_mac_leaves_behind_are_ignored(tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    for file in ("cloudless/._a.tif", "cloud/._a_0.tif", "cloudless/.DS_Store"):
        (root / "Sen2_MTC/T20" / file).write_bytes(b"x")
    assert open_dataset("sen2-mtc-new", root).names == ["T20_a", "T20_b"]
