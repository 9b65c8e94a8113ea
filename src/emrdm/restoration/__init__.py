"""Scene in, scene out: whole images of any size, in tiles that agree at every step, on one machine or many.

Names are imported when they are first used: looking at a picture does not need torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emrdm.restoration.inputs import Inputs, Reading
    from emrdm.restoration.output import Keeping
    from emrdm.restoration.plan import Plan, Settings
    from emrdm.restoration.scenes import restore_scene
    from emrdm.restoration.sinks import Restored, Summary, Writing

_HOMES = {
    "Inputs": "inputs",
    "Keeping": "output",
    "Plan": "plan",
    "Reading": "inputs",
    "Restored": "sinks",
    "Settings": "plan",
    "Summary": "sinks",
    "Writing": "sinks",
    "restore_scene": "scenes",
}

__all__ = ["Inputs", "Keeping", "Plan", "Reading", "Restored", "Settings", "Summary", "Writing", "restore_scene"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'emrdm.restoration' has no attribute {name!r}")
    return getattr(importlib.import_module(f"emrdm.restoration.{_HOMES[name]}"), name)
