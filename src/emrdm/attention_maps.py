"""Where a multi-temporal model looks: the weights by which it fuses the dates, at every step and place.

The paper draws them over the cloudy images: a date counts where it is clear.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from emrdm.config import SamplerConfig
from emrdm.diffusion import Step
from emrdm.errors import InputError
from emrdm.images import Array
from emrdm.model import EMRDM
from emrdm.networks import TemporalHDiT
from emrdm.networks.temporal import enlarge


@final
@dataclass(frozen=True)
class AttentionMaps:
    """Attention masks of one restoration.

    Attributes:
        masks: (steps, heads, L, h, w) float32 on the bottleneck's grid; they sum to 1 over the L dates.
        levels: noise level sigma of each step, from high to low.
        size: rows and columns of the images.
        padded: rows and columns that the grid covers: the images are mirrored at the right and lower border.
        restored: (C, H, W) float32, the result of this very run.
    """

    masks: np.ndarray
    levels: tuple[float, ...]
    size: tuple[int, int]
    padded: tuple[int, int]
    restored: np.ndarray

    def enlarged(self, step: int = -1) -> np.ndarray:
        """(heads, L, H, W): the masks of a step on the images' pixels, enlarged as the network does for its skips."""
        masks = torch.from_numpy(self.masks[step])
        height, width = self.size
        return enlarge(masks[None], *self.padded)[0, ..., :height, :width].numpy()

    def mean(self, step: int = -1) -> np.ndarray:
        """(L, H, W): the mean over heads; sums to 1 over the dates."""
        return np.asarray(self.enlarged(step).mean(0))


def attention_maps(
    model: EMRDM,
    cloudy: Array,
    aux: Array | None = None,
    *,
    seed: int = 0,
    sampler: SamplerConfig | None = None,
    steps: int | None = None,
    scaled: bool = False,
    callback: Callable[[Step], None] | None = None,
) -> AttentionMaps:
    """Restore one series by the plain network, and keep the attention masks of every step.

    Args:
        model: a multi-temporal one.
        cloudy: (L, C, H, W), as :meth:`~emrdm.EMRDM.restore` takes it. Masks come in the order that is given here: put
            dates in order before, and leave out missing ones.
        aux: (L, A, H, W) of a model with auxiliary bands.
        seed: of the noise.
        sampler: other settings than the model's own. Of a step with two calls of the network, the first is kept.
        steps: shortcut for another number of steps.
        scaled: images are already in [-1, 1], and so is the result.
        callback: called after each step.
    """
    network = model.network
    if not isinstance(network, TemporalHDiT):
        raise InputError("this model takes one image: expected a multi-temporal one, only those weigh dates")
    if cloudy.ndim != 4:
        raise InputError(f"cloudy has {cloudy.ndim} axes: expected one series (L, C, H, W)")
    masks: list[np.ndarray] = []
    levels: list[float] = []
    with _recording(network) as calls:

        def keep(step: Step) -> None:
            masks.append(calls[0][0].float().cpu().numpy())
            levels.append(float(model.process.sigma(torch.tensor(step.t, dtype=torch.float64))))
            calls.clear()
            if callback is not None:
                callback(step)

        restored = model.restore(
            cloudy, aux, seed=seed, sampler=sampler, steps=steps, scaled=scaled, exact=True, callback=keep
        )
    height, width = int(cloudy.shape[-2]), int(cloudy.shape[-1])
    padded = model.config.network.padded
    return AttentionMaps(
        masks=np.stack(masks).swapaxes(1, 2),
        levels=tuple(levels),
        size=(height, width),
        padded=(padded(height), padded(width)),
        restored=restored.cpu().numpy() if isinstance(restored, Tensor) else restored,
    )


@contextmanager
def _recording(network: TemporalHDiT) -> Iterator[list[Tensor]]:
    """The attention (B, L, heads, h, w) of every call that this thread makes."""
    calls: list[Tensor] = []
    here = threading.get_ident()

    def keep(module: torch.nn.Module, given: object, found: tuple[Tensor, Tensor]) -> None:
        del module, given
        if threading.get_ident() == here:
            calls.append(found[1].detach())

    handle = network.temporal_encoder.register_forward_hook(keep)
    try:
        yield calls
    finally:
        handle.remove()
