"""Where the pixels of an image lie: size, coordinate reference system and transform, and how two of them differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

Transform = tuple[float, float, float, float, float, float]
_TOLERANCE = 1 / 20  # of a pixel; programs round coordinates


@final
@dataclass(frozen=True)
class Grid:
    """The pixels' places.

    Attributes:
        height: rows of pixels.
        width: columns of pixels.
        crs: coordinate reference system as WKT, of the ground control points where there is no transform.
        transform: a, b, c, d, e, f as in affine.Affine, from (column, row) of a pixel's corner to x and y.
        gcps: ground control points: row, column, x, y, z.
        rpcs: rational polynomial coefficients, as GDAL names them; they are handed on, and make no grid another one.
    """

    height: int
    width: int
    crs: str | None = None
    transform: Transform | None = None
    gcps: tuple[tuple[float, float, float, float, float], ...] = ()
    rpcs: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def georeferenced(self) -> bool:
        """Whether pixels have places on the ground."""
        return self.transform is not None or bool(self.gcps)

    @property
    def size(self) -> str:
        """Width and height in words, in this order wherever a size is said."""
        return f"{self.width} x {self.height} pixels"

    def difference(self, other: Grid) -> str | None:
        """What is different, with both values, this one's first; None where both are the same grid."""
        if (self.height, self.width) != (other.height, other.width):
            return f"size {self.size} against {other.size}"
        if not same_crs(self.crs, other.crs):
            return f"CRS {crs_name(self.crs)} against {crs_name(other.crs)}"
        if not self._same_transform(other):
            return f"transform {_written(self.transform)} against {_written(other.transform)}"
        return self._other_points(other)

    def _same_transform(self, other: Grid) -> bool:
        """Whether all four corners are at the same place, to a fraction of a pixel."""
        if self.transform is None or other.transform is None:
            return self.transform == other.transform
        ours, theirs = _matrix(self.transform), _matrix(other.transform)
        corners = np.array([(x, y, 1) for x in (0, self.width) for y in (0, self.height)], np.float64).T
        shift = (ours - theirs) @ corners
        try:
            shift = np.linalg.solve(ours[:, :2], shift)
        except np.linalg.LinAlgError:  # all pixels are in one line: no grid, but maybe twice the same
            return bool((shift == 0).all())
        return bool((np.abs(shift) <= _TOLERANCE).all())

    def _other_points(self, other: Grid) -> str | None:
        if len(self.gcps) != len(other.gcps):
            return f"{len(self.gcps)} ground control points against {len(other.gcps)}"
        for ours, theirs in zip(self.gcps, other.gcps, strict=True):
            if not np.allclose(ours, theirs, rtol=1e-9, atol=1e-9):
                return f"ground control point {_written(ours)} against {_written(theirs)}"
        return None


def same_crs(one: str | None, other: str | None) -> bool:
    """Whether two coordinate reference systems mean the same, however they are written."""
    if one is None or other is None or one == other:
        return one == other
    ours, theirs = _parsed(one), _parsed(other)
    return ours is not None and theirs is not None and bool(ours == theirs)


def as_wkt(crs: str) -> str | None:
    """WKT of a coordinate reference system that is given as WKT, code or in another way; None if it cannot be read."""
    parsed = _parsed(crs)
    return None if parsed is None else str(parsed.to_wkt())


def crs_name(crs: str | None) -> str:
    """A coordinate reference system in a few words: its EPSG code, or its name."""
    if crs is None:
        return "none"
    parsed = _parsed(crs)
    code = None if parsed is None else parsed.to_epsg()
    name = crs.partition('"')[2].partition('"')[0] or crs[:40]
    return f"EPSG:{code}" if code else name


def _parsed(crs: str) -> Any:
    """As rasterio has it; None without rasterio or for a text it cannot read."""
    try:
        import rasterio
        from rasterio.crs import CRS
        from rasterio.errors import CRSError
    except ImportError:
        return None
    if "://" in crs.partition("[")[0]:  # GDAL would ask there
        return None
    try:
        with rasterio.Env():  # without it, GDAL speaks to the terminal
            return CRS.from_string(crs)
    except (CRSError, ValueError):
        return None


def _matrix(transform: Transform) -> np.ndarray:
    return np.array(transform, np.float64).reshape(2, 3)


def _written(numbers: tuple[float, ...] | None) -> str:
    return "none" if numbers is None else f"({', '.join(f'{number:.12g}' for number in numbers)})"
