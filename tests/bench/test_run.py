"""The benchmark on a tiny model."""

import pytest
import torch
from tests.bench.small import CPU, small

from emrdm.bench import read_device
from emrdm.bench import run as module
from emrdm.errors import ConfigError, InputError
from emrdm.model import EMRDM


def test_rows_in_their_order_with_both_paths():
    report = small("tiny", "sampling", "forward")
    assert [row.case for row in report.rows] == ["forward", "sampling"]
    for row in report.rows:
        assert (row.baseline.path, row.ours.path) == ("gather", "ours")
        assert row.ratio == row.baseline.each / row.ours.each
        assert row.difference.good
    assert report.failures == []
    assert report.path.startswith("CPU")


def test_a_wrong_path_is_found_out(monkeypatch):
    """The guard itself: a fast path that is a little wrong fails."""
    real = EMRDM.sample

    def wrong(self, cloudy, *arguments, exact=False, **options):
        return real(self, cloudy, *arguments, exact=exact, **options) + (0.0 if exact else 0.02)

    monkeypatch.setattr(EMRDM, "sample", wrong)
    (line,) = small("tiny", "sampling").failures
    assert "40.0 dB from the float32 reference, expected 50 dB at least" in line


def test_the_best_batch_has_a_rate_and_its_accuracy(monkeypatch):
    monkeypatch.setattr(module, "LARGEST_BATCH", 2)
    (row,) = small("tiny", "best").rows
    assert row.unit == "rate"
    assert {row.baseline.items, row.ours.items} <= {1, 2}
    assert row.difference.good


def test_the_best_batch_ends_where_memory_ends(monkeypatch):
    real = module.sampling

    def limited(model, images, *arguments):
        if len(images.cloudy) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(model, images, *arguments)

    monkeypatch.setattr(module, "sampling", limited)
    report = small("tiny", "best")
    assert report.rows[0].ours.items == 1
    assert report.left_out == ()


def test_a_path_without_room_is_left_out_with_a_line(monkeypatch):
    monkeypatch.setattr(module, "room", lambda: 1000)
    report = small("tiny", "sampling")
    (row,) = report.rows
    assert row.baseline is None
    assert row.ratio is None
    assert row.ours is not None
    assert "more memory than is free" in report.left_out[0]


def test_size_and_frames():
    report = small("tiny-temporal", "size", "frames", sides=(16, 24, 32, 33), frames=(1, 2, 3))
    by_size, by_frames = report.scalings
    assert [point.value for point in by_size.points] == [16, 24, 32]  # 33 is no side of this network
    assert [point.value for point in by_frames.points] == [1, 2, 3]
    assert by_frames.points[2].macs > 2 * by_frames.points[0].macs
    assert by_size.points[0].macs_global > 0
    assert len(by_size.fit) == 3


def test_training_is_a_row_of_its_own():
    pytest.importorskip("lightning_fabric")
    (row,) = small("tiny", "training").rows
    assert row.ratio > 0
    assert (row.baseline.items, row.ours.items) == (4, 4)
    first, second = (float(word) for word in row.note.rpartition("first step ")[2].split(" and "))
    assert first == pytest.approx(second, rel=0.02)


def test_without_fabric_training_is_left_out(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    report = small("tiny", "training")
    assert report.rows == ()
    assert report.left_out == ("training: training needs lightning-fabric: pip install 'emrdm[train]'",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 17}, "--size is 17: expected a multiple of 4 from 16 to 8192 for tiny"),
        ({"batch": 0}, "--batch is 0: expected 1 to 4096"),
        ({"steps": 0}, "--steps is 0: expected 1 to 1000"),
        ({"cases": ("frames",)}, "which takes one image: expected a multi-temporal model"),
    ],
)
def test_wrong_settings_are_one_line(options, message):
    cases = options.pop("cases", ("sampling",))
    with pytest.raises(InputError, match=message):
        small("tiny", *cases, **options)


def test_devices():
    assert read_device("cpu") == CPU
    with pytest.raises(ConfigError, match="expected auto, cpu or cuda"):
        read_device("tpu")
    if not torch.cuda.is_available():
        assert read_device("auto") == CPU
        with pytest.raises(InputError, match="there is no CUDA device here"):
            read_device("cuda")
