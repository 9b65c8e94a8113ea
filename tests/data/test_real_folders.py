"""Real data next to the repository, where it is there: every folder of it loads."""

import os
from pathlib import Path

import pytest

from emrdm.data import Numbers, open_dataset

DATA = Path(os.environ.get("EMRDM_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
SENTINEL = Numbers(low=0, high=10000)
LANDSAT = Numbers(low=5000, high=20000)


def opened(folder, dataset, **options):
    if not (DATA / folder).is_dir():
        pytest.skip(f"no folder {folder}: set EMRDM_DATA to where the real data is")
    return open_dataset(dataset, DATA / folder, **{"split": "all"} | options)


@pytest.mark.parametrize(
    ("folder", "dataset", "numbers", "frames", "bands", "aux"),
    [
        ("rice256/RICE1", "rice1", None, 1, ["red", "green", "blue"], []),
        ("rice256/RICE2", "rice2", None, 1, ["red", "green", "blue"], []),
        ("sen12mscr_sample", "sen12ms-cr", None, 1, 13, ["VV", "VH"]),
        ("sentinel2_pairs", "pairs", SENTINEL, 1, 13, []),
        ("sentinel2_series", "series", SENTINEL, 6, 13, []),
        ("cloudsen12_series", "series", SENTINEL, 4, ["B4", "B3", "B2", "B8"], []),
        ("landsat8_scene", "synthetic", LANDSAT, 1, ["B4", "B3", "B2"], []),
    ],
)
def test_every_folder_loads(folder, dataset, numbers, frames, bands, aux):
    found = opened(folder, dataset, **({} if numbers is None else {"numbers": numbers}))
    assert found.problems == ()
    names = [band.name for band in found.bands]
    assert (len(names) if isinstance(bands, int) else names) == bands
    assert [band.name for band in found.aux] == aux
    for index in {0, len(found) - 1}:
        sample = found[index]
        assert sample.cloudy.shape[:2] == (frames, len(names))
        assert bool(sample.cloudy.isfinite().all())
        assert sample.cloudy.std() > 0.01
        assert (sample.target is None) == (folder == "sentinel2_series")


def test_rice_has_its_lists():
    counts = {
        part: {split: len(opened(f"rice256/{part}", part.lower(), split=split)) for split in ("train", "val", "test")}
        for part in ("RICE1", "RICE2")
    }
    assert {part: c["train"] + c["val"] for part, c in counts.items()} == {"RICE1": 380, "RICE2": 559}
    assert {part: c["test"] for part, c in counts.items()} == {"RICE1": 100, "RICE2": 147}


def test_the_published_rule_takes_the_test_patch_of_the_sample_into_training():
    strict, paper = (opened("sen12mscr_sample", "sen12ms-cr", rule=rule) for rule in ("strict", "paper"))
    assert {item.name: item.splits for item in strict.items} == {
        "ROIs1970_fall_139_p839": ("test",),
        "ROIs2017_winter_112_p797": ("train",),
    }
    assert set(paper.items[0].splits) == {"train", "test"}


def test_a_real_series_is_in_the_order_of_its_dates():
    dates = opened("sentinel2_series", "series", numbers=SENTINEL)[0].dates
    assert dates == ("2018-01-06", "2018-03-07", "2018-05-06", "2018-07-05", "2018-09-03", "2018-11-02")
