"""Each back-end of neighbourhood attention alone: same inputs, forward, and forward with backward."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from emrdm.bench.measure import Effort, may_end, measure, room, tidy
from emrdm.bench.paths import Way, unit_inputs
from emrdm.bench.results import Kernel, Measured, Row
from emrdm.networks.neighborhood import BACKENDS, neighborhood_attention

_CALLS = 10  # recorded together on a GPU
_COPIES = 4  # of gathered keys and values that forward and backward hold at a time


@final
@dataclass(frozen=True)
class Shape:
    """Tokens a side, heads, channels a head, and the side of the neighbourhood."""

    tokens: int
    heads: int
    channels: int = 64
    kernel: int = 7

    @property
    def label(self) -> str:
        """In words."""
        return (
            f"{self.tokens} x {self.tokens} tokens, {self.heads} heads of {self.channels}, "
            f"neighbourhood {self.kernel} x {self.kernel}"
        )

    @property
    def gathered(self) -> int:
        """Bytes that a gather takes forward and backward, in float32."""
        return _COPIES * 4 * self.tokens**2 * self.kernel**2 * self.heads * self.channels

    def inputs(self, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
        """Queries, keys and values."""
        return unit_inputs((1, self.tokens, self.tokens, self.heads, self.channels), device, dtype)


# The outermost level of the published networks at 256 x 256 pixels; on a CPU the next one.
ON_GPU, ON_CPU = Shape(256, 2), Shape(128, 4)


def attention(
    device: torch.device, effort: Effort, announce: Callable[[str], None], shape: Shape | None = None
) -> tuple[list[Kernel], list[Row], str]:
    """All back-ends, the rows that compare ours with the published-style one, and what was measured in words."""
    shape = shape or (ON_GPU if device.type == "cuda" else ON_CPU)
    expected = _expected(shape, device)
    kernels = []
    for name, dtype in _candidates(device):
        announce(f"attention: {name}, {_short(dtype)}")
        kernels.append(_kernel(name, dtype, shape, device, effort, expected))
    return kernels, rows_of(kernels, shape), shape.label


def rows_of(kernels: list[Kernel], shape: Shape) -> list[Row]:
    """Ours against the published-style back-end: both in bfloat16 where both can, else in float32."""
    by_name = {(kernel.backend, kernel.dtype): kernel for kernel in kernels if kernel.forward is not None}
    for dtype in ("bfloat16", "float32"):
        theirs = next((by_name[name, dtype] for name in ("flex", "reference") if (name, dtype) in by_name), None)
        ours = next((by_name[name, dtype] for name in ("triton", "tiled") if (name, dtype) in by_name), None)
        if theirs is None or ours is None:
            continue
        who = {"reference": "gather"}.get(theirs.backend, theirs.backend)
        what = f"{who} -> {ours.backend}"
        note = f"{shape.label}, {dtype}"
        return [
            Row("attention", f"attention, {what}", theirs.forward, ours.forward, note=note),
            Row("attention", "  with backward", theirs.both, ours.both),
        ]
    return []


def _candidates(device: torch.device) -> list[tuple[str, torch.dtype]]:
    """Back-ends and number types, the slow ones first. A gather is only ever float32: the definition."""
    if device.type != "cuda":
        return [(name, torch.float32) for name in ("reference", "tiled")]
    found = [("reference", torch.float32)]
    for name in sorted(set(BACKENDS) - {"reference"}):
        found += [(name, torch.float32), (name, torch.bfloat16)]
    return found


def _kernel(
    name: str, dtype: torch.dtype, shape: Shape, device: torch.device, effort: Effort, expected: Tensor
) -> Kernel:
    if name == "reference" and device.type == "cpu" and (room() or shape.gathered) < shape.gathered:
        why = f"a gather takes {shape.gathered / 1e9:.0f} GB, more than is free"
        return Kernel(name, _short(dtype), why_not=why)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return neighborhood_attention(q, k, v, kernel=shape.kernel, backend=name)

    def forward() -> Callable[[], Tensor]:
        inputs = shape.inputs(device, dtype)

        def call() -> Tensor:
            with torch.no_grad():
                return attend(*inputs)

        return call

    def both() -> Callable[[], Tensor]:
        inputs = [x.requires_grad_() for x in shape.inputs(device, dtype)]
        slope = torch.ones_like(inputs[0])
        return lambda: torch.autograd.grad(attend(*inputs), inputs, slope)[0]

    def timed(prepare: Callable[[], Callable[[], Tensor]]) -> tuple[Measured, Tensor]:
        calls = _CALLS if device.type == "cuda" else 1
        ready = (lambda: _recorded(prepare(), calls)) if device.type == "cuda" else prepare
        found, out = measure(ready, device, effort, path=name)
        inside = None if found.device_seconds is None else found.device_seconds / calls
        each = {"seconds": found.seconds / calls, "fastest": found.fastest / calls, "device_seconds": inside}
        return dataclasses.replace(found, **each), out  # type: ignore[arg-type]

    time: Measured | None = None
    both_ways: Measured | None = None
    largest: float | None = None
    # whatever keeps one from running here must not keep the others
    with Way(name, "", precision="high", attention=name).entered(), may_end(in_any_way=True) as ended:
        time, out = timed(forward)
        largest = (out.float() - expected).abs().max().item()
        del out
        both_ways, _ = timed(both)
    return Kernel(name, _short(dtype), time, both_ways, largest, "".join(ended))


def _recorded(call: Callable[[], Tensor], calls: int) -> Callable[[], Tensor]:
    """Several calls as one CUDA graph: a kernel takes less time than Python does to launch it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            out = call()

    def replay(_: object = call) -> Tensor:  # a graph does not keep the tensors it reads: the call does
        graph.replay()
        return out

    return replay


def _expected(shape: Shape, device: torch.device) -> Tensor:
    """The result in float32 without rounding, by tiles: a gather may not fit, and tests hold the two together."""
    tidy(device)
    q, k, v = shape.inputs(device, torch.float32)
    with torch.no_grad(), Way("tiled", "", precision="highest").entered():
        return neighborhood_attention(q, k, v, kernel=shape.kernel, backend="tiled")


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
