"""What can be measured, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from emrdm.errors import InputError
from emrdm.strict import nearest

SIDES = (128, 256, 384, 512, 768, 1024)
FRAMES = (1, 2, 3, 4, 5, 6, 7, 8)
LARGEST_BATCH = 1024
GROWTH = 1.03  # in images a second that a doubled batch has to bring
TRAINING_BATCH = 4


@final
@dataclass(frozen=True)
class Case:
    """A case.

    Attributes:
        words: what it measures.
        on_gpu: measured without being asked for on a GPU.
        on_cpu: likewise on a CPU.
    """

    words: str
    on_gpu: bool = False
    on_cpu: bool = False


CASES = {
    "forward": Case("one call of the network", on_gpu=True, on_cpu=True),
    "sampling": Case("an image restored with the model's own sampler", on_gpu=True, on_cpu=True),
    "best": Case("images a second at the best batch", on_gpu=True),
    "training": Case("one step of training", on_gpu=True),
    "attention": Case("each attention back-end alone", on_gpu=True, on_cpu=True),
    "size": Case("sampling against the side of the image"),
    "frames": Case("sampling against the number of frames"),
}


def default_cases(device: str) -> list[str]:
    """What is measured on a kind of device without being asked for."""
    return [name for name, case in CASES.items() if (case.on_gpu if device == "cuda" else case.on_cpu)]


def read_cases(text: str) -> list[str]:
    """Names separated by commas, in the order in which they are measured."""
    asked = [word.strip() for word in text.split(",") if word.strip()]
    for word in asked:
        if word not in CASES:
            raise InputError(f"--cases: unknown case {word!r}{nearest(word, CASES)}")
    if not asked:
        raise InputError(f"--cases is empty: expected some of {', '.join(CASES)}")
    return in_order(asked)


def in_order(names: Sequence[str]) -> list[str]:
    """As they are listed above, each once."""
    return [name for name in CASES if name in names]
