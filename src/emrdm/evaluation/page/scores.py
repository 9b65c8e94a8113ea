"""Tables of scores: each protocol's means, regions, published figures, and image by image."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

from emrdm.evaluation.page.markup import (
    NONE,
    Html,
    bullets,
    difference,
    heads,
    join,
    make_table,
    metric_label,
    named,
    number,
    tag,
)
from emrdm.evaluation.results import CLOUDY_IMAGE, Evaluation, Method, Published
from emrdm.metrics import METRICS, Mean, Protocol
from emrdm.metrics.protocols import describe
from emrdm.wording import many

STATIC_ROWS = 500  # rows of a longer table are written as JSON and made when they are looked at
_COLOURS = 6


def mean_of(evaluation: Evaluation, method: Method, protocol: Protocol, metric: str) -> float:
    """A mean."""
    return evaluation.of(method.name, protocol.name).mean(metric).value


def methods_in_order(evaluation: Evaluation) -> list[Method]:
    """What the reader came for first (page.js draws that column against the cloudy image's), then by kind."""
    order = ("model", "predictions", "baseline")
    return sorted(evaluation.methods, key=lambda method: (method != evaluation.subject, order.index(method.kind)))


def cloudy_baseline(evaluation: Evaluation) -> Method | None:
    """The cloudy image as it is, if it was scored beside what the reader came for."""
    return next((m for m in evaluation.methods if m.name == CLOUDY_IMAGE and m != evaluation.subject), None)


def colour_of(evaluation: Evaluation, method: Method) -> str:
    """The CSS class of a method's colour; clouds are gray."""
    names = [m.name for m in methods_in_order(evaluation) if m.name != CLOUDY_IMAGE]
    return f"colour{names.index(method.name) % _COLOURS}" if method.name in names else "gray"


def gains(evaluation: Evaluation, protocol: Protocol) -> dict[str, float]:
    """By image, PSNR of the best method less that of the cloudy image, where both are defined."""
    baseline = cloudy_baseline(evaluation)
    if baseline is None:
        return {}
    before, after = (evaluation.of(method.name, protocol.name).values for method in (baseline, evaluation.subject))
    pairs = {i: (after[i].get("psnr", math.nan), before[i].get("psnr", math.nan)) for i in after if i in before}
    changes = {i: 0.0 if new == old else new - old for i, (new, old) in pairs.items()}  # inf - inf is NaN
    return {image: change for image, change in changes.items() if not math.isnan(change)}


def protocol_card(evaluation: Evaluation, protocol: Protocol) -> Html:
    """Everything about the scores of one protocol."""
    return tag(
        "article",
        tag("h3", named(protocol), " ", tag("small", protocol.title)),
        _means(evaluation, protocol),
        _regions(evaluation, protocol),
        tag("details", tag("summary", "How this protocol computes its scores"), bullets(protocol.quirks)),
        class_="card",
    )


def _present(evaluation: Evaluation, protocol: Protocol) -> list[str]:
    """Every metric that some method has, with its region."""
    found = (metric for method in evaluation.methods for metric in evaluation.of(method.name, protocol.name).metrics)
    return list(dict.fromkeys(found))


def _means(evaluation: Evaluation, protocol: Protocol) -> Html:
    """Our methods, and below them what others published by the same protocol."""
    same = [row for row in evaluation.published if row.protocol == protocol.name]
    present = {*_present(evaluation, protocol)}.union(*(row.scores for row in same))
    metrics = [metric for metric in protocol.metrics if metric in present and METRICS[metric].better]
    body, notes = _method_rows(evaluation, protocol, metrics)
    bodies = [body]
    if same:
        title = join("Published by others, ", named(protocol))
        group = tag("tr", tag("th", title, scope="rowgroup", colspan=len(metrics) + 1), class_="group")
        bodies.append(tag("tbody", group, *(_published_row(row, metrics) for row in same), class_="published"))
    caption = ("Means by the ", named(protocol), "; arrows point to the better end, the best of ours is bold")
    totals = (
        (m.title, evaluation.of(m.name, protocol.name).total("zero_pixels")) for m in methods_in_order(evaluation)
    )
    zeros = ", ".join(f"{title} {number('zero_pixels', total)}" for title, total in totals if total)
    counted = tag("p", f"Pixels without a spectral angle: {zeros}.", class_="quiet") if zeros else ""
    return join(make_table(caption, [heads("Method", *map(metric_label, metrics))], *bodies), notes, counted)


def _regions(evaluation: Evaluation, protocol: Protocol) -> Html:
    """The same means over all pixels and those of each region, side by side."""
    present = _present(evaluation, protocol)
    regions = ["", *dict.fromkeys(f"/{metric.partition('/')[2]}" for metric in present if "/" in metric)]
    metrics = [m for m in protocol.metrics if METRICS[m].better and any(f"{m}{r}" in present for r in regions[1:])]
    metrics = [m for m in metrics if m != "rmse"]  # PSNR says the same, and a screen has an end
    if not metrics:
        return Html()
    groups = (tag("th", metric_label(m), scope="colgroup", colspan=len(regions)) for m in metrics)
    head = tag("tr", tag("th", "Method", scope="col", rowspan=2), *groups)
    names = heads(*(region[1:] or "all" for _ in metrics for region in regions))
    body, notes = _method_rows(evaluation, protocol, [f"{m}{region}" for m in metrics for region in regions])
    caption = ("Means over all pixels and over each region, by the ", named(protocol))
    return join(make_table(caption, [head, names], body, class_=f"scores regions by{len(regions)}"), notes)


def _method_rows(evaluation: Evaluation, protocol: Protocol, metrics: Sequence[str]) -> tuple[Html, Html]:
    """A row for each of our methods, and remarks on their cells."""
    means = {method: evaluation.of(method.name, protocol.name).means() for method in methods_in_order(evaluation)}
    best = {metric: _best(metric, [row[metric].value for row in means.values() if metric in row]) for metric in metrics}
    remarks, rows, images = dict[str, int](), [], len(evaluation.images)
    for method, row in means.items():
        swatch = tag("span", class_=f"swatch {colour_of(evaluation, method)}")
        cells = [tag("th", swatch, method.title, " ", tag("small", method.kind, class_="kind"), scope="row")]
        for metric in metrics:
            mean = row.get(metric, Mean(math.nan, 0, 0))
            text, remark = number(metric, mean.value), _remark(mean, images)
            mark = tag("sup", str(remarks.setdefault(remark, len(remarks) + 1))) if remark else ""
            cells.append(tag("td", tag("b", text) if text == best[metric] else text, mark))
        rows.append(tag("tr", *cells, class_="ours" if method == evaluation.subject else None))
    return tag("tbody", *rows), bullets(remarks, "ol") if remarks else Html()


def _best(metric: str, values: Iterable[float]) -> str:
    """The best value as text; of one value there is no best."""
    defined = [value for value in values if not math.isnan(value)]
    pick = max if describe(metric).better == "higher" else min
    return number(metric, pick(defined)) if len(defined) > 1 else ""


def _remark(mean: Mean, images: int) -> str:
    """What is odd about a mean."""
    odd = {
        f"{mean.left_out:,} of {many(images, 'image')} left out: the score is not defined there.": mean.left_out,
        f"{mean.count + mean.left_out:,} of {many(images, 'image')} scored.": 0 < mean.count + mean.left_out < images,
        "Infinite because some images are reproduced without any error.": math.isinf(mean.value),
    }
    return " ".join(text for text, holds in odd.items() if holds)


def _published_row(row: Published, metrics: Iterable[str], *extra: str) -> Html:
    remarks = (tag("small", text) for text in (row.source, row.note) if text)
    cells = (tag("td", _quoted(row.scores.get(metric, math.nan))) for metric in metrics)
    return tag("tr", tag("th", row.method, *remarks, scope="row"), *extra, *cells)


def _quoted(value: float) -> str:
    """A figure of others with the digits that they gave."""
    return NONE if math.isnan(value) else f"{value:g}"


def incomparable(evaluation: Evaluation) -> Html:
    """Figures by protocols that were not used here, apart from ours."""
    others = [row for row in evaluation.published if row.protocol not in evaluation.protocols]
    if not others:
        return Html()
    names = dict.fromkeys(metric for row in others for metric in row.scores)
    metrics = [*(name for name in METRICS if name in names), *(name for name in names if name not in METRICS)]
    rows = (_published_row(row, metrics, tag("td", tag("code", row.protocol))) for row in others)
    caption, head = "Published figures, protocols as named", heads("Method", "Protocol", *map(metric_label, metrics))
    table = make_table([caption], [head], tag("tbody", *rows, class_="published"))
    summary = tag("summary", "Published by other protocols: not comparable")
    return tag("article", tag("details", summary, table, class_="other", open=""), class_="card")


def image_table(evaluation: Evaluation, protocol: Protocol) -> Html:
    """PSNR of all methods image by image, what the best one gained, and its other scores."""
    methods, changes, present = (
        methods_in_order(evaluation),
        gains(evaluation, protocol),
        _present(evaluation, protocol),
    )
    others = [m for m in protocol.metrics if m in present and METRICS[m].better and m != "psnr"]
    columns = [*((method, "psnr") for method in methods), *((evaluation.subject, metric) for metric in others)]
    values = {method.name: evaluation.of(method.name, protocol.name).values for method in methods}
    heads, at = [tag("th", "Image", scope="col")], len(methods) + 1
    for method, metric in columns:
        colour = colour_of(evaluation, method) if metric == "psnr" else None  # page.js draws the columns that have one
        heads.append(tag("th", metric_label(metric), tag("small", method.title), scope="col", data_colour=colour))
    rows = []
    for image in evaluation.images:
        cells = (number(m, values[method.name].get(image, {}).get(m, math.nan)) for method, m in columns)
        rows.append([image, *cells])
    if changes:
        heads.insert(at, tag("th", "Gain ", tag("small", "dB"), tag("small", "over cloudy"), scope="col"))
        rows = [[*row[:at], difference("psnr", changes.get(row[0], math.nan)), *row[at:]] for row in rows]
    static = rows if len(rows) <= STATIC_ROWS else []
    body = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", text) for text in row[1:])) for row in static)
    caption = ("Image by image, by the ", named(protocol))
    table = make_table(caption, [tag("tr", *heads)], tag("tbody", *body), class_="images")
    data = Html(json.dumps(rows).replace("<", "\\u003c"))  # nothing that could end the script
    script = "" if static else tag("script", data, type="application/json")
    return tag("div", table, script, data_tab=protocol.name)
