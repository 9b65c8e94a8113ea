"""What a step is fed: bands by name, sides that fit, batches of one shape, and the draws' keys."""

import dataclasses

import pytest
import torch
from PIL import Image
from tests.training.little import SMALL, landscapes

from emrdm import load_preset
from emrdm.data import Draw, Failure, MemoryCache, Numbers, open_dataset
from emrdm.errors import InputError
from emrdm.training import Order
from emrdm.training.samples import Ahead, Samples, TrainingBatch, batches, collate


@pytest.fixture
def config():
    return load_preset("tiny").replace(SMALL).model


def opened(root, **options):
    return open_dataset("synthetic", root, split="train", **options)


def test_data_sets_follow_each_other(tmp_path, config):
    first, second = opened(landscapes(tmp_path / "a", 5)), opened(landscapes(tmp_path / "b", 4, seed=1))
    samples = Samples([first, second], config)
    assert len(samples) == len(first) + len(second)
    drawn = samples[Draw(len(first), 7)]
    assert drawn.key == 7
    torch.testing.assert_close(drawn.sample.target, second[Draw(0, 7)].target)


def test_bands_are_found_by_name(tmp_path, config):
    root = landscapes(tmp_path / "a", 5)
    plain = Samples([opened(root)], config)[Draw(0, 3)].sample
    turned = Samples([opened(root, numbers=Numbers(("blue", "green", "red")))], config)[Draw(0, 3)].sample
    torch.testing.assert_close(turned.target, plain.target.flip(0))


def test_what_the_model_lacks_is_refused_by_name(tmp_path, config):
    with pytest.raises(InputError, match="the model needs red, which the data set has not"):
        Samples([opened(landscapes(tmp_path / "a", 5), numbers=Numbers(("x", "green", "blue")))], config)


def test_sides_are_cut_to_what_the_network_takes(tmp_path, config):
    root = tmp_path / "odd"
    root.mkdir()
    pixels = torch.arange(37 * 45 * 3, dtype=torch.int64).reshape(37, 45, 3) % 251
    Image.fromarray(pixels.to(torch.uint8).numpy()).save(root / "odd1.png")
    samples = Samples([opened(root, augmentation="none")], config)
    cuts = {tuple(samples[Draw(0, key)].sample.target[0, 0, :2].tolist()) for key in range(40)}
    assert len(cuts) == 4  # not always the same rows and columns
    assert samples[Draw(0, 1)].sample.target.shape == (3, 36, 44)
    assert samples[Draw(0, 1)].sample.cloudy.shape == (1, 3, 36, 44)


def test_images_that_are_too_small_are_said_before_anything_starts(tmp_path, config):
    with pytest.raises(InputError, match=r"field\d\d is 8 x 8 pixels: expected 16 x 16 at least"):
        Samples([opened(landscapes(tmp_path / "a", 5, 8))], config)


def test_shapes_that_differ_make_several_batches(tmp_path, config):
    landscapes(tmp_path / "a", 3, 32)
    samples = Samples([opened(tmp_path / "a"), opened(landscapes(tmp_path / "b", 3, 48))], config)
    parts, failures = collate([samples[Draw(i, 10 + i)] for i in range(len(samples))])
    assert not failures
    assert [part.cloudy.shape[-1] for part in parts] == [32, 48]
    assert [key for part in parts for key in part.keys] == [10 + i for i in range(len(samples))]
    assert all(part.clear.shape[0] == len(part.names) == len(part.keys) for part in parts)


def test_pixels_without_truth_are_marked(tmp_path, config):
    samples = Samples([opened(landscapes(tmp_path / "a", 5))], config)
    one, other = samples[Draw(0, 0)], samples[Draw(1, 1)]
    hole = torch.ones(32, 32, dtype=torch.bool)
    hole[:4] = False
    object.__setattr__(one.sample, "valid", hole)
    (part,), _ = collate([one, other])
    assert part.valid.shape == (2, 32, 32)
    assert part.valid[0].sum() == 32 * 28
    assert part.valid[1].all()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_begin_anywhere_in_the_order(tmp_path, config, workers):
    samples = Samples([opened(landscapes(tmp_path / "a", 7), cache=MemoryCache())], config)
    order = Order(len(samples), seed=1, batch_size=4, steps=5)
    whole = [parts for parts, _ in batches(samples, order, batch_size=2)]
    late = [parts for parts, _ in batches(samples, order, batch_size=2, start=12, workers=workers)]
    assert len(whole) == 10
    assert len(late) == 4
    for (a,), (b,) in zip(whole[6:], late, strict=True):
        assert a.names == b.names
        assert a.keys == b.keys
        assert torch.equal(a.cloudy, b.cloudy)


def test_a_crop_without_truth_is_drawn_again_and_nobody_is_blamed(tmp_path, config):
    """A scene that is mostly without data is a good one."""
    samples = Samples([opened(landscapes(tmp_path / "a", 5, 64), crop=16)], config)
    dataset = samples.datasets[0]
    real = type(dataset).fetch

    def holey(self, index):
        sample = real(self, index)
        key = index.key if isinstance(index, Draw) else None
        lucky = key is None or key % 4 == 0
        return dataclasses.replace(sample, valid=torch.full(sample.target.shape[-2:], lucky))

    dataset.fetch = holey.__get__(dataset)
    for key in range(30):
        drawn = samples[Draw(0, key)]
        assert drawn.sample is not None
        assert drawn.sample.valid.all()
        assert not drawn.failures


def test_an_image_without_any_truth_is_left_out_by_name(tmp_path, config):
    samples = Samples([opened(landscapes(tmp_path / "a", 5), crop=16)], config)
    dataset = samples.datasets[0]
    real = type(dataset).fetch

    def empty(self, index):
        sample = real(self, index)
        first = (index.index if isinstance(index, Draw) else index) == 0
        return dataclasses.replace(sample, valid=torch.full(sample.target.shape[-2:], not first))

    dataset.fetch = empty.__get__(dataset)
    drawn = samples[Draw(0, 3)]
    assert drawn.sample.name == dataset.items[1].name
    assert [failure.name for failure in drawn.failures] == [dataset.items[0].name]
    assert "no pixel whose clear value is known" in drawn.failures[0].reason


# ---------------------------------------------------------------- reading ahead


def turns(count, read, fail_at=None):
    """Batches that say when they are read."""
    for i in range(count):
        read.append(i)
        if i == fail_at:
            raise OSError(f"batch {i}")
        images = torch.full((1, 1, 3, 4, 4), float(i))
        yield [TrainingBatch((str(i),), (i,), images, images[:, 0], None, None)], [Failure(f"bad{i}", "why")]


def test_a_batch_is_read_when_it_is_sent_or_asked_for_and_not_before():
    read = []
    ahead = Ahead(turns(3, read), torch.device("cpu"))
    assert read == []
    for i in range(3):
        (batch,), failures = next(ahead)
        assert batch.names == (str(i),)
        assert [failure.name for failure in failures] == [f"bad{i}"]  # those of this batch, not of the one ahead
        assert read == list(range(i + 1))
        for _ in range(2):  # sent once
            ahead.send()
            assert read == list(range(min(i + 2, 3)))
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(ahead)


def test_an_error_ahead_waits_until_the_batch_is_asked_for():
    ahead = Ahead(turns(3, [], fail_at=1), torch.device("cpu"))
    next(ahead)
    ahead.send()
    with pytest.raises(OSError, match="batch 1"):
        next(ahead)


@pytest.mark.gpu
def test_a_batch_that_was_sent_ahead_is_whole_when_work_begins():
    device = torch.device("cuda")

    def large():
        for i in range(12):
            images = torch.full((4, 1, 13, 256, 256), float(i)).pin_memory()
            yield [TrainingBatch(("x",), (i,), images, images[:, 0].contiguous().pin_memory(), None, None)], []

    ahead, busy, seen = Ahead(large(), device), torch.rand(4096, 4096, device=device), []
    for _ in range(12):
        (batch,), _ = next(ahead)
        assert batch.cloudy.is_cuda
        for _ in range(5):
            busy = (busy @ busy).clamp(0, 1)
        seen.append(torch.stack([batch.cloudy.amin(), batch.cloudy.amax(), batch.clear.amin(), batch.clear.amax()]))
        del batch
        ahead.send()
    assert torch.stack(seen).cpu().tolist() == [[float(i)] * 4 for i in range(12)]
