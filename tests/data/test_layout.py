"""What data sets share: order, lists, the choice of a split."""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.data import trees

from emrdm.data.layout import (
    VALIDATION,
    Item,
    choose,
    images_by_name,
    natural,
    read_like,
    read_lists,
    read_names,
    share,
)
from emrdm.errors import DataError, InputError

NAMES = st.sets(st.text("ab01/.\udcff", min_size=1, max_size=6), min_size=1, max_size=30)


def items(names, splits=()):
    return [Item(name, (), splits=splits) for name in sorted(names)]


def chosen(given_items, split, **options):
    return {item.name for item in choose(given_items, split, **options)}


@given(st.permutations(["p1", "p01", "p2", "p10", "p010", "p", "P1", "p1a", "p1b", "1", "01", ""]))
def test_natural_order_is_by_value_and_never_depends_on_the_order_given(names):
    ordered = sorted(names, key=natural)
    assert ordered == ["", "01", "1", "P1", "p", "p01", "p1", "p1a", "p1b", "p2", "p010", "p10"]


@given(st.integers(0, 10**30), st.integers(0, 10**30), st.text("ab_", min_size=1))
def test_natural_order_puts_the_smaller_number_first(a, b, text):
    assert (natural(f"{text}{a}") < natural(f"{text}{b}")) == (a < b)


@given(NAMES)
def test_the_share_of_a_name_is_its_hash(names):
    for name in names:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        assert share(name) == int(digest[:16], 16) / 16**16
        assert 0 <= share(name) < 1


def test_the_validation_samples_of_a_few_names_are_these_for_ever():
    names = [str(n) for n in range(100)]
    assert sorted(map(int, chosen(items(names, ("train",)), "val"))) == [9, 39, 49, 51, 55, 65]


@given(NAMES, NAMES, st.sampled_from([(), ("train",)]))
def test_validation_does_not_depend_on_what_else_is_in_the_folder(names, others, splits):
    assume(any(share(name) < VALIDATION for name in names))  # where the hash takes none, the lowest of all is taken
    alone, among = items(names, splits), items(names | others, splits)
    for split in ("train", "val"):
        assert chosen(among, split) & names == chosen(alone, split)


@given(st.sets(st.text(min_size=1), min_size=2, max_size=8))
def test_two_images_are_enough_to_train_and_to_validate(names):
    below = {name for name in names if share(name) < VALIDATION}
    lowest = {min(names, key=share)}
    assert chosen(items(names), "val") == (below or lowest)
    assert chosen(items(names), "train") == names - (below or lowest)


def test_a_lone_image_or_group_is_trained_on():
    assert [chosen(items("b"), split) for split in ("train", "val")] == [{"b"}, set()]
    patches = [Item(f"b_{i}", (), splits=("train",), group="b") for i in range(3)]
    assert [len(choose(patches, split)) for split in ("train", "val")] == [3, 0]


@given(train=NAMES, test=NAMES, carve=st.floats(0.01, 0.99))
def test_validation_is_carved_from_training_and_never_from_test(train, test, carve):
    both = [*items(train - test, ("train",)), *items(test - train, ("test",)), *items(train & test, ("train", "test"))]
    parts = {split: chosen(both, split, carve=carve) for split in ("train", "val", "test")}
    assert parts["test"] == test
    assert parts["train"] | parts["val"] == train - test
    assert not parts["train"] & parts["val"]


def test_items_of_one_group_are_validated_together():
    patches = [Item(f"{tile}_{i}", (), splits=("train",), group=tile) for tile in "abcdefgh" for i in range(4)]
    found = choose(patches, "val", carve=0.4)
    assert 0 < len(found) < len(patches)
    assert {item.group for item in found}.isdisjoint(item.group for item in choose(patches, "train", carve=0.4))


def test_a_list_of_validation_samples_is_taken_as_it_is():
    listed = [*items("abc", ("train",)), *items("de", ("val",)), *items("f", ("test",))]
    assert [chosen(listed, split) for split in ("train", "val", "test")] == [set("abc"), set("de"), {"f"}]
    assert chosen(listed, "all") == set("abcdef")
    assert chosen(items("abc", ("train",)), "val", carve=0) == set()


def test_about_the_share_asked_for_is_validated():
    names = [f"image {n}" for n in range(3000)]
    for carve in (0.05, 0.1, 0.5):
        found = len(chosen(items(names), "val", carve=carve)) / 3000
        assert found == pytest.approx(carve, abs=4 * (carve * (1 - carve) / 3000) ** 0.5)


def test_an_unknown_split_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="split is 'tran'; did you mean 'train'"):
        choose(items("a"), "tran")


def test_images_are_found_by_name_in_natural_order(tmp_path):
    for name in ("10.png", "2.TIF", "1.webp", "x.txt", ".hidden.png", "._3.png", "3.jpeg"):
        (tmp_path / name).touch()
    assert list(images_by_name(tmp_path)) == ["1", "2", "3", "10"]
    (tmp_path / "2.png").touch()
    with pytest.raises(InputError, match=r"has both 2\.(TIF|png) and 2\.(TIF|png): expected one image a name"):
        images_by_name(tmp_path)


def test_lists_are_read_with_and_without_suffixes(tmp_path):
    (tmp_path / "train.txt").write_bytes("\ufeffa.png\r\n\n  b.c \nd.tif\n".encode())
    assert read_names(tmp_path / "train.txt") == ["a", "b.c", "d"]
    lists, problems = read_lists(tmp_path, ("train", "test"), {"a", "d"})
    assert lists == {"train": {"a", "b.c", "d"}}
    assert problems == [f"{tmp_path / 'train.txt'} names b.c, which does not exist"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a\nb\na\n", "names 'a' twice"), (b"\xff\xfe\xfa", "cannot be read as a list"), (None, "No such file")],
)
def test_a_list_that_cannot_be_used_is_refused(content, message, tmp_path):
    path = tmp_path / "train.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_names(path)
    assert str(caught.value).count(str(path)) == 1


def test_a_pipe_in_the_place_of_a_list_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "train.txt")
    with pytest.raises(InputError, match="it is not a file"):
        read_names(tmp_path / "train.txt")


@pytest.mark.parametrize(
    ("dtype", "options", "message"),
    [
        ("uint16", {"eight_bit": True}, "type uint16: expected 8 bits"),
        ("uint8", {"eight_bit": False}, "type uint8: expected more than 8 bits"),
        ("int16", {"dtype": "uint16"}, "type int16: expected uint16"),
        ("uint8", {"size": (8, 8)}, "is 12 x 8 pixels: expected 8 x 8"),
        ("uint8", {"bands": 3}, "has 2 bands: expected 3"),
    ],
)
def test_an_image_unlike_the_others_is_refused_by_name(dtype, options, message, tmp_path):
    path = trees.save_tiff(tmp_path / "x.tif", np.ones((2, 8, 12), dtype))
    with pytest.raises(DataError, match=message) as caught:
        read_like(path, **{"bands": 2, "size": None} | options)
    assert str(path) in str(caught.value)


def test_what_is_expected_of_the_folder_is_said_from_the_docstring():
    from emrdm.data import CATALOG

    for name, layout in CATALOG.items():
        assert "ROOT" in layout.layout_help(), name
        assert "\n" not in layout.layout_help()


def test_an_item_knows_all_its_files():
    item = Item("a", (Path("1"), Path("2")), Path("3"), (Path("4"),), (Path("5"),))
    assert [str(path) for path in item.files] == list("12345")
