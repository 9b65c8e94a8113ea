"""F, the networks between the preconditioning factors. Know nothing of diffusion or files."""

import torch

from emrdm.networks.config import NetworkConfig, check_channels
from emrdm.networks.cost import Cost, count
from emrdm.networks.hdit import HDiT, Hourglass
from emrdm.networks.neighborhood import neighborhood_attention
from emrdm.networks.temporal import TemporalHDiT


def build(config: NetworkConfig, in_channels: int, out_channels: int) -> HDiT | TemporalHDiT:
    """The network a configuration describes, freshly initialised."""
    return (TemporalHDiT if config.multi_temporal else HDiT)(config, in_channels, out_channels)


def build_empty(config: NetworkConfig, in_channels: int, out_channels: int) -> HDiT | TemporalHDiT:
    """The same network without values: names and shapes at no cost, or a place to put loaded weights."""
    with torch.device("meta"):
        return build(config, in_channels, out_channels)


__all__ = [
    "Cost",
    "HDiT",
    "Hourglass",
    "NetworkConfig",
    "TemporalHDiT",
    "build",
    "build_empty",
    "check_channels",
    "count",
    "neighborhood_attention",
]
