"""EMRDM: a network, its process, its preconditioning and its bands, together."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast, final

import numpy as np
import torch
from torch import Tensor, nn

from emrdm import embedded, hub, networks, published, weights
from emrdm.card import ModelCard
from emrdm.config import ModelConfig, SamplerConfig
from emrdm.diffusion import Denoiser, MeanReverting, Process, euler, heun, multistep, stochastic, training_losses
from emrdm.diffusion.preconditioning import Preconditioning
from emrdm.diffusion.samplers import Callback, NoiseSource
from emrdm.errors import ConfigError, InputError, WeightsError
from emrdm.files import as_path
from emrdm.images import Array, Date, prepare
from emrdm.networks import HDiT, Hourglass, TemporalHDiT
from emrdm.networks.fast import FastNetwork
from emrdm.networks.layers import without_dropout
from emrdm.noise import Window, fold, normal, split_keys
from emrdm.presets import load_preset

_RECORDED_STEPS = 32  # a recording has all kernels of all steps
_METHODS: dict[str, Callable[..., Tensor]] = {
    "euler": euler,
    "stochastic": stochastic,
    "heun": heun,
    "multistep": multistep,
}


@final
class EMRDM:
    """A cloud removal model.

    Make one with :meth:`default`, :meth:`from_preset`, :meth:`load`, :meth:`from_published` or :meth:`from_hub`; then
    :meth:`restore`.

    Attributes:
        config: everything but the weights.
        card: where the weights come from.
        network: with its weights.
        process: s(t) and sigma(t).
        is_default: whether it came from :meth:`default`, which nobody may have chosen: refusals then say what it takes.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        network: nn.Module | None = None,
        process: Process | None = None,
        card: ModelCard | None = None,
    ) -> None:
        """Put a model together from its parts.

        Args:
            config: everything but the weights.
            network: with its weights; freshly initialised if None. Any module from the images stacked by band
                (B, in, H, W), or (B, L, in, H, W) and ``present`` where ``config.network`` is multi-temporal, and
                c_noise (B,) to (B, out, H, W) will do, sides being what ``config.network`` asks for.
            process: another s(t) and sigma(t) than the configuration's. Models with a process, preconditioning or
                network of one's own can be trained and used, but not saved.
            card: where the weights come from.
        """
        if not isinstance(config, ModelConfig):
            raise ConfigError(
                f"config is a {type(config).__name__}: expected a ModelConfig, such as load_preset(...).model"
            )
        if isinstance(process, MeanReverting):  # a process that the configuration can describe
            config = dataclasses.replace(config, process=process)
        self.config = config
        self.card = card or ModelCard()
        if network is None:
            network = networks.build(config.network, config.in_channels, config.out_channels)
        elif not isinstance(network, nn.Module):
            raise ConfigError(f"network is a {type(network).__name__}: expected a torch.nn.Module")
        self.network = cast("HDiT | TemporalHDiT", network)  # or a module of one's own, see _own_parts
        self.process: Process = process or config.process
        self.is_default = False
        self.network.eval()
        self._prepared: FastNetwork | None = None
        self._cpu_dtype: torch.dtype | None = None
        self._dropouts: list[nn.Module] = []

    # ---------------------------------------------------------------- where models come from

    @classmethod
    def default(cls) -> EMRDM:
        """The trained model inside the package, for pictures and scenes of red, green and blue."""
        model = cls.load(embedded.default_weights())
        model.is_default = True
        return model

    @classmethod
    def from_preset(cls, name: str, *, seed: int = 0) -> EMRDM:
        """A freshly initialised model of a preset, by name or file; the same seed gives the same weights."""
        preset = load_preset(name)
        return cls.fresh(preset.model, seed=seed, card=ModelCard(title=preset.title))

    @classmethod
    def fresh(cls, config: ModelConfig, *, seed: int = 0, card: ModelCard | None = None) -> EMRDM:
        """A freshly initialised model; the same seed gives the same weights."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(fold(seed, 0) >> 1)  # the CPU's alone; any whole number will do
            return cls(config, card=card)

    @classmethod
    def load(cls, path: str | Path) -> EMRDM:
        """A model from its weights file, or the folder of a run; the file says what it is, and is verified."""
        header, state = weights.load(_weights_file(as_path(path, "weights file")))
        return cls._with_state(header.config, header.card, state)

    @classmethod
    def from_published(
        cls, path: str | Path, *, preset: str, ema: bool = True, licence: str = "unknown", source: str | None = None
    ) -> EMRDM:
        """A model from a checkpoint of the published implementation, read without running anything in it.

        Args:
            path: their ``.ckpt``.
            preset: the preset it was trained with; a wrong one is refused, and the right one named.
            ema: take the averaged weights, as the authors do.
            licence: of those weights, for the model card.
            source: where they come from, for the model card.
        """
        path, found = as_path(path, "checkpoint"), load_preset(preset)
        state = published.read_checkpoint(path, found.model, ema=ema)
        kind = "averaged" if ema else "live"
        card = ModelCard(
            title=found.title,
            source=source or f"converted from published checkpoint {path.name}, {kind} weights",
            licence=licence,
        )
        return cls._with_state(found.model, card, state)

    @classmethod
    def from_hub(cls, repository: str, *, filename: str = hub.FILENAME, revision: str | None = None) -> EMRDM:
        """A model from the Hugging Face Hub (needs ``huggingface_hub``)."""
        return cls.load(hub.pull(repository, filename=filename, revision=revision))

    @classmethod
    def _with_state(cls, config: ModelConfig, card: ModelCard, state: dict[str, Tensor]) -> EMRDM:
        network = networks.build_empty(config.network, config.in_channels, config.out_channels)
        network.load_state_dict(state, strict=True, assign=True)
        return cls(config, network=network, card=card)

    # ---------------------------------------------------------------- where models go

    def save(self, path: str | Path, *, dtype: torch.dtype = torch.float32) -> None:
        """Write a self-describing weights file; float16 and bfloat16 halve it."""
        for name, part in self._own_parts().items():
            raise WeightsError(
                f"a model with {name} {type(part).__name__} cannot be saved: the file could not describe it"
            )
        weights.save(as_path(path, "weights file"), self.config, self.card, self.network.state_dict(), dtype=dtype)

    def to_published(self, path: str | Path) -> None:
        """Write the weights as a checkpoint in the published layout."""
        if not isinstance(self.network, Hourglass):
            raise WeightsError(f"{type(self.network).__name__} has no published layout: expected HDiT or TemporalHDiT")
        published.write_checkpoint(as_path(path, "checkpoint"), self.config, self.network.state_dict())

    def push_to_hub(self, repository: str, *, dtype: torch.dtype = torch.float32, private: bool = True) -> str:
        """Upload the weights file to the Hugging Face Hub (needs ``huggingface_hub``)."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / hub.FILENAME
            self.save(path, dtype=dtype)
            return hub.push(path, repository, private=private)

    def digest(self) -> str:
        """Of the configuration and all weights: what tells two models apart, and not where they were stored."""
        found, own = weights.identity(self.config, self.network.state_dict()), self._own_parts()
        if own:  # by name and plain numbers: of their code it knows nothing
            words = json.dumps({name: _in_words(part) for name, part in own.items()}, sort_keys=True)
            found = hashlib.sha256(f"{found} {words}".encode()).hexdigest()
        return found

    def _own_parts(self) -> dict[str, object]:
        """Parts that a configuration cannot describe, by name."""
        parts: dict[str, tuple[object, tuple[type, ...]]] = {
            "process": (self.process, (MeanReverting,)),
            "preconditioning": (self.config.preconditioning, (Preconditioning,)),
            "network": (self.network, (HDiT, TemporalHDiT)),
        }
        return {name: part for name, (part, known) in parts.items() if type(part) not in known}

    def to(self, device: torch.device | str) -> EMRDM:
        """Move the network; returns the model."""
        try:
            self.network.to(device)
        except (RuntimeError, AssertionError, TypeError) as error:
            raise InputError(f"device {device!r} cannot be used: {error}") from None
        return self

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self._fast.device

    # ---------------------------------------------------------------- what models do

    def restore(
        self,
        cloudy: Array,
        aux: Array | None = None,
        *,
        seed: int | Sequence[int] | np.ndarray = 0,
        dates: Sequence[Date] | None = None,
        present: Array | Sequence[bool] | None = None,
        sampler: SamplerConfig | None = None,
        steps: int | None = None,
        scaled: bool = False,
        exact: bool = False,
        callback: Callback | None = None,
    ) -> Array:
        """Remove the clouds from one image, a batch, or a series.

        Args:
            cloudy: numpy or torch, any number type, in the units of the model's bands (``model.config.bands``).
                One image (C, H, W) or a batch (B, C, H, W); for multi-temporal models a series (L, C, H, W) or a
                batch of series (B, L, C, H, W). Any H and W from 2 up.
            aux: auxiliary bands (``model.config.aux``) with the same axes.
            seed: of the noise; the same seed gives the same result for the same image, on every device up to rounding.
                A list has one seed an image; each then comes out as it would alone, whatever else is in the batch.
            dates: one a frame; then the order in which frames are given makes no difference.
            present: which frames exist, (L,) or (B, L) bool; a missing frame counts as if it had been left out.
            sampler: other settings than the model's own.
            steps: shortcut for another number of steps.
            scaled: images are already in [-1, 1], and so is the result.
            exact: run the float32 network as it is, the same bits every time; else by the fastest way there is
                (:meth:`path`), which agrees with it to 50 dB or better.
            callback: called after each step with a :class:`~emrdm.diffusion.Step`; its images are padded, in [-1, 1].

        Returns:
            the clear image or batch, float32, in the units, the kind (numpy or torch) and on the device of
            ``cloudy``; values are not clipped.
        """
        frames = prepare(self.config, cloudy, aux, dates=dates, present=present, scaled=scaled, device=self.device)
        sampler = _sampler(sampler, self.config.sampler)
        if steps is not None:
            sampler = dataclasses.replace(sampler, steps=steps)
        restored = self.sample(
            frames.cloudy,
            frames.aux,
            present=frames.present,
            seed=seed,
            sampler=sampler,
            exact=exact,
            callback=callback,
        )
        return frames.finish(restored)  # type: ignore[return-value]

    def sample(
        self,
        cloudy: Tensor,
        aux: Tensor | None = None,
        *,
        present: Tensor | None = None,
        seed: int | Sequence[int] | np.ndarray = 0,
        sampler: SamplerConfig | None = None,
        noise: NoiseSource | None = None,
        exact: bool = False,
        callback: Callback | None = None,
    ) -> Tensor:
        """As :meth:`restore`, for tensors that are ready: (B, L, C, H, W) in [-1, 1], sides as the network needs them.

        ``noise(draw)`` replaces the position-keyed noise of ``seed``.
        """
        sampler = _sampler(sampler, self.config.sampler)
        if not isinstance(cloudy, Tensor) or cloudy.ndim != 5 or 0 in cloudy.shape:
            raise InputError("cloudy is not a tensor (B, L, C, H, W): restore takes arrays and other layouts")
        if callback is not None and not callable(callback):
            raise InputError(f"callback is a {type(callback).__name__}: expected a function of one step")

        def run(cloudy: Tensor, aux: Tensor | None, present: Tensor | None, noise: NoiseSource) -> Tensor:
            denoiser = self._bound(cloudy, aux, present, exact=exact)
            times = self.process.t(torch.tensor(sampler.schedule(), dtype=torch.float64)).tolist()
            method = _METHODS[sampler.method]
            churn = {"churn": sampler.as_churn()} if sampler.method in ("stochastic", "heun") else {}
            return method(denoiser, cloudy, times, self.process, noise, present=present, callback=callback, **churn)

        self._check_condition(cloudy, aux, present)
        fast = self._fast  # first: it finds the layers with dropout
        with torch.no_grad(), without_dropout(*self._dropouts):
            if noise is not None:
                return run(cloudy, aux, present, noise)
            churns = sampler.churn > 0 and sampler.method in ("stochastic", "heun")
            words = _key_words(cloudy, seed, draws=sampler.steps + 1 if churns else 1)

            def run_keyed(cloudy: Tensor, aux: Tensor | None, present: Tensor | None, words: Tensor) -> Tensor:
                return run(cloudy, aux, present, _noise_by_position(cloudy, words))

            # On a GPU, a whole run is one launch where that pays. Other processes than ours might look at the device.
            known = isinstance(self.process, MeanReverting) and sampler.steps <= _RECORDED_STEPS
            if callback is None and not exact and cloudy.is_cuda and known:
                key = (sampler, self.process, self.config.preconditioning)
                found = fast.replay(run_keyed, cloudy, aux, present, words, key=key)
                if found is not None:
                    return found
            return run_keyed(cloudy, aux, present, words)

    @property
    def _fast(self) -> FastNetwork:
        """Ways to run the network that there is now."""
        if self._prepared is None or self._prepared.network is not self.network:
            self._prepared = FastNetwork(self.network, self._cpu_dtype)
            self._dropouts = [module for module in self.network.modules() if isinstance(module, nn.Dropout)]
        return self._prepared

    def path(self, *, exact: bool = False) -> str:
        """How the network is run to restore images on its device, and why, in words."""
        return self._fast.describe(exact=exact)

    def numbers(self, *, exact: bool = False) -> str:
        """The type of the numbers that the network is run with on its device, such as "bfloat16"."""
        return self._fast.numbers(exact=exact)

    def compute_in(self, numbers: str) -> None:
        """Restore in "float32" or "bfloat16" on CPUs, whichever is faster there: for machines that must agree."""
        if numbers not in ("float32", "bfloat16"):
            raise InputError(f"numbers is {numbers!r}: expected 'float32' or 'bfloat16'")
        self._cpu_dtype, self._prepared = getattr(torch, numbers), None

    def denoiser(
        self, cloudy: Tensor, aux: Tensor | None = None, *, present: Tensor | None = None, exact: bool = True
    ) -> Denoiser:
        """D with these images bound to it, (B, L, C, H, W) in [-1, 1]; without ``exact`` it has no gradients."""
        self._check_condition(cloudy, aux, present)
        return self._bound(cloudy, aux, present, exact=exact)

    def _bound(self, cloudy: Tensor, aux: Tensor | None, present: Tensor | None, *, exact: bool) -> Denoiser:
        images, run = {"cloudy": cloudy, "aux": aux}, self._fast.runner(exact=exact)
        ours = isinstance(self.network, Hourglass)
        temporal = isinstance(self.network, TemporalHDiT) if ours else self.config.network.multi_temporal

        def network(x: Tensor, c_noise: Tensor) -> Tensor:
            parts = [x if name == "noisy" else images[name] for name in self.config.inputs]
            stacked = torch.cat([part for part in parts if part is not None], dim=2)
            if not temporal:
                stacked = stacked.squeeze(1)
            out = run(stacked, c_noise, present)
            expected = (len(x), self.config.out_channels, *x.shape[-2:])
            if out.shape != expected:
                raise InputError(f"the network gave an image of shape {tuple(out.shape)}: expected {expected}")
            return out

        return Denoiser(network, self.process, self.config.preconditioning, present, levels_on_host=True)

    def _check_condition(self, cloudy: Tensor, aux: Tensor | None, present: Tensor | None) -> None:
        """Refuse conditions that do not fit each other, once for all calls of a denoiser."""
        if "aux" in self.config.inputs and aux is None:
            raise InputError("aux is missing: this model needs auxiliary bands")
        if aux is not None and (aux.ndim != 5 or aux.shape[:2] + aux.shape[3:] != cloudy.shape[:2] + cloudy.shape[3:]):
            raise InputError(
                f"aux has shape {tuple(aux.shape)} beside cloudy {tuple(cloudy.shape)}: only bands may differ"
            )
        if present is not None:
            if present.dtype != torch.bool or present.shape != cloudy.shape[:2]:
                raise InputError(f"present has shape {tuple(present.shape)}: expected bool {tuple(cloudy.shape[:2])}")
            if not bool(present.any(1).all()):
                raise InputError("present leaves a sample without any frame: expected at least one")

    def losses(
        self,
        clear: Tensor,
        cloudy: Tensor,
        aux: Tensor | None = None,
        *,
        sigma: Tensor,
        noise: Tensor,
        present: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Training loss of each sample, (B,) (Algorithm 1).

        ``clear`` is (B, C, H, W), ``cloudy`` and ``noise`` are (B, L, C, H, W), ``sigma`` is (B,). ``valid`` is
        (B, H, W) bool: pixels of ``clear`` that are known; whatever the others hold, they do not count.
        """
        denoiser = self.denoiser(cloudy, aux, present=present)
        expected = (*cloudy.shape[:1], *cloudy.shape[3:])
        if valid is not None and (valid.dtype != torch.bool or valid.shape != expected):
            raise InputError(f"valid is {valid.dtype} of shape {tuple(valid.shape)}: expected bool of shape {expected}")
        return training_losses(denoiser, clear, cloudy, sigma, noise, valid=valid)


def _sampler(asked: SamplerConfig | None, default: SamplerConfig) -> SamplerConfig:
    if asked is not None and not isinstance(asked, SamplerConfig):
        raise InputError(
            f"sampler is a {type(asked).__name__}: expected a SamplerConfig, such as SamplerConfig(steps=8)"
        )
    return asked or default


def _weights_file(path: Path) -> Path:
    """The file itself, or that in the folder of a run."""
    try:
        if not path.is_dir():
            return path
    except OSError:  # such as a name that is too long: what opens it says so
        return path
    if not (inside := path / hub.FILENAME).is_file():
        raise WeightsError(f"{path} is a folder without {hub.FILENAME}: expected a weights file or a finished run")
    return inside


def _in_words(part: object) -> list[object]:
    """What is known of a part of one's own: its name, and what it holds that is plain."""
    plain = {} if isinstance(part, nn.Module) else getattr(part, "__dict__", {})
    values = {name: value for name, value in plain.items() if isinstance(value, int | float | str)}
    return [type(part).__module__, type(part).__qualname__, values]


def _key_words(like: Tensor, seed: int | Sequence[int] | np.ndarray, *, draws: int) -> Tensor:
    """Keys of the noise, (draws, 2, B), on the device of the images: sample b of a batch draws from (seed, b, draw).

    With one seed a sample, each draws as the first of a batch with that seed would.
    """
    batch = len(like)
    if isinstance(seed, np.ndarray | Tensor) and seed.ndim == 1:
        seed = seed.tolist()
    if isinstance(seed, list | tuple) and len(seed) != batch:
        raise InputError(f"{len(seed)} seeds were given for {batch} images: expected one each, or a single one")
    streams = [fold(s, 0) for s in seed] if isinstance(seed, list | tuple) else [fold(seed, b) for b in range(batch)]  # type: ignore[arg-type]
    keys = [fold(stream, draw) for draw in range(draws) for stream in streams]
    words = split_keys(keys, "cpu").unflatten(1, (draws, batch)).transpose(0, 1).contiguous()
    return words.to(like.device, non_blocking=True)


def _noise_by_position(like: Tensor, words: Tensor) -> NoiseSource:
    """Noise of the whole image by its keys, a pixel's from where it is."""
    _, frames, bands, height, width = like.shape
    window = Window(0, 0, height, width)
    return lambda draw: normal(words[draw], window, frames=frames, bands=bands, device=like.device).to(like.dtype)
