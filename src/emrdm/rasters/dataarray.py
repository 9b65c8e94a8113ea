"""xarray.DataArray objects as images, and images as DataArray objects on the same grid."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Sequence
from typing import Any, final

import numpy as np

from emrdm.errors import DataError, MissingDependencyError
from emrdm.rasters.base import Source
from emrdm.rasters.dates import date_of
from emrdm.rasters.grid import Grid, Transform, as_wkt
from emrdm.rasters.validity import checked_nodata, finite, fitting, with_data
from emrdm.window import Window

_KINDS = {
    "time": ("time", "date", "t"),
    "band": ("band", "bands", "channel"),
    "y": ("y", "lat", "latitude", "northing"),
    "x": ("x", "lon", "longitude", "easting"),
}
_NOT_TAGS = {"crs", "transform", "long_name", "grid_mapping", "_FillValue", "nodata", "scale_factor", "add_offset"}
_UNEVEN = 1 / 20  # of a pixel, as for two grids


@final
class DataArraySource(Source):
    """A DataArray of (band, y, x), whose windows are computed when they are read."""

    def __init__(self, array: Any, *, name: str, nodata: float | None = None) -> None:
        self.array = array
        self.name = name
        self.dtype = np.dtype(array.dtype)
        count, height, width = array.shape
        if array.size == 0 or self.dtype.kind not in "uif":
            raise DataError(f"{name} is {self.dtype} of {width} x {height} pixels: expected real numbers, one at least")
        self.grid = Grid(height, width, _crs(array, name), _transform(array, name))
        self.names = _names(array)
        self.nodata = checked_nodata(nodata, self.dtype, name) if nodata is not None else _nodata(array)
        self.scales = (float(array.attrs.get("scale_factor", 1.0)),) * count
        self.offsets = (float(array.attrs.get("add_offset", 0.0)),) * count
        self.tags = {k: v for k, v in array.attrs.items() if isinstance(v, str) and k not in _NOT_TAGS}
        self.date = _day(array.coords) or date_of(self.tags, str(array.name or ""))

    @property
    def identity(self) -> Hashable:
        """Equal for two sources of the same data."""
        return id(self.array.variable)

    def _read(self, window: Window, bands: list[int]) -> tuple[np.ndarray, np.ndarray]:
        pixels = np.asarray(self.array.data[:, window.rows, window.columns])
        valid = finite(pixels)
        if self.nodata is not None:
            valid &= with_data(pixels, self.nodata)
        return pixels[bands], valid


def sources_of(array: Any, *, nodata: float | None = None) -> list[DataArraySource]:
    """Images of a DataArray of (y, x), (band, y, x) or (time, band, y, x), in whatever order: one a time."""
    name = str(array.name or "DataArray")
    kinds = {_kind(dimension, array.dims, name): dimension for dimension in array.dims}
    if len(kinds) != array.ndim or not {"y", "x"} <= set(kinds):
        raise DataError(
            f"{name} has dimensions {_listed(array.dims)}: expected (y, x), (band, y, x) or (time, band, y, x)"
        )
    if "band" not in kinds:
        array, kinds = array.expand_dims("band"), kinds | {"band": "band"}
    if "time" not in kinds:
        return [DataArraySource(array.transpose(kinds["band"], kinds["y"], kinds["x"]), name=name, nodata=nodata)]
    array = array.transpose(kinds["time"], kinds["band"], kinds["y"], kinds["x"])
    frames = [array[i] for i in range(len(array))]
    return [DataArraySource(frame, name=f"{name}[{i}]", nodata=nodata) for i, frame in enumerate(frames)]


def to_dataarray(
    pixels: np.ndarray, like: Any, *, valid: np.ndarray | None = None, names: Sequence[str] | None = None
) -> Any:
    """Pixels (C, H, W) as a DataArray with the coordinates and attributes of another one, or of a source of one.

    The result has the time of the newest one, as a coordinate without a dimension. The bands keep their names where
    there are as many, and ``names`` gives them others. Where ``valid``, (H, W) bool, is False, floats become NaN and
    whole numbers nodata, if there is such a number.
    """
    try:
        import xarray
    except ImportError:
        raise MissingDependencyError("a DataArray needs xarray: pip install xarray") from None
    source = like if isinstance(like, DataArraySource) else _newest(sources_of(like))
    template = source.array
    band, y, x = template.dims
    if pixels.ndim != 3 or pixels.shape[1:] != template.shape[1:]:
        raise DataError(f"pixels of shape {pixels.shape}: expected (bands, {template.shape[1]}, {template.shape[2]})")
    gap = float("nan") if pixels.dtype.kind == "f" else fitting(source.nodata, pixels.dtype)
    if valid is not None and gap is not None:
        pixels = np.where(valid, pixels, pixels.dtype.type(gap))
    coords, attributes = dict(template.coords), dict(template.attrs)
    if names is not None or len(pixels) != len(template):
        coords = {key: value for key, value in coords.items() if band not in value.dims}
        attributes.pop("long_name", None)
    if names is not None:
        coords[band] = list(names)
    result = xarray.DataArray(pixels, coords, (band, y, x), template.name, attributes)
    kept = ("grid_mapping",) if pixels.dtype != template.dtype else ("grid_mapping", "_FillValue")
    result.encoding = {key: value for key, value in template.encoding.items() if key in kept}
    return result


def _newest(sources: Sequence[DataArraySource]) -> DataArraySource:
    """The last one, by its date where all have one, as in a scene."""
    dates = [source.date for source in sources]
    return sources[-1] if None in dates else max(sources, key=lambda source: source.date or datetime.date.min)


def _kind(dimension: Hashable, dimensions: tuple[Hashable, ...], name: str) -> str:
    for kind, words in _KINDS.items():
        if str(dimension).lower() in words:
            return kind
    raise DataError(f"{name} has dimensions {_listed(dimensions)}: expected time, band, y and x")


def _listed(dimensions: tuple[Hashable, ...]) -> str:
    return f"({', '.join(map(str, dimensions))})"


def _names(array: Any) -> tuple[str, ...]:
    """By the band coordinate where it has words, else by ``long_name``, where rioxarray puts descriptions."""
    band, count = array.dims[0], len(array)
    if band in array.coords and array.coords[band].dtype.kind in "UO":
        return tuple(str(name) for name in array.coords[band].values)
    described = array.attrs.get("long_name")
    if isinstance(described, tuple | list) and len(described) == count:
        return tuple(str(name) for name in described)
    return ("",) * count


def _nodata(array: Any) -> float | None:
    dtype = np.dtype(array.dtype)
    if array.encoding.get("_FillValue") is not None:  # numbers that were decoded have NaN instead
        return float("nan") if dtype.kind == "f" else fitting(float(array.encoding["_FillValue"]), dtype)
    for key in ("_FillValue", "nodata", "missing_value"):
        if array.attrs.get(key) is not None:
            return fitting(float(array.attrs[key]), dtype)
    return None


def _day(coords: Any) -> datetime.date | None:
    for key in _KINDS["time"]:
        if key in coords and coords[key].ndim == 0 and coords[key].dtype.kind == "M":
            day = coords[key].values.astype("datetime64[D]").item()
            return day if isinstance(day, datetime.date) else None  # not a time has none
    return None


def _spatial(array: Any) -> dict[str, Any]:
    """Attributes of the coordinate that says where the array lies, by the CF conventions."""
    key = array.encoding.get("grid_mapping") or array.attrs.get("grid_mapping") or "spatial_ref"
    return dict(array.coords[key].attrs) if key in array.coords else {}


def _crs(array: Any, name: str) -> str | None:
    spatial = _spatial(array)
    said = spatial.get("crs_wkt") or spatial.get("spatial_ref") or array.attrs.get("crs")
    if said is None:
        return None
    text = str(said.to_wkt() if hasattr(said, "to_wkt") else said)
    wkt = as_wkt(f"EPSG:{text}" if text.isdecimal() else text)
    if wkt is None:
        raise DataError(f"{name} has the CRS {text[:80]!r}: expected WKT or a code such as EPSG:32633")
    return wkt


def _transform(array: Any, name: str) -> Transform | None:
    """By the coordinates, which a slice keeps up to date; by what was written down where there are none."""
    _, y, x = array.dims
    lines = [_line(array.coords[axis].values, axis, name) if axis in array.coords else None for axis in (x, y)]
    if lines[0] is not None and lines[1] is not None:
        (c, a), (f, e) = lines[0], lines[1]
        return a, 0.0, c, 0.0, e, f
    written = _spatial(array).get("GeoTransform")
    try:
        if written is not None:
            c, a, b, f, d, e = (float(word) for word in str(written).split())
        elif "transform" in array.attrs:
            a, b, c, d, e, f = (float(number) for number in tuple(array.attrs["transform"])[:6])
        else:
            return None
    except (TypeError, ValueError):
        raise DataError(f"{name} has a transform that is none: expected six numbers") from None
    return a, b, c, d, e, f


def _line(values: np.ndarray, axis: Hashable, name: str) -> tuple[float, float] | None:
    """Where the first pixel begins, and the size of one, from coordinates of their centres; None for too few."""
    if values.ndim != 1 or len(values) < 2 or values.dtype.kind not in "uif":
        return None
    values = values.astype(np.float64)
    step = (values[-1] - values[0]) / (len(values) - 1)
    away = np.abs(values - (values[0] + step * np.arange(len(values))))
    if not np.isfinite(values).all() or step == 0 or away.max() > _UNEVEN * abs(step):
        raise DataError(f"{name} has coordinates {axis} at uneven distances: expected a regular grid")
    return float(values[0] - step / 2), float(step)
