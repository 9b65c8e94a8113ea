"""The gradients of a batch as one CUDA graph: launching a step's kernels takes a CPU longer than a GPU to run them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from emrdm import gpu

_LOG = logging.getLogger(__name__)
_SEEN = 2  # times that batches of a shape are computed before they are recorded: compilers and tuning are done then
_KEPT = 4  # shapes; each holds the memory of its activations
_LOSS, _GRADIENT = 1e-3, 2e-2  # relative differences from the computed batch that some kernels' rounding may make

Compute = Callable[..., Tensor]


@final
@dataclass(frozen=True)
class _Recorded:
    graph: Any
    inputs: tuple[Tensor | None, ...]
    loss: Tensor
    gradients: list[Tensor | None]


@final
class Recorder:
    """Computes the loss of a batch and adds its gradients to those of the parameters.

    The function must be the same whenever it is called, with gradients that depend on its arguments, the parameters and
    torch's random state alone. Each recording is checked against the function itself before it is used.
    """

    def __init__(self, compute: Compute, parameters: Sequence[Tensor]) -> None:
        self._compute, self._parameters = compute, list(parameters)
        self._seen: Counter[object] = Counter()
        self._recorded: dict[object, _Recorded] = {}
        self._pool: Any = None
        self._stream: Any = None
        self.failed: str | None = None

    def __call__(self, *inputs: Tensor | None) -> Tensor:
        """The loss, detached; gradients are added up."""
        key = tuple(None if x is None else (x.shape, x.dtype) for x in inputs)
        recorded = self._recorded.get(key)
        if recorded is not None:
            return self._replay(recorded, inputs)
        self._seen[key] += 1
        if self._seen[key] <= _SEEN or self.failed is not None or len(self._recorded) >= _KEPT:
            return self._compute(*inputs).detach()
        return self._try(key, inputs)

    def _replay(self, recorded: _Recorded, inputs: Sequence[Tensor | None]) -> Tensor:
        # Gradients of an earlier replay are in memory that this one may use, whichever recording they are from.
        ours = {id(x) for known in self._recorded.values() for x in known.gradients if x is not None}
        earlier = [parameter.grad for parameter in self._parameters]
        earlier = [x.clone() if x is not None and id(x) in ours else x for x in earlier]
        for mine, given in zip(recorded.inputs, inputs, strict=True):
            if mine is not None and given is not None:
                mine.copy_(given, non_blocking=True)
        recorded.graph.replay()
        for parameter, before, found in zip(self._parameters, earlier, recorded.gradients, strict=True):
            parameter.grad = found if before is None else before if found is None else before.add_(found)
        return recorded.loss.clone()

    def _try(self, key: object, inputs: Sequence[Tensor | None]) -> Tensor:
        """Compute once more, record, and compare; whatever goes wrong, the batch counts as computed."""
        earlier = [parameter.grad for parameter in self._parameters]
        state = torch.cuda.get_rng_state()
        self._forget()
        loss = self._compute_aside(inputs)
        computed = [parameter.grad for parameter in self._parameters]
        after = torch.cuda.get_rng_state()
        try:
            self._forget()
            recorded = self._record(inputs)
            torch.cuda.set_rng_state(state)
            self._forget()
            again = self._replay(recorded, inputs)
            self._compare(loss, again, computed)
            self._recorded[key] = recorded
        except Exception as error:  # out of memory, an operation that cannot be recorded, another result
            torch.cuda.synchronize()
            self.failed = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            _LOG.warning("steps are not recorded as a CUDA graph (%s): kernels are launched one by one", self.failed)
        torch.cuda.set_rng_state(after)
        for parameter, before, found in zip(self._parameters, earlier, computed, strict=True):
            parameter.grad = found if before is None else before if found is None else before.add_(found)
        return loss

    def _compute_aside(self, inputs: Sequence[Tensor | None]) -> Tensor:
        """On a stream of its own, as recording will be: so torch wants it before."""
        self._stream = self._stream or torch.cuda.Stream()
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            loss = self._compute(*inputs).detach()
        torch.cuda.current_stream().wait_stream(self._stream)
        return loss

    def _record(self, inputs: Sequence[Tensor | None]) -> _Recorded:
        mine = tuple(None if x is None else x.clone() for x in inputs)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # what batches took so far is wanted for the recording
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with gpu.recording(self._stream, self._pool) as graph:
            loss = self._compute(*mine).detach()
        gradients = [parameter.grad for parameter in self._parameters]
        for x in (loss, *gradients):  # else a recording of nothing would pass for one
            if x is not None:
                x.fill_(torch.nan)
        return _Recorded(graph, mine, loss, gradients)

    def _compare(self, loss: Tensor, again: Tensor, computed: Sequence[Tensor | None]) -> None:
        exact = torch.are_deterministic_algorithms_enabled()
        found = [parameter.grad for parameter in self._parameters]
        if [x is None for x in found] != [x is None for x in computed]:
            raise RuntimeError("a recorded step has gradients of other parameters")
        pairs = [(a, b) for a, b in zip(computed, found, strict=True) if a is not None and b is not None]
        if exact and not (torch.equal(loss, again) and all(torch.equal(a, b) for a, b in pairs)):
            raise RuntimeError("a recorded step does not repeat what was recorded")
        apart = torch.stack([(a - b).norm() for a, b in pairs]).norm()
        whole = torch.stack([a.norm() for a, _ in pairs]).norm()
        if not bool((loss - again).abs() <= _LOSS * loss.abs()) or not bool(apart <= _GRADIENT * whole):
            raise RuntimeError("a recorded step does not repeat what was recorded")

    def _forget(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None
