"""Times and memory of calls."""

import time

import pytest
import torch
from tests.bench.small import CPU

from emrdm.bench.measure import Effort, busy, machine, may_end, measure, memory_words


def sleeping(first, later):
    calls = []

    def call():
        calls.append(0)
        time.sleep(first if len(calls) == 1 else later)
        return len(calls)

    return call


def test_the_first_call_is_timed_by_itself():
    found, last = measure(lambda: sleeping(0.1, 0.01), CPU, Effort(5, 10), path="x", items=4)
    assert 0.1 <= found.first < 0.3
    assert 0.01 <= found.fastest <= found.seconds < 0.09
    assert found.each == found.seconds / 4
    assert (found.runs, last) == (5, 7)  # one first, one for memory


def test_slow_calls_are_repeated_less_often():
    assert measure(lambda: sleeping(0, 0.02), CPU, Effort(50, 0.03), path="x")[0].runs == 3
    assert measure(lambda: sleeping(0, 0.05), CPU, Effort(50, 0.03), path="x")[0].runs == 1


def test_memory_is_that_of_the_call_and_of_what_it_needs_to_be_there():
    def prepare():
        held = torch.ones(10_000_000)  # 40 MB

        def call():
            scratch = held * 2  # 40 MB more
            time.sleep(0.02)
            return scratch[:1].clone()

        return call

    found, _ = measure(prepare, CPU, Effort(1, 1), path="x")
    if found.memory is None:
        pytest.skip(memory_words(CPU))
    assert 75e6 < found.memory < 120e6
    again, _ = measure(prepare, CPU, Effort(1, 1), path="x")
    assert 75e6 < again.memory < 120e6  # what the first one freed does not make the second one cheaper


def test_the_end_of_memory_is_caught_and_nothing_else():
    with may_end() as ended:
        raise torch.OutOfMemoryError("CUDA out of memory")
    assert ended == ["out of memory"]
    with pytest.raises(RuntimeError, match="shapes"), may_end():
        raise RuntimeError("shapes do not fit")
    with may_end(in_any_way=True) as ended:
        raise KeyError("shapes do\nnot fit")
    assert "shapes do" in ended[0]


def test_the_machine_is_named():
    assert f"torch {torch.__version__}" in machine(CPU)
    assert "thread" in machine(CPU)


@pytest.mark.parametrize(("idle", "words"), [(40, "other work took 60 % of the processor"), (95, "")])
def test_a_busy_machine_is_told(monkeypatch, idle, words):
    times = iter([(1000, 5000), (1000 + idle, 5100)])
    monkeypatch.setattr("emrdm.bench.measure._processor_times", lambda: next(times))
    assert busy().partition(" before")[0] == words
