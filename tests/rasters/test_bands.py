"""Names of bands, Sentinel-2's offset, and radar's units."""

import numpy as np
import pytest

from emrdm.errors import DataError, InputError
from emrdm.rasters.bands import canonical, is_linear, match, sar_to_db, sentinel2_offset, to_decibels
from emrdm.rasters.memory import ArraySource


@pytest.mark.parametrize(
    ("name", "expected"),
    [("B4", "B4"), ("B04", "B4"), ("b8a", "B8A"), ("B8A", "B8A"), ("Band 4", "B4"), ("band_12", "B12"), (" B11 ", "B11"),
     ("B4, central wavelength 665 nm", "B4"), ("B10 (cirrus)", "B10"), ("Red", "red"), ("NIR", "nir"), ("VV", "VV"),
     ("vh", "VH"), ("VV_dB", "VV"), ("Sigma0_VH_db", "VH"), ("VV_VH", "vv_vh"), ("VV_amplitude", "vv_amplitude"),
     ("SR_B4", "sr_b4"), ("B8B", "b8b"), ("B123", "b123"), ("", ""), ("Blue", "blue"), ("b", "b")],
)  # fmt: skip
def test_one_spelling_for_names(name, expected):
    assert canonical(name) == expected
    assert canonical(expected) == expected


def test_bands_are_found_by_name_in_any_order():
    assert match(("B4", "B3", "B8"), ("B02", "B03", "B04", "B08"), source="x", fill={}) == ((2, 1, 3), "")


def test_colours_stand_for_their_bands_where_there_is_no_better_name():
    assert match(("B4", "nir"), ("red", "B8"), source="x", fill={})[0] == (0, 1)
    assert match(("red",), ("B4", "Red"), source="x", fill={})[0] == (1,)
    assert match(("B4",), ("B4", "Red"), source="x", fill={})[0] == (0,)


def test_a_band_to_be_filled_has_no_place_unless_the_file_has_it():
    assert match(("B4", "B10"), ("B4",), source="x", fill={"b10": 0})[0] == (0, None)
    assert match(("B4", "B10"), ("B4", "B10"), source="x", fill={"B10": 0})[0] == (0, 1)


def test_nameless_bands_are_taken_in_order_and_it_is_said():
    assert match(("B4", "B3"), ("", ""), source="x", fill={}) == (
        (0, 1), "x: its bands have no names and are taken for B4, B3",
    )  # fmt: skip
    assert match(("B4", "B10", "B3"), ("", ""), source="x", fill={"B10": 0})[0] == (0, None, 1)


def sentinel2(name="x.tif", names=("B4", "B3"), **known):
    return ArraySource(np.ones((len(names), 2, 2), np.uint16), names=names, name=name, **known)


RGB = ("red", "green", "blue")


@pytest.mark.parametrize(
    ("names", "colours", "places", "said"),
    [
        (("", "", ""), ("blue", "green", "red"), (2, 1, 0), "red, green, blue are bands 3, 2, 1"),
        (("Band 1", "Band 2", "Band 3", "Band 4"), (*RGB, ""), (0, 1, 2), "red, green, blue are bands 1, 2, 3"),
        (("Band 1", "Band 2", "Band 3"), (), (0, 1, 2), "are taken for red, green, blue"),
        (("Band 4", "Band 3", "Band 2"), (), (0, 1, 2), "red is Band 4, green is Band 3, blue is Band 2"),
        (("R", "G", "B"), (), (0, 1, 2), ""),
        (("B04_10m", "B03_10m", "B02_10m"), ("blue", "green", "red"), (0, 1, 2), "red is B04_10m"),
        (("blue", "green", "red"), RGB, (2, 1, 0), ""),
    ],
)
def test_names_come_first_then_colours_and_numbers_alone_are_no_names(names, colours, places, said):
    found, words = match(RGB, names, source="x", fill={}, colours=colours)
    assert found == places
    assert said in words
    assert bool(said) == bool(words)


def test_colours_of_a_file_with_all_bands_that_are_needed_leave_the_others_in_order():
    assert match((*RGB, "nir"), ("",) * 4, source="x", fill={}, colours=(*RGB, ""))[0] == (0, 1, 2, 3)
    with pytest.raises(InputError, match="has no band nir"):
        match((*RGB, "nir"), ("",) * 4, source="x", fill={}, colours=("blue", "green", "red", ""))


@pytest.mark.parametrize(
    ("source", "offset"),
    [
        (sentinel2(), 0),
        (sentinel2(scales=(1e-4, 1e-4), offsets=(-0.1, -0.1)), -1000),
        (sentinel2(offsets=(-1000, -1000)), -1000),
        (sentinel2(scales=(1e-4, 1e-4)), 0),
        (sentinel2(tags={"PROCESSING_BASELINE": "04.00"}), -1000),
        (sentinel2(tags={"processing_baseline": "05.10"}), -1000),
        (sentinel2(tags={"PROCESSING_BASELINE": "N0511"}), -1000),
        (sentinel2(tags={"PROCESSING_BASELINE": "03.01"}), 0),
        (sentinel2("S2A_MSIL2A_20230101T101411_N0509_R022_T33UVP_20230101T120000.tif"), -1000),
        (sentinel2("S2A_MSIL2A_20200101T101411_N0213_R022_T33UVP_20200101T120000.tif"), 0),
        (sentinel2("S2A_MSIL2A_20230101T101411_N0509_R022_T33UVP_20230101T120000.tif", names=("", "")), -1000),
        (sentinel2("S2_N0509_x.tif", names=("red", "green")), 0),
        (sentinel2(scales=(2.75e-5, 2.75e-5), offsets=(-0.2, -0.2)), 0),  # Landsat's
    ],
)
def test_the_offset_of_newer_products(source, offset):
    found, why = sentinel2_offset(source, "auto")
    assert found == offset
    assert why or offset == 0


def test_the_offset_as_asked():
    assert sentinel2_offset(sentinel2(offsets=(-1000, -1000)), "0") == (0, "as asked")
    assert sentinel2_offset(sentinel2(), "-1000") == (-1000, "as asked")
    with pytest.raises(InputError, match="offset '-100': expected auto, 0 or -1000"):
        sentinel2_offset(sentinel2(), "-100")
    with pytest.raises(DataError, match="has offsets -1000, 0: expected the same for all bands"):
        sentinel2_offset(sentinel2(offsets=(-1000, 0)), "auto")


def radar(low, high):
    return ArraySource(np.random.default_rng(0).uniform(low, high, (2, 300, 200)).astype(np.float32), name="s.tif")


def test_units_of_radar_are_told_by_the_values():
    assert not is_linear(radar(-25, 0))
    assert is_linear(radar(0, 1))
    assert is_linear(radar(-0.01, 1))  # noise that was taken off leaves a little below zero
    assert is_linear(radar(-25, 0), "linear")
    assert not is_linear(radar(0, 1), "db")
    with pytest.raises(DataError, match=r"s\.tif has values around \d+\S*: expected radar backscatter"):
        is_linear(radar(0, 1000))
    with pytest.raises(InputError, match="radar unit 'dB': expected auto, db or linear"):
        is_linear(radar(0, 1), "dB")


def test_decibels():
    np.testing.assert_allclose(to_decibels(np.array([1, 0.1, 0.01, 0, -1, np.nan])), [0, -10, -20, -60, -60, -60])
    linear, decibels = np.array([[0.1, 1.0]]), np.array([[-10.0, 0.0]])
    np.testing.assert_allclose(sar_to_db(linear, "auto"), decibels, atol=1e-5)
    np.testing.assert_allclose(sar_to_db(decibels, "auto"), decibels)
    np.testing.assert_allclose(sar_to_db(linear, "db"), linear)
