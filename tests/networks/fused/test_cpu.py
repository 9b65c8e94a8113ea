"""What is found out about a CPU."""

import os
import time

import pytest
import torch

from emrdm.networks import choices
from emrdm.networks.fused import cpu


def forget():
    for function in (cpu.faster_dtype, cpu.settle_threads, choices._all):
        function.cache_clear()


@pytest.fixture
def _forgetful(tmp_path, monkeypatch):
    """Nothing is remembered before or after, and the CPU does not tell what it can."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cpu, "_features", lambda: None)
    forget()
    yield
    forget()


def blocks(monkeypatch, **seconds):
    """Blocks that take that long."""
    count = dict.fromkeys(seconds, 0)

    def block(dtype):
        name = str(dtype).removeprefix("torch.")

        def run():
            count[name] += 1
            time.sleep(seconds[name])

        return run

    monkeypatch.setattr(cpu, "_block", block)
    return count


@pytest.mark.usefixtures("_forgetful")
def test_bfloat16_needs_a_clear_advantage(monkeypatch):
    for half, expected in ((0.001, torch.bfloat16), (0.01, torch.float32), (0.02, torch.float32)):
        forget()
        choices.cache_file().unlink(missing_ok=True)
        blocks(monkeypatch, float32=0.01, bfloat16=half)
        assert cpu.faster_dtype().dtype == expected


@pytest.mark.usefixtures("_forgetful")
@pytest.mark.parametrize(
    ("features", "expected"),
    [({"avx512f", "avx512_bf16"}, torch.bfloat16), ({"avx2"}, torch.float32), ({"asimd", "bf16"}, torch.bfloat16)],
)
def test_a_cpu_that_tells_what_it_can_is_not_timed(monkeypatch, features, expected):
    monkeypatch.setattr(cpu, "_features", lambda: features)
    monkeypatch.setattr(cpu, "_trial", lambda: pytest.fail("timed"))
    assert cpu.faster_dtype().dtype == expected


@pytest.mark.usefixtures("_forgetful")
def test_the_choice_is_kept_for_other_processes(monkeypatch):
    blocks(monkeypatch, float32=0.01, bfloat16=0.001)
    first = cpu.faster_dtype()
    forget()
    blocks(monkeypatch, float32=0.001, bfloat16=0.01)
    assert cpu.faster_dtype() == first


@pytest.mark.usefixtures("_forgetful")
def test_the_timing_is_made_once(monkeypatch):
    count = blocks(monkeypatch, float32=0.0, bfloat16=0.0)
    assert cpu.faster_dtype() is cpu.faster_dtype()
    assert count == {"float32": 5, "bfloat16": 5}


@pytest.mark.usefixtures("_forgetful")
def test_the_timing_disturbs_no_random_numbers():
    state = torch.get_rng_state()
    assert cpu.faster_dtype().why
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", 6), ("250000 100000", 3), ("10000 100000", 1), ("9900000 100000", 6)]
)
def test_a_container_limits_the_cpus(tmp_path, monkeypatch, text, expected):
    (tmp_path / "cpu.max").write_text(text + "\n")
    monkeypatch.setattr(cpu, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert cpu.usable_cpus() == expected


@pytest.mark.usefixtures("_forgetful")
@pytest.mark.parametrize(("asked", "threads", "cpus", "expected"), [
    (None, 8, 2, 2), (None, 1, 2, None), ("8", 8, 2, None),
])  # fmt: skip
def test_threads_are_lowered_unless_their_number_was_asked_for(monkeypatch, asked, threads, cpus, expected):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    found = []
    monkeypatch.setattr(cpu, "usable_cpus", lambda: cpus)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    cpu.settle_threads()
    cpu.settle_threads()
    assert found == ([] if expected is None else [expected])
