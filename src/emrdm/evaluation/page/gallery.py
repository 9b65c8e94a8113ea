"""Pictures of the best, typical and worst images, embedded in the page."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from emrdm.evaluation.page.markup import Html, heads, join, metric_label, named, number, tag
from emrdm.evaluation.page.scores import methods_in_order
from emrdm.evaluation.results import CLOUDY_IMAGE, Evaluation, picture_name
from emrdm.metrics import Protocol
from emrdm.wording import many

_ROOM = 5_500_000  # characters that pictures may take
_Pictures = dict[tuple[str, str], str]  # by image and what it shows


def picture_gallery(evaluation: Evaluation, protocol: Protocol, folder: Path, most: int) -> Html:
    """The best, typical and worst images, each as pictures side by side; page.js lays them over each other."""
    best = evaluation.subject
    psnr = {image: row.get("psnr", math.nan) for image, row in evaluation.of(best.name, protocol.name).values.items()}
    seen = [image for image, value in psnr.items() if not math.isnan(value) and _picture(folder, image, best.name)]
    groups = _choose(sorted(seen, key=lambda image: psnr[image], reverse=True), max(0, most))
    titles = {"cloudy": "Cloudy", best.name: best.title, "target": "Target"}
    titles |= {method.name: method.title for method in methods_in_order(evaluation) if method.name not in titles}
    found = _read_pictures(folder, [image for group in groups.values() for image in group], titles)
    parts = []
    for group, images in groups.items():
        cases = (_case(evaluation, protocol, image, titles, found) for image in images)
        parts.append(tag("div", tag("h3", group), *cases, class_="cases"))
    text = f"Chosen by PSNR of {best.title} among {many(len(seen), 'image')} with pictures; scores by the "
    lead = tag("p", text, named(protocol), ".", class_="quiet")
    return join(lead, tag("div", *parts, class_="gallery")) if parts else Html()


def _choose(ranked: Sequence[str], most: int) -> dict[str, Sequence[str]]:
    """The ends and the middle of a ranking, no image twice."""
    ends = most // 3
    start, middle = (len(ranked) - most + 2 * ends) // 2, most - 2 * ends
    worst = ranked[len(ranked) - ends :][::-1]
    groups = {"Best": ranked[:ends], "Typical": ranked[start : start + middle], "Worst": worst}
    chosen = groups if len(ranked) > most else {"All, best first": ranked}
    return {name: group for name, group in chosen.items() if group}


def _picture(folder: Path, image: str, what: str) -> Path | None:
    """A picture's file, unless it is missing or its name leads out of the folder."""
    try:
        path = (folder / picture_name(image, what)).resolve()
        return path if path.is_relative_to(folder.resolve()) and path.is_file() else None
    except (OSError, ValueError):  # names that no file can have
        return None


def _read_pictures(folder: Path, images: Iterable[str], whats: Iterable[str]) -> _Pictures:
    """Pictures as addresses that hold them, the most important first; empty where there is no room left."""
    found, room = _Pictures(), _ROOM
    for image, what in [(image, what) for what in whats for image in images]:
        path = _picture(folder, image, what)
        data = path.read_bytes() if path else b""
        text = "data:image/webp;base64," + base64.b64encode(data).decode("ascii")
        known = what == CLOUDY_IMAGE and text == found.get((image, "cloudy"))
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and not known:
            found[image, what] = text if len(text) <= room else ""
            room -= len(found[image, what])
    return found


def _case(evaluation: Evaluation, protocol: Protocol, image: str, titles: Mapping[str, str], found: _Pictures) -> Html:
    """One image: its pictures and its scores."""
    frames = []
    for what, title in titles.items():
        if (image, what) in found:
            picture = tag("img", src=found[image, what], alt=f"{title}: {image}")
            picture = picture if found[image, what] else tag("p", "Left out: the page would be too large.")
            frames.append(tag("figure", picture, tag("figcaption", title), data_what=what))
    metrics, rows = protocol.metrics[:2], []
    for method in methods_in_order(evaluation):
        row = evaluation.of(method.name, protocol.name).values.get(image, {})
        cells = (tag("td", number(metric, row.get(metric, math.nan))) for metric in metrics)
        ours = "ours" if method == evaluation.subject else None
        rows.append(tag("tr", tag("th", method.title, scope="row"), *cells, class_=ours))
    head = tag("thead", heads(named(protocol), *map(metric_label, metrics)))
    frame = tag("div", *frames, class_="frames", data_best=evaluation.subject.name)
    return tag("article", frame, tag("h4", image), tag("table", head, tag("tbody", *rows)), class_="case card")
