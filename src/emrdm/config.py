"""What a model is, as data: network, process, preconditioning, noise levels, sampler and bands.

All of it travels in the header of a weights file, and all of it can be written in a preset (see ``emrdm.presets``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, final

from emrdm.diffusion import MeanReverting, Preconditioning
from emrdm.diffusion.noise_levels import rho_schedule
from emrdm.diffusion.samplers import Churn
from emrdm.errors import ConfigError
from emrdm.networks import Cost, NetworkConfig, check_channels, count
from emrdm.strict import check

Input = Literal["noisy", "cloudy", "aux"]
Method = Literal["stochastic", "euler", "heun", "multistep"]


@final
@dataclass(frozen=True)
class Band:
    """One channel: its name, what its numbers mean, and which of them become -1 and 1 for the network.

    Attributes:
        name: "B4", "red", "VV": what users and files call it.
        unit: of the numbers, for people.
        low: value that becomes -1.
        high: value that becomes 1.
        clip: whether values outside [low, high] are brought back to it first, as the data set's recipe says.
    """

    name: str
    unit: str
    low: float
    high: float
    clip: bool = True

    def __post_init__(self) -> None:
        check(self, "band")
        largest = max(abs(self.low), abs(self.high))
        if not self.low < self.high or largest > 1e30 or self.high - self.low < max(1e-6 * largest, 1e-30):
            raise ConfigError(
                f"band {self.name!r} has low {self.low:g} and high {self.high:g}: "
                "expected low < high, within 1e30 and apart by a millionth at least"
            )


@final
@dataclass(frozen=True)
class TrainingNoise:
    """Noise levels in training: ln sigma ~ N(p_mean, p_std^2)."""

    p_mean: float = -1.2
    p_std: float = 1.2

    def __post_init__(self) -> None:
        check(self, "training_noise")
        if not -100 <= self.p_mean <= 100:
            raise ConfigError(f"training_noise.p_mean is {self.p_mean:g}: expected -100 to 100")
        if not 0 < self.p_std <= 100:
            raise ConfigError(f"training_noise.p_std is {self.p_std:g}: expected above 0, to 100")


@final
@dataclass(frozen=True)
class SamplerConfig:
    """How a model is sampled; the names in brackets are the paper's.

    Attributes:
        method: "stochastic" is the paper's sampler, "euler" its deterministic form, "heun" and "multistep" are second
            order.
        steps: [N], denoiser calls of a first order method.
        sigma_min, sigma_max, rho: the schedule.
        churn, noise, t_min, t_max: [S_churn, S_noise, S_tmin, S_tmax], for "stochastic" and "heun".
    """

    method: Method = "stochastic"
    steps: int = 5
    sigma_min: float = 0.001
    sigma_max: float = 100.0
    rho: float = 7.0
    churn: float = 0.0
    noise: float = 1.0
    t_min: float = 0.0
    t_max: float = 1e8

    def __post_init__(self) -> None:
        check(self, "sampler")
        if self.steps > 10_000:
            raise ConfigError(f"sampler.steps is {self.steps}: expected at most 10000")
        self.schedule()
        self.as_churn()
        for name, value in (("t_min", self.t_min), ("t_max", self.t_max)):
            if value > 1e30:
                raise ConfigError(f"sampler.{name} is {value:g}: expected 0 to 1e30")
        if self.churn and self.method in ("euler", "multistep"):
            raise ConfigError(
                f"sampler.churn is {self.churn} with method {self.method!r}: "
                "expected 0, or method 'stochastic' or 'heun'"
            )

    def schedule(self) -> list[float]:
        """Noise levels, falling from sigma_max to 0."""
        levels: list[float] = rho_schedule(self.steps, self.sigma_min, self.sigma_max, self.rho).tolist()
        return levels

    def as_churn(self) -> Churn:
        """The stochastic part."""
        return Churn(amount=self.churn, noise=self.noise, t_min=self.t_min, t_max=self.t_max)


@final
@dataclass(frozen=True)
class ModelConfig:
    """Everything that defines a model but its weights.

    Attributes:
        bands: what is restored, in the order of the array's channels.
        aux: what else the network sees, such as SAR or near infrared; never restored.
        inputs: images the network sees, in the order of its input channels; "noisy" comes first.
        frames: L the model was made for; a multi-temporal network takes any number.
    """

    network: NetworkConfig
    bands: tuple[Band, ...]
    aux: tuple[Band, ...] = ()
    inputs: tuple[Input, ...] = ("noisy", "aux", "cloudy")
    frames: int = 1
    process: MeanReverting = field(default_factory=MeanReverting)
    preconditioning: Preconditioning = field(default_factory=Preconditioning)
    training_noise: TrainingNoise = field(default_factory=TrainingNoise)
    sampler: SamplerConfig = field(default_factory=SamplerConfig)

    def __post_init__(self) -> None:
        check(self, "")
        if not self.bands:
            raise ConfigError("bands is empty: expected at least one band")
        if self.inputs[:1] != ("noisy",) or len(set(self.inputs)) != len(self.inputs):
            raise ConfigError(f"inputs is {list(self.inputs)}: expected 'noisy' first and nothing twice")
        if ("aux" in self.inputs) != bool(self.aux):
            raise ConfigError(
                f"inputs is {list(self.inputs)} with {len(self.aux)} aux bands: "
                "expected 'aux' there exactly when there are aux bands"
            )
        for name, bands in (("bands", self.bands), ("aux", self.aux)):
            names = [band.name for band in bands]
            if len(set(names)) != len(names):
                raise ConfigError(f"{name} has a name twice: {', '.join(names)}")
        if not 1 <= self.frames <= 1000:
            raise ConfigError(f"frames is {self.frames}: expected 1 to 1000")
        if self.frames > 1 and not self.network.multi_temporal:
            raise ConfigError(
                f"frames is {self.frames} for a mono-temporal network: expected 1, or network.temporal_heads above 0"
            )
        check_channels(self.in_channels, self.out_channels)
        if self.cost().parameters > 50e9:
            raise ConfigError(f"the network would have {self.cost().parameters:,} parameters: expected at most 50e9")

    @property
    def in_channels(self) -> int:
        """Input channels of the network."""
        sizes = {"noisy": len(self.bands), "cloudy": len(self.bands), "aux": len(self.aux)}
        return sum(sizes[name] for name in self.inputs)

    @property
    def out_channels(self) -> int:
        """Output channels of the network."""
        return len(self.bands)

    def cost(self, height: int = 256, width: int = 256) -> Cost:
        """Cost of one network call at this size."""
        return count(self.network, self.in_channels, self.out_channels, height=height, width=width, frames=self.frames)
