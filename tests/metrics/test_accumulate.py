"""Scores of many images: merging in any order, over batches and ranks."""

import math
import random

import pytest
import torch
import torch.multiprocessing as mp

from emrdm.errors import InputError
from emrdm.metrics import Scores


def filled(count=20):
    scores = Scores()
    names = [f"image{i}" for i in range(count)]
    scores.add(names, {"psnr": torch.rand(count, dtype=torch.float64) * 40, "ssim": torch.rand(count)})
    return scores


def test_batches_in_any_order_give_the_same_mean_bit_for_bit():
    whole = filled()
    items = list(whole.values.items())
    for seed in range(5):
        random.Random(seed).shuffle(items)
        parts = Scores()
        for i in range(0, len(items), 3):
            parts = parts.merge(Scores(dict(items[i : i + 3])))
        assert parts.means() == whole.means()
        assert len(parts) == 20


def test_an_image_counts_once_however_often_it_comes():
    whole = filled()
    assert whole.merge(filled()).means() == whole.means()
    again = Scores(whole.values)
    again.add(["image0"], {"psnr": torch.tensor([1000.0])})
    assert again.means() == whole.means()


def test_undefined_scores_are_left_out_and_counted():
    scores = Scores()
    scores.add(["a", "b", "c"], {"sam": torch.tensor([1.0, math.nan, 3.0])})
    mean = scores.mean("sam")
    assert (mean.value, mean.count, mean.left_out) == (2.0, 2, 1)
    assert math.isnan(Scores().mean("sam").value)


def test_infinite_scores_stay_infinite():
    scores = Scores()
    scores.add(["a", "b"], {"psnr": torch.tensor([math.inf, 20.0])})
    assert scores.mean("psnr").value == math.inf


def test_a_wrong_number_of_values_is_refused():
    with pytest.raises(InputError, match=r"psnr has shape \(3,\) for 2 images"):
        Scores().add(["a", "b"], {"psnr": torch.zeros(3)})


def test_a_lone_process_gathers_its_own():
    whole = filled()
    assert whole.gather() is whole


def _rank(rank, address, results):
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    scores = Scores()
    names = [f"image{i}" for i in range(rank, 7, 2)] + ["image0"]  # the second rank repeats an image to fill up
    scores.add(names, {"psnr": torch.tensor([float(name[5:]) for name in names])})
    gathered = scores.gather()
    results.put((rank, len(gathered), gathered.mean("psnr").value))
    torch.distributed.destroy_process_group()


def test_ranks_merge_without_counting_twice(tmp_path):
    context = mp.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=_rank, args=(i, f"file://{tmp_path}/meet", results)) for i in range(2)]
    for process in processes:
        process.start()
    found = sorted(results.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(timeout=60)
    assert found == [(0, 7, 3.0), (1, 7, 3.0)]
