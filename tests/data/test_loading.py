"""Batches: the order asked for, whatever the number of workers; shapes apart; failures as answers."""

import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.data import trees
from tests.data.samples import IMAGES

from emrdm.data import Batch, Batches, Draw, Failure, MemoryCache, Numbers, Sample, open_dataset
from emrdm.data.loading import collate

RANGE = Numbers(low=0, high=10000)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Six pairs of two sizes; one of them cannot be read."""
    root = tmp_path_factory.mktemp("mixed")
    trees.pairs(root, ("0", "2", "3", "5"), masks=True)
    trees.pairs(root, ("1", "4"), shape=(4, 6, 6), masks=True)
    trees.DAMAGES["cut to a third"](root / "clear/3.tif")
    return root


def opened(root, **options):
    return open_dataset("pairs", root, split="all", numbers=RANGE, **options)


def assert_equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, Failure):
        assert a == b
        return
    assert (a.names, a.dates, a.repaired) == (b.names, b.dates, b.repaired)
    for name in IMAGES:
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None and y is None) or torch.equal(x, y)


def names(turns):
    return [[entry.name if isinstance(entry, Failure) else list(entry.names) for entry in turn] for turn in turns]


ORDER = [5, 0, 1, 3, 4, 2, 0]


def test_batches_come_in_the_order_asked_for_with_shapes_apart_and_failures_last(mixed):
    batches = Batches(opened(mixed), ORDER, batch_size=4)
    assert len(batches) == 2
    turns = list(batches)
    assert names(turns) == [[["5", "0"], ["1"], "3"], [["4"], ["2", "0"]]]
    assert turns[0][0].cloudy.shape == (2, 1, 4, 8, 12)
    assert turns[0][1].target.shape == (1, 4, 6, 6)
    assert turns[0][0].classes.shape == (2, 1, 8, 12)
    assert "clear/3.tif is not a whole GeoTIFF" in turns[0][2].reason


def test_workers_change_nothing(mixed):
    dataset = opened(mixed, augmentation="dihedral", crop=5, cache=MemoryCache())
    order = [Draw(index, key) for key in range(2) for index in ORDER]
    alone, together = (list(Batches(dataset, order, batch_size=3, workers=workers)) for workers in (0, 2))
    assert len(alone) == len(together) == 5
    for a, b in zip(alone, together, strict=True):
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    assert sum(isinstance(entry, Failure) for turn in together for entry in turn) == 2


def test_a_batch_is_its_samples_stacked(mixed):
    dataset = opened(mixed)
    ((batch,),) = Batches(dataset, [0, 2, 5], batch_size=3)
    for place, index in enumerate((0, 2, 5)):
        sample = dataset[index]
        assert batch.names[place] == sample.name
        assert batch.repaired[place] == sample.repaired
        for name in IMAGES:
            stacked, image = getattr(batch, name), getattr(sample, name)
            assert (stacked is None and image is None) or torch.equal(stacked[place], image)


def test_draws_are_augmented_and_indices_are_not(mixed):
    dataset = opened(mixed, augmentation="flips-and-turns")
    order = [Draw(1, key) for key in range(12)]
    drawn = [batch for turn in Batches(dataset, order, batch_size=5) for batch in turn]
    assert sum(len(batch.names) for batch in drawn) == 12
    pictures = {image.numpy().tobytes() for batch in drawn for image in batch.target}
    assert 4 <= len(pictures) <= 8
    ((plain,),) = Batches(dataset, [1])
    assert torch.equal(plain.target[0], dataset[1].target)


def test_iterating_twice_gives_the_same(mixed):
    batches = Batches(opened(mixed), ORDER, batch_size=2)
    assert names(batches) == names(batches)


def test_no_order_no_batches(mixed):
    assert list(Batches(opened(mixed), [])) == []


SHAPES = st.lists(
    st.tuples(st.sampled_from([(1, 2), (2, 2)]), st.booleans(), st.booleans(), st.booleans()), max_size=12
)


@given(SHAPES)
def test_samples_are_grouped_by_all_their_shapes_and_none_is_lost(kinds):
    samples = []
    for i, ((height, width), target, masked, fails) in enumerate(kinds):
        sample = Sample(
            str(i),
            torch.zeros(1, 1, height, width),
            torch.zeros(1, height, width) if target else None,
            classes=torch.zeros(1, height, width, dtype=torch.uint8) if masked else None,
        )
        samples.append(Failure(str(i), "why") if fails else sample)
    found = collate(samples)
    batches = [entry for entry in found if isinstance(entry, Batch)]
    assert found[len(batches) :] == [entry for entry in samples if isinstance(entry, Failure)]
    assert sorted(int(name) for b in batches for name in b.names) == [i for i, kind in enumerate(kinds) if not kind[3]]
    assert len(batches) == len({kind[:3] for kind in kinds if not kind[3]})
    for batch in batches:
        assert list(batch.names) == sorted(batch.names, key=int)
        assert len({kinds[int(name)][:3] for name in batch.names}) == 1


def test_a_data_set_can_go_to_processes_that_are_not_copies_of_this_one(mixed):
    dataset = opened(mixed, cache=MemoryCache())
    travelled = pickle.loads(pickle.dumps(dataset))
    assert torch.equal(travelled[0].cloudy, dataset[0].cloudy)


def test_pinning_reaches_the_images_of_a_batch(mixed, monkeypatch):
    """The loader's own function pins what it knows, or what has a method of that name."""
    from torch.utils.data._utils.pin_memory import pin_memory

    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor, *_: tensor + 1)
    ((batch, *_), *_) = Batches(opened(mixed), ORDER, batch_size=4)
    pinned, failure = pin_memory([batch, Failure("a", "b")])
    for name in IMAGES:
        image = getattr(batch, name)
        assert image is None or torch.equal(getattr(pinned, name), image + 1)
    assert failure == Failure("a", "b")
    assert_equal(replace(pinned, **{name: getattr(batch, name) for name in IMAGES}), batch)
