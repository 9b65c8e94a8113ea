"""CUHK-CR1 and CUHK-CR2."""

import shutil

import numpy as np
import pytest
import torch
from tests.data import trees
from tests.data.test_resize import by_loops

from emrdm.data import open_dataset
from emrdm.errors import DataError, InputError
from emrdm.images import to_user_units


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Names whose order differs between digits by value and characters one by one."""
    return trees.cuhk(tmp_path_factory.mktemp("cuhk"), train=("1", "2", "10"), test=("1", "2"))


def renamed(tree, root, name):
    """The tree with other names of near infrared images."""
    trees.linked(tree, root)
    for path in sorted((root / "nir").rglob("*.png")):
        path.rename(path.with_name(f"{name(path.stem)}.png"))
    return root


def test_halved_then_scaled_as_published(tmp_path):
    root = trees.cuhk(tmp_path, train=("1",), test=("7",))
    numbers = {}
    for kind in ("cloud", "label"):
        rgb, nir = (trees.texture((3, 512, 512), seed + len(kind)) for seed in (1, 2))
        rgb[:, :100] = 255 * (np.arange(512) < 256)  # an edge that overshoots
        trees.save(root / f"CUHK-CR1/test/{kind}/7.png", rgb)
        trees.save(root / f"nir/CUHK-CR1/test/{kind}/7.png", nir)  # of three channels, the first is used
        numbers[kind] = by_loops(np.concatenate((rgb, nir[:1])))
    dataset = open_dataset("cuhk-cr1", root)
    sample = dataset[0]
    assert (sample.name, sample.cloudy.shape, sample.target.shape) == ("test_7", (1, 4, 256, 256), (4, 256, 256))
    for kind, image in (("cloud", sample.cloudy[0]), ("label", sample.target)):
        np.testing.assert_allclose(image.numpy(), numbers[kind] / 255 * 2 - 1, rtol=0, atol=1e-6)
        np.testing.assert_allclose(to_user_units(image, dataset.bands).numpy(), numbers[kind], rtol=0, atol=1e-4)
    assert numbers["cloud"].max() > 256  # the recipe does not clip, so this would be seen
    assert sample.repaired == {}


def test_splits_are_the_folders_and_validation_is_a_part_of_training(tree):
    parts = {split: open_dataset("cuhk-cr1", tree, split=split, validation=0.3) for split in ("train", "val", "test")}
    assert parts["test"].names == ["test_1", "test_2"]
    assert parts["train"].names == ["train_2"]
    assert parts["val"].names == ["train_1", "train_10"]
    assert open_dataset("cuhk-cr1", tree, split="all").names == ["train_1", "train_2", "train_10", "test_1", "test_2"]


def test_the_other_part_has_its_own_folders(tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    with pytest.raises(
        InputError, match=r"CUHK-CR2.train.label does not exist: expected ROOT/CUHK-CR2/.* ROOT/nir/CUHK-CR2/"
    ):
        open_dataset("cuhk-cr2", root)


def test_without_near_infrared_it_says_what_is_expected(tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    shutil.rmtree(root / "nir")
    with pytest.raises(InputError, match=r"nir/CUHK-CR1/train/label does not exist: expected .*ROOT/nir"):
        open_dataset("cuhk-cr1", root)


@pytest.mark.parametrize("rule", ["by-name", "by-rank"])
def test_equal_names_are_paired_by_both_rules_without_a_word(rule, tree):
    dataset = open_dataset("cuhk-cr1", tree, split="all", rule=rule)
    assert (dataset.notes, dataset.problems) == ((), ())
    for item in dataset.items:
        assert len({path.stem for path in item.files}) == 1


def test_near_infrared_of_other_names_is_said_and_not_paired_by_name(tree, tmp_path):
    root = renamed(tree, tmp_path / "tree", lambda stem: stem if stem == "1" else f"nir_{stem}")
    dataset = open_dataset("cuhk-cr1", root, split="all", on_error="skip")
    assert dataset.names == ["train_1", "test_1"]
    assert len(dataset.problems) == 3
    assert all("has no near infrared image of the same name" in problem for problem in dataset.problems)
    first = dataset.notes[0]
    assert "train: names of the colour and near infrared images differ (10, 2, nir_10, nir_2)" in first
    assert "only equal names are paired" in first
    with pytest.raises(DataError, match=r"2\.png has no near infrared image of the same name"):
        open_dataset("cuhk-cr1", root)


def test_by_rank_pairs_as_the_published_code_sorts(tree, tmp_path):
    """Sorted by characters, 10 comes before 2, but 0010 after 0002: the rule follows the published pairing."""
    root = renamed(tree, tmp_path / "tree", lambda stem: stem.zfill(4))
    dataset = open_dataset("cuhk-cr1", root, split="all", rule="by-rank")
    pairs = {item.name: (item.cloudy[1].stem, item.aux[0].stem) for item in dataset.items if "train" in item.splits}
    colour, nir = sorted(["1.png", "2.png", "10.png"]), sorted(["0001.png", "0002.png", "0010.png"])
    expected = {f"train_{a[:-4]}": (b[:-4], b[:-4]) for a, b in zip(colour, nir, strict=True)}
    assert pairs == expected
    assert pairs["train_10"] == ("0002", "0002")
    assert all("paired by rank, as published" in note for note in dataset.notes)
    assert len(dataset.notes) == 2


def test_ranks_need_equal_numbers(tree, tmp_path):
    root = renamed(tree, tmp_path / "tree", lambda stem: f"n{stem}")
    (root / "nir/CUHK-CR1/train/label/n1.png").unlink()
    with pytest.raises(InputError, match="train has 3 colour and 2 near infrared images: expected as many"):
        open_dataset("cuhk-cr1", root, rule="by-rank")


def test_only_the_near_infrared_of_the_cloudy_image_is_missing(tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    (root / "nir/CUHK-CR1/train/cloud/2.png").unlink()
    dataset = open_dataset("cuhk-cr1", root, split="all", on_error="skip")
    assert "train_2" not in dataset.names
    assert len(dataset.problems) == 1


def test_sixteen_bits_are_refused(tree, tmp_path):
    root = trees.linked(tree, tmp_path / "tree")
    (root / "CUHK-CR1/test/cloud/1.png").unlink()
    trees.save(root / "CUHK-CR1/test/cloud/1.tif", trees.texture((3, 512, 512), 1, dtype="uint16", block=64))
    with pytest.raises(DataError, match=r"1\.tif has numbers of type uint16: expected 8 bits"):
        open_dataset("cuhk-cr1", root)[0]


def test_near_infrared_is_the_fourth_band_of_both(tree):
    sample = open_dataset("cuhk-cr1", tree)[0]
    assert not torch.equal(sample.cloudy[0, 3], sample.target[3])
    assert sample.aux is None
