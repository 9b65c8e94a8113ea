"""RICE1 and RICE2."""

import numpy as np
import pytest
import torch
from tests.data import trees

from emrdm.data import CLEAR, SHADOW, THICK, THIN, Numbers, open_dataset
from emrdm.errors import DataError, InputError


@pytest.mark.parametrize("suffix", [".png", ".webp", ".tif"])
def test_pixels_become_minus_one_to_one(suffix, tmp_path):
    root = trees.rice(tmp_path, train=("1",), test=("2",), suffix=suffix)
    sample = open_dataset("rice1", root, split="test")[0]
    for image, seed in ((sample.cloudy[0], 1), (sample.target, 1001)):
        expected = trees.texture(trees.RGB, seed) / 255 * 2 - 1
        np.testing.assert_allclose(image.numpy(), expected, atol=1e-6)
    assert (sample.name, sample.aux, sample.classes, sample.valid, sample.dates) == ("2", None, None, None, ())


def test_lists_decide_and_order_is_natural(tmp_path):
    root = trees.rice(tmp_path, train=("10", "9", "x", "100"), test=("2", "1"))
    assert open_dataset("rice1", root, split="test").names == ["1", "2"]
    assert open_dataset("rice1", root, split="train", validation=0).names == ["9", "10", "100", "x"]


def test_pairs_on_neither_list_are_told_and_belong_to_no_split(tmp_path):
    root = trees.rice(tmp_path, train=("1", "2"), test=("3",))
    trees.write_list(root / "train.txt", ["1"])
    dataset = open_dataset("rice1", root, split="all")
    assert dataset.notes == ("1 pairs are on neither list",)
    assert dataset.names == ["1", "2", "3"]
    assert open_dataset("rice1", root, split="train", validation=0).names == ["1"]


def test_without_lists_all_is_one_set(tmp_path):
    dataset = open_dataset("rice1", trees.rice(tmp_path, lists=False), split="all")
    assert dataset.notes == ("no train.txt and test.txt: all pairs are one set",)
    assert {item.splits for item in dataset.items} == {()}


def test_a_name_on_a_list_that_does_not_exist_is_a_problem(tmp_path):
    root = trees.rice(tmp_path)
    trees.write_list(root / "test.txt", ["3", "99"])
    with pytest.raises(DataError, match=r"test\.txt names 99, which does not exist"):
        open_dataset("rice1", root)


def test_colours_of_a_mask_become_classes(tmp_path):
    root = trees.rice(tmp_path, masks=True, test=("3",))
    colours = {(0, 0, 0): CLEAR, (255, 255, 255): THICK, (0, 0, 255): THIN, (255, 255, 0): SHADOW}
    mask = np.zeros((3, 8, 12), np.uint8)
    expected = np.zeros((8, 12), np.uint8)
    for i, (rgb, kind) in enumerate(colours.items()):
        mask[:, 2 * i : 2 * i + 2] = np.array(rgb)[:, None, None]
        expected[2 * i : 2 * i + 2] = kind
    trees.save_picture(root / "mask/3.png", mask)
    sample = open_dataset("rice2", root)[0]
    assert sample.classes.tolist() == expected[None].tolist()


def test_a_mask_with_a_palette_is_read_by_its_colours(tmp_path):
    from PIL import Image

    root = trees.rice(tmp_path, masks=True)
    plain = open_dataset("rice2", root)[0]
    with Image.open(root / "mask/3.png") as image:
        palette = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    palette.save(root / "mask/3.png")
    assert torch.equal(open_dataset("rice2", root)[0].classes, plain.classes)


@pytest.mark.parametrize("folder", ["cloud", "label"])
def test_sixteen_bits_are_refused(folder, tmp_path):
    root = trees.rice(tmp_path)
    (root / folder / "3.png").unlink()
    path = trees.save(root / folder / "3.tif", trees.texture(trees.RGB, 1, high=60000, dtype="uint16"))
    with pytest.raises(DataError, match="type uint16: expected 8 bits") as caught:
        open_dataset("rice1", root)[0]
    assert str(path) in str(caught.value)


def test_two_images_of_one_name_are_refused(tmp_path):
    root = trees.rice(tmp_path)
    trees.save(root / "cloud/1.webp", trees.texture(trees.RGB, 1))
    with pytest.raises(InputError, match=r"has both 1\.(png|webp) and 1\.(png|webp)"):
        open_dataset("rice1", root)


def test_the_range_is_known(tmp_path):
    with pytest.raises(InputError, match="rice1 takes no --bands or --range"):
        open_dataset("rice1", trees.rice(tmp_path), numbers=Numbers(low=0, high=1))
