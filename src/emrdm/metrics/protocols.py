"""Protocols: how a score of this field is computed, by name. A bare "PSNR" does not exist.

The field has three lineages whose numbers cannot be compared, each with its quirks; they are reproduced exactly, and
``standard`` is the one without quirks. docs/metrics.md tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

import torch
from torch import Tensor

from emrdm.errors import ConfigError, InputError
from emrdm.metrics.perception import SMALLEST, lpips_over
from emrdm.metrics.pixels import Over, check_pair, mae, psnr, rmse
from emrdm.metrics.spectrum import sam, zero_spectra
from emrdm.metrics.structure import ssim_over, uniform_taps


@final
@dataclass(frozen=True)
class Metric:
    """How a score is shown: its label and unit, which end is better, and how many digits mean something."""

    label: str
    better: Literal["higher", "lower", ""]
    digits: int
    unit: str = ""


METRICS: Mapping[str, Metric] = {
    "psnr": Metric("PSNR", "higher", 2, "dB"),
    "ssim": Metric("SSIM", "higher", 4),
    "mae": Metric("MAE", "lower", 4),
    "rmse": Metric("RMSE", "lower", 4),
    "sam": Metric("SAM", "lower", 3, "degrees"),
    "lpips": Metric("LPIPS", "lower", 4),
    "zero_pixels": Metric("pixels without a spectral angle", "", 0),
}


class Data(NamedTuple):
    """What a protocol must know of the data: steps from black to white, and which bands are red, green and blue."""

    levels: int | None = None
    rgb: tuple[int, int, int] | None = None


_Scorer = Callable[[Tensor | None], dict[str, Tensor]]  # where -> values of each metric
_Prepare = Callable[[Tensor, Tensor, Data], _Scorer]  # what regions share is computed once


@final
@dataclass(frozen=True)
class Protocol:
    """A named way to score.

    Attributes:
        name: what users type and reports print.
        title: where it comes from.
        metrics: what it measures, best known first.
        quirks: what a reader must know before comparing numbers, one sentence each.
        prepare: (prediction, target, data) -> where -> values of each metric; images are (B, C, H, W) in [-1, 1].
        ends: what -1 and 1 must stand for, where the protocol works in the data's own numbers.
    """

    name: str
    title: str
    metrics: tuple[str, ...]
    quirks: tuple[str, ...]
    prepare: _Prepare
    ends: tuple[float, float] | None = None

    def check_ends(self, low: float, high: float) -> None:
        """Refuse data whose black and white are not the protocol's."""
        if self.ends is not None and self.ends != (low, high):
            raise InputError(
                f"protocol {self.name} is for reflectances from {self.ends[0]:g} to {self.ends[1]:g}, and this data is "
                f"from {low:g} to {high:g}: expected another protocol, such as standard"
            )

    def __call__(
        self,
        prediction: Tensor,
        target: Tensor,
        *,
        data: Data | None = None,
        valid: Tensor | None = None,
        regions: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Score a batch.

        Args:
            prediction: (B, C, H, W) in [-1, 1], not clipped.
            target: (B, C, H, W) in [-1, 1].
            data: depth and colours.
            valid: (B, H, W) bool, pixels to count; all of them if None.
            regions: more masks by name, such as {"cloudy": ..., "clear": ...}; their scores are named "psnr/cloudy".

        Returns:
            one float64 tensor (B,) a metric; NaN where it is not defined.
        """
        check_pair(prediction, target, valid)
        if not prediction.is_floating_point() or not target.is_floating_point():
            raise InputError(f"images are {prediction.dtype} and {target.dtype}: expected floating point in [-1, 1]")
        x, y = prediction.float(), target.float()
        if valid is not None:
            x, y = _without_invalid(x, y, valid)
        with torch.no_grad():
            return self._score_regions(x, y, data or Data(), valid, regions or {})

    def _score_regions(
        self, x: Tensor, y: Tensor, data: Data, valid: Tensor | None, regions: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        score = self.prepare(x, y, data)
        scores = score(valid)
        for region, mask in regions.items():
            check_pair(x, y, mask)
            where = mask if valid is None else mask & valid
            scores |= {f"{name}/{region}": value for name, value in score(where).items()}
        return scores


def _without_invalid(x: Tensor, y: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Both images with the target's mean colour where there is no data: windows and stretches see no difference."""
    known = valid[:, None]
    count = known.sum((2, 3), keepdim=True).clamp(min=1)
    colour = torch.where(known, y, 0).sum((2, 3), keepdim=True) / count
    return torch.where(known, x, colour), torch.where(known, y, colour)


def _if_large(metric: Callable[..., Over], x: Tensor, y: Tensor, smallest: int, **options: Any) -> Over:
    """A metric with windows; not defined for images that are smaller than they."""
    if min(y.shape[2:]) < smallest:
        return lambda _where: torch.full((len(y),), torch.nan, dtype=torch.float64, device=y.device)
    return metric(x, y, **options)


def _standard(x: Tensor, y: Tensor, data: Data) -> _Scorer:
    x, y = (_round(((v + 1) / 2).clamp(0, 1), data.levels) for v in (x, y))
    similarity = _if_large(ssim_over, x, y, 11)
    distance = None
    if data.rgb is not None:
        rgb = list(data.rgb)
        distance = _if_large(lpips_over, x[:, rgb] * 2 - 1, y[:, rgb] * 2 - 1, SMALLEST)

    def score(where: Tensor | None) -> dict[str, Tensor]:
        scores = {
            "psnr": psnr(x, y, where=where),
            "ssim": similarity(where),
            "mae": mae(x, y, where=where),
            "rmse": rmse(x, y, where=where),
            "sam": sam(x, y, where=where),
            "zero_pixels": zero_spectra(x, y, where=where),
        }
        return scores if distance is None else {**scores, "lpips": distance(where)}

    return score


def _round(y: Tensor, levels: int | None) -> Tensor:
    """To the values that the data's own files can hold, in double precision: 128/255 is then the same everywhere."""
    return y.double() if levels is None else (y.double() * levels).round() / levels


def _cuhk(x: Tensor, y: Tensor, _data: Data) -> _Scorer:
    unit_x, unit_y = (x + 1) / 2, (y + 1) / 2
    # single precision, as published: 99 may become 98
    x, y = ((255 * v).clamp(0, 255).trunc() for v in (unit_x, unit_y))
    gray = 0.298912 + 0.586611 + 0.114478  # each band is copied to three and turned to gray with weights over one
    scaled = (x.double() * gray, y.double() * gray)
    similarity = _if_large(ssim_over, *scaled, 7, data_range=255, taps=uniform_taps(7), sample_covariance=True)
    copies = [v.flatten(0, 1)[:, None].expand(-1, 3, -1, -1) for v in (x, y)]  # not scaled to [-1, 1]
    distance = _if_large(lpips_over, copies[0], copies[1], SMALLEST)

    def score(where: Tensor | None) -> dict[str, Tensor]:
        each = None if where is None else where.repeat_interleave(x.shape[1], 0)
        return {
            "psnr": psnr(x, y, data_range=255, where=where),
            "ssim": similarity(where),
            "lpips": distance(each).reshape(x.shape[:2]).mean(1),
            "rmse": rmse(unit_x, unit_y, where=where),
        }

    return score


def _sen12ms_cr(x: Tensor, y: Tensor, _data: Data) -> _Scorer:
    return _uncrtaints((x + 1) / 2, (y + 1) / 2)


def _sen2_mtc_new(x: Tensor, y: Tensor, _data: Data) -> _Scorer:
    x, y = _stretch(x), _stretch(y)
    common = _uncrtaints(x, y)
    if x.shape[1] != 3:
        return common
    distance = _if_large(lpips_over, 2 * x - 1, 2 * y - 1, SMALLEST)
    return lambda where: {**common(where), "lpips": distance(where)}


def _uncrtaints(x: Tensor, y: Tensor) -> _Scorer:
    """The scores of images in [0, 1] that both Sentinel-2 protocols share."""
    similarity = ssim_over(x, y, border="zeros")
    return lambda where: {
        "psnr": psnr(x, y, where=where),
        "ssim": similarity(where),
        "mae": mae(x, y, where=where),
        "sam": sam(x, y, zeros="nan", where=where),
        "rmse": rmse(x, y, where=where),
    }


def _stretch(v: Tensor) -> Tensor:
    """Whole reflectances, cut at 2000, then each image from its own darkest to its own brightest value."""
    v = ((v * 0.5 + 0.5) * 10000 + 0.5).clamp(0, 10000).trunc().clamp(0, 2000)
    v = v - v.amin((1, 2, 3), keepdim=True)
    largest = v.amax((1, 2, 3), keepdim=True)
    return torch.where(largest > 0, v / largest, 1)


PROTOCOLS: Mapping[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "standard",
            "images as their files can hold them, every choice spelt out",
            ("psnr", "ssim", "mae", "rmse", "sam", "lpips", "zero_pixels"),
            (
                "values are clipped to [0, 1] and rounded to the depth of the data",
                "SSIM as scikit-image computes it: 11 x 11 Gaussian, sigma 1.5, biased covariance, border left out",
                "SAM leaves out pixels that are zero in all bands, and counts them",
                "LPIPS (AlexNet) on red, green and blue in [-1, 1]",
            ),
            _standard,
        ),
        Protocol(
            "cuhk",
            "CUHK-CR as published (DE-CR, EMRDM)",
            ("psnr", "ssim", "lpips", "rmse"),
            (
                "values are cut down to whole 8-bit numbers, not rounded",
                "SSIM with a flat 7 x 7 window and sample covariance, band by band, each band times 1.000001",
                "LPIPS band by band on values 0 to 255 instead of [-1, 1]: comparable with the same mistake only",
                "RMSE on values that are neither clipped nor cut",
            ),
            _cuhk,
        ),
        Protocol(
            "sen12ms-cr",
            "SEN12MS-CR as published (UnCRtainTS, EMRDM)",
            ("psnr", "ssim", "mae", "sam", "rmse"),
            (
                "values are not clipped",
                "SSIM pads with zeros and counts the border",
                "one pixel that is zero in all bands drops the whole image from the mean SAM",
            ),
            _sen12ms_cr,
        ),
        Protocol(
            "sen2-mtc-new",
            "Sen2_MTC_New as published (CTGAN, DiffCR, EMRDM)",
            ("psnr", "ssim", "lpips", "mae", "sam", "rmse"),
            (
                "reflectances above 2000 are cut",
                "each image is stretched from its own minimum to its own maximum, target and prediction separately: "
                "an error of brightness or contrast partly cancels",
                "SSIM pads with zeros and counts the border",
                "one pixel that is zero in all bands drops the whole image from the mean SAM",
            ),
            _sen2_mtc_new,
            (0, 10000),
        ),
    )
}


def find_protocols(names: Sequence[str]) -> tuple[Protocol, ...]:
    """Protocols by name, in order, each once."""
    for name in names:
        if name not in PROTOCOLS:
            raise ConfigError(f"unknown protocol {name!r}: expected one of {', '.join(PROTOCOLS)}")
    return tuple(PROTOCOLS[name] for name in dict.fromkeys(names))


def describe(name: str) -> Metric:
    """How to show a score, region or not: "psnr/cloudy" is shown as PSNR is."""
    return METRICS[name.partition("/")[0]]


def show(name: str, value: Any) -> str:
    """A score as text, with the digits that mean something."""
    return "-" if value is None or value != value else f"{value:.{describe(name).digits}f}"
