"""The order of training: the same draws after a restart, in other processes, on other machines."""

from collections import Counter

import pytest

from emrdm.errors import ConfigError
from emrdm.training import Order


def test_every_epoch_sees_every_sample_once_in_another_order():
    order = Order(size=10, seed=3, batch_size=5, steps=8)
    epochs = [[draw.index for draw in order[i : i + 10]] for i in range(0, 40, 10)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_a_draw_depends_on_seed_and_place_alone():
    whole = list(Order(size=7, seed=1, batch_size=4, steps=9))
    again = Order(size=7, seed=1, batch_size=4, steps=9)
    assert [again[i] for i in reversed(range(36))] == whole[::-1]
    assert again[20:28] == whole[20:28]
    assert again[-1] == whole[-1]
    assert [draw.index for draw in Order(size=7, seed=2, batch_size=4, steps=9)] != [draw.index for draw in whole]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_processes_together_see_what_one_with_the_whole_batch_would(ranks):
    alone = Order(size=11, seed=5, batch_size=12, steps=6)
    parts = [Order(11, 5, 12 // ranks, 6, rank, ranks) for rank in range(ranks)]
    for step in range(6):
        side = 12 // ranks
        together = [draw for part in parts for draw in part[step * side : (step + 1) * side]]
        assert together == alone[step * 12 : (step + 1) * 12]


def test_keys_are_all_different():
    keys = Counter(draw.key for draw in Order(size=5, seed=0, batch_size=10, steps=50))
    assert max(keys.values()) == 1


def test_a_long_run_costs_nothing_until_it_is_asked_for():
    order = Order(size=100_000, seed=0, batch_size=12, steps=446_700)
    assert len(order) == 5_360_400
    assert order[5_000_000] == order[5_000_000]


def test_places_outside_are_refused():
    order = Order(size=3, seed=0, batch_size=2, steps=2)
    for place in (4, -5):
        with pytest.raises(IndexError):
            order[place]


@pytest.mark.parametrize("wrong", [{"size": 0}, {"batch_size": 0}, {"steps": 0}, {"rank": 2, "ranks": 2}, {"rank": -1}])
def test_numbers_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match="expected"):
        Order(**{"size": 3, "seed": 0, "batch_size": 2, "steps": 2} | wrong)
