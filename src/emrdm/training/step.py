"""A step of the optimiser without data set, folder or log: what a run repeats, and what a benchmark times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor

from emrdm.errors import ConfigError
from emrdm.model import EMRDM
from emrdm.noise import fold
from emrdm.presets import Preset
from emrdm.training.average import MovingAverage
from emrdm.training.machine import compile_blocks, compiles, send
from emrdm.training.objective import Objective, draw_noise
from emrdm.training.optimizer import build_optimizer, rate, set_rate
from emrdm.training.recording import Recorder
from emrdm.training.samples import TrainingBatch
from emrdm.training.streams import DROPOUT
from emrdm.training.together import mean


@final
class Stepper:
    """A model, its optimiser and the average of its weights, on the device and ready for steps.

    A step is :meth:`begin`, a :meth:`turn` for each of its batches, :meth:`norm`, :meth:`agree` and :meth:`finish`.
    Only ``agree`` waits for the device, and ``turn`` where parameters are spread over processes: whatever else the host
    does before it costs no time.

    Attributes:
        model: whose network is trained, in place.
        accumulate: batches a step, in each process.
        samples: a step, in each process.
        compiled: whether the network's blocks are.
        loss: of the step so far, this process's share of the mean, on the device.
    """

    def __init__(self, model: EMRDM, recipe: Preset, fabric: Any) -> None:
        self.model, self.recipe, self.fabric = model, recipe, fabric
        self.device: torch.device = fabric.device
        self.accumulate = recipe.train.batches_a_step(fabric.world_size)
        self.samples = self.accumulate * recipe.train.batch_size
        self.network = model.network.train()
        self.network.recompute(recipe.train.recompute)
        self.compiled = compiles(recipe.train, self.device)
        if self.compiled:
            compile_blocks(self.network, self.device)

        # Fabric moves it, wraps it for several processes and sets the precision.
        self.module = fabric.setup_module(Objective(model))
        optimizer = build_optimizer(self.network, recipe.optimizer, fused=self.device.type == "cuda" or None)
        self.optimizer = fabric.setup_optimizers(optimizer)
        self.parameters: list[Tensor] = list(self.network.parameters())
        self.spread = any(hasattr(parameter, "full_tensor") for parameter in self.parameters)
        if self.spread and recipe.optimizer.kind == "muon":
            raise ConfigError('optimizer.kind "muon" needs whole matrices: expected "adamw" with --strategy fsdp')
        self.average = MovingAverage(self.parameters, decay=recipe.optimizer.ema_decay)
        self._differentiate = _differentiation(self.module, fabric, self.samples)
        self.recorder = Recorder(self._differentiate, self.parameters) if self._records() else None
        self.begin(0)

    def _records(self) -> bool:
        """Whether gradients may come from a CUDA graph: on one GPU, if nothing looks at its random state on the way."""
        alone = self.fabric.world_size == 1 and not self.spread
        return self.device.type == "cuda" and alone and not self.recipe.train.recompute

    def begin(self, step: int) -> None:
        """Begin step ``step``, counted from 0: its learning rate, and no loss yet."""
        set_rate(self.optimizer, rate(self.recipe.optimizer, step, self.recipe.train.steps))
        self.step, self.loss = step, torch.zeros((), device=self.device)

    def turn(self, number: int, parts: Sequence[TrainingBatch]) -> None:
        """Gradients of one batch of the step, on the device; in several parts where images differ in shape."""
        # Dropout: numbered over all processes, as the samples are.
        place = self.fabric.global_rank * self.accumulate + number
        torch.manual_seed(fold(self.recipe.train.seed, DROPOUT, self.step, place) >> 1)
        passes = self._passes(len(parts))
        for i in range(passes):
            batch = parts[min(i, len(parts) - 1)]
            sigma, noise = draw_noise(self.model, batch, self.device)
            inputs = (batch.clear, batch.cloudy, batch.aux, sigma, noise, batch.valid)
            if self.recorder is not None:
                self.loss += self.recorder(*inputs)
                continue
            more = number + 1 < self.accumulate or i + 1 < passes
            with self.fabric.no_backward_sync(self.module, enabled=more):
                self.loss += self._differentiate(*inputs, weight=i < len(parts)).detach()

    def _passes(self, parts: int) -> int:
        """Passes through the network that a turn needs, where images of several shapes make several parts.

        A network that is spread over processes is gathered in every pass, so all of them must make as many: who has
        fewer parts repeats one without weight.
        """
        if not self.spread:
            return parts
        return int(self.fabric.all_reduce(torch.tensor(float(parts), device=self.device), reduce_op="max"))

    def norm(self) -> Tensor:
        """Norm of the whole gradient, on the device."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm

    def agree(self, norm: Tensor, *mine: float) -> list[float]:
        """Wait for the device: loss, norm, and numbers of this process's own, as means over all processes."""
        values = torch.stack([self.loss, norm.to(self.device)])
        if mine:
            values = torch.cat([values, send(torch.tensor(mine, dtype=values.dtype), self.device)])
        return mean(values.double()).tolist()

    def finish(self, norm: Tensor, loss: float, size: float) -> bool:
        """Change the weights, unless loss or norm (``size`` is its value) is not finite; then nothing, and False."""
        finite = math.isfinite(loss) and math.isfinite(size)
        if finite:
            if self.recipe.optimizer.clip is not None:
                torch.nn.utils.clip_grads_with_norm_(self.parameters, self.recipe.optimizer.clip, norm)
            self.optimizer.step()
            self.average.update(self.parameters)
        self.optimizer.zero_grad()
        return finite

    def step_once(self, batch: TrainingBatch, step: int = 0) -> tuple[float, float]:
        """A whole step, all of its batches this one, which is on the device: loss and norm of the gradient."""
        self.begin(step)
        for number in range(self.accumulate):
            self.turn(number, [batch])
        norm = self.norm()
        loss, size = self.agree(norm)
        self.finish(norm, loss, size)
        return loss, size


def _differentiation(module: Any, fabric: Any, samples: int) -> Callable[..., Tensor]:
    """A function of a batch: its share of the loss of a step, whose gradients it adds to the parameters'.

    It does not hold the stepper, whose memory would else wait for the garbage collector.
    """

    def differentiate(*inputs: Tensor | None, weight: bool = True) -> Tensor:
        share: Tensor = module(*inputs).sum() / samples * weight
        fabric.backward(share)
        return share

    return differentiate
