"""Remove clouds from satellite images with the mean-reverting diffusion model EMRDM (CVPR 2025).

>>> import emrdm
>>> model = emrdm.EMRDM.from_preset("sen12ms-cr")
>>> clear = model.restore(cloudy, aux=sar, seed=0)

Names are imported when they are first used, so that ``import emrdm`` and the command line start at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emrdm.card import ModelCard, Results
    from emrdm.config import Band, ModelConfig, SamplerConfig
    from emrdm.data import open_dataset
    from emrdm.errors import ConfigError, DataError, EmrdmError, InputError, MissingDependencyError, WeightsError
    from emrdm.model import EMRDM
    from emrdm.presets import Preset, load_preset, preset_names
    from emrdm.presets.studies import load_study, study_names
    from emrdm.rasters.scene import Scene, open_scene
    from emrdm.restoration import restore_scene

__version__ = "0.1.0"

_HOMES = {
    "Band": "emrdm.config",
    "ConfigError": "emrdm.errors",
    "DataError": "emrdm.errors",
    "EMRDM": "emrdm.model",
    "EmrdmError": "emrdm.errors",
    "InputError": "emrdm.errors",
    "MissingDependencyError": "emrdm.errors",
    "ModelCard": "emrdm.card",
    "ModelConfig": "emrdm.config",
    "Preset": "emrdm.presets",
    "Results": "emrdm.card",
    "SamplerConfig": "emrdm.config",
    "Scene": "emrdm.rasters.scene",
    "WeightsError": "emrdm.errors",
    "load_preset": "emrdm.presets",
    "load_study": "emrdm.presets.studies",
    "open_dataset": "emrdm.data",
    "open_scene": "emrdm.rasters.scene",
    "preset_names": "emrdm.presets",
    "restore_scene": "emrdm.restoration",
    "study_names": "emrdm.presets.studies",
}

__all__ = [
    "EMRDM",
    "Band",
    "ConfigError",
    "DataError",
    "EmrdmError",
    "InputError",
    "MissingDependencyError",
    "ModelCard",
    "ModelConfig",
    "Preset",
    "Results",
    "SamplerConfig",
    "Scene",
    "WeightsError",
    "__version__",
    "load_preset",
    "load_study",
    "open_dataset",
    "open_scene",
    "preset_names",
    "restore_scene",
    "study_names",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'emrdm' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
