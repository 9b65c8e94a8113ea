"""The optimiser over a network's parameters, and its learning rate as a function of the step."""

from __future__ import annotations

import math
from typing import Any

import torch

from emrdm.networks import Hourglass
from emrdm.networks.layers import AdaRMSNorm, FeedForward, Linear, MappingNetwork, SelfAttention
from emrdm.presets.recipe import OptimizerConfig
from emrdm.training.muon import Muon

_MAPPING_SHARE = 1 / 3  # of the learning rate, Crowson et al. 2024


def parameter_groups(network: Hourglass, config: OptimizerConfig) -> list[dict[str, Any]]:
    """Parameters with their learning rate and weight decay, as torch's optimisers take them; each is in one group.

    "one" is what the published implementation runs. "hdit" has four groups: only matrices decay, and whatever carries
    the noise level into the network, the mapping network and the gains that follow it, learns at a third of the rate.
    """
    parameters = list(network.parameters())
    if config.groups == "one":
        return [{"params": parameters, "lr": config.lr, "weight_decay": config.weight_decay}]
    modules = list(network.modules())
    # Queries are a matrix in shape, but stand for themselves: what decays is the weight of a Linear.
    matrices = {module.weight for module in modules if isinstance(module, Linear)}
    matrices.remove(network.time_in_proj.weight)  # k-diffusion leaves it out, and so do the published tags
    mapping = {p for module in modules if isinstance(module, MappingNetwork | AdaRMSNorm) for p in module.parameters()}
    return [
        {
            "params": [p for p in parameters if (p in matrices) is decays and (p in mapping) is slow],
            "lr": config.lr * (_MAPPING_SHARE if slow else 1),
            "weight_decay": config.weight_decay if decays else 0.0,
        }
        for slow in (False, True)
        for decays in (True, False)
    ]


def build_optimizer(network: Hourglass, config: OptimizerConfig, *, fused: bool | None = None) -> torch.optim.AdamW:
    """The optimiser, at its full rate, which each group keeps as ``initial_lr``.

    ``fused`` is torch's: one kernel for all parameters; None leaves the choice to torch.
    """
    groups = [{**group, "initial_lr": group["lr"]} for group in parameter_groups(network, config)]
    kind: type[torch.optim.AdamW] = torch.optim.AdamW
    if config.kind == "muon":
        kind, groups = Muon, [part for group in groups for part in _parted(group, _matrices(network))]
    return kind(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=fused)


def _matrices(network: Hourglass) -> set[torch.Tensor]:
    """What maps tokens to tokens in the blocks; what reads and writes pixels or noise levels is left to AdamW."""
    blocks = [module for module in network.modules() if isinstance(module, FeedForward | SelfAttention)]
    return {module.weight for block in blocks for module in block.children() if isinstance(module, Linear)}


def _parted(group: dict[str, Any], matrices: set[torch.Tensor]) -> list[dict[str, Any]]:
    """The group as two, its matrices and the rest."""
    parts = [(kind, [p for p in group["params"] if (p in matrices) is kind]) for kind in (True, False)]
    return [{**group, "params": some, "orthogonal": kind} for kind, some in parts if some]


def rate(config: OptimizerConfig, step: int, steps: int) -> float:
    """Share of the full learning rate, 0 to 1, at ``step`` (from 0) of ``steps``.

    It rises in a line and is full at the last step of the warm-up; then it stays, or falls as a half cosine that
    would be 0 at ``steps``, one after the last.
    """
    if step < config.warmup:
        return (step + 1) / config.warmup
    if config.schedule == "constant":
        return 1.0
    if step >= steps:
        return 0.0
    return 0.5 * (1 + math.cos(math.pi * (step - config.warmup) / (steps - config.warmup)))


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every group to this share of its own full rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * factor
