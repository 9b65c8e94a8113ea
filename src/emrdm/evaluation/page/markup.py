"""Tags and the texts of numbers. Text is escaped wherever it enters a tag; only :class:`Html` is not."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable

from emrdm.metrics import METRICS, Metric, Protocol
from emrdm.metrics.protocols import show

_VOID = frozenset({"img", "link", "meta"})
NONE, INFINITE, MINUS = "\N{EN DASH}", "\N{INFINITY}", "\N{MINUS SIGN}"
_ARROWS = {"higher": "\N{UPWARDS ARROW}", "lower": "\N{DOWNWARDS ARROW}"}


class Html(str):
    """Markup. Whatever else is put into a tag is text, and is escaped."""

    __slots__ = ()


def join(*parts: str) -> Html:
    """Parts one after the other; what is not markup is escaped."""
    return Html("".join(part if isinstance(part, Html) else html.escape(part) for part in parts))


def tag(name: str, /, *children: str, **attributes: str | int | None) -> Html:
    """An element; ``class_`` is written class and ``aria_label`` aria-label, and None leaves an attribute out."""
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    start = f"<{name}" + "".join(f' {key}="{html.escape(str(value))}"' for key, value in given.items()) + ">"
    return Html(start if name in _VOID else f"{start}{join(*children)}</{name}>")


def bullets(lines: Iterable[str], kind: str = "ul") -> Html:
    """A list."""
    return tag(kind, *(tag("li", line) for line in lines))


def make_table(caption: Iterable[str], head: Iterable[str], *bodies: str, class_: str = "scores") -> Html:
    """A table that scrolls sideways by itself where the screen is narrow."""
    table = tag("table", tag("caption", tag("span", *caption)), tag("thead", *head), *bodies, class_=class_)
    return tag("div", table, class_="scroll", tabindex=0, role="group", aria_label="Table")


def heads(*texts: str) -> Html:
    """A row of headings."""
    return tag("tr", *(tag("th", text, scope="col") for text in texts))


def number(metric: str, value: float) -> str:
    """A score as text, with signs for what is not finite."""
    if math.isfinite(value):
        return show(metric, value)
    return NONE if math.isnan(value) else INFINITE if value > 0 else MINUS + INFINITE


def difference(metric: str, value: float) -> str:
    """A difference of scores as text, with its sign."""
    text = number(metric, abs(value))
    return text if text in (NONE, show(metric, 0.0)) else ("+" if value > 0 else MINUS) + text


def metric_label(metric: str) -> Html:
    """Name of a metric with an arrow to the better end and its unit."""
    about = METRICS.get(metric, Metric(metric, "", 4))
    text = f"{about.better} is better"
    arrow = tag("span", _ARROWS.get(about.better, ""), class_="arrow", role="img", aria_label=text, title=text)
    unit = join(" ", tag("small", about.unit)) if about.unit else ""
    return join(about.label, " ", arrow, unit) if about.better else join(about.label)


def named(protocol: Protocol) -> Html:
    """A protocol by its name."""
    return join(tag("code", protocol.name), " protocol")
