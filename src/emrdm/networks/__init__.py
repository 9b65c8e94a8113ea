"""F, the networks between the preconditioning factors. Know nothing of diffusion or files."""

from emrdm.networks.config import NetworkConfig, check_channels
from emrdm.networks.cost import Cost, count
from emrdm.networks.hdit import HDiT, Hourglass
from emrdm.networks.neighborhood import neighborhood_attention
from emrdm.networks.temporal import TemporalHDiT


def build(config: NetworkConfig, in_channels: int, out_channels: int) -> HDiT | TemporalHDiT:
    """The network a configuration describes, freshly initialised."""
    return (TemporalHDiT if config.multi_temporal else HDiT)(config, in_channels, out_channels)


__all__ = [
    "Cost",
    "HDiT",
    "Hourglass",
    "NetworkConfig",
    "TemporalHDiT",
    "build",
    "check_channels",
    "count",
    "neighborhood_attention",
]
