"""What ``emrdm info`` says of an image: bands, numbers, where it lies, and what the default model makes of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm import embedded
from emrdm.errors import EmrdmError

if TYPE_CHECKING:
    import numpy as np

    from emrdm.rasters.source import Source

_SUFFIXES = (".tif", ".tiff", ".png", ".jpg", ".jpeg", ".webp")  # of rasters.guard, which imports numpy
_CACHE = 256 << 20  # bytes of decoded blocks


def is_image(name: str) -> bool:
    """Whether a name is that of an image file, by its ending."""
    return Path(name).suffix.lower() in _SUFFIXES


def describe(name: str) -> dict[str, Any]:
    """All of it as plain data: what --json prints."""
    from emrdm.rasters.grid import crs_name
    from emrdm.rasters.source import open_source, set_cache

    set_cache(_CACHE)
    with open_source(name) as source:
        grid, found = source.grid, source.some_values()
        return {
            "image": name,
            "width": grid.width,
            "height": grid.height,
            "bands": [{"name": own or None, **_values(row)} for own, row in zip(source.names, found, strict=True)],
            "dtype": str(source.dtype),
            "nodata": _number(source.nodata),
            "masked": source.masked,
            "crs": None if grid.crs is None else crs_name(grid.crs),
            "pixel_size": _pixel_size(grid.transform),
            "date": None if source.date is None else str(source.date),
            "default_model": _understood(source),
        }


def rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The same for people."""
    names = [band["name"] or f"band {i + 1}" for i, band in enumerate(facts["bands"])]
    named = ", ".join(names) if any(band["name"] for band in facts["bands"]) else "without names"
    nodata = "none" if facts["nodata"] is None else f"{facts['nodata']:g}"
    size, model = facts["pixel_size"], facts["default_model"]
    found = [
        ("size", f"{facts['width']} x {facts['height']} pixels"),
        ("bands", f"{len(names)}, {named}"),
        ("numbers", facts["dtype"]),
        ("nodata", nodata + ", and a mask or transparency" * facts["masked"]),
        ("CRS", facts["crs"] or "none"),
        ("pixel size", "unknown" if size is None else f"{size[0]:g} x {size[1]:g} in units of the CRS"),
        ("date", facts["date"] or "unknown"),
        ("values", "; ".join(map(_range, names, facts["bands"])) + " (smallest, middle and largest of a sample)"),
    ]
    if not model["fits"]:
        return [*found, ("default", f"the default model cannot take it: {model['reason']}")]
    seen = ", ".join(f"{band} from {own}" for band, own in model["bands"].items())
    return [*found, ("default", f"the default model sees {seen}"), *(("", note) for note in model["notes"])]


def _range(name: str, band: dict[str, Any]) -> str:
    if band["middle"] is None:
        return f"{name} no data"
    return f"{name} {band['smallest']:g}, {band['middle']:g}, {band['largest']:g}"


def _values(row: np.ndarray) -> dict[str, float | None]:
    import numpy as np

    if not row.size:
        return dict.fromkeys(("smallest", "middle", "largest"))
    found = {"smallest": row.min(), "middle": np.median(row), "largest": row.max()}
    return {name: _number(value) for name, value in found.items()}


def _number(value: Any) -> float | None:
    """As JSON can have it."""
    return None if value is None or not math.isfinite(value) else float(value)


def _pixel_size(transform: tuple[float, ...] | None) -> list[float] | None:
    """Width and height of a pixel, turned or not."""
    if transform is None:
        return None
    a, b, _, d, e, _ = transform
    return [math.hypot(a, d), math.hypot(b, e)]


def _understood(source: Source) -> dict[str, Any]:
    """How the default model would read it, or why it would not."""
    from emrdm.rasters.scene import open_scene
    from emrdm.restoration import Inputs
    from emrdm.weights import read_header

    config = read_header(embedded.default_weights()).config
    try:
        inputs = Inputs(open_scene(source), config)
    except EmrdmError as error:
        return {"fits": False, "reason": str(error), "bands": {}, "notes": []}
    names = [name or f"band {i + 1}" for i, name in enumerate(source.names)]
    bands = {config.bands[i].name: names[place] for i, place in zip(inputs.kept, inputs.places, strict=True)}
    return {"fits": True, "reason": None, "bands": bands, "notes": inputs.notes}
