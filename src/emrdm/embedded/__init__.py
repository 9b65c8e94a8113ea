"""Files inside the package: trained weights of the default model, and a scene to try it on.

README.md beside this file says where they come from. Nothing heavy is imported, and nothing is opened here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from emrdm.errors import EmrdmError

PRESET = "rgb-small"
"""The preset that the default model was trained with."""
DEFAULT = "default"
"""What users call that model; the preset's name is understood as well."""

_FOLDER = Path(__file__).parent


@final
@dataclass(frozen=True)
class Example:
    """The example scene, twice on the same grid, red, green and blue of 8 bits.

    Attributes:
        cloudy: under drawn clouds.
        clear: the truth.
    """

    cloudy: Path
    clear: Path


def default_weights() -> Path:
    """The weights file of the default model."""
    return _present(f"{PRESET}.safetensors")


def example() -> Example:
    """The example scene."""
    return Example(cloudy=_present("example_cloudy.tif"), clear=_present("example_clear.tif"))


def _present(name: str) -> Path:
    path = _FOLDER / name
    if not path.is_file():
        raise EmrdmError(f"{path} is missing, which is part of the package: install emrdm again")
    return path
