"""Bands and ranges of folders of a user's own."""

import numpy as np
import pytest
from tests.data import trees

from emrdm.data import Numbers
from emrdm.data.folders import read_frame, together
from emrdm.errors import ConfigError, DataError, InputError


def bands_of(path, **numbers):
    _, bands, levels = Numbers(**numbers).seen([path], "nothing")
    return [(band.name, band.low, band.high, band.clip) for band in bands], levels


def image(tmp_path, count=3, dtype="uint8", suffix=".tif", **options):
    return trees.save(tmp_path / f"x{suffix}", np.ones((count, 4, 4), dtype), **options)


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (1, ("gray",)),
        (2, ("band1", "band2")),
        (3, ("red", "green", "blue")),
        (4, ("red", "green", "blue", "nir")),
        (13, trees.ALL_BANDS),
    ],
)
def test_bands_are_named_by_their_number_where_nobody_names_them(count, names, tmp_path):
    assert bands_of(image(tmp_path, count)) == ([(name, 0, 255, False) for name in names], 255)


def test_names_come_from_the_user_or_else_from_the_file(tmp_path):
    path = image(tmp_path, names=("B8", "B4", "B3"))
    assert [band[0] for band in bands_of(path)[0]] == ["B8", "B4", "B3"]
    assert [band[0] for band in bands_of(path, names=("nir", "red", "green"))[0]] == ["nir", "red", "green"]


def test_names_that_are_not_all_there_or_not_unique_are_not_taken_from_the_file(tmp_path):
    for names in (("B8", "", "B3"), ("B8", "B8", "B3")):
        assert [band[0] for band in bands_of(image(tmp_path, names=names))[0]] == ["red", "green", "blue"]


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c", "d"), ("a", "b", "b")])
def test_names_that_do_not_fit_the_file_are_refused(names, tmp_path):
    with pytest.raises(InputError, match=r"expected 3 names for .*x\.tif, each once"):
        bands_of(image(tmp_path), names=names)


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float32"])
def test_only_eight_bits_have_a_range_of_their_own(dtype, tmp_path):
    path = image(tmp_path, dtype=dtype)
    with pytest.raises(InputError, match=rf"x\.tif has numbers of type {dtype}: .* --range"):
        bands_of(path)
    bands, levels = bands_of(path, low=-2, high=9998)
    assert bands[0] == ("red", -2, 9998, True)
    assert levels == (None if dtype == "float32" else 10000)


def test_half_a_range_and_one_that_is_empty_are_refused(tmp_path):
    with pytest.raises(InputError, match="range is 5 to None: expected both ends or neither"):
        Numbers(low=5)
    with pytest.raises(ConfigError, match="expected low < high"):
        bands_of(image(tmp_path), low=5, high=5)


def test_the_first_file_that_can_be_read_decides(tmp_path):
    good = trees.save(tmp_path / "b.tif", np.ones((4, 4, 4), "uint16"))
    broken, missing = tmp_path / "a.tif", tmp_path / "c.tif"
    broken.write_bytes(b"")
    numbers, bands, _ = Numbers(low=0, high=9).seen([broken, missing, good], "nothing")
    assert (len(bands), numbers.dtype) == (4, "uint16")
    with pytest.raises(DataError, match=r"a\.tif is empty"):
        Numbers().seen([broken, missing], "nothing")
    with pytest.raises(InputError, match="nothing at all"):
        Numbers().seen([], "nothing at all")


@pytest.mark.parametrize("names", [("B3", "B2", "B4"), ("B4", "B3", "B8")])
def test_a_file_whose_own_names_contradict_the_others_is_refused(names, tmp_path):
    _, bands, _ = Numbers(names=("B4", "B3", "B2")).seen([image(tmp_path)], "")
    with pytest.raises(DataError, match=rf"x\.tif names its bands {', '.join(names)}: expected B4, B3, B2"):
        read_frame(image(tmp_path, names=names), bands, None, "")


@pytest.mark.parametrize("names", [("B4", "B3", "B2"), (), ("a", "b", "c")])
def test_a_file_that_agrees_or_says_nothing_of_use_is_read(names, tmp_path):
    _, bands, _ = Numbers(names=("B4", "B3", "B2")).seen([image(tmp_path)], "")
    assert read_frame(image(tmp_path, names=names), bands, (4, 4), "uint8").pixels.shape == (3, 4, 4)


def test_false_colours_saved_as_a_picture_have_the_names_the_user_says(tmp_path):
    path = image(tmp_path, suffix=".png")
    numbers, bands, _ = Numbers(names=("nir", "red", "green")).seen([path], "")
    assert [band.name for band in bands] == ["nir", "red", "green"]
    assert read_frame(path, bands, None, numbers.dtype).pixels.shape == (3, 4, 4)


def test_pixels_are_valid_where_all_masks_say_so():
    a, b = np.array([True, True, False]), np.array([True, False, True])
    assert together(None, None) is None
    assert together(a, None).tolist() == a.tolist()
    assert together(a, b).tolist() == [True, False, False]
