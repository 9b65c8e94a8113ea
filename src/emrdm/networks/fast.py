"""The fastest way to run a network where it is: which one that is, and why. Networks of others run as they are."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable
from typing import Any, cast, final

import torch
from torch import Tensor, nn

from emrdm import gpu
from emrdm.errors import EmrdmError
from emrdm.networks.hdit import Hourglass
from emrdm.networks.neighborhood import choose
from emrdm.networks.temporal import TemporalHDiT

_LOG = logging.getLogger(__name__)
EXACT = "EMRDM_EXACT"  # environment variable: 1 runs the plain float32 network everywhere

Runner = Callable[[Tensor, Tensor, Tensor | None], Tensor]


@final
class FastNetwork:
    """A network, run by whatever is fastest; ``exact`` is the network itself, in its own precision."""

    def __init__(self, network: nn.Module, cpu_dtype: torch.dtype | None = None) -> None:
        self.network = cast("Hourglass", network)  # of others only what every module has is used
        self.ours = isinstance(network, Hourglass)
        self.cpu_dtype = cpu_dtype  # None for the faster one; machines that must agree have to name it
        self._fused: Any = None
        self._failed: str | None = None
        self._records = True
        self._said = ""
        self._modules = list(network.modules())

    def __getstate__(self) -> dict[str, Any]:
        """The network alone: what was prepared for this machine is made again on another."""
        return {"network": self.network, "cpu_dtype": self.cpu_dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        FastNetwork.__init__(self, state["network"], state["cpu_dtype"])

    def __call__(self, x: Tensor, c_noise: Tensor, present: Tensor | None = None, *, exact: bool = False) -> Tensor:
        """(B, in, H, W) or (B, L, in, H, W), c_noise (B,) -> (B, out, H, W)."""
        return self.runner(exact=exact)(x, c_noise, present)

    def runner(self, *, exact: bool = False) -> Runner:
        """The same for many calls: what to run is decided once, with the weights as they are then.

        Noise levels that are one number for the whole batch, on the CPU, spare a GPU a wait; others run plain.
        """
        device = self.device
        if device.type == "cpu":
            from emrdm.networks.fused.cpu import settle_threads

            settle_threads()
        self._say(exact=exact)
        if exact or self.why_plain() is not None:
            return self._run_plain
        try:
            fused = self._fused_network()
        except Exception as error:  # see _fail
            self._fail(error)
            return self._run_plain

        def run(x: Tensor, c_noise: Tensor, present: Tensor | None = None) -> Tensor:
            alike = c_noise.device.type == "cpu" and (c_noise.ndim == 0 or c_noise.stride(0) == 0 or len(c_noise) == 1)
            if not alike or self._failed:
                return self._run_plain(x, c_noise, present)
            self.network.check_input(x, c_noise, rank=5 if isinstance(self.network, TemporalHDiT) else 4)
            try:
                out: Tensor = fused(x, float(c_noise.flatten()[0]), present)
                return out.to(x.dtype)
            except Exception as error:  # see _fail
                self._fail(error)
                return self._run_plain(x, c_noise, present)

        return run

    def replay(self, function: Callable[..., Tensor], *inputs: Tensor | None, key: object) -> Tensor | None:
        """A function that calls the network several times, as one CUDA graph; None where it cannot be or does not pay.

        Args:
            function: of tensors, with a runner of this network inside; the same for the same key.
            inputs: its arguments, images first.
            key: of all that it depends on beside them.
        """
        images = inputs[0]
        if images is None or not images.is_cuda or not self._records or self.why_plain() is not None:
            return None
        try:
            with torch.cuda.device_of(images):
                fused = self._fused_network()
                if not fused.graphs.pays(images):
                    return None
                found: Tensor = fused.graphs.replay(function, *inputs, key=key, held=fused.held)
                return found
        except EmrdmError:
            raise
        except Exception as error:  # memory that is short, an operation that cannot be recorded
            self._records = False
            if self._fused is not None:
                self._fused.graphs.off = True
            _LOG.warning("runs are not recorded as CUDA graphs (%s): kernels are launched one by one", _brief(error))
            return None

    def why_plain(self) -> str | None:
        """Why the network runs as it is; None where it runs fused."""
        if not self.ours:
            return f"{type(self.network).__name__} is not known here"
        if os.environ.get(EXACT) == "1":
            return f"{EXACT}=1"
        if self._failed:
            return f"fused operations failed ({self._failed})"
        if self.device.type != "cpu" and (reason := gpu.why_not(self.device)) is not None:
            return reason
        if any(module._forward_hooks or module._forward_pre_hooks for module in self._modules):
            return "somebody watches its layers by hooks"
        from emrdm.networks.fused import why_not

        return why_not(self.network)

    def describe(self, *, exact: bool = False) -> str:
        """Which way it runs, in words."""
        device = self.device
        place = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device).upper()
        reason = "exact" if exact else self.why_plain()
        if reason is not None:
            attention = f", {choose(device)} attention" if self.ours else ""
            return f"{place}: plain network in {_name(self._own_dtype)}{attention} ({reason})"
        if gpu.usable(device):
            return f"{place}: fused bfloat16 kernels in CUDA graphs"
        from emrdm.networks.fused.cpu import faster_dtype

        why = faster_dtype().why if self.cpu_dtype is None else "as asked"
        return f"{place}: fused operations in {_name(self._dtype())}, {choose(device)} attention ({why})"

    def numbers(self, *, exact: bool = False) -> str:
        """The type of numbers it computes with."""
        plain = exact or self.why_plain() is not None
        return _name(self._own_dtype if plain else self._dtype())

    def _say(self, *, exact: bool) -> None:
        """A line in the log, when the way is another one than before."""
        if _LOG.isEnabledFor(logging.INFO) and (words := self.describe(exact=exact)) != self._said:
            _LOG.info("the network runs on %s", words)
            self._said = words

    @property
    def _weight(self) -> Tensor:
        """One of its weights, which has the number type and the place of all; something alike where it has none."""
        if self.ours:
            return self.network.patch_in.proj.weight
        tensors = itertools.chain(self.network.parameters(), self.network.buffers())
        return next((tensor for tensor in tensors if tensor.is_floating_point()), torch.empty(0))

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self._weight.device

    @property
    def _own_dtype(self) -> torch.dtype:
        return self._weight.dtype

    def _run_plain(self, x: Tensor, c_noise: Tensor, present: Tensor | None = None) -> Tensor:
        arguments = (
            x.to(self._own_dtype),
            c_noise.to(x.device, non_blocking=True),
        )  # a network turned to half precision works too
        if x.ndim == 5:  # a series
            return self.network(*arguments, present).to(x.dtype)
        return self.network(*arguments).to(x.dtype)

    def _fused_network(self) -> Any:
        from emrdm.networks.fused import FusedNetwork

        if self._fused is None or not self._fused.is_current():
            self._fused = FusedNetwork(self.network, self._dtype())
            self._fused.graphs.off = not self._records
        return self._fused

    def _dtype(self) -> torch.dtype:
        if gpu.usable(self.device):
            return torch.bfloat16
        if self.cpu_dtype is not None:
            return self.cpu_dtype
        from emrdm.networks.fused.cpu import faster_dtype

        return faster_dtype().dtype

    def _fail(self, error: Exception) -> None:
        """Go on without fused operations: whatever Triton or a driver has against them, there is another way.

        Not for what the user has to know: too little memory, wrong input.
        """
        if isinstance(error, torch.OutOfMemoryError | EmrdmError):
            raise error
        self._failed = _brief(error)
        self._fused = None
        _LOG.warning("fused operations failed (%s): going on with the plain network", self._failed)


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
