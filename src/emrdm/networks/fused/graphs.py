"""CUDA graphs: the launches for one shape of input, recorded once and replayed as one."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from emrdm import gpu

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
    """Recordings of functions, by the shapes of their arguments, on one GPU.

    They share memory, since one is replayed after the other, whatever thread or stream asks: results are copied out
    before the next begins.
    """

    def __init__(self) -> None:
        self.off = False
        self._recorded: OrderedDict[object, _Recorded] = OrderedDict()
        self._met: Counter[object] = Counter()
        self._lock = threading.RLock()
        self._recording = False
        self._pool: Any = None
        self._stream: Any = None
        self._done: Any = None

    def pays(self, x: Tensor) -> bool:
        """Whether an image batch (..., H, W) is small enough for launches to cost more than the work."""
        return not self.off and not self._recording and x.numel() // x.shape[-3] <= _LARGEST

    def replay(
        self,
        function: Callable[..., Tensor],
        *inputs: Tensor | None,
        key: object = None,
        held: Callable[[], object] = lambda: None,
        after: int = 1,
    ) -> Tensor:
        """What the function gives for these tensors.

        Args:
            function: the same for the same key.
            inputs: its arguments.
            key: of all that it depends on beside them.
            held: asked after recording for what else must stay in memory.
            after: calls with a key and shapes that are not worth a recording yet.
        """
        key = (key, *(None if x is None else (x.shape, x.dtype) for x in inputs))
        with self._lock:
            recorded = self._recorded.get(key)
            if recorded is None:
                self._met[key] += 1
                if self._met[key] <= after:
                    return function(*inputs)
                recorded = self._recorded[key] = self._record(function, inputs, held)
                if len(self._recorded) > _KEPT:
                    self._recorded.popitem(last=False)
            self._recorded.move_to_end(key)
            stream = torch.cuda.current_stream()
            stream.wait_event(self._done)
            for mine, given in zip(recorded.inputs, inputs, strict=True):
                if mine is not None and given is not None:
                    mine.copy_(given, non_blocking=True)
            recorded.graph.replay()
            result = recorded.output.clone()
            self._done.record(stream)
            return result

    def _record(
        self, function: Callable[..., Tensor], inputs: tuple[Tensor | None, ...], held: Callable[[], object]
    ) -> _Recorded:
        began = time.monotonic()
        self._stream = self._stream or torch.cuda.Stream()
        self._done = self._done or torch.cuda.Event()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        self._recording = True
        try:
            with torch.inference_mode(False), torch.no_grad():
                mine = [None if x is None else x.clone() for x in inputs]
                self._stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self._stream):
                    expected = function(*mine)  # once outside: compiles kernels, chooses tiles, fills tables
                torch.cuda.current_stream().wait_stream(self._stream)
                torch.cuda.synchronize()
                with gpu.recording(self._stream, self._pool) as graph:
                    output = function(*mine)
                output.copy_(expected + 1)  # else a recording of nothing would pass
                graph.replay()
                if not torch.allclose(output, expected, rtol=0, atol=0, equal_nan=True):
                    raise RuntimeError("a recorded CUDA graph does not repeat what was recorded")
        finally:
            self._recording = False
        shape = " x ".join(map(str, next(x.shape for x in inputs if x is not None)))
        _LOG.info("recorded a CUDA graph for %s in %.1f s", shape, time.monotonic() - began)
        return _Recorded(graph, mine, output, held())
