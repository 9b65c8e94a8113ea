"""Neighbourhood attention: one function, several back-ends that compute the same thing.

``reference`` is the definition and the oracle; ``tiled`` is fast on every device; ``triton`` is the fastest on GPUs;
``flex`` is torch's own, to compare with. To add one: a module with ``attend(q, k, v, kernel, scale)``, a line in
``BACKENDS``, a condition in ``choose``; the tests run over the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from emrdm import gpu
from emrdm.errors import ConfigError
from emrdm.networks.neighborhood import flex, reference, tiled
from emrdm.networks.neighborhood.windows import check


def _triton(q: Tensor, k: Tensor, v: Tensor, kernel: int, scale: float) -> Tensor:
    from emrdm.networks.neighborhood import triton_backend  # where Triton is

    return triton_backend.attend(q, k, v, kernel, scale)


BACKENDS: Mapping[str, Callable[[Tensor, Tensor, Tensor, int, float], Tensor]] = MappingProxyType(
    {"reference": reference.attend, "tiled": tiled.attend, "triton": _triton, "flex": flex.attend}
)
OVERRIDE = "EMRDM_ATTENTION"  # environment variable that forces a back-end
_KERNELS: dict[tuple[torch.device, str | None], bool] = {}  # where Triton was found usable, by device and switch


def choose(device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> str:
    """Name of the back-end used when none is asked for: the environment's choice, or the fastest there is."""
    name = os.environ.get(OVERRIDE)
    if name is None:
        device = torch.device(device)
        place = (device, os.environ.get(gpu.SWITCH))
        if place not in _KERNELS:
            _KERNELS[place] = gpu.usable(device)
        return "triton" if _KERNELS[place] and dtype != torch.float64 else "tiled"
    if name not in BACKENDS:
        raise ConfigError(f"{OVERRIDE} is {name!r}: expected one of {', '.join(BACKENDS)}")
    return name


def neighborhood_attention(
    q: Tensor, k: Tensor, v: Tensor, *, kernel: int = 7, scale: float = 1.0, backend: str | None = None
) -> Tensor:
    """Attention of each token to its kernel x kernel neighbours, the window sliding inward at the borders.

    Args:
        q: queries (B, H, W, heads, d); H and W at least ``kernel``.
        k: keys, same shape.
        v: values, same shape.
        kernel: odd window size.
        scale: factor on the logits.
        backend: name from ``BACKENDS``; None chooses.

    Returns:
        (B, H, W, heads, d).
    """
    check(q, k, v, kernel)
    if backend is not None and backend not in BACKENDS:
        raise ConfigError(f"attention back-end is {backend!r}: expected one of {', '.join(BACKENDS)}")
    return BACKENDS[backend or choose(q.device, v.dtype)](q, k, v, kernel, scale)


__all__ = ["BACKENDS", "choose", "neighborhood_attention"]
