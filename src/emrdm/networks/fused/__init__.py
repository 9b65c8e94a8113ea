"""The network for restoring: in Triton kernels on GPUs, in torch's operations on CPUs."""

from emrdm.networks.fused.network import FusedNetwork, why_not

__all__ = ["FusedNetwork", "why_not"]
