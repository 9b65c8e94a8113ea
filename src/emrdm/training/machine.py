"""Where a run takes place: devices, processes and precision, through Lightning Fabric."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import torch
from torch import Tensor, nn

import emrdm
from emrdm import gpu
from emrdm.data import DiskCache, MemoryCache
from emrdm.data.cache import Cache
from emrdm.errors import InputError, MissingDependencyError
from emrdm.networks.layers import Block, FeedForward, SelfAttention
from emrdm.networks.neighborhood import choose
from emrdm.networks.temporal import TemporalBlock
from emrdm.presets.recipe import TrainConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_PRECISIONS: dict[str, Any] = {"fp32": "32-true", "tf32": "32-true", "bf16-mixed": "bf16-mixed"}
_ENOUGH = 300  # steps that pay for compiling
_GRAPHS = 64  # that may be compiled of one kind of layer: one for each level, shape of images and size of a part
Strategy = Literal["auto", "ddp", "fsdp"]


@final
@dataclass(frozen=True)
class Machine:
    """How a run is laid out; nothing here changes what comes out of it.

    Attributes:
        device: "cpu" or "cuda"; "auto" is cuda where there is one.
        processes: on this machine, one a device; None for one, or for what torchrun or SLURM has started.
        strategy: "ddp" copies the model to every process, "fsdp" spreads it over them.
        workers: processes that read ahead, for each training process.
        cache: keep decoded images: "memory", a folder, or None.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    processes: int | None = None
    strategy: Strategy = "auto"
    workers: int = 0
    cache: Literal["memory"] | Path | None = None

    def make_cache(self) -> Cache | None:
        """The cache that was asked for."""
        return MemoryCache() if self.cache == "memory" else None if self.cache is None else DiskCache(self.cache)


def start(machine: Machine, train: TrainConfig) -> Fabric:
    """Join the processes of the run; called by torchrun or SLURM in each of them, else it starts them itself."""
    try:
        from lightning_fabric import Fabric
    except ImportError:
        raise MissingDependencyError("training needs lightning-fabric: pip install 'emrdm[train]'") from None
    cuda = torch.cuda.is_available()
    if machine.device == "cuda" and not cuda:
        raise InputError("--device cuda cannot be used: there is no CUDA device here")
    device = machine.device if machine.device != "auto" else "cuda" if cuda else "cpu"
    processes, nodes = launched() or (machine.processes or 1, 1)
    if machine.processes is not None and machine.processes != processes:
        raise InputError(f"--devices is {machine.processes}: the launcher has started {processes} on this machine")
    if device == "cuda" and processes > torch.cuda.device_count():
        raise InputError(f"{processes} processes were asked for: there are {torch.cuda.device_count()} CUDA devices")
    plugins = [_environment()]
    for name in ("lightning_fabric", "lightning.fabric", "lightning_fabric.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.WARNING)
    fabric = Fabric(
        accelerator=device,
        devices=processes,
        num_nodes=nodes,
        strategy=_strategy(machine.strategy, processes * nodes),
        precision=_PRECISIONS[train.precision],
        plugins=plugins,
    )
    fabric.launch()
    return fabric


def _environment() -> Any:
    """Who starts the processes. Fabric would guess, and takes any shell on a SLURM node for a task of its own."""
    from lightning_fabric.plugins.environments.lightning import LightningEnvironment
    from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    if "TORCHELASTIC_RUN_ID" in os.environ:
        return TorchElasticEnvironment()
    if launched() is None:
        return LightningEnvironment()
    os.environ.setdefault("SLURM_NTASKS_PER_NODE", str((launched() or (1, 1))[0]))  # srun -n 2 does not set it
    return SLURMEnvironment()


def leave() -> None:
    """Part from the other processes of a run, at the end of a program: who just exits may pull others down."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def launched() -> tuple[int, int] | None:
    """Processes a machine and machines, where torchrun or SLURM has started this one."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        local = int(os.environ["LOCAL_WORLD_SIZE"])
        return local, int(os.environ["WORLD_SIZE"]) // local
    if "SLURM_PROCID" in os.environ and int(os.environ.get("SLURM_NTASKS", "1")) > 1:
        nodes = int(os.environ.get("SLURM_NNODES", "1"))
        return int(os.environ["SLURM_NTASKS"]) // nodes, nodes
    return None


def _strategy(name: Strategy, processes: int) -> Any:
    if name == "auto":
        return "ddp" if processes > 1 else "auto"
    if name == "ddp":
        return "ddp"
    from lightning_fabric.strategies.model_parallel import ModelParallelStrategy

    return ModelParallelStrategy(_shard, data_parallel_size=processes, tensor_parallel_size=1)


def _shard(module: nn.Module, mesh: Any) -> nn.Module:
    """Spread parameters over processes, gathered block by block when they are needed (FSDP, torch's second)."""
    from torch.distributed.fsdp import fully_shard

    for block in module.modules():
        if isinstance(block, Block):
            fully_shard(block, mesh=mesh["data_parallel"])
    return fully_shard(module, mesh=mesh["data_parallel"])  # type: ignore[return-value]


def compiles(train: TrainConfig, device: torch.device) -> bool:
    """Whether a run is compiled: as its recipe says, else where it pays.

    All steps of the recipe count, not those that are left: a run that goes on must do what it did before.
    """
    if train.compile is not None:
        return train.compile
    return device.type == "cuda" and gpu.usable(device) and train.steps >= _ENOUGH


def compile_blocks(network: nn.Module, device: torch.device) -> None:
    """Compile block by block: as fast as the whole network at once, and minutes quicker to compile.

    Where attention to a neighbourhood is no kernel of its own, it stays as it is, and what is around it is compiled:
    a compiler would unroll its strips, minutes of work for a few large kernels that are fast already.

    Blocks that look alike share what was compiled. Shapes are constants in it: torch would take the next level for the
    first one with another shape, and compile a slower one for any shape.
    """
    from torch._dynamo import config

    config.recompile_limit = max(config.recompile_limit, _GRAPHS)
    whole = choose(device) == "triton"
    for module in network.modules():
        if whole:
            chosen = isinstance(module, Block | TemporalBlock)
        else:
            chosen = isinstance(module, FeedForward) or (isinstance(module, SelfAttention) and module.kernel is None)
        if chosen:
            module.compile(dynamic=False)


def send(x: Tensor, device: torch.device) -> Tensor:
    """A copy of something small there, for which neither side waits: a GPU takes it from page-locked memory."""
    return (x.pin_memory() if device.type == "cuda" else x).to(device, non_blocking=True)


@contextmanager
def numerics(train: TrainConfig) -> Iterator[None]:
    """Set how float32 products are rounded and whether results may vary, for the time of a run."""
    before = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_float32_matmul_precision("high" if train.precision == "tf32" else "highest")
    if train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs for it
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.use_deterministic_algorithms(before[1], warn_only=warned)


def describe(machine: Machine, fabric: Fabric, *, compiled: bool) -> dict[str, Any]:
    """Where a run takes place, for its log."""
    device = fabric.device
    return {
        "emrdm": emrdm.__version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "processes": fabric.world_size,
        "strategy": machine.strategy,
        "compiled": compiled,
    }


def memory(device: torch.device) -> int:
    """Bytes in use at most so far: of the GPU, else of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
