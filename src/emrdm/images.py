"""From a user's arrays to what the network takes, and back: shapes, bands, units, missing frames, padding.

Everything that can be wrong with an input is refused here, before any work, with one line that says what was found
and what was expected.
"""

from __future__ import annotations

import datetime
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar, final

import numpy as np
import torch
from torch import Tensor

from emrdm.config import Band, ModelConfig
from emrdm.errors import EmrdmError, InputError
from emrdm.wording import many

Array = TypeVar("Array", np.ndarray, Tensor)
Date = str | datetime.date | np.datetime64 | float

_LOG = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class Frames:
    """Images ready for the network: in [-1, 1], padded, with both leading axes.

    Attributes:
        cloudy: (B, L, C, H, W).
        aux: (B, L, C_aux, H, W), or None.
        present: (B, L) bool, or None where all frames exist.
        finish: turns a restored (B, C, H, W) into what the user expects: cropped, in their units, shape, kind and
            place.
    """

    cloudy: Tensor
    aux: Tensor | None
    present: Tensor | None
    finish: Callable[[Tensor], np.ndarray | Tensor]


def prepare(
    config: ModelConfig,
    cloudy: np.ndarray | Tensor,
    aux: np.ndarray | Tensor | None = None,
    *,
    dates: Sequence[Date] | None = None,
    present: np.ndarray | Tensor | Sequence[bool] | None = None,
    scaled: bool = False,
    device: torch.device | str = "cpu",
) -> Frames:
    """Check and convert inputs; see :meth:`emrdm.EMRDM.restore` for the meaning of each."""
    frames = _with_leading_axes(config, cloudy, "cloudy", config.bands, device)
    batch, count = frames.shape[:2]
    exists = None if present is None else _presence(present, batch, count, device)
    _check_finite(frames, exists, "cloudy", config.bands)
    extra = _auxiliary(config, cloudy, aux, frames, device)
    if extra is not None:
        _check_finite(extra, exists, "aux", config.aux)

    if dates is not None:
        order = _date_order(config, dates, count).to(device)
        frames, extra, exists = (None if x is None else x[:, order] for x in (frames, extra, exists))  # type: ignore[assignment]
    if exists is not None:
        frames, extra, exists = _gather_present(frames, extra, exists)
    if not scaled:
        frames = to_model_units(frames, config.bands, "cloudy")
        extra = None if extra is None else to_model_units(extra, config.aux, "aux")

    height, width = frames.shape[-2:]
    sides = config.network.padded(height), config.network.padded(width)

    def finish(restored: Tensor) -> np.ndarray | Tensor:
        restored = restored[..., :height, :width].float()
        if not bool(torch.isfinite(restored).all()):
            raise EmrdmError("the result holds NaN or infinite values: the weights or the input are out of all bounds")
        if not scaled:
            restored = to_user_units(restored, config.bands)
        lone = cloudy.ndim == 3 or (cloudy.ndim == 4 and config.network.multi_temporal)
        restored = restored[0] if lone else restored
        return restored.to(cloudy.device) if isinstance(cloudy, Tensor) else restored.cpu().numpy()

    return Frames(
        cloudy=pad_by_reflection(frames, *sides),
        aux=None if extra is None else pad_by_reflection(extra, *sides),
        present=exists,
        finish=finish,
    )


def to_model_units(x: Tensor, bands: Sequence[Band], name: str) -> Tensor:
    """(..., C, H, W) from each band's own units to [-1, 1]; bands that say so are clipped, and how much is logged."""
    low, high = _limits(bands, x)
    if any(band.clip for band in bands):
        clipped = torch.minimum(torch.maximum(x, low), high)
        clips = torch.tensor([band.clip for band in bands], device=x.device)[:, None, None]
        if _LOG.isEnabledFor(logging.INFO):
            share = ((clipped != x) & clips).float().mean().item()
            if share > 0:
                _LOG.info("%s: clipped %.2f %% of the values to the range of their band", name, 100 * share)
        x = clipped if all(band.clip for band in bands) else torch.where(clips, clipped, x)
    return (x - low).div_(high - low).mul_(2).sub_(1)


def to_user_units(x: Tensor, bands: Sequence[Band]) -> Tensor:
    """The inverse of :func:`to_model_units`; nothing is clipped."""
    low, high = _limits(bands, x)
    return (x + 1) / 2 * (high - low) + low


def pad_by_reflection(x: Tensor, height: int, width: int) -> Tensor:
    """Extend (..., H, W) to the right and below by mirroring, as often as it takes; both sides must be 2 or more."""
    for dim, target in ((-2, height), (-1, width)):
        length = x.shape[dim]
        if target > length:
            wave = torch.arange(target, device=x.device) % (2 * length - 2)
            x = x.index_select(dim, torch.minimum(wave, 2 * length - 2 - wave))
    return x


def _limits(bands: Sequence[Band], like: Tensor) -> tuple[Tensor, Tensor]:
    """Lower and upper end of each band, (C, 1, 1)."""
    ends = torch.tensor([[band.low, band.high] for band in bands], device=like.device, dtype=like.dtype)
    return ends[:, 0, None, None], ends[:, 1, None, None]


def _with_leading_axes(
    config: ModelConfig, x: np.ndarray | Tensor, name: str, bands: Sequence[Band], device: torch.device | str
) -> Tensor:
    """float32 (B, L, C, H, W) from any layout the model takes."""
    multi = config.network.multi_temporal
    layouts = "(C, H, W), (L, C, H, W) or (B, L, C, H, W)" if multi else "(C, H, W) or (B, C, H, W)"
    if isinstance(x, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array: expected plain numbers; fill masked pixels, or see present=")
    if not isinstance(x, np.ndarray | Tensor) or (isinstance(x, Tensor) and x.is_nested):
        raise InputError(f"{name} is a {type(x).__name__}: expected a numpy array or a torch tensor")
    if x.ndim not in (3, 4, 5) or (x.ndim == 5 and not multi):
        raise InputError(f"{name} has {x.ndim} axes, shape {tuple(x.shape)}: expected {layouts}")
    if x.shape[-3] != len(bands):
        raise InputError(
            f"{name} has {many(x.shape[-3], 'band')}, shape {tuple(x.shape)}: "
            f"expected {len(bands)} ({_names(bands)}){_band_hint(config, x, name)}"
        )
    if min(x.shape) == 0:
        what = "frames (L = 0)" if multi and x.shape[-4:-3] == (0,) else "pixels or samples"
        raise InputError(f"{name} has no {what}, shape {tuple(x.shape)}: expected at least one")
    if min(x.shape[-2:]) < 2:
        raise InputError(f"{name} is {x.shape[-1]} x {x.shape[-2]} pixels: expected at least 2 x 2")
    tensor = _as_float(x, name).to(device)
    if tensor.ndim == 5:
        return tensor
    if tensor.ndim == 3:
        return tensor[None, None]
    return tensor[None] if multi else tensor[:, None]


def _as_float(x: np.ndarray | Tensor, name: str) -> Tensor:
    if isinstance(x, Tensor):
        if x.is_complex() or x.is_quantized or x.dtype == torch.bool:
            raise InputError(f"{name} is of type {x.dtype}: expected real numbers")
        if x.is_meta or x.layout != torch.strided:
            raise InputError(f"{name} is a tensor without plain numbers ({x.layout}, {x.device}): expected a dense one")
        return x.detach().to(torch.float32)
    if x.dtype.kind not in "uif":
        raise InputError(f"{name} is of type {x.dtype}: expected real numbers")
    return torch.from_numpy(np.array(x, dtype=np.float32, order="C"))


def _auxiliary(
    config: ModelConfig,
    cloudy: np.ndarray | Tensor,
    aux: np.ndarray | Tensor | None,
    frames: Tensor,
    device: torch.device | str,
) -> Tensor | None:
    if aux is None:
        if config.aux:
            raise InputError(
                "aux is missing: "
                f"this model needs {len(config.aux)} auxiliary bands ({_names(config.aux)}) beside the cloudy image"
            )
        return None
    if not config.aux:
        raise InputError("aux was given: this model takes no auxiliary bands")
    extra = _with_leading_axes(config, aux, "aux", config.aux, device)
    if extra.shape[:2] != frames.shape[:2] or extra.shape[-2:] != frames.shape[-2:]:
        raise InputError(
            f"aux has shape {tuple(aux.shape)} beside cloudy {tuple(cloudy.shape)}: "
            "expected all axes but the bands to be equal"
        )
    return extra


def _presence(
    present: np.ndarray | Tensor | Sequence[bool], batch: int, count: int, device: torch.device | str
) -> Tensor:
    if isinstance(present, np.ma.MaskedArray):
        raise InputError("present is a masked array: expected plain true or false")
    try:
        array = present.cpu().numpy() if isinstance(present, Tensor) else np.asarray(present)
    except (ValueError, NotImplementedError):  # ragged lists, tensors without data
        array = np.empty(0)
    if array.dtype != np.bool_ or array.shape not in ((count,), (batch, count)):
        raise InputError(
            f"present is {array.dtype} of shape {array.shape}: expected true or false for each of {count} frames"
        )
    mask = torch.from_numpy(array.copy())
    mask = mask.to(device).expand(batch, count)
    if not bool(mask.any(1).all()):
        raise InputError("present leaves a sample without any frame: expected at least one")
    return mask


def _gather_present(
    frames: Tensor, extra: Tensor | None, exists: Tensor
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Move the frames that exist to the front of each sample and cut off what no sample has.

    Noise is drawn by place in the sequence, so a missing frame then gives the very result that leaving it out gives.
    """
    order = (~exists).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(exists.sum(1).max())]
    rows = torch.arange(len(order), device=order.device)[:, None]
    exists = exists[rows, order]

    def gather(x: Tensor) -> Tensor:  # the numbers of a missing frame mean nothing; zero keeps NaN from spreading
        return x[rows, order].masked_fill(~exists[:, :, None, None, None], 0)

    return gather(frames), None if extra is None else gather(extra), None if bool(exists.all()) else exists


def _check_finite(x: Tensor, present: Tensor | None, name: str, bands: Sequence[Band]) -> None:
    """Name the first bad value, so that it can be found in the file."""
    bad = ~torch.isfinite(x)
    if present is not None:
        bad &= present[:, :, None, None, None]
    count = int(bad.sum())
    if count:
        sample, frame, band, row, column = bad.nonzero()[0].tolist()
        place = f"sample {sample}, frame {frame}, band {bands[band].name}, row {row}, column {column}"
        raise InputError(
            f"{name} has {count} NaN or infinite values, the first at {place}: "
            "fill them, or mark whole frames as missing with present="
        )


def _date_order(config: ModelConfig, dates: Sequence[Date], count: int) -> Tensor:
    """The frames' order in time: noise is drawn by rank, so that the order they are given in makes no difference."""
    if not isinstance(dates, list | tuple | np.ndarray) or np.ndim(dates) == 0:
        raise InputError(f"dates is a {type(dates).__name__}: expected a list with one date a frame")
    if not config.network.multi_temporal:
        raise InputError(f"{many(len(dates), 'date')} given: this model restores one image at a time")
    if len(dates) != count:
        raise InputError(f"{many(len(dates), 'date')} given for {many(count, 'frame')}: expected one a frame")
    times = [_time(date) for date in dates]
    if len({isinstance(time, float) for time in times}) > 1:
        raise InputError("dates are of different kinds: expected all calendar dates or all numbers")
    ranks = sorted(range(count), key=times.__getitem__)
    for before, after in pairwise(ranks):
        if times[before] == times[after]:
            raise InputError(f"date {dates[after]} was given twice: expected one frame a date")
    return torch.tensor(ranks)


def _time(date: Date) -> datetime.datetime | float:
    """A date as something that can be ordered: a moment in UTC, or a finite number."""
    try:
        if isinstance(date, np.datetime64):
            date = str(date.astype("datetime64[us]"))
        if isinstance(date, str):
            date = datetime.datetime.fromisoformat(date)
        if isinstance(date, datetime.date):
            moment = date if isinstance(date, datetime.datetime) else datetime.datetime(date.year, date.month, date.day)
            return moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment
        number = float(date)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or isinstance(date, bool):
        raise InputError(f"date {date!r} is not a date: expected one such as '2024-05-01', or a number")
    return number


def _names(bands: Sequence[Band]) -> str:
    return ", ".join(band.name for band in bands)


def _band_hint(config: ModelConfig, x: np.ndarray | Tensor, name: str) -> str:
    if name == "cloudy" and config.aux and x.shape[-3] == len(config.bands) + len(config.aux):
        return f"; give {_names(config.aux)} separately, as aux"
    if x.shape[-1] == len(config.bands if name == "cloudy" else config.aux):
        return "; bands come before rows and columns"
    return ""
