"""Back-ends alone."""

import pytest
from tests.bench.small import CPU, ONCE, measured

from emrdm.bench import attention as module
from emrdm.bench.attention import Shape, attention, rows_of
from emrdm.bench.results import Kernel

SMALL = Shape(tokens=12, heads=2, channels=16)


def test_back_ends_of_a_cpu():
    heard = []
    kernels, rows, label = attention(CPU, ONCE, heard.append, SMALL)
    assert [kernel.backend for kernel in kernels] == ["reference", "tiled"]
    assert all(kernel.forward and kernel.both and kernel.largest < 1e-5 for kernel in kernels)
    assert [row.baseline.path for row in rows] == ["reference", "reference"]
    assert [row.ours.path for row in rows] == ["tiled", "tiled"]
    assert "12 x 12 tokens, 2 heads of 16" in label
    assert len(heard) == 2


def test_a_back_end_that_fails_is_told_and_the_others_go_on(monkeypatch):
    real = module.neighborhood_attention

    def broken(*arguments, backend, **options):
        if backend == "reference":
            raise ValueError("no such\nthing")
        return real(*arguments, backend=backend, **options)

    monkeypatch.setattr(module, "neighborhood_attention", broken)
    kernels, rows, _ = attention(CPU, ONCE, print, SMALL)
    assert kernels[0].why_not == "no such thing"
    assert kernels[1].forward is not None
    assert rows == []


def test_a_gather_that_does_not_fit_is_not_tried(monkeypatch):
    monkeypatch.setattr(module, "room", lambda: 1000)
    kernels, _, _ = attention(CPU, ONCE, print, SMALL)
    assert "more than is free" in kernels[0].why_not


@pytest.mark.parametrize("order", [1, -1])
def test_ours_is_compared_with_flex_in_the_same_numbers(order):
    kernels = [
        Kernel(name, dtype, measured(path=f"{name} {dtype}"), measured(path=f"{name} {dtype}"))
        for name in ("reference", "flex", "tiled", "triton")
        for dtype in ("float32", "bfloat16")
        if (name, dtype) != ("reference", "bfloat16")
    ]
    forward, both = rows_of(kernels[::order], SMALL)
    assert (forward.baseline.path, forward.ours.path) == ("flex bfloat16", "triton bfloat16")
    assert (both.baseline.path, both.ours.path) == ("flex bfloat16", "triton bfloat16")
