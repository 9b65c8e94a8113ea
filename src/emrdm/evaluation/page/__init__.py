"""The report of an evaluation as one HTML page that needs nothing else: no network, no fonts, no other files.

Names come from strangers' files, so text is escaped wherever it enters a tag. Python writes what can be read without
scripts; page.js adds sliders, charts and sorting to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from emrdm.evaluation.page.gallery import picture_gallery
from emrdm.evaluation.page.markup import Html, bullets, difference, join, metric_label, named, number, tag
from emrdm.evaluation.page.scores import cloudy_baseline, gains, image_table, incomparable, mean_of, protocol_card
from emrdm.evaluation.results import Evaluation
from emrdm.metrics import Protocol, find_protocols
from emrdm.metrics.protocols import show
from emrdm.wording import many

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def render_page(evaluation: Evaluation, *, pictures: Path | None = None, most: int = 6) -> str:
    """The whole report as one HTML document.

    Args:
        evaluation: what was found.
        pictures: a folder with ``{image}.{what}.webp``, where what is "cloudy", "target" or the name of a method; any
            may be missing.
        most: how many images to show pictures of: a third each of the best, the typical and the worst.
    """
    protocols = find_protocols(evaluation.protocols)
    sections = {
        "Scores": join(*(protocol_card(evaluation, protocol) for protocol in protocols), incomparable(evaluation)),
        "Pictures": picture_gallery(evaluation, protocols[0], pictures, most) if pictures is not None else Html(),
        "Distribution": _charts(evaluation, protocols[0]),
        "Images": tag("div", *(image_table(evaluation, protocol) for protocol in protocols), class_="tabs"),
    }
    shown = {name: content for name, content in sections.items() if content}
    body = tag(
        "body",
        _header(evaluation, protocols[0], shown),
        tag("main", *(tag("section", tag("h2", n), content, id=n.lower()) for n, content in shown.items())),
        _footer(evaluation),
        tag("script", _resource("page.js")),
    )
    page = f"<!doctype html>\n{tag('html', _head(evaluation), body, lang='en')}\n"
    return page.encode("utf-8", "replace").decode("utf-8")  # names of files may hold halves of characters


def _resource(name: str) -> Html:
    return Html(resources.files(__package__).joinpath(name).read_text("utf-8"))


def _head(evaluation: Evaluation) -> Html:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{evaluation.title}, {evaluation.split}: emrdm evaluation"),
        tag("link", rel="icon", href="data:,"),
        tag("style", _resource("page.css")),
    )


def _header(evaluation: Evaluation, protocol: Protocol, sections: Iterable[str]) -> Html:
    split = f" {evaluation.split} split" + (f" ({evaluation.rule} rule)" if evaluation.rule else "")
    notes = tag("aside", tag("h2", "Read this first"), bullets(evaluation.notes), class_="notes")
    return tag(
        "header",
        tag("p", "Cloud removal, evaluated with emrdm", class_="eyebrow"),
        tag("h1", evaluation.title),
        tag("p", tag("code", evaluation.dataset), f"{split}, {many(len(evaluation.images), 'image')}", class_="what"),
        _headline(evaluation, protocol),
        notes if evaluation.notes else "",
        _tiles(evaluation, protocol),
        tag("nav", *(tag("a", n, href=f"#{n.lower()}") for n in sections), aria_label="Parts of this page"),
    )


def _headline(evaluation: Evaluation, protocol: Protocol) -> Html:
    best, baseline = evaluation.subject, cloudy_baseline(evaluation)
    new = mean_of(evaluation, best, protocol, "psnr")
    texts = (best.title, f"{number('psnr', new)} dB", number("ssim", mean_of(evaluation, best, protocol, "ssim")))
    name, psnr, ssim = (tag("strong", text) for text in texts)
    parts = [name, " has a mean PSNR of ", psnr, " and a mean SSIM of ", ssim, " by the ", named(protocol)]
    if baseline is not None:
        old, plain = (mean_of(evaluation, baseline, protocol, metric) for metric in ("psnr", "ssim"))
        side = f"{show('psnr', abs(new - old))} dB {'above' if new >= old else 'below'}"
        values = f"({number('psnr', old)} dB and {number('ssim', plain)})"
        parts += [", ", tag("strong", side) if math.isfinite(new - old) else "against"]
        parts.append(f" the cloudy images as they are {values}")
    return tag("p", *parts, ".", class_="headline")


def _tiles(evaluation: Evaluation, protocol: Protocol) -> Html:
    """The figures that a reader looks for, large."""
    baseline, tiles = cloudy_baseline(evaluation), []
    for metric in ("psnr", "ssim"):
        value, below = mean_of(evaluation, evaluation.subject, protocol, metric), ""
        if baseline is not None:
            change = value - mean_of(evaluation, baseline, protocol, metric)
            below = "" if math.isnan(change) else f"{difference(metric, change)} over the cloudy images"
        tiles.append((join("Mean ", metric_label(metric)), number(metric, value), below))
    changes = gains(evaluation, protocol).values()
    if changes:
        tiles.append((join("Images improved"), f"{sum(c > 0 for c in changes):,}", f"of {len(changes):,}, by PSNR"))
    boxes = []
    for label, figure, below in tiles:
        lines = {"label": label, "value": figure, "below": below, "by": named(protocol)}
        boxes.append(tag("div", *(tag("p", text, class_=name) for name, text in lines.items()), class_="tile"))
    return tag("div", *boxes, class_="tiles")


def _footer(evaluation: Evaluation) -> Html:
    facts = [tag("div", tag("dt", name), tag("dd", fact)) for name, fact in evaluation.facts.items()]
    about = "Made by emrdm. This page is complete in itself and loads nothing from elsewhere."
    return tag("footer", tag("dl", *facts) if facts else "", tag("p", about))


def _charts(evaluation: Evaluation, protocol: Protocol) -> Html:
    """Captions of the charts; page.js draws them from the first table of images."""
    charts = {"histogram": ("PSNR of every image", "How many images have which PSNR; a line marks each median")}
    changes = gains(evaluation, protocol).values()
    if changes:
        better, worse = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
        title = f"{better:,} better, {worse:,} worse, {len(changes) - better - worse:,} the same"
        charts["scatter"] = (title, f"PSNR of each image before and after {evaluation.subject.title}")
    figures = []
    for kind, (title, text) in charts.items():
        caption = tag("figcaption", tag("b", title), " ", f"{text}; ", named(protocol), ".")
        figures.append(tag("figure", caption, class_="card", data_chart=kind))
    without = tag("noscript", tag("p", "The charts need JavaScript; the table below has their figures."))
    return tag("div", *figures, without, class_="charts")
