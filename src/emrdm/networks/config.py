"""What a network looks like, as data; the channel counts come from the bands of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from emrdm.errors import ConfigError
from emrdm.strict import check

# Wide enough for any network that fits a machine; narrow enough that a hostile file cannot make us build forever.
_LIMITS = {"width": 16_384, "depth": 256, "levels": 8, "patch": 64, "channels": 4_096}


@final
@dataclass(frozen=True)
class NetworkConfig:
    """An hourglass diffusion transformer. Lists have one entry a level, outermost first, the bottleneck last.

    Attributes:
        patch: side of the square of pixels that becomes a token.
        widths: channels of a token.
        depths: blocks; outer levels have them once on the way down and once on the way up.
        hidden: inner width of the feed-forward blocks.
        neighborhood_levels: how many of the outer levels attend locally; the others attend globally.
        kernel: side of the neighbourhood.
        head_channels: width of an attention head.
        dropout: after attention and inside feed-forward, in training.
        mapping_depth, mapping_width, mapping_hidden, mapping_dropout: the network that embeds the noise level.
        temporal_heads: attention heads of the temporal fusion; 0 is the mono-temporal network.
        temporal_key_channels: width of a query or key of the temporal fusion.
    """

    widths: tuple[int, ...]
    depths: tuple[int, ...]
    hidden: tuple[int, ...]
    patch: int = 1
    neighborhood_levels: int = 2
    kernel: int = 7
    head_channels: int = 64
    dropout: tuple[float, ...] = ()
    mapping_depth: int = 2
    mapping_width: int = 768
    mapping_hidden: int = 1536
    mapping_dropout: float = 0.1
    temporal_heads: int = 0
    temporal_key_channels: int = 48

    def __post_init__(self) -> None:
        check(self, "network")
        if not self.dropout:
            object.__setattr__(self, "dropout", (0.0,) * self.levels)
        self._check_levels()
        self._check_numbers()
        if self.temporal_heads:
            for width in self.widths:
                if width % self.temporal_heads:
                    raise ConfigError(
                        f"network.widths has {width}: expected a multiple of temporal_heads = {self.temporal_heads}"
                    )

    def _check_levels(self) -> None:
        if not 1 <= self.levels <= _LIMITS["levels"]:
            raise ConfigError(f"network.widths has {self.levels} levels: expected 1 to {_LIMITS['levels']}")
        for name in ("depths", "hidden", "dropout"):
            if len(getattr(self, name)) != self.levels:
                raise ConfigError(
                    f"network.{name} has {len(getattr(self, name))} entries: "
                    f"expected {self.levels}, one a level as in widths"
                )
        if not 0 <= self.neighborhood_levels <= self.levels:
            raise ConfigError(f"network.neighborhood_levels is {self.neighborhood_levels}: expected 0 to {self.levels}")

    def _check_numbers(self) -> None:
        head = self.head_channels
        if head % 8 or not 8 <= head <= _LIMITS["width"]:
            raise ConfigError(f"network.head_channels is {head}: expected a multiple of 8")
        for width in self.widths:
            if width % head or not head <= width <= _LIMITS["width"]:
                raise ConfigError(
                    f"network.widths has {width}: "
                    f"expected a multiple of head_channels = {head}, at most {_LIMITS['width']}"
                )
        ranges = [
            ("depths", (*self.depths, sum(self.depths)), 0, _LIMITS["depth"]),
            ("hidden", self.hidden, 1, _LIMITS["width"]),
            ("patch", (self.patch,), 1, _LIMITS["patch"]),
            ("kernel", (self.kernel,), 1, 63),
            ("mapping_depth", (self.mapping_depth,), 0, _LIMITS["depth"]),
            ("mapping_width", (self.mapping_width,), 2, _LIMITS["width"]),
            ("mapping_hidden", (self.mapping_hidden,), 1, _LIMITS["width"]),
            ("temporal_heads", (self.temporal_heads,), 0, _LIMITS["width"]),
            ("temporal_key_channels", (self.temporal_key_channels,), 1, _LIMITS["width"]),
        ]
        for name, values, low, high in ranges:
            for value in values:
                if not low <= value <= high:
                    raise ConfigError(f"network.{name} has {value}: expected {low} to {high}")
        if self.kernel % 2 == 0:
            raise ConfigError(f"network.kernel is {self.kernel}: expected an odd number")
        if self.mapping_width % 2:
            raise ConfigError(f"network.mapping_width is {self.mapping_width}: expected an even number")
        for share in (*self.dropout, self.mapping_dropout):
            if not 0 <= share < 1:
                raise ConfigError(f"network dropout is {share}: expected 0 or more and less than 1")

    @property
    def levels(self) -> int:
        """Number of resolutions, bottleneck included."""
        return len(self.widths)

    @property
    def heads(self) -> tuple[int, ...]:
        """Attention heads of each level."""
        return tuple(width // self.head_channels for width in self.widths)

    @property
    def multi_temporal(self) -> bool:
        """Whether the network takes sequences."""
        return self.temporal_heads > 0

    @property
    def multiple(self) -> int:
        """Height and width of an image must be multiples of this."""
        return int(self.patch * 2 ** (self.levels - 1))

    def padded(self, length: int) -> int:
        """The smallest side the network accepts that holds ``length`` pixels."""
        smallest = length
        if self.neighborhood_levels:  # every local level must be at least as large as the neighbourhood
            smallest = max(length, self.kernel * self.patch * 2 ** (self.neighborhood_levels - 1))
        return -(-smallest // self.multiple) * self.multiple


def check_channels(in_channels: int, out_channels: int) -> None:
    """Refuse channel counts no sensor has."""
    for name, value in (("input", in_channels), ("output", out_channels)):
        if not 1 <= value <= _LIMITS["channels"]:
            raise ConfigError(f"the network would have {value} {name} channels: expected 1 to {_LIMITS['channels']}")
