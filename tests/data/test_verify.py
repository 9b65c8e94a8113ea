"""Looking at all of a data set: counts, every file, leaks."""

import shutil

import numpy as np
import pytest
from tests.data import trees
from tests.data.trees import CASES, DAMAGES

from emrdm.data import find_layout
from emrdm.data.dataset import pick_rule
from emrdm.data.verify import verify
from emrdm.errors import InputError


def verified(name, root, **options):
    layout = find_layout(CASES[name].dataset, **CASES[name].options)
    rule = options.pop("rule", pick_rule(layout, None))
    return verify(layout, root, rule=rule, **options)


@pytest.mark.parametrize("case", CASES)
def test_a_whole_folder_is_good(case, built):
    found = verified(case, built(case), workers=2)
    assert (found.problems, found.leaks, found.good) == ([], [], True)
    assert sum(found.sizes.values()) == found.counts["all"] >= 3
    assert verified(case, built(case), decode=False).sizes == {}


@pytest.mark.parametrize("case", [case for case in CASES if case != "cuhk-cr2"])
def test_a_damaged_file_is_one_line_that_names_it_and_the_others_are_read(case, built, tmp_path):
    root = trees.linked(built(case), tmp_path / "tree")
    whole = verified(case, root, decode=False)
    file = CASES[case].files[-1]
    DAMAGES["cut to two thirds"](root / file)
    found = verified(case, root)
    (line,) = found.problems
    assert str(root / file) in line
    assert "\n" not in line
    assert not found.good
    assert found.counts == whole.counts
    assert sum(found.sizes.values()) == whole.counts["all"] - 1
    assert verified(case, root, decode=False).good


@pytest.mark.parametrize(("case", "file"), [(case, file) for case in CASES for file in CASES[case].partners])
def test_a_missing_partner_is_found_without_opening_files(case, file, built, tmp_path):
    root = trees.linked(built(case), tmp_path / "tree")
    (root / file).unlink()
    found = verified(case, root, decode=False)
    assert found.problems
    stem = CASES[case].sample.rpartition("_")[2]
    assert all(stem in line.replace(str(root), "") for line in found.problems)


def test_many_damages_are_many_lines_in_the_order_of_the_samples(tmp_path):
    names = [str(n) for n in range(len(DAMAGES))]
    root = trees.pairs(tmp_path, [*names, "99"])
    for name, (damage, change) in zip(names, DAMAGES.items(), strict=True):
        if damage != "other size":
            change(root / "cloudy" / f"{name}.tif")
    found = verify(find_layout("pairs", numbers=CASES["pairs"].numbers), root, rule="")
    expected = [name for name, damage in zip(names, DAMAGES, strict=True) if damage != "other size"]
    assert [line.partition(".tif")[0].rpartition("/")[2] for line in found.problems] == expected
    assert found.sizes == {"12 x 8": 2}


def test_how_far_it_is_can_be_watched(built):
    seen = []
    verified("rice1", built("rice1"), progress=lambda *state: seen.append(state))
    assert seen == [(i, 4) for i in range(5)]


def test_sizes_that_differ_are_told(tmp_path):
    trees.pairs(tmp_path, ("1", "2"))
    trees.pairs(tmp_path, ("3",), shape=(4, 6, 6))
    found = verified("pairs", tmp_path)
    assert found.sizes == {"12 x 8": 2, "6 x 6": 1}
    assert "images are of 2 sizes: 12 x 8, 6 x 6" in found.notes
    assert found.good


def test_counts_have_the_splits_that_training_gets(tmp_path):
    root = trees.rice(tmp_path, [str(n) for n in range(60)], [str(n) for n in range(60, 80)], shape=(3, 2, 2))
    found = verified("rice1", root, decode=False)
    assert found.counts == {"train": 60, "val": 5, "test": 20, "all": 80}
    assert found.carved == 5
    assert found.expected == {"all": 500}


# ---------------------------------------------------------------- leaks


def test_a_name_on_both_lists_is_a_leak(tmp_path):
    root = trees.rice(tmp_path)
    trees.write_list(root / "test.txt", ["3", "2"])
    found = verified("rice1", root, decode=False)
    assert found.leaks == ["2 is in training and in test"]
    assert not found.good


def test_a_tile_on_both_lists_is_a_leak(tmp_path):
    tiles = {"train": {"T1": ("a", "b")}, "test": {"T2": ("a",)}}
    root = trees.sen2_mtc_new(tmp_path, tiles)
    trees.write_list(root / "test.txt", ["T2", "T1"])
    assert verified("sen2-mtc-new", root, decode=False).leaks == ["T1 is in training and in test"]


def test_the_same_clear_image_under_another_name_is_a_leak(tmp_path):
    root = trees.rice(tmp_path)
    shutil.copy(root / "label/1.png", root / "label/3.png")
    assert verified("rice1", root).leaks == ["3 (test) has the same clear image as 1 (train)"]
    assert verified("rice1", root, decode=False).leaks == []


def test_two_images_of_nothing_but_sea_are_no_leak(tmp_path):
    root = trees.rice(tmp_path)
    for name in ("1", "3"):
        trees.save(root / f"label/{name}.png", np.full(trees.RGB, 80, np.uint8))
    assert verified("rice1", root).leaks == []


def test_the_same_image_twice_in_training_is_no_leak(tmp_path):
    root = trees.rice(tmp_path)
    shutil.copy(root / "label/1.png", root / "label/2.png")
    assert verified("rice1", root).good


# ---------------------------------------------------------------- folders that are none


@pytest.mark.parametrize("folders", [("cloud", "label"), ("cloud", "label", "mask")])
def test_a_folder_without_images_is_not_good(folders, tmp_path):
    for name in folders:
        (tmp_path / name).mkdir()
    found = verified("rice1", tmp_path)
    assert not found.good
    assert "has no images: expected ROOT/cloud" in found.problems[0]


def test_an_empty_folder_is_not_good_for_regions_either(tmp_path):
    assert "has no images" in verified("sen12ms-cr", tmp_path).problems[0]


def test_names_that_occur_twice_are_a_problem(tmp_path):
    trees.pairs(tmp_path, ("train_1",))
    trees.pairs(tmp_path / "train", ("1",))
    assert "train_1 occurs twice: names must be unique" in verified("pairs", tmp_path).problems


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        verified("rice1", tmp_path / "none")
