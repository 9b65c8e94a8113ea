"""A folder opened as a data set: what samples are, scaling, repairs, frames, and files that cannot be read."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.data import trees
from tests.data.samples import assert_same
from tests.data.trees import CASES, DAMAGES

from emrdm.config import Band
from emrdm.data import CATALOG, Dataset, Draw, Failure, Numbers, Sample, open_dataset
from emrdm.data.dataset import pick_rule, scale, summary_of_repairs
from emrdm.errors import DataError, InputError
from emrdm.images import to_user_units


def opened(case, root, **options):
    return open_dataset(CASES[case].dataset, root, **{"split": "all"} | CASES[case].options | options)


@pytest.mark.parametrize("case", CASES)
def test_a_sample_is_what_a_network_takes(case, built):
    dataset = opened(case, built(case))
    assert len(dataset) == len(set(dataset.names)) >= 3
    assert CASES[case].sample in dataset.names
    for i, name in enumerate(dataset.names):
        sample = dataset[i]
        frames, bands, height, width = sample.cloudy.shape
        assert sample.name == name
        assert "/" not in name
        assert bands == len(dataset.bands)
        assert sample.target.shape == (bands, height, width)
        assert (sample.aux is None) == (not dataset.aux)
        assert sample.aux is None or sample.aux.shape == (frames, len(dataset.aux), height, width)
        assert sample.classes is None or (sample.classes.shape, sample.classes.dtype) == (
            (frames, height, width),
            torch.uint8,
        )
        for image in (sample.cloudy, sample.target, sample.aux):
            assert image is None or (image.dtype == torch.float32 and bool(image.isfinite().all()))


@pytest.mark.parametrize("case", CASES)
def test_the_inverse_brings_the_numbers_of_the_files_back(case, built):
    """Where nothing was clipped, that is; and by the package's own inverse, which users have."""
    dataset = opened(case, built(case))
    item, sample = dataset.items[0], dataset[0]
    decoded = dataset.layout.render(item, dataset.layout.decode(item), None)
    for numbers, image, bands in (
        (decoded.cloudy, sample.cloudy, dataset.bands),
        (decoded.target, sample.target, dataset.bands),
        (decoded.aux, sample.aux, dataset.aux),
    ):
        if image is None:
            continue
        low, high, clip = (
            np.array([getattr(b, name) for b in bands])[:, None, None] for name in ("low", "high", "clip")
        )
        expected = np.where(clip, numbers.astype(float).clip(low, high), numbers)
        np.testing.assert_allclose(to_user_units(image, bands).numpy(), expected, atol=3e-7 * np.abs(high - low).max())


@pytest.mark.parametrize("case", CASES)
def test_samples_do_not_depend_on_when_they_are_asked_for(case, built):
    dataset = opened(case, built(case))
    first = [dataset[i] for i in range(len(dataset))]
    again = opened(case, built(case))
    for i in reversed(range(len(dataset))):
        assert_same(again[i], first[i])


# ---------------------------------------------------------------- scaling

NUMBERS = st.one_of(st.floats(width=32), st.sampled_from([np.nan, np.inf, -np.inf, -25.0, 0.0, 0.5, 10000.0, 10001.0]))


@settings(deadline=None)
@given(
    numbers=arrays.arrays(np.float32, (3, 2, 4), elements=NUMBERS),
    clip=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_scaling_and_its_repairs_against_plain_numpy(numbers, clip):
    limits = [(0, 10000), (-25, 0), (0, 255)]
    bands = [Band(str(i), "", low, high, clip=c) for i, ((low, high), c) in enumerate(zip(limits, clip, strict=True))]
    repaired = {}
    found = scale(numbers, bands, repaired).numpy()
    clipped = bad = 0
    for channel, (low, high), clips, result in zip(numbers, limits, clip, found, strict=True):
        for x, y in zip(channel.ravel().tolist(), result.ravel().tolist(), strict=True):
            if clips and (x < low or x > high):
                clipped += 1
                x = min(max(x, low), high)
            if not np.isfinite(np.float32((np.float64(x) - low) / (high - low) * 2 - 1)):
                bad += 1
                assert y == -1
            else:
                assert y == pytest.approx((x - low) / (high - low) * 2 - 1, rel=1e-5, abs=1e-6)
    assert repaired.get("clipped", 0) == clipped
    assert repaired.get("nan", 0) == bad


def test_numbers_too_large_for_single_precision_are_counted_without_a_warning():
    bands = [Band("a", "", 0, 1, clip=False), Band("b", "", 0, 1)]
    repaired = {}
    found = scale(np.full((2, 1, 3), 1e300), bands, repaired)
    assert found[:, 0, 0].tolist() == [-1, 1]
    assert repaired == {"nan": 3, "clipped": 3}


def test_repairs_of_all_images_of_a_sample_are_added_up(tmp_path):
    cloudy, clear = np.full((2, 3, 2, 2), 0.5, np.float32)
    cloudy[0, 0] = (np.nan, 2)
    clear[1, 0] = (-1, np.inf)
    trees.save(tmp_path / "cloudy/a.tif", cloudy)
    trees.save(tmp_path / "clear/a.tif", clear)
    sample = open_dataset("pairs", tmp_path, split="all", numbers=Numbers(low=0, high=1))[0]
    assert sample.repaired == {"clipped": 3, "nan": 1}
    assert sample.cloudy[0, 0, 0].tolist() == [-1, 1]
    assert sample.target[1, 0].tolist() == [-1, 1]
    assert summary_of_repairs(sample.repaired) == (
        "3 values clipped to the range of their band; 1 values not finite, set to the lower end"
    )


def test_where_nothing_was_changed_nothing_is_said(built):
    for case in ("rice1", "cuhk-cr1", "pairs of pictures"):
        assert all(opened(case, built(case))[i].repaired == {} for i in range(3))
    assert summary_of_repairs({"clipped": 0}) == ""


# ---------------------------------------------------------------- frames, splits and rules


def test_the_first_frames_are_taken(built):
    whole, two = (opened("sen2-mtc-new", built("sen2-mtc-new"), frames=n)[0] for n in (None, 2))
    assert torch.equal(two.cloudy, whole.cloudy[:2])
    assert torch.equal(two.aux, whole.aux[:2])
    series = opened("series", built("series"))[0]
    first = opened("series", built("series"), frames=1)[0]
    assert (first.dates, series.dates) == (("2020-02-01",), ("2020-02-01", "2020-03-01"))
    assert torch.equal(first.classes, series.classes[:1])


def test_more_frames_than_there_are_is_an_answer_about_that_sample(built):
    dataset = opened("sen2-mtc-new", built("sen2-mtc-new"), frames=4)
    assert dataset.fetch(0) == Failure("T12_a", "T12_a has 3 frames: expected 4 at least")
    for frames in (0, -1):
        with pytest.raises(InputError, match=f"frames is {frames}: expected 1 or more"):
            opened("sen2-mtc-new", built("sen2-mtc-new"), frames=frames)


def test_a_split_without_samples_says_what_there_is(tmp_path):
    root = trees.rice(tmp_path, train=("a", "b"), test=())
    with pytest.raises(
        InputError, match="no images for split 'test': the folder has train; expected --split all for 2 images"
    ):
        open_dataset("rice1", root, split="test")
    (root / "train.txt").unlink()
    (root / "test.txt").unlink()
    with pytest.raises(InputError, match="the folder has no split"):
        open_dataset("rice1", root, split="test")


def test_without_a_split_test_is_taken_where_there_is_one(tmp_path):
    root = trees.rice(tmp_path)
    listed = open_dataset("rice1", root, split=None)
    assert (listed.split, listed.names) == ("test", ["3"])
    (root / "test.txt").unlink()
    whole = open_dataset("rice1", root, split=None)
    assert (whole.split, len(whole)) == ("all", 4)
    with pytest.raises(InputError, match="split is ''"):
        open_dataset("rice1", root, split="")


def test_splits_of_a_data_set_with_lists_cover_it_and_are_apart(tmp_path):
    train, test = [str(n) for n in range(60)], [str(n) for n in range(60, 80)]
    root = trees.rice(tmp_path, train, test, shape=(3, 2, 2))
    parts = {split: set(open_dataset("rice1", root, split=split).names) for split in ("train", "val", "test")}
    assert parts["test"] == set(test)
    assert parts["val"] == {"9", "39", "49", "51", "55"}
    assert parts["train"] == set(train) - parts["val"]
    assert set(open_dataset("rice1", root, split="train", validation=0).names) == set(train)
    more = open_dataset("rice1", root, split="val", validation=0.5).names
    assert parts["val"] < set(more) < set(train)


@pytest.mark.parametrize(
    ("name", "rule", "message"),
    [("sen12ms-cr", "papr", "expected strict or paper"), ("rice1", "paper", "rice1 has one way to be read")],
)
def test_an_unknown_rule_is_refused(name, rule, message):
    with pytest.raises(InputError, match=f"rule is {rule!r}: {message}"):
        pick_rule(CATALOG[name], rule)


def test_the_first_rule_is_the_default():
    assert pick_rule(CATALOG["sen12ms-cr"], None) == "strict"
    assert pick_rule(CATALOG["rice1"], None) == ""


# ---------------------------------------------------------------- augmentation on demand


def test_a_draw_augments_and_an_index_does_not(built):
    dataset = opened("rice2", built("rice2"), augmentation="dihedral", crop=4)
    plain = dataset[0]
    assert plain.cloudy.shape[-2:] == (8, 12)
    draws = [dataset[Draw(0, key)] for key in range(20)]
    assert {draw.cloudy.shape[-2:] for draw in draws} == {(4, 4)}
    assert len({draw.cloudy.numpy().tobytes() for draw in draws}) > 10
    assert_same(dataset[Draw(0, 3)], draws[3])


def test_an_image_too_small_to_crop_is_a_failure_of_that_sample(built):
    dataset = opened("rice1", built("rice1"), crop=9)
    assert isinstance(dataset.fetch(0), Sample)
    failure = dataset.fetch(Draw(0, 1))
    assert failure == Failure("1", "1 is 12 x 8 pixels: expected 9 x 9 at least, to crop it")


# ---------------------------------------------------------------- files that cannot be read


def damaged(case):
    """Each file of a sample with each damage that matters to it."""
    return [
        pytest.param(case, file, damage, id=f"{case}-{file}-{damage}".replace("/", "_"))
        for file in CASES[case].files
        for damage in DAMAGES
        if damage not in CASES[case].harmless.get(file, ())
    ]


@pytest.mark.parametrize(("case", "file", "damage"), [e for case in CASES if case != "cuhk-cr2" for e in damaged(case)])
def test_a_damaged_file_is_named_and_the_rest_is_read(case, file, damage, built, tmp_path):
    root = trees.linked(built(case), tmp_path / "tree")
    DAMAGES[damage](root / file)
    dataset = opened(case, root)
    at = dataset.names.index(CASES[case].sample)
    files = [str(path) for path in dataset.items[at].files] if damage == "other size" else [str(root / file)]
    with pytest.raises(DataError) as caught:
        dataset[at]
    message = str(caught.value)
    assert any(path in message for path in files)
    assert "\n" not in message
    assert dataset.fetch(at) == dataset.fetch(Draw(at, 7)) == Failure(CASES[case].sample, message)
    if damage == "empty":
        assert all(isinstance(dataset.fetch(i), Sample) for i in range(len(dataset)) if i != at)


PARTNERS = [(case, file) for case in CASES for file in CASES[case].partners]


@pytest.mark.parametrize(("case", "file"), PARTNERS)
def test_a_missing_partner_stops_or_is_left_out_and_said(case, file, built, tmp_path, caplog):
    root = trees.linked(built(case), tmp_path / "tree")
    (root / file).unlink()
    stem = CASES[case].sample.rpartition("_")[2]
    with pytest.raises(DataError) as caught:
        opened(case, root)
    assert stem in str(caught.value).replace(str(root), "")
    with caplog.at_level(logging.WARNING):
        dataset = opened(case, root, on_error="skip")
    assert len(caplog.messages) == len(dataset.problems) >= 1
    assert all(line.startswith("left out: ") and str(root) in line for line in caplog.messages)
    if case == "series":  # the place is still one, with a date less
        assert dataset[dataset.names.index("b")].cloudy.shape[0] == 1
    else:
        assert CASES[case].sample not in dataset.names
    assert len(dataset) >= 2
    assert all(isinstance(dataset.fetch(i), Sample) for i in range(len(dataset)))


def test_several_missing_partners_are_counted_in_one_line(tmp_path):
    root = trees.rice(tmp_path)
    for name in ("1", "2", "3"):
        (root / "label" / f"{name}.png").unlink()
    with pytest.raises(DataError, match=r"1\.png has no clear image .* \(and 2 more: see emrdm data verify\)$"):
        open_dataset("rice1", root)


def test_names_of_files_with_line_breaks_do_not_break_lines(tmp_path, caplog):
    name = "a\nb\x1b[31m\udcff"
    root = trees.rice(tmp_path, train=("1", name), test=("2",), lists=False)
    assert isinstance(open_dataset("rice1", root, split="all").fetch(1), Sample)
    (root / "label" / f"{name}.png").unlink()
    with pytest.raises(DataError) as caught:
        open_dataset("rice1", root, split="all")
    with caplog.at_level(logging.WARNING):
        open_dataset("rice1", root, split="all", on_error="skip")
    for line in (str(caught.value), *caplog.messages):
        assert r"a\nb\x1b[31m\udcff.png has no clear image" in line
        assert line.isprintable()


def test_everything_can_be_read_ahead_and_what_fails_is_listed(built, tmp_path):
    root = trees.linked(built("pairs"), tmp_path / "tree")
    DAMAGES["empty"](root / "cloudy/2.tif")
    dataset = Dataset(opened("pairs", root).layout, root)
    seen = []
    failures = dataset.preload(workers=2, progress=lambda done, total: seen.append((done, total)))
    assert failures == [Failure("2", f"{root / 'cloudy/2.tif'} is empty: expected an image")]
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_pixels_whose_target_is_not_a_number_are_not_known(tmp_path):
    from emrdm.data.dataset import _known
    from emrdm.data.layout import Decoded

    target = np.zeros((2, 4, 5), np.float32)
    target[1, 2, 3] = np.nan
    target[0, 0, 0] = np.inf
    known = _known(Decoded(target[None], target), slice(None))
    assert (~known).nonzero().tolist() == [[0, 0], [2, 3]]
    valid = np.ones((4, 5), bool)
    valid[3] = False
    assert (~_known(Decoded(target[None], target, valid=valid), slice(None))).sum() == 7
    assert _known(Decoded(target[None], np.zeros((2, 4, 5), np.float32)), slice(None)) is None
