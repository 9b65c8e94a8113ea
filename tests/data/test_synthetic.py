"""Drawn clouds over clear images of a user's own."""

import numpy as np
import pytest
import torch
from tests.data import trees
from tests.data.samples import assert_same

from emrdm.data import CLEAR, NODATA, CloudStyle, Draw, Numbers, draw_series, find_layout, open_dataset
from emrdm.data.dataset import Dataset
from emrdm.data.layout import share
from emrdm.errors import DataError
from emrdm.noise import fold

RANGE = Numbers(low=0, high=10000)


def opened(root, **options):
    return open_dataset("synthetic", root, **{"split": "all", "numbers": RANGE} | options)


@pytest.fixture
def scene(tmp_path):
    """Three clear images; the first is mostly dark and nowhere black."""
    return trees.pairs(tmp_path, ("a", "b", "c"), folders=("clear", "clear"), shape=(3, 32, 40), high=3000)


def test_the_target_is_the_file_and_the_frames_are_drawn_over_it(scene):
    dataset = opened(scene, frames=3)
    sample = dataset[1]
    numbers = trees.texture((3, 32, 40), 1001, high=3000, dtype="uint16")
    np.testing.assert_allclose(sample.target.numpy(), numbers / 10000.0 * 2 - 1, rtol=0, atol=1e-6)
    names = [band.name for band in dataset.bands]
    clear = torch.from_numpy(numbers.astype(np.float32)) / 10000
    drawn = draw_series(clear, fold(0, int(share("b") * 2**52)), frames=3, bands=names, style=CloudStyle())
    for frame, classes, draw in zip(sample.cloudy, sample.classes, drawn, strict=True):
        expected = (draw.cloudy * 10000).round() / 10000 * 2 - 1  # as whole as the file's numbers
        torch.testing.assert_close(frame, expected, rtol=0, atol=1e-6)
        assert torch.equal(classes, draw.classes)
    assert sample.cloudy.mean() > sample.target.mean() + 0.02


def test_an_index_always_gives_the_same_clouds_and_a_draw_others(scene):
    dataset = opened(scene)
    assert_same(dataset[0], opened(scene)[0])
    assert_same(dataset[Draw(0, 5)], opened(scene)[Draw(0, 5)])
    drawn = {dataset[Draw(0, key)].cloudy.numpy().tobytes() for key in range(5)} | {dataset[0].cloudy.numpy().tobytes()}
    assert len(drawn) == 6
    assert torch.equal(opened(scene, augmentation="none")[Draw(0, 5)].target, dataset[0].target)


def test_clouds_depend_on_the_name_and_not_on_the_place_in_the_list(scene):
    before = opened(scene)[1]
    (scene / "clear/a.tif").unlink()
    assert_same(opened(scene)[0], before)


def test_as_many_frames_as_asked_for_the_first_being_the_same(scene):
    one, four = opened(scene, frames=2)[0], opened(scene, frames=4)[0]
    assert (len(one.cloudy), len(four.cloudy)) == (2, 4)
    assert torch.equal(one.cloudy[0], four.cloudy[0])


def test_style_and_seed_can_be_chosen(scene):
    layout = find_layout("synthetic", numbers=RANGE, style=CloudStyle(coverage=(0.9, 0.9)), seed=4)
    heavy = Dataset(layout, scene)[0]
    assert (heavy.classes != CLEAR).float().mean() > 0.85
    assert not torch.equal(heavy.cloudy, opened(scene)[0].cloudy)


def test_images_may_lie_in_the_folder_itself(tmp_path):
    trees.pairs(tmp_path, ("1", "2"), folders=("", ""))
    assert opened(tmp_path).names == ["1", "2"]


def test_split_by_lists(scene):
    for split, name in (("train", "a"), ("val", "b"), ("test", "c")):
        trees.write_list(scene / f"{split}.txt", [name])
    assert [opened(scene, split=split).names for split in ("train", "val", "test")] == [["a"], ["b"], ["c"]]
    trees.write_list(scene / "test.txt", ["c", "d"])
    with pytest.raises(DataError, match=r"test\.txt names d, which does not exist"):
        opened(scene)


def test_pixels_without_data_stay_without(tmp_path):
    image = trees.texture((3, 16, 16), 1, low=500, high=3000, dtype="uint16")
    image[:, :4] = 0
    trees.save(tmp_path / "a.tif", image, nodata=0)
    sample = opened(tmp_path, frames=2)[0]
    assert (sample.cloudy[:, :, :4] == -1).all()
    assert (sample.classes[:, :4] == NODATA).all()
    assert sample.valid.tolist() == (np.arange(16)[:, None].repeat(16, 1) >= 4).tolist()


@pytest.mark.parametrize(("dtype", "low", "high"), [("uint8", 0, 10000), ("uint16", -3000, 9000), ("uint8", -500, 255)])
def test_a_range_beyond_what_the_numbers_hold_saturates_and_does_not_wrap(dtype, low, high, tmp_path):
    image = trees.texture((3, 32, 32), 1, high=200, dtype=dtype, block=8)
    trees.save(tmp_path / "a.tif", image)
    style = CloudStyle(coverage=(1, 1))
    dataset = Dataset(find_layout("synthetic", numbers=Numbers(low=low, high=high), style=style), tmp_path)
    item = dataset.items[0]
    found = dataset.layout.render(item, dataset.layout.decode(item), 5).cloudy[0]
    clear = (torch.from_numpy(image.astype(np.float32)) - low) / (high - low)
    (draw,) = draw_series(
        clear, fold(0, 5), frames=1, bands=[band.name for band in dataset.bands], style=style, drift=0
    )
    units = draw.cloudy.double().numpy() * (high - low) + low
    assert units.min() < 0 or units.max() > 255  # what would wrap
    np.testing.assert_allclose(found, units.clip(np.iinfo(dtype).min, np.iinfo(dtype).max), rtol=0, atol=0.51)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_numbers_that_are_none_are_drawn_over_and_counted(value, tmp_path):
    image = trees.texture((3, 16, 16), 1, high=1, dtype="float64", block=1)
    image[0, 0, :4] = value
    trees.save(tmp_path / "a.tif", image)
    sample = opened(tmp_path, numbers=Numbers(low=0, high=1))[0]
    assert bool(sample.cloudy.isfinite().all())
    assert sum(sample.repaired.values()) == 4


def test_an_image_too_small_for_clouds_is_a_failure_of_its_own(tmp_path):
    trees.save(tmp_path / "a.tif", np.ones((3, 1, 8), np.uint16))
    trees.save(tmp_path / "b.tif", np.ones((3, 4, 4), np.uint16))
    dataset = opened(tmp_path)
    assert "a.tif is too small for clouds" in dataset.fetch(0).reason
    assert dataset[1].cloudy.shape == (1, 3, 4, 4)
