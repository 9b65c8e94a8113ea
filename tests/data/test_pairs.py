"""Folders of pairs of a user's own."""

import numpy as np
import pytest
import torch
from tests.data import trees

from emrdm.data import CLEAR, NODATA, THICK, Numbers, open_dataset
from emrdm.errors import DataError, InputError

RANGE = Numbers(low=0, high=10000)
FORMATS = {
    "16-bit GeoTIFF": {"suffix": ".tif", "dtype": "uint16"},
    "signed GeoTIFF": {"suffix": ".tif", "dtype": "int16"},
    "GeoTIFF of real numbers": {"suffix": ".tif", "dtype": "float32"},
    "GeoTIFF of double precision": {"suffix": ".tif", "dtype": "float64"},
    "8-bit GeoTIFF": {"suffix": ".tif", "dtype": "uint8", "high": 256},
    "PNG": {"suffix": ".png", "dtype": "uint8", "high": 256, "shape": trees.RGB},
    "gray PNG": {"suffix": ".png", "dtype": "uint8", "high": 256, "shape": (1, 8, 12)},
    "16-bit gray PNG": {"suffix": ".png", "dtype": "uint16", "shape": (1, 8, 12)},
    "WebP": {"suffix": ".webp", "dtype": "uint8", "high": 256, "shape": trees.RGB},
}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_read_as_it_was_written(kind, tmp_path):
    form = {"shape": (4, 8, 12), "high": 10000} | FORMATS[kind]
    root = trees.pairs(tmp_path, ("a",), **form)
    eight_bit = form["dtype"] == "uint8"
    sample = open_dataset("pairs", root, split="all", numbers=None if eight_bit else RANGE)[0]
    for image, seed in ((sample.cloudy[0], 0), (sample.target, 1000)):
        numbers = trees.texture(form["shape"], seed, high=form["high"], dtype=form["dtype"])
        expected = numbers.astype(float) / (255 if eight_bit else 10000) * 2 - 1
        np.testing.assert_allclose(image.numpy(), expected, rtol=0, atol=1e-6)


def test_a_jpeg_is_read_about_as_it_was_written(tmp_path):
    root = trees.pairs(tmp_path, ("a",), suffix=".jpg", dtype="uint8", high=256, shape=(3, 16, 16))
    numbers = np.broadcast_to(np.arange(16, dtype=np.uint8) * 10 + 40, (3, 16, 16)).copy()
    trees.save(root / "clear/a.jpg", numbers, quality=95)
    sample = open_dataset("pairs", root, split="all")[0]
    np.testing.assert_allclose(sample.target.numpy(), numbers / 255.0 * 2 - 1, atol=0.02)


def test_cloudy_and_clear_may_be_of_different_formats(tmp_path):
    root = trees.pairs(tmp_path, ("a",), suffix=".png", dtype="uint8", high=256, shape=trees.RGB)
    (root / "clear/a.png").unlink()
    trees.save(root / "clear/a.webp", trees.texture(trees.RGB, 5))
    assert open_dataset("pairs", root, split="all")[0].target.shape == trees.RGB


@pytest.mark.parametrize(
    "folders", [("cloudy", "clear"), ("cloud", "label"), ("input", "target"), ("cloudy_image", "ground_truth")]
)
def test_folders_of_several_names_are_known(folders, tmp_path):
    assert len(open_dataset("pairs", trees.pairs(tmp_path, folders=folders), split="all", numbers=RANGE)) == 3


def test_bands_and_range_are_those_the_user_says(tmp_path):
    numbers = Numbers(("B8", "B4", "B3", "B2"), -100, 900)
    dataset = open_dataset("pairs", trees.pairs(tmp_path, high=900), split="all", numbers=numbers)
    assert [(band.name, band.low, band.high) for band in dataset.bands] == [
        (name, -100, 900) for name in ("B8", "B4", "B3", "B2")
    ]
    assert dataset.data.levels == 1000
    assert dataset.data.rgb == (1, 2, 3)


def test_values_outside_the_range_are_clipped_and_counted(tmp_path):
    dataset = open_dataset("pairs", trees.pairs(tmp_path), split="all", numbers=Numbers(low=1000, high=5000))
    numbers = np.stack([trees.texture((4, 8, 12), seed, high=10000, dtype="uint16") for seed in (0, 1000)])
    assert dataset[0].repaired == {"clipped": int(((numbers < 1000) | (numbers > 5000)).sum())}
    assert (dataset[0].cloudy.min(), dataset[0].cloudy.max()) == (-1, 1)


# ---------------------------------------------------------------- splits


def test_split_by_lists(tmp_path):
    root = trees.pairs(tmp_path, list("abcdef"))
    for split, names in (("train", "ab"), ("val", "c"), ("test", "de")):
        trees.write_list(root / f"{split}.txt", [f"{name}.tif" for name in names])
    found = {
        split: open_dataset("pairs", root, split=split, numbers=RANGE).names
        for split in ("train", "val", "test", "all")
    }
    assert found == {"train": ["a", "b"], "val": ["c"], "test": ["d", "e"], "all": list("abcdef")}
    trees.write_list(root / "val.txt", ["c", "missing"])
    with pytest.raises(DataError, match=r"val\.txt names missing, which does not exist"):
        open_dataset("pairs", root, numbers=RANGE)


def test_split_by_folders(tmp_path):
    trees.pairs(tmp_path / "train", ("1", "2"))
    trees.pairs(tmp_path / "test", ("1",), folders=("input", "label"))
    assert open_dataset("pairs", tmp_path, split="test", numbers=RANGE).names == ["test_1"]
    dataset = open_dataset("pairs", tmp_path, split="train", numbers=RANGE, validation=0)
    assert dataset.names == ["train_1", "train_2"]
    assert dataset.notes == ()


def test_without_a_split_training_and_validation_are_carved_and_test_is_empty(tmp_path):
    root = trees.pairs(tmp_path, [str(n) for n in range(12)], shape=(1, 2, 2))
    assert open_dataset("pairs", root, split="val", numbers=RANGE).names == ["9"]
    assert len(open_dataset("pairs", root, split="train", numbers=RANGE)) == 11
    with pytest.raises(InputError, match="the folder has no split"):
        open_dataset("pairs", root, split="test", numbers=RANGE)


# ---------------------------------------------------------------- masks and pixels without data


def test_masks_are_cloud_where_they_are_not_zero(tmp_path):
    root = trees.pairs(tmp_path, ("a",), masks=True)
    mask = np.zeros((3, 8, 12), np.uint8)
    mask[1, 2:4] = 7
    trees.save(root / "mask/a.png", mask)
    classes = open_dataset("pairs", root, split="all", numbers=RANGE)[0].classes
    assert torch.equal(classes[0], torch.from_numpy(np.where(mask.any(0), THICK, CLEAR).astype(np.uint8)))


def test_pixels_without_data_are_not_scored_and_not_clear(tmp_path):
    root = trees.pairs(tmp_path, ("a",), masks=True)
    cloudy, clear = np.full((2, 4, 8, 12), 500, np.uint16)
    cloudy[:, 0] = 0  # no data in all bands
    cloudy[0, 1] = 0  # a dark pixel: other bands have data
    clear[:, :, 0] = 0
    trees.save(root / "cloudy/a.tif", cloudy, nodata=0)
    trees.save(root / "clear/a.tif", clear, nodata=0)
    sample = open_dataset("pairs", root, split="all", numbers=RANGE)[0]
    known = np.ones((8, 12), bool)
    known[0] = False
    assert (sample.classes[0].numpy() == NODATA).tolist() == (~known).tolist()
    known[:, 0] = False
    assert sample.valid.tolist() == known.tolist()


def test_transparent_pixels_have_no_data(tmp_path):
    root = trees.pairs(tmp_path, ("a",), suffix=".png", dtype="uint8", high=256, shape=trees.RGB)
    rgba = trees.texture((4, 8, 12), 3)
    rgba[3] = 255
    rgba[3, 2] = 0
    trees.save(root / "clear/a.png", rgba)
    sample = open_dataset("pairs", root, split="all")[0]
    assert sample.target.shape == trees.RGB
    assert (~sample.valid).nonzero().tolist() == [[2, column] for column in range(12)]


# ---------------------------------------------------------------- mistakes


def test_numbers_of_more_than_eight_bits_need_a_range(tmp_path):
    with pytest.raises(InputError, match=r"cloudy/1\.tif has numbers of type uint16: say .* --range"):
        open_dataset("pairs", trees.pairs(tmp_path), split="all")


def test_a_broken_first_file_does_not_hide_the_others(tmp_path):
    root = trees.pairs(tmp_path)
    (root / "cloudy/1.tif").write_bytes(b"")
    dataset = open_dataset("pairs", root, split="all", numbers=RANGE)
    assert dataset.fetch(0).reason == f"{root / 'cloudy/1.tif'} is empty: expected an image"
    assert dataset[1].cloudy.shape == (1, 4, 8, 12)


def test_pairs_of_another_type_than_the_folder_are_refused(tmp_path):
    root = trees.pairs(tmp_path, ("1", "2"))
    trees.pairs(tmp_path, ("3",), dtype="uint8", high=256)
    dataset = open_dataset("pairs", root, split="all", numbers=RANGE)
    assert dataset.fetch(2).reason == f"{root / 'cloudy/3.tif'} has numbers of type uint8: expected uint16"


def test_pairs_of_different_sizes_are_fine_but_not_within_a_pair(tmp_path):
    root = trees.pairs(tmp_path, ("1", "2"))
    trees.pairs(tmp_path, ("3",), shape=(4, 6, 6))
    dataset = open_dataset("pairs", root, split="all", numbers=RANGE)
    assert [dataset[i].cloudy.shape[-2:] for i in range(3)] == [(8, 12), (8, 12), (6, 6)]
    trees.save(root / "clear/3.tif", trees.texture((4, 6, 7), 1, dtype="uint16"))
    assert dataset.fetch(2).reason == f"{root / 'clear/3.tif'} is 7 x 6 pixels: expected 6 x 6"


@pytest.mark.parametrize(("present", "message"), [("clear", "cloudy or cloud or input"), ("cloudy", "clear or label")])
def test_a_missing_folder_is_said(present, message, tmp_path):
    trees.pairs(tmp_path, ("1",), folders=(present, present))
    with pytest.raises(InputError, match=f"has no folder {message}.*: expected ROOT/cloudy/NAME.tif"):
        open_dataset("pairs", tmp_path, numbers=RANGE)


def test_an_empty_folder_is_said(tmp_path):
    for name in ("cloudy", "clear"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="has no images"):
        open_dataset("pairs", tmp_path, numbers=RANGE)
