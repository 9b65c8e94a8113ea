"""CUDA graphs: the launches for one shape of input, recorded once and replayed as one."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

_LOG = logging.getLogger(__name__)
_KEPT = 8  # shapes; each holds the memory of its activations
_LARGEST = 1 << 20  # pixels; with more, the GPU takes longer for a kernel than a CPU to launch it


class _Recorded(NamedTuple):
    graph: Any
    inputs: list[Tensor | None]
    output: Tensor
    held: object  # tensors that the launches read, and that nobody else may keep


@final
class Graphs:
    """Recordings of functions, by the shapes of their arguments.

    They share memory, since one is replayed after the other: results are copied out at once.
    """

    def __init__(self) -> None:
        self._recorded: OrderedDict[object, _Recorded] = OrderedDict()
        self._pool: Any = None

    @staticmethod
    def pays(x: Tensor) -> bool:
        """Whether an image batch (..., H, W) is small enough for launches to cost more than the work."""
        pixels = x.numel() // x.shape[-3]
        return pixels <= _LARGEST and not torch.cuda.is_current_stream_capturing()

    def replay(
        self,
        function: Callable[..., Tensor],
        *inputs: Tensor | None,
        key: object = None,
        held: Callable[[], object] = lambda: None,
    ) -> Tensor:
        """What the function gives for these tensors.

        Args:
            function: the same for the same key.
            inputs: its arguments.
            key: of all that it depends on beside them.
            held: asked after recording for what else must stay in memory.
        """
        key = (key, *(None if x is None else (x.shape, x.dtype) for x in inputs))
        if key not in self._recorded:
            self._recorded[key] = self._record(function, inputs, held)
            if len(self._recorded) > _KEPT:
                self._recorded.popitem(last=False)
        self._recorded.move_to_end(key)
        recorded = self._recorded[key]
        for mine, given in zip(recorded.inputs, inputs, strict=True):
            if mine is not None and given is not None:
                mine.copy_(given, non_blocking=True)
        recorded.graph.replay()
        return recorded.output.clone()  # the next replay writes there again

    def _record(
        self, function: Callable[..., Tensor], inputs: tuple[Tensor | None, ...], held: Callable[[], object]
    ) -> _Recorded:
        began = time.monotonic()
        mine = [None if x is None else x.clone() for x in inputs]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            expected = function(*mine)  # once outside: compiles kernels, chooses tiles, fills tables
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self._pool):
            output = function(*mine)
        shape = " x ".join(map(str, next(x.shape for x in inputs if x is not None)))
        graph.replay()
        if not torch.equal(output, expected):
            raise RuntimeError("a recorded CUDA graph does not repeat what was recorded")
        _LOG.info("recorded a CUDA graph for %s in %.1f s", shape, time.monotonic() - began)
        return _Recorded(graph, mine, output, held())
