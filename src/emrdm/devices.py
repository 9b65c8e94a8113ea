"""What this machine has, and how models run on it: for people who wonder why it is slow, or fast."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import torch

from emrdm import gpu
from emrdm.config import ModelConfig
from emrdm.networks import NetworkConfig, build
from emrdm.networks.choices import cache_file
from emrdm.networks.fast import FastNetwork
from emrdm.networks.neighborhood import choose
from emrdm.wording import many

# As small as networks get: how one runs does not depend on how large it is.
_SMALL = NetworkConfig(
    widths=(64, 64),
    depths=(1, 1),
    hidden=(64, 64),
    neighborhood_levels=1,
    kernel=3,
    mapping_width=32,
    mapping_hidden=32,
    mapping_depth=1,
)


def describe_devices(config: ModelConfig | None = None) -> dict[str, dict[str, str]]:
    """For each device, and for the software: facts by name, in words. With ``config``, how such a model runs."""
    network = _SMALL if config is None else config.network
    found = {_software(): {"caches": f"{cache_file()} (choices), {_triton_cache()} (kernels)"}}
    for i in range(torch.cuda.device_count()):
        device = torch.device("cuda", i)
        facts = torch.cuda.get_device_properties(device)
        size = f"{facts.total_memory / 2**30:.0f} GiB, compute capability {facts.major}.{facts.minor}"
        found[f"cuda:{i}, {facts.name}, {size}"] = _ways(network, device)
    cpu = torch.device("cpu")
    found[f"cpu, {many(torch.get_num_threads(), 'thread')}"] = _ways(network, cpu)
    return found


def _ways(network: NetworkConfig, device: torch.device) -> dict[str, str]:
    model = FastNetwork(build(network, 3, 3).to(device))
    kernels = gpu.why_not(device)
    fast = device.type == "cuda" and kernels is None
    compiled = "compiled block by block from 300 steps on" if fast else "eager unless train.compile is set"
    return {
        "restoring": model.describe().partition(": ")[2],
        "exact": model.describe(exact=True).partition(": ")[2],
        "training": f"{choose(device)} attention, {compiled}, precision by the recipe",
        "kernels": "usable" if kernels is None else f"not usable: {kernels}",
    }


def _software() -> str:
    try:
        triton = f"triton {importlib.metadata.version('triton')}"
    except importlib.metadata.PackageNotFoundError:
        triton = "no triton"
    return f"torch {torch.__version__}, {triton}"


def _triton_cache() -> Path:
    return Path(os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache")
