"""AdamW whose matrices take steps of equal size in all directions (Muon, Jordan et al. 2024)."""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from emrdm import gpu

_LOG = logging.getLogger(__name__)
_SEEN = 2  # times that a step is done before it is recorded: libraries have what they need then
_KEPT = 4  # recordings, one for each place that gradients come from
_MOMENTUM = 0.95
_ROUNDS = 5
_QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan's: steepest at zero, singular values end between 0.7 and 1.2
_RMS = 0.2  # of a step's entries, about AdamW's, so that both share learning rate and decay (Liu et al. 2025)


@final
class Muon(torch.optim.AdamW):
    """AdamW, but groups that are ``orthogonal`` step along U V^T of their averaged gradient U S V^T.

    A gradient is mostly a few directions, and AdamW's step is too; here weak directions are learned as fast as strong
    ones. Momentum is kept as AdamW's ``exp_avg``, so that checkpoints look alike. On a GPU the hundreds of small
    products of a step are recorded as a CUDA graph: launching them takes longer than the products do.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], **settings: Any) -> None:
        super().__init__([{"orthogonal": False, **group} for group in groups], **settings)
        self._seen: Counter[object] = Counter()
        self._recorded: dict[object, _Recorded] = {}
        self._stream: Any = None
        self.failed: str | None = None  # why steps are not recorded

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Both kinds of groups."""
        kept: list[tuple[Tensor, Tensor]] = []
        for group in self.param_groups:
            kept += self._step(group) if group["orthogonal"] else []
        for parameter, _ in kept:  # AdamW leaves alone what has no gradient
            parameter.grad = None
        loss = super().step(closure)
        for parameter, gradient in kept:
            parameter.grad = gradient
        return loss

    def _step(self, group: dict[str, Any]) -> list[tuple[Tensor, Tensor]]:
        pairs = [(parameter, parameter.grad) for parameter in group["params"] if parameter.grad is not None]
        if not pairs:
            return []
        parameters, gradients = (list(part) for part in zip(*pairs, strict=True))
        momenta = [self.state[p].setdefault("exp_avg", torch.zeros_like(p)) for p in parameters]
        tensors = _Tensors(parameters, gradients, momenta)
        rate, decay = group["lr"], group["lr"] * group["weight_decay"]
        key = tuple(x.data_ptr() for part in tensors for x in part)
        if (recorded := self._recorded.get(key)) is not None:
            recorded(rate, decay)
            return pairs
        if self._comes_again(key, parameters[0].device):
            self._record(key, tensors, rate, decay)
        else:
            _update(tensors, *_numbers(tensors, rate, 1 - decay))
        return pairs

    def _comes_again(self, key: object, device: torch.device) -> bool:
        """Whether gradients have been in this place before, and a recording can be made and kept."""
        if device.type != "cuda" or self.failed is not None or len(self._recorded) >= _KEPT:
            return False
        if len(self._seen) > 100 * _KEPT:  # they are somewhere else every time
            self._seen.clear()
        self._seen[key] += 1
        return self._seen[key] > _SEEN

    def _record(self, key: object, tensors: _Tensors, rate: float, decay: float) -> None:
        """Record this step and do it; where it cannot be recorded, only do it."""
        numbers = _numbers(tensors, rate, 1 - decay)
        self._stream = self._stream or torch.cuda.Stream()
        try:
            torch.cuda.synchronize()
            with gpu.recording(self._stream, torch.cuda.graph_pool_handle()) as graph:
                _update(tensors, *numbers)
        except Exception as error:  # such as no memory
            torch.cuda.synchronize()
            self.failed = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            _LOG.warning("Muon's steps are not recorded as a CUDA graph (%s): they are slower", self.failed)
            _update(tensors, *numbers)
            return
        self._recorded[key] = _Recorded(graph, *numbers)
        self._recorded[key](rate, decay)


class _Tensors(NamedTuple):
    """What a step works on, each parameter at the same place of all three."""

    parameters: list[Tensor]
    gradients: list[Tensor]
    momenta: list[Tensor]


class _Recorded(NamedTuple):
    """A step as a CUDA graph, and the numbers that change from step to step."""

    graph: Any
    rate: Tensor
    left: Tensor

    def __call__(self, rate: float, decay: float) -> None:
        self.rate.fill_(rate)
        self.left.fill_(1 - decay)
        self.graph.replay()


def _numbers(tensors: _Tensors, *values: float) -> list[Tensor]:
    """Numbers where the parameters are."""
    return [torch.full((), value, device=tensors.parameters[0].device) for value in values]


def _update(tensors: _Tensors, rate: Tensor, left: Tensor) -> None:
    """One step; of the parameters themselves the share ``left`` stays."""
    parameters, gradients, momenta = tensors
    torch._foreach_lerp_(momenta, gradients, 1 - _MOMENTUM)
    ahead = torch._foreach_lerp(gradients, momenta, _MOMENTUM)  # Nesterov's
    steps = orthogonalized(list(ahead))
    torch._foreach_mul_(steps, [-_RMS * math.sqrt(max(p.shape)) for p in parameters])
    torch._foreach_mul_(steps, rate)
    torch._foreach_mul_(parameters, left)
    torch._foreach_add_(parameters, steps)


def orthogonalized(matrices: list[Tensor]) -> list[Tensor]:
    """About U V^T of each matrix U S V^T, by Newton-Schulz iteration; those of one shape together."""
    shapes: dict[torch.Size, list[int]] = defaultdict(list)
    for place, matrix in enumerate(matrices):
        shapes[matrix.shape].append(place)
    found: list[Tensor] = list(matrices)
    for places in shapes.values():
        stack = torch.stack([matrices[place] for place in places])
        for place, result in zip(places, _newton_schulz(stack).unbind(), strict=True):
            found[place] = result.to(matrices[place].dtype)
    return found


def _newton_schulz(x: Tensor) -> Tensor:
    """(n, rows, columns) -> the same. In bfloat16 on GPUs: it corrects its own rounding."""
    a, b, c = _QUINTIC
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x  # products of the shorter side are smaller
    x = x / (torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True) + 1e-7)
    x = x.bfloat16() if x.is_cuda else x
    for _ in range(_ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
