"""What every data set gives: one place, its cloudy frames, and the clear image to aim at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from torch import Tensor

# Classes of a cloud mask.
CLEAR, THICK, THIN, SHADOW, UNKNOWN, NODATA = 0, 1, 2, 3, 254, 255  # UNKNOWN: there is data, and no mask


@final
@dataclass(frozen=True)
class Sample:
    """Images of one place, ready for a network: float32 in [-1, 1].

    Values outside [-1, 1] occur where a data set's recipe does not clip (``Band.clip``).

    Attributes:
        name: unique in its data set; also the name of a prediction's file.
        cloudy: (L, C, H, W), the frames in order of time where dates are known.
        target: (C, H, W), the clear image, or None where nobody knows it.
        aux: (L, C_aux, H, W), such as SAR or near infrared, or None.
        classes: (L, H, W) uint8 of CLEAR, THICK, THIN, SHADOW, UNKNOWN, NODATA, or None where nothing is known.
        valid: (H, W) bool, pixels whose target is known, or None where all are.
        dates: of the frames, ISO, or empty.
        repaired: how many values were changed on the way and why, such as {"clipped": 12, "nan": 3}.
    """

    name: str
    cloudy: Tensor
    target: Tensor | None = None
    aux: Tensor | None = None
    classes: Tensor | None = None
    valid: Tensor | None = None
    dates: tuple[str, ...] = ()
    repaired: Mapping[str, int] = field(default_factory=dict)
