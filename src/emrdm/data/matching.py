"""A model's bands found in a data set's, by name: channel numbers never meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from emrdm.config import Band, ModelConfig
from emrdm.data.bands import colours
from emrdm.data.folders import OWN_UNIT
from emrdm.errors import InputError
from emrdm.images import to_model_units, to_user_units
from emrdm.metrics import Data

_COMMON = 0.2  # share of a data set's range that must be within the model's


class Source(NamedTuple):
    """Where a band of a model comes from: the frames or the auxiliary images, and at which place."""

    auxiliary: bool
    place: int


@final
class Matching:
    """How a data set's images become a model's, and its results the data set's.

    A data set and a model may differ in the order of bands, in their range, and in bands that only the data set has.
    """

    def __init__(self, config: ModelConfig, bands: Sequence[Band], aux: Sequence[Band], *, frames: int) -> None:
        """Find the model's bands; one that the data set lacks is refused by name."""
        if frames > 1 and not config.network.multi_temporal:
            raise InputError(f"the data set has {frames} frames and the model takes one image: add --frames 1")
        self.config = config
        names, extra = [band.name for band in bands], [band.name for band in aux]
        missing = [band.name for band in config.bands if band.name not in names]
        missing += [band.name for band in config.aux if band.name not in names + extra]
        if missing:
            raise InputError(
                f"the model needs {', '.join(missing)}, which the data set has not: it has {', '.join(names + extra)} "
                "(--bands gives bands of your own images other names)"
            )
        _refuse_other_units(config.bands + config.aux, {band.name: band for band in [*aux, *bands]})
        self.places = [names.index(band.name) for band in config.bands]
        self.bands = tuple(bands[place] for place in self.places)
        self._aux = [
            Source(True, extra.index(band.name)) if band.name in extra else Source(False, names.index(band.name))
            for band in config.aux
        ]
        self._aux_bands = tuple(aux[s.place] if s.auxiliary else bands[s.place] for s in self._aux)

    def data(self, levels: int | None) -> Data:
        """What protocols must know of the bands that the model restores."""
        return Data(levels, colours(self.bands))

    def inputs(self, cloudy: Tensor, aux: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Cloudy frames (B, L, C, H, W) and auxiliary images of the data set as the model's, in [-1, 1]."""
        frames = _rescaled(cloudy[:, :, self.places], self.bands, self.config.bands)
        if not self._aux:
            return frames, None
        images = {True: aux, False: cloudy}
        parts = [images[s.auxiliary][:, :, s.place] for s in self._aux]  # type: ignore[index]
        return frames, _rescaled(torch.stack(parts, dim=2), self._aux_bands, self.config.aux)

    def target(self, clear: Tensor) -> Tensor:
        """The clear image (B, C, H, W) of the data set as the model should give it, in [-1, 1]."""
        return _rescaled(clear[:, self.places], self.bands, self.config.bands)

    def outputs(self, restored: Tensor) -> Tensor:
        """A restored image (B, C, H, W) of the model in the data set's scaling."""
        return _rescaled(restored, self.config.bands, self.bands, clip=False)


def _refuse_other_units(wanted: Sequence[Band], found: Mapping[str, Band]) -> None:
    """8-bit pictures are not reflectances. What a user's own numbers are ("value") nobody knows but their range."""
    for band in wanted:
        unit = found[band.name].unit
        if unit != band.unit and OWN_UNIT not in (unit, band.unit):
            raise InputError(f"the model takes {band.name} as {band.unit} and the data set has it as {unit}")
        low, high = found[band.name].low, found[band.name].high
        common = min(high, band.high) - max(low, band.low)
        if common < _COMMON * (high - low):  # nearly all of it would be cut to black or white
            raise InputError(
                f"the model takes {band.name} from {band.low:g} to {band.high:g}, the data has {low:g} to {high:g}: "
                "expected the same kind of numbers (--range says which values of your images are black and white)"
            )


def _rescaled(x: Tensor, old: Sequence[Band], new: Sequence[Band], *, clip: bool = True) -> Tensor:
    """From the [-1, 1] of one scaling to that of another; exactly the same where both are equal."""
    pairs = list(zip(old, new, strict=True))
    if all((a.low, a.high) == (b.low, b.high) and (a.clip or not (b.clip and clip)) for a, b in pairs):
        return x
    units = to_user_units(x, old)
    target = new if clip else [Band(band.name, band.unit, band.low, band.high, clip=False) for band in new]
    return to_model_units(units, target, "image")
