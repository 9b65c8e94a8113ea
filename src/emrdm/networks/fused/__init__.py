"""The network for restoring: in Triton kernels on GPUs, in torch's operations on CPUs."""

from emrdm.networks.fused.network import FusedNetwork, version, why_not

__all__ = ["FusedNetwork", "version", "why_not"]
