"""Drawn clouds: a clear image goes in, the same image under clouds comes out, with opacity, shadow and mask.

For training from one's own clear scenes, and for tests. A draw is a pure function of the clear image, an integer key
and a style: the same bits for the same key, on the same kind of device.

How a cloud is made. Fractal noise (several octaves, each half as large and weaker) gives two density fields: a lumpy
one for thick cloud, a smooth and streaky one for thin cloud. A threshold on each, found from the pixels in order, gives
exactly the share of cloudy pixels that was asked for. Density above the threshold becomes optical depth tau, and
opacity is 1 - exp(-tau). The thick cloud, moved away from the sun, takes light from the ground. In every band::

    cloudy = (1 - alpha) * clear * (1 - shadow) + alpha * colour of the cloud

What depends on the band: thin cloud scatters short waves more, tau ~ wavelength^-angstrom; ice and water are dark in
the short-wave infrared; the cirrus band hardly sees low cloud; radar sees no cloud at all. Bands look at slightly
different angles, so that clouds, which are high, are not quite in the same place in each (parallax).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import NamedTuple, final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from emrdm.data.sample import CLEAR, SHADOW, THICK, THIN
from emrdm.errors import ConfigError, InputError
from emrdm.noise import Window, fold, normal
from emrdm.strict import check, nearest

Range = tuple[float, float]

# Opacity at 560 nm from which a pixel counts as thin and as thick cloud, and light lost from which it counts as shadow.
THIN_FROM, THICK_FROM, SHADOW_FROM = 0.04, 0.6, 0.1

# Centres of the bands of Sentinel-2 in nanometres, and of those that have names.
_WAVELENGTHS = (
    {"b1": 443, "b2": 490, "b3": 560, "b4": 665, "b5": 705, "b6": 740, "b7": 783, "b8": 842, "b8a": 865, "b9": 945}
    | {"b11": 1610, "b12": 2190, "coastal": 443, "blue": 490, "green": 560, "red": 665, "nir": 842}
    | {"swir1": 1610, "swir2": 2190}
)
_REFERENCE = 560.0
_CIRRUS, _RADAR = ("b10", "cirrus"), ("vv", "vh", "hh", "hv")
_WHITE = ((1000, 1610, 2190), (1.0, 0.72, 0.5))  # brightness of cloud at these wavelengths, relative to visible light

_FINEST = 1.4  # pixels: octaves below this are left out, a sensor would not resolve them
_TRACK = math.radians(193)  # azimuth the satellite flies to: bands see clouds shifted along it
_EDGE = 12  # pixels around the image that shading and interpolation look at
_ONSET = 1.5  # power of the rise of optical depth at the edge of a cloud: above 1, edges fade
_VEIL_SOFTNESS = 0.8  # width of the edges of thin cloud
_BEND = 0.12  # spread of the shifts that bend large structures, relative to their size; twice as much folds them
_SPLINE_SPREAD = 0.55  # spread of the sum of octaves, interpolated, for coefficients of unit variance


@final
@dataclass(frozen=True)
class CloudStyle:
    """What clouds are drawn. Each pair is a range (low, high); every image takes one number from it, evenly.

    Attributes:
        coverage: share of the image under cloud, 0 to 1.
        thick: share of the cloudy pixels that is drawn as thick cloud; the rest is thin cloud.
        depth: optical depth in the middle of thick cloud; 3 lets 5 % of the ground through.
        veil: optical depth in the middle of thin cloud, at 560 nm.
        softness: width of the edges of thick cloud; 0.1 is hard, 1 is soft.
        size: of the largest structures, in pixels.
        octaves: number of sizes of structure, each half the one before; those a pixel cannot show are left out.
        roughness: strength of each octave relative to the one before: 0.4 is smooth, 0.7 is ragged.
        stretch: length of the streaks in thin cloud relative to their width, from 1.
        brightness: of sunlit cloud, in the units of the image, up to 1.
        shadow: share of the light that thick cloud takes from the ground.
        drop: distance from a cloud to its shadow, in pixels.
        sun: azimuth of the sun in degrees, clockwise from the top of the image; shadows fall to the other side.
        angstrom: how fast thin cloud fades with wavelength, as the exponent of 1 / wavelength.
        parallax: how far apart clouds are in the first and the last band, in pixels; evenly spaced in between.
    """

    coverage: Range = (0.2, 0.75)
    thick: Range = (0.2, 0.9)
    depth: Range = (2.0, 5.0)
    veil: Range = (0.5, 1.3)
    softness: Range = (0.4, 1.2)
    size: Range = (40.0, 200.0)
    octaves: int = 8
    roughness: Range = (0.5, 0.62)
    stretch: Range = (1.0, 4.0)
    brightness: Range = (0.8, 1.0)
    shadow: Range = (0.35, 0.7)
    drop: Range = (6.0, 30.0)
    sun: Range = (0.0, 360.0)
    angstrom: Range = (0.5, 1.5)
    parallax: Range = (0.0, 1.5)

    def __post_init__(self) -> None:
        check(self, "clouds")
        for name, (low, high) in self.ranges().items():
            least, most = _LIMITS[name]
            if not least <= low <= high <= most:
                raise ConfigError(f"clouds.{name} is {low:g} to {high:g}: expected {least:g} to {most:g}, low first")

    def ranges(self) -> dict[str, Range]:
        """All fields as ranges; one number is a range from itself to itself."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value if isinstance(value, tuple) else (value, value) for name, value in values.items()}


_LIMITS: Mapping[str, Range] = {
    name: (low, high)
    for names, low, high in (
        ("coverage thick roughness brightness shadow", 0.0, 1.0),
        ("depth veil", 0.05, 100.0),
        ("softness", 0.01, 10.0),
        ("size", 2.0, 1e4),
        ("octaves stretch", 1, 16),
        ("drop parallax", 0.0, 500.0),
        ("sun", -360.0, 720.0),
        ("angstrom", 0.0, 4.0),
    )
    for name in names.split()
}

STYLES: Mapping[str, CloudStyle] = MappingProxyType(
    {
        "thin": CloudStyle(coverage=(0.4, 1.0), thick=(0.0, 0.0), size=(80.0, 260.0), stretch=(1.0, 6.0)),
        "thick": CloudStyle(thick=(0.9, 1.0), coverage=(0.15, 0.6), depth=(3.0, 6.0), softness=(0.3, 0.8)),
        "mixed": CloudStyle(),
        "varied": CloudStyle((0.05, 1.0), (0.0, 0.9), depth=(1.0, 5.0), veil=(0.2, 1.6), size=(30.0, 260.0)),
    }
)
Style = CloudStyle | str  # by itself, or by its name
_SERIES = replace(STYLES["mixed"], coverage=(0.0, 1.0))


@final
@dataclass(frozen=True)
class Clouds:
    """An image under clouds, and what is known about them.

    Attributes:
        cloudy: (C, H, W), the clear image under cloud, in [0, 1] and of the clear image's type.
        alpha: (C, H, W) in [0, 1], opacity of the cloud in each band.
        shadow: (H, W) in [0, 1], share of the light taken from the ground; 0 wherever the class is THICK.
        classes: (H, W) uint8: CLEAR, THICK, THIN or SHADOW, as seen at 560 nm and without parallax. CLEAR pixels may
            have the faintest cloud (opacity below 0.04) or shadow (below 0.1).
    """

    cloudy: Tensor
    alpha: Tensor
    shadow: Tensor
    classes: Tensor


def draw_clouds(clear: Tensor, key: int, *, bands: Sequence[str] = (), style: Style = "mixed") -> Clouds:
    """Put clouds over a clear image, on its device.

    Args:
        clear: (C, H, W) floating point in [0, 1], from 2 x 2 pixels.
        key: a whole number; other keys draw other clouds.
        bands: C names, in upper or lower case: Sentinel-2's B1 to B12 and B8A; coastal, blue, green, red, nir, cirrus,
            swir1, swir2; VV, VH, HH, HV. A band of another name, and all bands if no names are given, is treated as one
            at 560 nm: clouds are neutral grey.
        style: what clouds, or the name of one of :data:`STYLES`.
    """
    _check_clear(clear)
    drawn = _numbers(_style(style), key)
    optics = _optics(bands, len(clear), drawn["angstrom"]).to(clear.device)
    scene = _scene(drawn, fold(key, 0), clear)

    offsets = [drawn["parallax"] * (i / max(len(clear) - 1, 1) - 0.5) for i in range(len(clear))]
    maps = torch.stack([scene.seen(down=-math.cos(_TRACK) * by, right=math.sin(_TRACK) * by) for by in offsets], dim=1)
    alpha = 1 - torch.exp(-(maps[0] * optics[0] + maps[1] * optics[1]))
    colour = (maps[2] * optics[2]).clamp(0, 1)

    thick, veil, _ = scene.seen()
    opacity = 1 - torch.exp(-(thick + veil))
    shadow = scene.shadow * (1 - opacity / THICK_FROM).clamp(0, 1)
    classes = torch.full_like(opacity, CLEAR, dtype=torch.uint8)
    for kind, where in ((SHADOW, shadow >= SHADOW_FROM), (THIN, opacity >= THIN_FROM), (THICK, opacity >= THICK_FROM)):
        classes[where] = kind

    alpha, colour, shadow, sunlit = (x.to(clear.dtype) for x in (alpha, colour, shadow, optics[3]))
    cloudy = (1 - alpha) * (clear * (1 - sunlit * shadow)) + alpha * colour  # rounding may pass 1 by a bit
    return Clouds(cloudy=cloudy.clamp(0, 1), alpha=alpha, shadow=shadow, classes=classes)


def draw_series(
    clear: Tensor, key: int, *, frames: int, bands: Sequence[str] = (), style: Style = _SERIES, drift: float = 0.04
) -> list[Clouds]:
    """Put clouds over a clear image several times, as on several dates: one draw a date.

    Clouds of different dates have nothing to do with each other. Coverage takes the ends of its range more often than
    the middle, so that some dates are nearly clear and some nearly overcast. The sun stands in the same place.
    The ground is a little brighter or darker on each date, in all bands and a third as much in each band alone.

    Args:
        clear: (C, H, W) floating point in [0, 1].
        key: a whole number. A date is the same whatever the number of dates.
        frames: number of dates.
        bands: as for :func:`draw_clouds`.
        style: as for :func:`draw_clouds`; coverage is (0, 1) unless a style is given.
        drift: largest change of the ground's gain, and a quarter of it of its offset, between a date and ``clear``.
    """
    if not isinstance(frames, int) or frames < 1:
        raise InputError(f"frames is {frames!r}: expected a whole number from 1")
    if not 0 <= drift <= 0.5:
        raise InputError(f"drift is {drift}: expected 0 to 0.5")
    _check_clear(clear)
    style = _style(style)
    azimuth = _uniform(fold(key, 2), style.sun)
    series = []
    for date in range(frames):
        here = fold(key, 3, date)
        share = math.sin(math.pi / 2 * _uniform(fold(here, 4), (0.0, 1.0))) ** 2
        coverage = (1 - share) * style.coverage[0] + share * style.coverage[1]
        sky = replace(style, coverage=(coverage, coverage), sun=(azimuth, azimuth))
        series.append(draw_clouds(_drifted(clear, fold(here, 5), drift), here, bands=bands, style=sky))
    return series


def _style(asked: Style) -> CloudStyle:
    """A style, or the one of that name."""
    found = STYLES.get(asked) if isinstance(asked, str) else asked
    if isinstance(found, CloudStyle):
        return found
    raise InputError(f"style is {asked!r}{nearest(asked, STYLES)}")


def _drifted(clear: Tensor, key: int, drift: float) -> Tensor:
    """The clear image with another gain and offset."""
    both, sides = (-drift, drift), (-drift / 3, drift / 3)
    gains = [1 + _uniform(fold(key, 0), both) + _uniform(fold(key, 2, band), sides) for band in range(len(clear))]
    offset = _uniform(fold(key, 1), both) / 4
    return (clear * clear.new_tensor(gains)[:, None, None] + offset).clamp(0, 1)


def _check_clear(clear: Tensor) -> None:
    fits = isinstance(clear, Tensor) and clear.is_floating_point() and clear.ndim == 3
    if not fits or len(clear) < 1 or min(clear.shape[1:]) < 2:
        what = f"{clear.dtype}, {tuple(clear.shape)}" if isinstance(clear, Tensor) else f"a {type(clear).__name__}"
        raise InputError(f"clear is {what}: expected floating point, (bands, height, width), 2 x 2 pixels or more")
    low, high = float(clear.amin()), float(clear.amax())
    if not (low >= 0 and high <= 1):  # NaN is neither
        raise InputError(f"clear has values from {low:g} to {high:g}: expected 0 to 1 and no NaN")


def _uniform(key: int, within: Range) -> float:
    """A number of the range, evenly, with 53 random bits."""
    return min(within[1], within[0] + (within[1] - within[0]) * (fold(key, 0) >> 11) * 2.0**-53)


def _numbers(style: CloudStyle, key: int) -> dict[str, float]:
    """One number from each range of the style."""
    return {name: _uniform(fold(key, 1, i), within) for i, (name, within) in enumerate(style.ranges().items())}


def _optics(bands: Sequence[str], count: int, angstrom: float) -> Tensor:
    """(4, C, 1, 1): how much each band sees of the depth of thick and of thin cloud, whiteness of cloud, shadow."""
    if isinstance(bands, str) or not all(isinstance(band, str) for band in bands) or len(bands) not in (0, count):
        raise InputError(f"bands is {bands!r} for an image of {count} bands: expected {count} names, or none")
    rows = []
    for name in (band.lower().replace("b0", "b") for band in bands or [""] * count):
        wavelength = _WAVELENGTHS.get(name, _REFERENCE)
        if name in _RADAR:
            rows.append((0.0, 0.0, 0.0, 0.0))
        elif name in _CIRRUS:  # water vapour hides what is low; cirrus stands out
            rows.append((0.25, 1.0, 0.5, 1.0))
        else:
            rows.append((1.0, (_REFERENCE / wavelength) ** angstrom, float(np.interp(wavelength, *_WHITE)), 1.0))
    return torch.tensor(rows, dtype=torch.float32).T[:, :, None, None]


class _Scene(NamedTuple):
    """Clouds over the image and a margin around it.

    Attributes:
        maps: (3, h, w), optical depth of thick and of thin cloud and brightness of the cloud.
        shadow: (H, W), share of light taken from the ground if no cloud were in the way.
        corner: row and column of the image's first pixel in ``maps``.
    """

    maps: Tensor
    shadow: Tensor
    corner: tuple[int, int]

    def seen(self, *, down: float = 0.0, right: float = 0.0) -> Tensor:
        """The three maps over the image, (3, H, W), with clouds moved by this many pixels."""
        maps = _crop(self.maps, 1, self.corner[0] - down, self.shadow.shape[0])
        return _crop(maps, 2, self.corner[1] - right, self.shadow.shape[1])


def _scene(drawn: Mapping[str, float], key: int, clear: Tensor) -> _Scene:
    """Draw all fields and find the thresholds that give the coverage."""
    height, width = clear.shape[-2:]
    sun = math.radians(drawn["sun"])
    toward = (-math.cos(sun), math.sin(sun))  # down and right, one pixel to the sun
    reach = [round(drawn["drop"] * step) for step in toward]
    edge = _EDGE + math.ceil(drawn["parallax"])
    top, left = (edge + max(-step, 0) for step in reach)
    canvas = (height + 2 * edge + abs(reach[0]), width + 2 * edge + abs(reach[1]))

    lumps, streaks = _densities(drawn, key, canvas, clear.device)
    image = (slice(top, top + height), slice(left, left + width))
    cloudy, thick = (round(drawn["coverage"] * share * (height * width)) for share in (1.0, drawn["thick"]))
    lumps = lumps - _threshold(lumps[image], thick)
    covered = lumps[image] >= 0
    streaks = streaks - _threshold(streaks[image].masked_fill(covered, -math.inf), max(0, cloudy - int(covered.sum())))

    tau = _optical_depth(lumps, drawn["depth"], drawn["softness"])
    veil = _optical_depth(streaks, drawn["veil"], _VEIL_SOFTNESS)
    maps = torch.stack((tau, veil, _shading(lumps, toward) * drawn["brightness"]))
    dark = drawn["shadow"] * (1 - torch.exp(-_blurred(tau + 0.15 * veil)))
    dark = dark[top + reach[0] :, left + reach[1] :][:height, :width]
    return _Scene(maps, dark, (top, left))


def _threshold(field: Tensor, count: int) -> float:
    """The value that ``count`` pixels reach; infinite for none."""
    return field.flatten().kthvalue(field.numel() - count + 1).values.item() if count else math.inf


def _optical_depth(excess: Tensor, depth: float, softness: float) -> Tensor:
    """Rises from the threshold on towards ``depth``; at the threshold opacity is THIN_FROM, a little below it is 0."""
    least = -math.log1p(-1.001 * THIN_FROM)  # a thousandth more: rounding must not lose the pixel at the threshold
    start = -math.log1p(-((least / depth) ** (1 / _ONSET)))
    return depth * (1 - torch.exp(-(excess / softness + start).clamp(min=0))) ** _ONSET


def _shading(lumps: Tensor, toward: tuple[float, float]) -> Tensor:
    """Brightness of cloud seen from above, about 0.6 to 1.1: thick parts and slopes that face the sun are brighter."""
    height = torch.log1p(lumps.clamp(min=0))
    shade = 0.74 + 0.18 * height
    for reach, strength in ((2, 0.28), (6, 0.2)):
        rows, columns = (round(reach * step) for step in toward)
        height = _blurred(height, reach // 2)
        shade += strength * (height.roll((rows, columns), (0, 1)) - height.roll((-rows, -columns), (0, 1)))
    return shade


def _densities(
    drawn: Mapping[str, float], key: int, canvas: tuple[int, int], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Density fields of thick and thin cloud, (h, w), each of about unit variance.

    Thick cloud is made of groups of puffs: the absolute value of noise has round tops and sharp valleys. Thin cloud
    lies around thick cloud more often than elsewhere. Large structures are bent, as by a wind that turns.
    """
    wind = _uniform(fold(key, 0), (0.0, math.pi))
    size, gain, octaves = drawn["size"], drawn["roughness"], int(drawn["octaves"])
    rows = torch.arange(canvas[0], device=device, dtype=torch.float32)[:, None].expand(canvas)
    columns = torch.arange(canvas[1], device=device, dtype=torch.float32).expand(canvas)
    plain = _Places(rows, columns, 0.0, wind)
    reach = _BEND * max(size, 120.0)  # bends are wide even where clouds are small
    coarse = reach / (2 * _BEND)
    shape = (int(canvas[0] / coarse) + 6, int(canvas[1] / coarse) + 6)
    shifts = [_lattice(fold(key, 1, axis), shape, 2, 0.5, device) for axis in range(2)]
    down, right = (reach * _sample(shift, rows / coarse + 2, columns / coarse + 2) for shift in shifts)
    bent = _Places(rows + down, columns + right, 2 * reach, wind)  # few shifts are longer than 2 spreads

    groups = _fractal(fold(key, 2), bent, size=size, octaves=min(octaves, 3), gain=0.7, stretch=1.3)
    puffs = _fractal(fold(key, 3), plain, size=size / 6, octaves=max(octaves - 3, 1), gain=gain)
    streaks = _fractal(fold(key, 4), bent, size=size, octaves=octaves, gain=gain, stretch=drawn["stretch"])
    lumps = groups + 0.8 * torch.sqrt(puffs * puffs + 0.05)  # the bottoms of the valleys are rounded a little
    return lumps / 1.11, (streaks + 0.5 * groups) / 1.12


class _Places(NamedTuple):
    """Where noise is wanted: (h, w) rows and columns, how far they go beyond the raster, and the axis of streaks."""

    rows: Tensor
    columns: Tensor
    spare: float
    wind: float


def _fractal(key: int, places: _Places, *, size: float, octaves: int, gain: float, stretch: float = 1.0) -> Tensor:
    """Fractal noise of about unit variance, (h, w), from a lattice that is turned into the wind and stretched."""
    octaves = max(1, min(octaves, 1 + int(math.log2(max(size / _FINEST, 1.0)))))
    cell = size / 2 ** (octaves - 1)
    cosine, sine = math.cos(places.wind), math.sin(places.wind)
    height, width = places.rows.shape
    shape, at = [], []
    for by_row, by_column, step in ((cosine, -sine, cell), (sine, cosine, cell * stretch)):
        corners = [by_row * row + by_column * column for row in (0, height) for column in (0, width)]
        shape.append(int((max(corners) - min(corners) + 2 * places.spare) / step) + 6)
        at.append((by_row * places.rows + by_column * places.columns - min(corners) + places.spare) / step + 2)
    return _sample(_lattice(fold(key, 0), (shape[0], shape[1]), octaves, gain, places.rows.device), at[0], at[1])


def _lattice(key: int, shape: tuple[int, int], octaves: int, gain: float, device: torch.device) -> Tensor:
    """Sum of octaves on the lattice of the finest, about unit variance once interpolated.

    Each octave is a cubic B-spline with normal coefficients. Splines refine exactly: coefficients on a lattice twice as
    fine give the same surface. So octaves are added from coarse to fine, and the cost is that of the finest.
    """
    shapes = [shape]
    for _ in range(octaves - 1):
        shapes.append((-(-shapes[-1][0] // 2) + 2, -(-shapes[-1][1] // 2) + 2))
    counts = [rows * columns for rows, columns in shapes]
    noise = normal(key, Window(0, 0, 1, -(-sum(counts) // 4)), bands=4, device=device).flatten()[: sum(counts)]
    total, strength, variance = noise.new_zeros(shapes[-1]), 1.0, 0.0
    for octave, (rows, columns) in zip(noise.split(counts)[::-1], shapes[::-1], strict=True):
        if variance:
            total = _refined(total)[:rows, :columns]
        total = total + strength * octave.reshape(rows, columns)
        variance += strength**2
        strength *= gain
    return total / (_SPLINE_SPREAD * math.sqrt(variance))


def _refined(lattice: Tensor) -> Tensor:
    """Coefficients of the same cubic B-spline surface on a lattice twice as fine: (n, m) -> (2n - 4, 2m - 4)."""
    for _ in range(2):
        before, here, after = lattice[:-2], lattice[1:-1], lattice[2:]
        lattice = torch.stack(((before + 6 * here + after) / 8, (here + after) / 2), dim=1).flatten(0, 1).T
    return lattice


def _sample(lattice: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Interpolate a lattice at places given in its own units, (h, w); beyond its border it is mirrored."""
    height, width = lattice.shape
    grid = torch.stack((columns * (2 / (width - 1)) - 1, rows * (2 / (height - 1)) - 1), dim=-1)
    return F.grid_sample(lattice[None, None], grid[None], "bicubic", "reflection", align_corners=True)[0, 0]


def _crop(maps: Tensor, dim: int, start: float, length: int) -> Tensor:
    """``length`` pixels of an axis from a place between pixels on, by cubic interpolation; exact at whole pixels."""
    first, rest = math.floor(start), start - math.floor(start)
    if rest == 0:
        return maps.narrow(dim, first, length)
    weights = (
        ((2 - rest) * rest - 1) * rest / 2,
        ((3 * rest - 5) * rest * rest + 2) / 2,
        ((4 - 3 * rest) * rest + 1) * rest / 2,
        (rest - 1) * rest * rest / 2,
    )
    taps = [weight * maps.narrow(dim, first - 1 + i, length) for i, weight in enumerate(weights)]
    return sum(taps[1:], taps[0]).clamp(min=0)  # cubic interpolation undershoots; no map is negative


def _blurred(field: Tensor, radius: int = 1) -> Tensor:
    """Mean of the pixels around each, of a square of side 2 radius + 1; what wraps around stays in the margin."""
    for dim in range(2):
        near = [field.roll(step, dim) for step in range(-radius, radius + 1)]
        field = sum(near[1:], near[0]) / len(near)
    return field
