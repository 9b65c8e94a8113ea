"""What all plots share: the look, room for labels, and files that are the same bytes for the same numbers."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from emrdm.errors import InputError, MissingDependencyError, printable
from emrdm.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
_UNDATED: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9")  # told apart by colour-blind people too
DASHES = ("-", "--", ":", "-.")  # what tells lines apart once the colours are used up
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"  # where texts are plain
INK, SOFT, FAINT = "#1d2530", "#5b6672", "#dfe4ea"
PLAIN: dict[str, Any] = {"parse_math": False}  # for texts from users: a dollar sign is a dollar sign
_DPI = 200
_LARGEST = 1e30
_STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 6,
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": "#98a3af",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "lines.solid_capstyle": "round",
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "emrdm",  # names of parts inside of the file would be random otherwise
    "pdf.fonttype": 42,  # letters as fonts, which publishers want, instead of drawings
}


def matplotlib() -> Any:
    """The library with the parts used here; never pyplot, which holds state for the whole process."""
    try:
        import matplotlib as library
        import matplotlib.backends.backend_agg
        import matplotlib.colors
        import matplotlib.figure
        import matplotlib.lines
        import matplotlib.patches
        import matplotlib.patheffects
        import matplotlib.style
        import matplotlib.ticker
    except ImportError:
        raise MissingDependencyError("plots need matplotlib: pip install 'emrdm[plots]'") from None
    return library


@contextmanager
def styled() -> Iterator[None]:
    """The look of all plots while a figure is made or written, whatever the user's own settings are."""
    with matplotlib().style.context(["default", _STYLE]):
        yield


def blank(width: float, height: float, title: str = "") -> Figure:
    """An empty figure of inches, which finds room for its labels by itself; the title is plain text."""
    library = matplotlib()
    figure: Figure = library.figure.Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    library.backends.backend_agg.FigureCanvasAgg(figure)
    if title.strip():
        figure.suptitle(wrapped(title, int(width * 10), lines=3), x=0.012, ha="left", **PLAIN)
    return figure


def grid(count: int, columns: int, size: tuple[float, float], title: str, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` panels of ``size`` inches, filled row by row."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = blank(columns * size[0], rows * size[1] + 0.35 + 0.35 * bool(title.strip()), title)
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for spare in axes[count:]:
        spare.remove()
    return figure, axes[:count]


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF by the suffix of its name: whole or not at all, and without a date."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path}: expected a name ending in {', '.join(FORMATS)}")
    with styled(), warnings.catch_warnings(), atomic_path(path) as temporary, temporary.open("wb") as file:
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # drawn as a box, which says it
        _settle(figure)
        figure.savefig(file, format=kind, dpi=_DPI, metadata=_UNDATED[kind])


def _settle(figure: Figure) -> None:
    """Find the places of all panels and round them: the last bits of what the solver gives differ between calls."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(float(length), 5) for length in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def wrapped(text: str, width: int, *, lines: int = 2) -> str:
    """Text from a user on few lines of ``width`` letters; what is too long loses its middle."""
    text = printable(" ".join(text.split()))
    most = width * lines
    if len(text) > most:
        text = f"{text[: most // 2 - 2]} … {text[-(most // 2 - 2) :]}"
    return "\n".join(textwrap.wrap(text, width)[:lines])


def label_of(metric: str, better: Mapping[str, str]) -> str:
    """A metric as it is printed, with an arrow that says where better is: "PSNR ↑", "LPIPS/cloudy ↓"."""
    name, slash, region = printable(metric).partition("/")
    arrow = {"higher": " ↑", "lower": " ↓"}.get(better.get(metric, ""), "")
    return f"{name.upper() if name.islower() and len(name) <= 5 else name}{slash}{region}{arrow}"


def check_better(better: Mapping[str, str]) -> None:
    """Refuse directions that are none; "" is a metric that has no better."""
    for metric, direction in better.items():
        if direction not in ("higher", "lower", ""):
            raise InputError(f"better of {metric!r} is {direction!r}: expected 'higher' or 'lower'")


def numbers(values: Sequence[float | None], count: int, what: str) -> np.ndarray:
    """Values as double precision, NaN where there is none or it is not finite."""
    if len(values) != count:
        raise InputError(f"{what} has {len(values)} values: expected {count}")
    found = np.array([number(value) for value in values], np.float64)
    found[~np.isfinite(found)] = math.nan
    return found


def number(value: Any) -> float:
    """A number from a log or a table; NaN for what is none, or so large that no axis could have it."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return math.nan
    if not -_LARGEST < value < _LARGEST:
        return math.nan
    return float(value) if not -1 / _LARGEST < value < 1 / _LARGEST else 0.0


def shown(value: float, digits: int) -> str:
    """A score as text; a huge one does not push everything else away."""
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.3g}"


def best_of(values: np.ndarray, direction: str) -> int | None:
    """Where the best value is, the first of equals; None without a direction or without values."""
    if not direction or not np.isfinite(values).any():
        return None
    return int(np.nanargmax(values) if direction == "higher" else np.nanargmin(values))


def digits_for(values: np.ndarray, wanted: int | None) -> int:
    """Digits after the point: as wanted, or so many that the values can be told apart."""
    if wanted is not None:
        return wanted
    finite = values[np.isfinite(values)]
    span = float(np.ptp(finite)) if finite.size else 0.0
    least = 2 if finite.size and np.abs(finite).max() >= 10 else 3
    return least if span == 0 else min(max(least, math.ceil(-math.log10(span)) + 1), least + 2)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Heights of labels as near to the wanted ones as a gap between neighbours allows, in the order given."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    rising: list[float] = []
    falling: list[float] = []
    for i in order:
        rising.append(max(wanted[i], rising[-1] + gap) if rising else wanted[i])
    for i in reversed(order):
        falling.append(min(wanted[i], falling[-1] - gap) if falling else wanted[i])
    middle = [(up + down) / 2 for up, down in zip(rising, reversed(falling), strict=True)]
    return [height for _, height in sorted(zip(order, middle, strict=True))]


def halo(width: float = 2.5) -> list[Any]:
    """A white rim that keeps text readable on top of lines."""
    return [matplotlib().patheffects.withStroke(linewidth=width, foreground="white")]


def ticks_at(axes: Axes, x: Sequence[float], *, log: bool = False) -> None:
    """Ticks at the very values that were tried, less those whose labels would touch their neighbour's."""
    places = np.log(x) if log else np.asarray(x, np.float64)
    span = float(places[-1] - places[0]) or 1.0
    names = [f"{value:g}" for value in x]
    kept: list[int] = []
    for i, name in enumerate(names):
        room = 0.03 + 0.0175 * (len(name) + len(names[kept[-1]])) if kept else 0.0
        if not kept or (places[i] - places[kept[-1]]) / span >= room:
            kept.append(i)
    axes.set_xticks([x[i] for i in kept], [names[i] for i in kept])
    axes.set_xticks([], minor=True)


def nothing_in(axes: Axes, text: str = "no values", *, height: float = 0.5) -> None:
    """Say in an empty panel that it is empty."""
    axes.text(0.5, height, text, transform=axes.transAxes, ha="center", va="center", color=SOFT, fontstyle="italic")
    axes.set_yticks([])
