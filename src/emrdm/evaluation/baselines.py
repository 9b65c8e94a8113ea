"""Simple methods that need no training: what a model has to beat.

All take and give images in [-1, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from emrdm.data import CLEAR, NODATA, SHADOW, THICK, THIN, UNKNOWN, Batch

Colours = tuple[int, int, int] | None


@final
@dataclass(frozen=True)
class Baseline:
    """A method by name; ``applies`` says whether it can be used on a batch, ``predict`` gives (B, C, H, W)."""

    name: str
    title: str
    applies: Callable[[Batch, Colours], bool]
    predict: Callable[[Batch, Colours], Tensor]


def cloudy_image(batch: Batch, _colours: Colours = None) -> Tensor:
    """The input itself."""
    return batch.cloudy[:, 0]


def dark_channel(batch: Batch, colours: Colours, *, strength: float = 0.8, patch: int = 15) -> Tensor:
    """Dehazing by the dark channel prior (He, Sun and Tang 2009), refined by a guided filter.

    Haze is what even the darkest of the visible bands shows in a neighbourhood; its colour is that of the haziest
    thousandth of the pixels. ``strength`` is their omega, the share of the haze that is taken away.
    """
    assert colours is not None
    image = (batch.cloudy[:, 0].double() + 1) / 2
    visible = image[:, list(colours)]
    air = _airlight(image, _minimum(visible.amin(1, keepdim=True), patch))
    seen = visible / air[:, list(colours)].clamp(min=1e-3)
    rough = 1 - strength * _minimum(seen.amin(1, keepdim=True), patch).clamp(0, 1)
    transmission = _guided(visible.mean(1, keepdim=True), rough).clamp(0.1, 1)
    return (((image - air) / transmission + air).clamp(0, 1) * 2 - 1).float()


def least_cloudy(batch: Batch, colours: Colours) -> Tensor:
    """The frame with the fewest pixels under cloud, shadow or without data; without masks the darkest with most data.

    Cloud brightens the visible bands, so that the darkest frame is usually the clearest; not over snow, and not where
    shadow covers much.
    """
    if _masked(batch):
        assert batch.classes is not None
        badness = (batch.classes != CLEAR).flatten(2).double().mean(2)
    else:
        visible = batch.cloudy[:, :, list(colours) if colours else slice(None)].double().mean(2)
        data = torch.ones_like(visible) if batch.classes is None else (batch.classes != NODATA).double()
        missing, count = 1 - data.flatten(2).mean(2), data.flatten(2).sum(2).clamp(min=1)
        badness = 2 * missing + (visible * data).flatten(2).sum(2) / count
    best = badness.argmin(1)
    return batch.cloudy[torch.arange(len(best), device=best.device), best]


def temporal_median(batch: Batch, _colours: Colours = None) -> Tensor:
    """The median of the frames, pixel by pixel and band by band; frames without data are left out where known."""
    frames = batch.cloudy
    if batch.classes is not None:
        frames = frames.masked_fill((batch.classes == NODATA)[:, :, None], torch.nan)
    return _nanmedian(frames, batch.cloudy)


def mosaic(batch: Batch, _colours: Colours = None) -> Tensor:
    """The median of the frames that are clear at a pixel; where none is, of the least affected: thin, shadow, thick."""
    assert batch.classes is not None
    result = torch.full_like(batch.cloudy[:, 0], torch.nan)
    for allowed in (CLEAR, THIN, SHADOW, THICK):
        seen = batch.cloudy.masked_fill((batch.classes != allowed)[:, :, None], torch.nan)
        result = torch.where(result.isnan(), _nanmedian(seen, None), result)
    return torch.where(result.isnan(), batch.cloudy[:, 0], result)


BASELINES: Mapping[str, Baseline] = {
    baseline.name: baseline
    for baseline in (
        Baseline("cloudy-image", "the cloudy image itself", lambda batch, _: batch.cloudy.shape[1] == 1, cloudy_image),
        Baseline(
            "dark-channel",
            "dark-channel dehazing",
            lambda batch, colours: batch.cloudy.shape[1] == 1 and colours is not None,
            dark_channel,
        ),
        Baseline("least-cloudy", "the least cloudy frame", lambda batch, _: batch.cloudy.shape[1] > 1, least_cloudy),
        Baseline(
            "temporal-median", "the median of the frames", lambda batch, _: batch.cloudy.shape[1] > 1, temporal_median
        ),
        Baseline(
            "mosaic",
            "mosaic of the clear pixels, by the masks",
            lambda batch, _: batch.cloudy.shape[1] > 1 and _masked(batch),
            mosaic,
        ),
    )
}


def _masked(batch: Batch) -> bool:
    """Whether it is known which pixels are clear, not only which have data."""
    return batch.classes is not None and not bool((batch.classes == UNKNOWN).any())


def _minimum(x: Tensor, side: int) -> Tensor:
    """Smallest value in a square around each pixel."""
    pad = side // 2
    x = F.max_pool2d(F.pad(-x, (pad,) * 4, value=-torch.inf), (side, 1), 1)
    return -F.max_pool2d(x, (1, side), 1)


def _airlight(image: Tensor, dark: Tensor) -> Tensor:
    """Mean colour of the thousandth of pixels whose dark channel is brightest, (B, C, 1, 1); ties count as well."""
    count = max(1, dark[0].numel() // 1000)
    least = dark.flatten(1).topk(count).values[:, -1, None, None, None]
    hazy = dark >= least
    return (image * hazy).sum((2, 3), keepdim=True) / hazy.sum((2, 3), keepdim=True)


def _guided(guide: Tensor, x: Tensor, radius: int = 30, eps: float = 1e-3) -> Tensor:
    """Guided filter (He, Sun and Tang 2010): x smoothed, but with the edges of the guide."""

    def box(v: Tensor) -> Tensor:
        return _running_mean(_running_mean(v, radius, 2), radius, 3)

    mean_g, mean_x = box(guide), box(x)
    slope = (box(guide * x) - mean_g * mean_x) / (box(guide * guide) - mean_g**2 + eps)
    return box(slope) * guide + box(mean_x - slope * mean_g)


def _running_mean(x: Tensor, radius: int, dim: int) -> Tensor:
    """Mean over the pixels at most ``radius`` away along one axis, as many as are inside the image."""
    length = x.shape[dim]
    sums = F.pad(x.cumsum(dim), (1, 0) if dim == 3 else (0, 0, 1, 0))
    places = torch.arange(length, device=x.device)
    start, end = (places - radius).clamp(min=0), (places + radius + 1).clamp(max=length)
    count = (end - start).to(x.dtype).reshape((-1, 1) if dim == 2 else (1, -1))
    return (sums.index_select(dim, end) - sums.index_select(dim, start)) / count


def _nanmedian(frames: Tensor, fallback: Tensor | None) -> Tensor:
    """Median over the frames (B, L, C, H, W) that are not NaN, the mean of the middle two of an even number."""
    ordered = frames.sort(1).values  # NaN comes last
    count = (~ordered.isnan()).sum(1, keepdim=True)
    low, high = ((count - 1) // 2).clamp(min=0), (count // 2).clamp(max=frames.shape[1] - 1)
    middle = (ordered.gather(1, low) + ordered.gather(1, high)) / 2
    middle = torch.where(count > 0, middle, torch.nan)[:, 0]
    return middle if fallback is None else torch.where(middle.isnan(), fallback[:, 0], middle)
