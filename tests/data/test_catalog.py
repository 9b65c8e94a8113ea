"""All data sets by name, and that their bands are those of the models made for them."""

import pytest
from tests.data import trees

import emrdm
from emrdm.data import CATALOG, Numbers, find_layout, open_dataset
from emrdm.errors import InputError
from emrdm.metrics import PROTOCOLS


@pytest.mark.parametrize("name", [name for name in CATALOG if name in emrdm.preset_names()])
def test_bands_are_those_of_the_preset_of_the_same_name(name):
    layout, model = CATALOG[name], emrdm.load_preset(name).model
    assert (layout.bands, layout.aux, layout.frames) == (model.bands, model.aux, model.frames)


def test_the_data_sets_of_the_paper_all_have_a_preset():
    assert {"cuhk-cr1", "cuhk-cr2", "sen12ms-cr", "sen2-mtc-new"} <= set(CATALOG) & set(emrdm.preset_names())


def test_counts_are_those_of_the_paper():
    counts = {name: dict(layout.expected) for name, layout in CATALOG.items() if layout.expected}
    assert counts == {
        "cuhk-cr1": {"train": 534, "test": 134},
        "cuhk-cr2": {"train": 448, "test": 111},
        "sen12ms-cr": {"train": 114050, "val": 7176, "test": 7899},
        "sen2-mtc-new": {"train": 2380, "val": 350, "test": 687},
        "rice1": {"all": 500},
        "rice2": {"all": 736},
    }


def test_every_name_is_its_own_and_every_protocol_exists():
    for name, layout in CATALOG.items():
        assert layout.name == name
        assert set(layout.protocols) <= set(PROTOCOLS)


def test_every_data_set_has_a_made_up_folder_in_the_tests():
    assert {case.dataset for case in trees.CASES.values()} == set(CATALOG)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"unknown data set 'rice'; did you mean 'rice[12]'"):
        find_layout("rice")


def test_a_data_set_that_knows_its_numbers_takes_no_others():
    with pytest.raises(InputError, match="rice1 takes no --bands or --range"):
        find_layout("rice1", numbers=Numbers(low=0, high=1))


@pytest.mark.parametrize("root", [3, None, "a\0b"])
def test_a_root_that_is_no_path_is_refused(root):
    with pytest.raises(InputError, match="ROOT"):
        open_dataset("rice1", root)


@pytest.mark.parametrize("name", CATALOG)
def test_a_folder_that_is_not_there_is_said_with_what_was_expected(name, tmp_path):
    with pytest.raises(InputError, match=r"does not exist: expected .*ROOT/"):
        open_dataset(name, tmp_path / "no such folder")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"(is not a folder|does not exist): expected .*ROOT/"):
        open_dataset(name, tmp_path / "file")
