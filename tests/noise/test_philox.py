"""Noise: known answers, independence of the window, normality."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from emrdm.noise import Window, fold, normal, scalars
from emrdm.noise.philox import _box_muller, _cos_sin_turn, _log, _philox, _sqrt, draw, split_keys

# Known answers of Philox4x32-10 from the Random123 distribution (kat_vectors): counter, key, output.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_philox_gives_its_published_answers_on_integers_and_on_tensors(counter, key, output):
    assert _philox(counter, key) == output
    tensors = _philox(tuple(map(torch.tensor, counter)), tuple(map(torch.tensor, key)))
    assert tuple(int(word) for word in tensors) == output


@settings(max_examples=40, deadline=None)
@given(
    row=st.integers(-5, 40),
    column=st.integers(-5, 40),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    frames=st.integers(1, 3),
    bands=st.integers(1, 6),
)
def test_a_value_depends_on_its_position_and_not_on_the_window(row, column, height, width, frames, bands):
    whole = normal(7, Window(-5, -5, 60, 60), frames=3, bands=6)
    part = normal(7, Window(row, column, height, width), frames=frames, bands=bands)
    expected = whole[:, :frames, :bands, row + 5 : row + 5 + height, column + 5 : column + 5 + width]
    assert torch.equal(part, expected)


def test_a_sample_does_not_depend_on_its_batch():
    keys = [fold(3, sample) for sample in range(4)]
    together = normal(keys, Window(2, 3, 5, 5), frames=2, bands=3)
    apart = torch.cat([normal(key, Window(2, 3, 5, 5), frames=2, bands=3) for key in keys])
    assert torch.equal(together, apart)


def test_values_are_standard_normal():
    x = normal(11, Window(0, 0, 1024, 1024), frames=1, bands=4).double().flatten()
    n = len(x)
    for moment, expected, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):  # variances of the moments
        assert (x**moment).mean().item() == pytest.approx(expected, abs=5 * math.sqrt(spread / n))
    # Kolmogorov-Smirnov against the normal distribution, far below the 0.1 % critical value 1.95 / sqrt(n)
    ordered = x.sort().values
    cdf = torch.special.ndtr(ordered)
    steps = torch.arange(1, n + 1, dtype=torch.float64) / n
    assert max((cdf - steps).abs().max(), (cdf - steps + 1 / n).abs().max()).item() < 1.95 / math.sqrt(n)
    assert x.abs().max() > 4.7


def test_neighbours_in_every_direction_are_uncorrelated():
    x = normal([fold(1, 0), fold(1, 1)], Window(0, 0, 256, 256), frames=3, bands=9).double()
    assert x.shape == (2, 3, 9, 256, 256)
    for axis in range(5):
        a, b = x.narrow(axis, 0, x.shape[axis] - 1), x.narrow(axis, 1, x.shape[axis] - 1)
        assert abs((a * b).mean().item()) < 5 / math.sqrt(a.numel())


def test_all_bands_and_frames_are_independent_of_each_other():
    x = normal(3, Window(0, 0, 128, 128), frames=3, bands=14).double().flatten(3).flatten(0, 2)
    correlation = x @ x.T / x.shape[1]
    assert (correlation - torch.eye(len(x))).abs().max() < 6 / math.sqrt(x.shape[1])


def test_fold_makes_unrelated_keys_and_the_order_counts():
    keys = {fold(seed, a, b) for seed in range(8) for a in range(8) for b in range(8)}
    assert len(keys) == 512
    assert fold(0, 1, 2) != fold(0, 2, 1)
    assert fold(-1, -1) == fold(2**64 - 1, 2**64 - 1)
    assert 0 <= fold(5, 2**40) < 2**64


def test_scalars_are_one_number_a_key():
    keys = [fold(9, i) for i in range(5)]
    drawn = scalars(keys)
    assert drawn.shape == (5,)
    assert torch.equal(drawn[2:3], scalars(keys[2:3]))


def test_the_written_out_functions_are_accurate():
    u = (torch.arange(1, 200_001) / 200_000).float()
    assert (_log(u).double() - u.double().log()).abs().max() < 2e-6
    x = torch.linspace(1e-7, 50, 200_001)
    assert (_sqrt(x).double() / x.double().sqrt() - 1).abs().max() < 2e-7
    assert 0 <= _sqrt(torch.zeros(1)).item() < 1e-15
    words = torch.arange(0, 2**32, 20_011)
    cosine, sine = _cos_sin_turn(words)
    angle = (words.double() / 2**30 - 0.5) * (math.pi / 2)
    assert (cosine.double() - angle.cos()).abs().max() < 2e-7
    assert (sine.double() - angle.sin()).abs().max() < 2e-7


def test_the_rarest_words_give_sensible_numbers_too():
    """Words next to 2^32 round to u = 1, once in thirty million draws; those next to 0 make the longest tail."""
    ends = torch.cat([torch.arange(2**32 - 1000, 2**32), torch.arange(1000)])
    angles = torch.tensor([0, 1, 2**30 - 1, 2**30, 2**31, 3 * 2**30, 2**32 - 1])
    for value in _box_muller(ends[:, None].expand(-1, 7), angles.expand(2000, -1)):
        assert torch.isfinite(value).all()
        assert value.abs().max() < 6.8
        assert value[:100].abs().max() < 1e-3


def test_keys_of_any_integer_are_cut_to_64_bits():
    window = Window(0, 0, 2, 2)
    assert torch.equal(normal([-1, 2**64 + 3], window), normal([2**64 - 1, 3], window))
    assert normal([], window, frames=2, bands=3).shape == (0, 2, 3, 2, 2)


@pytest.mark.gpu
def test_the_bits_are_the_same_on_the_gpu_and_nothing_waits_for_it():
    keys, window = [fold(5, i) for i in range(3)], Window(100, 7, 333, 257)
    on_cpu = draw(split_keys(keys, "cpu"), window, frames=3, bands=13)
    torch.cuda.set_sync_debug_mode("error")
    try:
        on_gpu = draw(split_keys(keys, "cuda"), window, frames=3, bands=13)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(on_cpu.contiguous().view(torch.int32), on_gpu.cpu().contiguous().view(torch.int32))
