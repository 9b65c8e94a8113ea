"""Ways to run the same network with the same weights, and a model to run on them.

"ours" is what users get without asking. The published-style path is what the authors' way comes to on this machine:
eager PyTorch, float32 with products rounded to tf32 on GPUs, and the best attention that plain PyTorch has. The
reference is float32 throughout, and what accuracy is measured against.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from emrdm.bench.measure import Effort, measure
from emrdm.bench.results import Difference
from emrdm.config import ModelConfig, SamplerConfig
from emrdm.errors import EmrdmError, InputError
from emrdm.model import EMRDM
from emrdm.networks.neighborhood import BACKENDS, OVERRIDE, neighborhood_attention
from emrdm.noise import fold

GATHER = "gather"  # what people call the back-end "reference"
BASELINES = (GATHER, "tiled", "flex")
_SPREAD = 0.02  # standard deviation of what was zero
_DATA_RANGE = 2.0  # of images in [-1, 1]


@final
@dataclass(frozen=True)
class Way:
    """A path through the code.

    Attributes:
        name: of its column.
        words: what it is.
        exact: the plain float32 network instead of the fast path.
        precision: of float32 products, see ``torch.set_float32_matmul_precision``; None leaves it alone.
        attention: back-end of neighbourhood attention; None leaves the choice to the package.
    """

    name: str
    words: str
    exact: bool = True
    precision: Literal["highest", "high"] | None = None
    attention: str | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Set what the way is made of; everything is as before afterwards."""
        precision, tf32 = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        attention = os.environ.get(OVERRIDE)
        if self.precision is not None:
            torch.set_float32_matmul_precision(self.precision)
            torch.backends.cudnn.allow_tf32 = self.precision == "high"
        if self.attention is not None:
            os.environ[OVERRIDE] = self.attention
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(precision)
            torch.backends.cudnn.allow_tf32 = tf32
            if attention is None:
                os.environ.pop(OVERRIDE, None)
            else:
                os.environ[OVERRIDE] = attention


OURS = Way("ours", "what users get without asking", exact=False)
REFERENCE = Way("reference", "eager, float32, tiled attention", precision="highest", attention="tiled")


def published_style(
    config: ModelConfig, device: torch.device, size: int, name: str | None = None, *, training: bool = False
) -> Way:
    """The published-style path on a device; without ``name`` the best attention of plain PyTorch there.

    On a CPU that is a gather: plain PyTorch has nothing else that every CPU runs. On a GPU it is the faster of flex
    attention and tiles, found by measuring both at the network's outermost level, for ``training`` with gradients.
    """
    if device.type != "cuda":
        name = name or GATHER
        if name == "flex":
            raise InputError("--baseline flex on a CPU: expected gather or tiled, since flex attention is for GPUs")
        return Way(name, f"eager, float32, {_words(name)}", precision="highest", attention=_backend(name))
    why = ""
    if name is None:
        times = _outer_level_times(config, device, size, training=training)
        name = min(times, key=lambda key: times[key])
        found = ", ".join(f"{key} {1e3 * seconds:.2f} ms" for key, seconds in times.items())
        why = f" (faster at the outer level: {found})" if len(times) > 1 else ""
    return Way("published-style", f"eager, tf32, {_words(name)}{why}", precision="high", attention=_backend(name))


def _backend(name: str) -> str:
    return "reference" if name == GATHER else name


def _words(name: str) -> str:
    return {GATHER: "gathered attention", "flex": "flex attention"}.get(name, f"{name} attention")


def _outer_level_times(
    config: ModelConfig, device: torch.device, size: int, *, training: bool = False
) -> dict[str, float]:
    """Seconds of one attention of the outermost level with each back-end of plain PyTorch."""
    network = config.network
    tokens = network.padded(size) // network.patch
    shape = (config.frames, tokens, tokens, network.heads[0], network.head_channels)
    times = {}
    for name in ("flex", "tiled"):
        if name not in BACKENDS:
            continue
        if not network.neighborhood_levels:
            return {name: 0.0}  # there is none to be fast or slow

        def prepare(name: str = name) -> Callable[[], Tensor]:
            inputs = [x.requires_grad_(training) for x in unit_inputs(shape, device)]
            upstream = torch.ones_like(inputs[0])

            def call() -> Tensor:
                out = neighborhood_attention(*inputs, kernel=network.kernel, backend=name)
                return torch.autograd.grad(out, inputs, upstream)[0] if training else out

            return call

        try:
            with Way(name, "", precision="high", attention=name).entered(), torch.set_grad_enabled(training):
                times[name] = measure(prepare, device, Effort(10, 2.0), path=name)[0].seconds
        except Exception:  # a compiler that fails, in any way, is no candidate
            if name == "tiled":
                raise
    return times


def unit_inputs(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Queries, keys and values as the network has them: a query times a key is ten times their cosine."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(shape, generator=generator) for _ in range(3))
    q, k = (x * 10**0.5 / x.norm(dim=-1, keepdim=True) for x in (q, k))
    return [x.to(device, dtype) for x in (q, k, v)]


# ---------------------------------------------------------------- what is run


def lively(model: EMRDM, *, seed: int = 0) -> EMRDM:
    """Fill every parameter that is all zero with small normal values; the same seed gives the same.

    Networks start with silent branches: with those, hardly anything is computed that rounding could change.
    """
    with torch.no_grad():
        for i, parameter in enumerate(model.network.parameters()):
            if not bool(parameter.any()):
                generator = torch.Generator().manual_seed(fold(seed, i) >> 1)
                values = torch.randn(parameter.shape, generator=generator) * _SPREAD
                parameter.copy_(values.to(parameter.device, parameter.dtype))
    return model


def duplicate(model: EMRDM, device: torch.device) -> EMRDM:
    """The same model there, sharing nothing with the first: what one path keeps is not there for the next."""
    return EMRDM(model.config, network=copy.deepcopy(model.network), process=model.process, card=model.card).to(device)


@final
@dataclass(frozen=True)
class Images:
    """Something to restore, in [-1, 1]: the first images of a batch are those of a smaller one."""

    cloudy: Tensor
    aux: Tensor | None

    @classmethod
    def drawn(cls, config: ModelConfig, batch: int, size: int, *, frames: int | None = None) -> Images:
        """Made up: smooth shapes with grain, each image by its number."""

        def draw(number: int, bands: int) -> Tensor:
            generator = torch.Generator().manual_seed(number)
            coarse = torch.randn(frames or config.frames, bands, 8, 8, generator=generator)
            smooth = torch.nn.functional.interpolate(coarse, (size, size), mode="bicubic")
            grain = torch.randn(smooth.shape, generator=generator)
            return (0.4 * smooth + 0.05 * grain).clamp(-1, 1)

        cloudy = torch.stack([draw(2 * i, len(config.bands)) for i in range(batch)])
        aux = torch.stack([draw(2 * i + 1, len(config.aux)) for i in range(batch)]) if config.aux else None
        return cls(cloudy, aux)

    def first(self, count: int) -> Images:
        """The first few of the batch."""
        return Images(self.cloudy[:count], None if self.aux is None else self.aux[:count])

    def to(self, device: torch.device) -> Images:
        """There."""
        return Images(self.cloudy.to(device), None if self.aux is None else self.aux.to(device))


def sampling(model: EMRDM, images: Images, sampler: SamplerConfig, way: Way) -> Callable[[], Tensor]:
    """A call that restores images where the model is; enter the path before calling it. Every image has its seed."""
    there = images.to(model.device)
    seeds = list(range(len(images.cloudy)))
    return lambda: model.sample(there.cloudy, there.aux, seed=seeds, sampler=sampler, exact=way.exact)


def one_call(model: EMRDM, images: Images, way: Way) -> Callable[[], Tensor]:
    """A call of the network alone, with the factors around it: the denoiser at sigma = 1."""
    there = images.to(model.device)
    noise = torch.randn(images.cloudy.shape, generator=torch.Generator().manual_seed(0)).to(model.device)
    t = model.process.t(torch.tensor(1.0, dtype=torch.float64))
    x = there.cloudy + noise

    def call() -> Tensor:
        with torch.no_grad():
            return model.denoiser(there.cloudy, there.aux, exact=way.exact)(x, t)

    return call


def difference(found: Tensor, expected: Tensor) -> Difference:
    """How far results are apart, as PSNR for images in [-1, 1] and in the worst pixel."""
    if not bool(torch.isfinite(found).all()):
        raise EmrdmError("the fast path gave NaN or infinite values")
    gap = (found.double() - expected.double()).abs()
    mean_square, largest = gap.square().mean().item(), gap.max().item()
    if largest == 0:
        return Difference(None, 0.0)
    return Difference(10 * math.log10(_DATA_RANGE**2 / mean_square), largest)
