"""Caches: equal samples, nothing decoded twice, nothing kept that is out of date or torn."""

import copy
import logging
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.data import trees
from tests.data.samples import IMAGES, assert_same

from emrdm.data import DiskCache, MemoryCache, open_dataset
from emrdm.data.layout import Decoded, Item
from emrdm.errors import InputError


class Counted:
    """Decodes through a data set's own layout and remembers what."""

    def __init__(self, dataset):
        self.layout, self.names, self.lock = dataset.layout, [], threading.Lock()

    def __call__(self, item):
        with self.lock:
            self.names.append(item.name)
        return self.layout.decode(item)


def rice2(root, **options):
    return open_dataset("rice2", root, split="all", **options)


@pytest.fixture
def tree(built, tmp_path):
    return trees.linked(built("rice2"), tmp_path / "tree")


@pytest.mark.parametrize("case", [case for case in trees.CASES if case != "cuhk-cr2"])
def test_samples_from_memory_and_disk_equal_those_from_files(case, built, tmp_path):
    def opened(cache):
        entry = trees.CASES[case]
        return open_dataset(entry.dataset, built(case), split="all", cache=cache, **entry.options)

    plain, memory, disk = (opened(cache) for cache in (None, MemoryCache(), DiskCache(tmp_path / "cache")))
    for _ in range(2):
        for i in range(2):
            expected = plain[i]
            assert_same(memory[i], expected)
            assert_same(disk[i], expected)
    assert_same(opened(DiskCache(tmp_path / "cache"))[0], plain[0])


def test_every_kind_of_number_and_all_images_come_back_from_disk(tmp_path):
    item = Item("x", ())
    for dtype in ("uint8", "int16", "uint16", "int32", "uint32", "float32", "float64"):
        images = np.arange(24, dtype=dtype).reshape(2, 3, 2, 2)
        classes = np.array([[[0, 1], [2, 255]]] * 2, np.uint8)
        valid = np.array([[True, False], [True, True]])
        whole = Decoded(
            images[:, ::-1], images[0].T.reshape(3, 2, 2), images[:, :1], classes, valid, ("2020-01-01", "")
        )
        cache = DiskCache(tmp_path / dtype)
        cache.get(item, lambda item, whole=whole: whole)
        found = cache.get(item, lambda item: pytest.fail("was decoded again"))
        assert found.dates == whole.dates
        for name in IMAGES:
            before, after = getattr(whole, name), getattr(found, name)
            assert before.dtype == after.dtype
            np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_nothing_is_decoded_twice(kind, tree, tmp_path):
    dataset = rice2(tree)
    decode = Counted(dataset)
    cache = MemoryCache() if kind == "memory" else DiskCache(tmp_path / "cache")
    for _ in range(3):
        for item in dataset.items:
            cache.get(item, decode)
    assert decode.names == dataset.names


def test_what_was_read_ahead_is_not_decoded_again(tree, monkeypatch):
    dataset = rice2(tree, cache=MemoryCache())
    decode = Counted(dataset)
    plain = type(dataset.layout).decode
    monkeypatch.setattr(
        type(dataset.layout), "decode", lambda layout, item: decode.names.append(item.name) or plain(layout, item)
    )
    assert dataset.preload(workers=2) == []
    assert sorted(decode.names) == sorted(dataset.names)
    samples = [dataset[i] for i in range(len(dataset))]
    assert len(decode.names) == len(samples) == 4


# ---------------------------------------------------------------- memory


def test_no_more_is_kept_than_the_limit(tree):
    dataset = rice2(tree)
    size = 8 * 12 * (3 + 3 + 1)  # cloudy, clear, mask: a byte each
    for limit, fits in ((0, 0), (size - 1, 0), (size, 1), (2 * size + 1, 2), (1e9, 4)):
        cache, decode = MemoryCache(limit), Counted(dataset)
        for _ in range(2):
            for item in dataset.items:
                found = cache.get(item, decode)
                np.testing.assert_array_equal(found.cloudy, dataset.layout.decode(item).cloudy)
        assert (len(cache), cache.bytes) == (fits, fits * size)
        assert len(decode.names) == fits + 2 * (4 - fits)


def test_two_data_sets_may_share_one_memory(tmp_path):
    """Images of the same names lie in RICE1 and RICE2."""
    cache = MemoryCache()
    one, two = trees.rice(tmp_path / "1", shape=(3, 4, 4)), trees.rice(tmp_path / "2", shape=(3, 6, 6))
    first, second = (open_dataset("rice1", root, split="all", cache=cache) for root in (one, two))
    for i in range(4):
        assert first[i].cloudy.shape[-1] == 4
        assert second[i].cloudy.shape[-1] == 6


def test_a_sample_may_be_changed_without_harm_to_the_next(built):
    for case in ("rice2", "cuhk-cr1", "series"):
        entry = trees.CASES[case]
        dataset = open_dataset(entry.dataset, built(case), split="all", cache=MemoryCache(), **entry.options)
        before = copy.deepcopy(dataset[0])
        for name in IMAGES:
            image = getattr(dataset[0], name)
            if image is not None:
                image.zero_()
        assert_same(dataset[0], before)


def test_memory_goes_to_worker_processes_with_what_it_holds(tree):
    dataset = rice2(tree, cache=MemoryCache())
    expected = dataset[0]
    travelled = pickle.loads(pickle.dumps(dataset))
    assert len(travelled.cache) == 1
    assert_same(travelled[0], expected)
    assert_same(travelled[1], dataset[1])


def test_many_threads_keep_their_count_of_bytes_right(tree):
    dataset = rice2(tree)
    cache = MemoryCache()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: cache.get(item, dataset.layout.decode), dataset.items * 20))
    assert (len(cache), cache.bytes) == (4, 4 * 8 * 12 * 7)


# ---------------------------------------------------------------- disk


def test_a_second_run_decodes_nothing(tree, tmp_path):
    dataset = rice2(tree)
    for count in (4, 0):
        decode = Counted(dataset)
        for item in dataset.items:
            DiskCache(tmp_path / "cache").get(item, decode)
        assert len(decode.names) == count


@pytest.mark.parametrize("file", trees.CASES["rice2"].files)
def test_a_changed_file_is_decoded_anew(file, tree, tmp_path):
    cache = DiskCache(tmp_path / "cache")
    old = rice2(tree, cache=cache)[1]
    content = (tree / file).read_bytes()
    kind = file.partition("/")[0]
    trees.save(tree / file, trees.texture(trees.RGB, 77))
    os.utime(tree / file, ns=(0, 1_600_000_000_000_000_001))
    changed = rice2(tree, cache=cache)[1]
    assert_same(changed, rice2(tree)[1])
    image = {"cloud": "cloudy", "label": "target", "mask": "classes"}[kind]
    assert not getattr(changed, image).equal(getattr(old, image))
    (tree / file).write_bytes(content)  # back again, at another time
    assert_same(rice2(tree, cache=cache)[1], old)


def test_a_change_that_keeps_the_size_is_seen_by_its_time(tmp_path):
    root = trees.pairs(tmp_path / "tree", ("1",), compress="none")
    cache, path = DiskCache(tmp_path / "cache"), root / "cloudy/1.tif"
    options = {"split": "all", "numbers": trees.CASES["pairs"].numbers}
    old, size = open_dataset("pairs", root, cache=cache, **options)[0], path.stat().st_size
    trees.save(path, trees.texture((4, 8, 12), 77, high=10000, dtype="uint16"), compress="none")
    os.utime(path, ns=(0, 1_600_000_000_000_000_001))
    assert path.stat().st_size == size
    new = open_dataset("pairs", root, cache=cache, **options)[0]
    assert_same(new, open_dataset("pairs", root, **options)[0])
    assert not new.cloudy.equal(old.cloudy)


def test_another_recipe_is_another_entry(tree, tmp_path):
    dataset = rice2(tree)
    decode = Counted(dataset)
    for recipe in ("a", "b", "a"):
        DiskCache(tmp_path / "cache").get(dataset.items[0], decode, recipe)
    assert decode.names == ["1", "1"]


@pytest.mark.parametrize("share", [0, 0.01, 0.2, 0.6, 0.99])
def test_a_torn_file_is_decoded_anew_and_mended(share, tree, tmp_path):
    cache = DiskCache(tmp_path / "cache")
    expected = rice2(tree, cache=cache)[0]
    (path,) = (tmp_path / "cache").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert_same(rice2(tree, cache=cache)[0], expected)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("content", [b"x" * 1000, b"\xff" * 8 + b"{}", b"\x02" + b"\0" * 7 + b"{}"])
def test_a_file_that_is_something_else_is_decoded_anew(content, tree, tmp_path):
    cache = DiskCache(tmp_path / "cache")
    expected = rice2(tree, cache=cache)[0]
    (path,) = (tmp_path / "cache").iterdir()
    path.write_bytes(content)
    assert_same(rice2(tree, cache=cache)[0], expected)


def test_a_disk_that_takes_nothing_costs_speed_and_not_the_run(tree, tmp_path, caplog):
    cache = DiskCache(tmp_path / "cache")
    (tmp_path / "cache").rmdir()
    with caplog.at_level(logging.WARNING):
        sample = rice2(tree, cache=cache)[0]
    assert_same(sample, rice2(tree)[0])
    (line,) = caplog.messages
    assert "cannot be written: No such file or directory: the image is decoded again next time" in line


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "cache").touch()
    with pytest.raises(InputError, match="cache cannot be a folder for decoded images: File exists"):
        DiskCache(tmp_path / "cache")


@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_a_file_that_cannot_be_read_is_tried_again(kind, tree, tmp_path):
    cache = MemoryCache() if kind == "memory" else DiskCache(tmp_path / "cache")
    content = (tree / "cloud/2.webp").read_bytes()
    trees.DAMAGES["empty"](tree / "cloud/2.webp")
    dataset = rice2(tree, cache=cache)
    assert "2.webp is empty" in dataset.fetch(1).reason
    (tree / "cloud/2.webp").write_bytes(content)
    assert_same(dataset.fetch(1), rice2(tree)[1])
