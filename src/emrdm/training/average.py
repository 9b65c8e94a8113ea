"""The exponential moving average of the weights (EMA): what is validated, exported and used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn


@final
class MovingAverage:
    """Averages of parameters, as published: ema += (1 - d) (p - ema) with d = min(decay, (1 + n) / (10 + n)).

    n counts updates from one. Early on d is small, so that the random initial weights are soon forgotten. Buffers are
    not averaged.
    """

    def __init__(self, parameters: Iterable[Tensor], *, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.averages = [parameter.detach().clone() for parameter in parameters]

    def update(self, parameters: list[Tensor]) -> None:
        """Take in the parameters after a step: one kernel for all of them on a GPU."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        get_ema_multi_avg_fn(decay)(self.averages, parameters, self.updates)
