"""AdamW whose matrices take steps of equal size in all directions (Muon, Jordan et al. 2024)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

_MOMENTUM = 0.95
_ROUNDS = 5
_QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan's: steepest at zero, singular values end between 0.7 and 1.2
_RMS = 0.2  # of a step's entries, about AdamW's, so that both share learning rate and decay (Liu et al. 2025)


@final
class Muon(torch.optim.AdamW):
    """AdamW, but groups that are ``orthogonal`` step along U V^T of their averaged gradient U S V^T.

    A gradient is mostly a few directions, and AdamW's step is too; here weak directions are learned as fast as strong
    ones. Momentum is kept as AdamW's ``exp_avg``, so that checkpoints look alike.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], **settings: Any) -> None:
        super().__init__([{"orthogonal": False, **group} for group in groups], **settings)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Both kinds of groups."""
        matrices = [group for group in self.param_groups if group["orthogonal"]]
        kept: list[tuple[Tensor, Tensor]] = []
        for group in matrices:
            kept += self._step(group)
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
        torch._foreach_lerp_(momenta, gradients, 1 - _MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, _MOMENTUM)  # Nesterov's
        steps = orthogonalized(list(ahead))
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_mul_(steps, [-group["lr"] * _RMS * math.sqrt(max(p.shape)) for p in parameters])
        torch._foreach_add_(parameters, steps)
        return pairs


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
