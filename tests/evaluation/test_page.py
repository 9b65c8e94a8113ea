"""The HTML report, read back with a parser of its own: structure, figures, escaping, pictures."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import random
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from emrdm.errors import ConfigError
from emrdm.evaluation.page import render_page, scores
from emrdm.evaluation.results import Evaluation, Method, Published
from emrdm.metrics import METRICS, PROTOCOLS, Scores
from emrdm.metrics.protocols import show

MODEL = Method("model", "EMRDM", "model")
CLOUDY = Method("cloudy-image", "Cloudy image", "baseline")
DARK = Method("dark-channel", "Dark channel", "baseline")
HOSTILE = (
    "<script>alert(1)</script>",
    "a\"b'c",
    "<!-- <script>",
    "</script><img src=x onerror=alert(1)>",
    "]]> &amp; \\u003c",
    "\N{CJK UNIFIED IDEOGRAPH-96F2} \N{RIGHT-TO-LEFT OVERRIDE} e\N{COMBINING ACUTE ACCENT}",
)


class Reader(HTMLParser):
    """A page as lists: elements with attributes, tables with their cells, scripts, and text by element."""

    VOID = frozenset({"img", "link", "meta"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.tables: list[dict] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)
        if tag == "table":
            self.tables.append({"class": dict(attrs).get("class", ""), "caption": "", "rows": [], "codes": []})
        elif tag == "tr":
            self.tables[-1]["rows"].append([])
        elif tag in ("td", "th"):
            self.tables[-1]["rows"][-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self.stack:
            self.text += data
        if "caption" in self.stack:
            self.tables[-1]["caption"] += data
        elif self.stack and self.stack[-1] != "sup" and {"td", "th"} & {*self.stack}:
            self.tables[-1]["rows"][-1][-1] += data
        if "table" in self.stack and self.stack[-1] == "code":
            self.tables[-1]["codes"].append(data)

    def having(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        return [a for t, a in self.elements if t == tag and all(a.get(k) == v for k, v in attributes.items())]

    def table(self, style: str, protocol: str) -> dict:
        found = [t for t in self.tables if t["class"].split()[-1:] == [style] and protocol in t["caption"]]
        assert len(found) == 1
        return found[0]


def make_scores(seed: int, images, *, metrics=("psnr", "ssim", "mae", "sam"), level: float = 30) -> Scores:
    draw = random.Random(seed)
    size = {"psnr": (level, 4), "ssim": (0.8, 0.05), "mae": (0.05, 0.01), "sam": (5, 1), "lpips": (0.2, 0.02)}
    return Scores({image: {m: draw.gauss(*size[m.partition("/")[0]]) for m in metrics} for image in images})


def make_evaluation(count: int = 30, *, images=None, methods=(CLOUDY, DARK, MODEL), **changes) -> Evaluation:
    images = [f"image {i}" for i in range(count)] if images is None else images
    levels = {"model": 31, "cloudy-image": 22, "dark-channel": 24}
    scores = {
        (method.name, protocol): make_scores(10 * i + j, images, level=levels[method.name])
        for i, method in enumerate(methods)
        for j, protocol in enumerate(("standard", "cuhk"))
    }
    evaluation = Evaluation("rice1", "RICE1", "test", "strict", ("standard", "cuhk"), tuple(methods), scores)
    return dataclasses.replace(evaluation, **changes)


def replace_scores(evaluation: Evaluation, method: str, **values: float) -> Evaluation:
    """The first image gets other scores, by the standard protocol."""
    rows = {image: dict(row) for image, row in evaluation.scores[method, "standard"].values.items()}
    rows[next(iter(rows))] |= values
    return dataclasses.replace(evaluation, scores={**evaluation.scores, (method, "standard"): Scores(rows)})


def make_hostile() -> Evaluation:
    nasty = "</style></title><script>alert(2)</script>"
    return make_evaluation(
        images=[*HOSTILE, *(f"image {i}" for i in range(24))],
        methods=(CLOUDY, DARK, Method("model", f"M{nasty}", "model")),
        title=f"T{nasty}",
        dataset=f"d{nasty}",
        rule=f"r{nasty}",
        split=f"s{nasty}",
        facts={f"f{nasty}": f"v{nasty}"},
        notes=(f"n{nasty}",),
        published=(Published(f"p{nasty}", f"q{nasty}", f"z{nasty}", {f"m{nasty}": 1.0, "psnr": 30.0}, f"o{nasty}"),),
    )


EVALUATIONS = {
    "plain": make_evaluation(),
    "hostile": make_hostile(),
    "one image": make_evaluation(1),
    "no image": make_evaluation(0),
    "long": make_evaluation(images=[*HOSTILE, *map(str, range(scores.STATIC_ROWS))]),
    "one method": make_evaluation(methods=(MODEL,)),
    "baseline alone": make_evaluation(methods=(CLOUDY,)),
    "infinite": replace_scores(make_evaluation(), "model", psnr=math.inf),
    "undefined": replace_scores(make_evaluation(), "model", psnr=math.nan, sam=math.nan),
    "nothing but NaN": replace_scores(make_evaluation(1), "model", psnr=math.nan, ssim=math.nan),
    "metrics missing": make_evaluation(scores={("model", "standard"): make_scores(0, "ab", metrics=("ssim",))}),
}


@pytest.fixture(params=EVALUATIONS)
def evaluation(request):
    return EVALUATIONS[request.param]


def test_tags_are_balanced_and_headers_have_scopes(evaluation):
    reader = Reader(render_page(evaluation))
    assert [tag for tag, _ in reader.elements[:2]] == ["html", "head"]
    assert all(a.get("scope") in {"col", "row", "colgroup", "rowgroup"} for a in reader.having("th"))
    identifiers = [a["id"] for _, a in reader.elements if "id" in a]
    assert len({*identifiers}) == len(identifiers)
    assert {a["href"] for a in reader.having("a")} == {f"#{name}" for name in identifiers}


def test_nothing_is_loaded_from_outside(evaluation):
    text = render_page(evaluation)
    reader = Reader(text)
    (policy,) = reader.having("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy["content"].startswith("default-src 'none'; img-src data:;")
    assert all(a["href"] == "data:," for a in reader.having("link"))
    assert not any("src" in a for _, a in reader.elements)
    for name in ("page.css", "page.js"):
        own = resources.files("emrdm.evaluation.page").joinpath(name).read_text("utf-8")
        assert own in text
        assert not re.search(r"url\(|@import|fetch|</|innerHTML|<!--", own)
        assert "http" not in own.replace("http://www.w3.org/2000/svg", "")


def test_hostile_names_stay_text():
    plain, hostile = Reader(render_page(EVALUATIONS["plain"])), Reader(render_page(EVALUATIONS["hostile"]))
    assert len(hostile.scripts) == len(plain.scripts) == 1
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in plain.elements} | {"aside", "dl", "dt", "dd"}
    assert not any(name.startswith("on") for _, a in hostile.elements for name in a)
    names = [row[0] for row in hostile.table("images", "standard")["rows"][1:]]
    assert names == EVALUATIONS["hostile"].images
    for letter in "TMdrsfvnpqzmo":
        assert f"{letter}</style></title><script>alert(2)</script>" in hostile.text


def test_rows_of_a_long_table_are_data_that_cannot_end_their_script():
    evaluation = EVALUATIONS["long"]
    text = render_page(evaluation)
    reader = Reader(text)
    assert text.count("</script") == len(reader.scripts) == 3
    short = Reader(render_page(make_evaluation(3)))
    for protocol, script in zip(evaluation.protocols, reader.scripts[:2], strict=True):
        rows = json.loads(script)
        assert [row[0] for row in rows] == evaluation.images
        assert {len(row) for row in rows} == {len(short.table("images", protocol)["rows"][0])}
        psnr = evaluation.scores["model", protocol].values[HOSTILE[0]]["psnr"]
        assert rows[0][1] == show("psnr", psnr)
        assert len(reader.table("images", protocol)["rows"]) == 1


def test_names_that_are_no_unicode_can_be_written():
    text = render_page(make_evaluation(images=["\udcff.tif", "nul\0"]))
    assert "?.tif" in text
    text.encode("utf-8")


@pytest.mark.parametrize("protocol", ["standard", "cuhk"])
def test_means_are_those_of_the_scores(protocol):
    evaluation = EVALUATIONS["plain"]
    head, *rows = Reader(render_page(evaluation)).table("scores", protocol)["rows"]
    assert [row[0].split(" ")[0] for row in rows] == ["EMRDM", "Cloudy", "Dark"]
    metrics = [m for m in PROTOCOLS[protocol].metrics if m in ("psnr", "ssim", "mae", "sam")]
    assert [text.split()[0] for text in head[1:]] == [METRICS[m].label for m in metrics]
    for method, row in zip((MODEL, CLOUDY, DARK), rows, strict=True):
        means = evaluation.scores[method.name, protocol].means()
        assert row[1:] == [show(m, means[m].value) for m in metrics]


def test_every_table_and_chart_names_its_protocol(tmp_path):
    draw_pictures(tmp_path, EVALUATIONS["plain"].images[:2])
    regions = make_evaluation(2)
    scores = {key: make_scores(1, regions.images, metrics=("psnr", "psnr/cloudy")) for key in regions.scores}
    published = (Published("GAN", "a paper", "rice", {"psnr": 30.0}),)
    text = render_page(dataclasses.replace(regions, scores=scores, published=published), pictures=tmp_path)
    reader = Reader(text)
    assert len(reader.tables) == 2 + 2 + 1 + 2 + 2
    for table in reader.tables:
        assert {*table["codes"]} & {"standard", "cuhk", "rice"}
    captions = re.findall(r"<figure class=\"card\".*?<figcaption>(.*?)</figcaption>", text)
    assert len(captions) == 2
    assert all("<code>standard</code> protocol" in caption for caption in captions)
    assert text.count("<code>standard</code> protocol</p></div>") == 3  # the large figures


def test_best_of_ours_is_bold_and_ties_all_are():
    evaluation = make_evaluation(1)
    same = {"psnr": 30.001, "ssim": 0.5, "mae": 0.5}
    rows = {"model": same, "cloudy-image": {**same, "psnr": 30.004}, "dark-channel": {**same, "psnr": 1, "mae": 0.1}}
    scores = {(name, p): Scores({"a": row}) for name, row in rows.items() for p in evaluation.protocols}
    text = render_page(dataclasses.replace(evaluation, scores=scores, protocols=("standard",)))
    assert re.findall(r"<td><b>(.*?)</b>", text) == ["30.00", "0.5000", "30.00", "0.5000", "0.5000", "0.1000"]
    alone = render_page(make_evaluation(methods=(MODEL,)))
    assert "<td><b>" not in alone


def test_undefined_and_infinite_scores_are_marked_and_explained():
    text = render_page(EVALUATIONS["undefined"])
    assert "1 of 30 images left out: the score is not defined there." in text
    assert "\N{EN DASH}" in [row[1] for row in Reader(text).table("images", "standard")["rows"]]
    text = render_page(EVALUATIONS["infinite"])
    assert "Infinite because" in text
    table = Reader(text).table("scores", "standard")
    assert table["rows"][1][1] == "\N{INFINITY}"
    assert not re.search(r">(inf|nan|-inf)<", text)


def test_pixels_without_a_spectral_angle_are_added_up():
    zeros = Scores({"a": {"psnr": 1.0, "zero_pixels": 3.0}, "b": {"psnr": 1.0, "zero_pixels": 4.0}})
    text = render_page(make_evaluation(scores={("model", "standard"): zeros}))
    assert "Pixels without a spectral angle: EMRDM 7." in text


def test_a_mean_of_fewer_images_says_so():
    evaluation = make_evaluation()
    few = Scores({"image 0": evaluation.scores["model", "standard"].values["image 0"]})
    text = render_page(dataclasses.replace(evaluation, scores={**evaluation.scores, ("model", "standard"): few}))
    assert "1 of 30 images scored." in text


def test_regions_stand_side_by_side():
    evaluation = make_evaluation()
    metrics = ("psnr", "ssim", "psnr/cloudy", "ssim/cloudy", "psnr/clear", "ssim/clear")
    scores = {key: make_scores(i, evaluation.images, metrics=metrics) for i, key in enumerate(evaluation.scores)}
    evaluation = dataclasses.replace(evaluation, scores=scores)
    table = Reader(render_page(evaluation)).table("by3", "cuhk")
    assert table["rows"][1] == ["all", "cloudy", "clear"] * 2
    means = scores["model", "cuhk"].means()
    order = [f"{metric}{region}" for metric in ("psnr", "ssim") for region in ("", "/cloudy", "/clear")]
    assert table["rows"][2][1:] == [show(metric, means[metric].value) for metric in order]


def test_published_figures_stand_with_their_protocol_alone():
    rows = (
        Published("GAN", "Somebody 2020", "cuhk", {"psnr": 30.2345, "ssim": 0.95, "lpips": 0.1}, "its own split"),
        Published("Old", "Nobody 1999", "rice", {"psnr": 20.0}),
    )
    text = render_page(make_evaluation(published=rows))
    reader = Reader(text)
    same = reader.table("scores", "cuhk")["rows"]
    assert same[4] == ["Published by others, cuhk protocol"]
    assert same[5] == ["GANSomebody 2020its own split", "30.2345", "0.95", "0.1"]  # no digit is made up
    assert "GAN" not in str(reader.table("scores", "standard")["rows"])
    apart = [t["rows"] for t in reader.tables if t["caption"] == "Published figures, protocols as named"]
    assert [[row[1] for row in rows[1:]] for rows in apart] == [["rice"]]
    assert text.count("Published by other protocols: not comparable") == 1
    assert "not comparable" not in render_page(make_evaluation(published=rows[:1]))
    assert "not comparable" not in render_page(make_evaluation())


def test_headline_tells_the_difference_to_the_cloudy_images():
    evaluation = EVALUATIONS["plain"]
    old, new = (evaluation.scores[m.name, "standard"].mean("psnr").value for m in (CLOUDY, MODEL))
    text = Reader(render_page(evaluation)).text
    assert f"{show('psnr', new)} dB" in text
    assert f"by the standard protocol, {show('psnr', new - old)} dB above the cloudy images" in text
    for name in ("infinite", "nothing but NaN"):
        assert "protocol, against the cloudy images as they are" in Reader(render_page(EVALUATIONS[name])).text
    assert "cloudy images as they are" not in render_page(EVALUATIONS["one method"])


def test_better_and_worse_images_are_counted():
    values = {
        "a": (10, 20),
        "b": (20, 10),
        "c": (5, 5),
        "d": (5, math.inf),
        "e": (math.nan, 1),
        "f": (math.inf, math.inf),
    }
    columns = (Scores({k: {"psnr": v[i]} for k, v in values.items()}) for i in range(2))
    scores = dict(zip([("cloudy-image", "standard"), ("model", "standard")], columns, strict=True))
    reader = Reader(render_page(make_evaluation(scores=scores, protocols=("standard",), methods=(MODEL, CLOUDY))))
    assert "2 better, 1 worse, 2 the same" in reader.text
    gain = [row[3] for row in reader.table("images", "standard")["rows"][1:]]
    assert gain == ["+10.00", "\N{MINUS SIGN}10.00", "0.00", "+\N{INFINITY}", "\N{EN DASH}", "0.00"]
    assert not Reader(render_page(EVALUATIONS["one method"])).having("figure", **{"data-chart": "scatter"})


def test_notes_and_facts_are_shown():
    text = render_page(make_evaluation(notes=("three images leak",), facts={"seed": "7"}))
    assert text.index("three images leak") < text.index("<main>")
    assert "<dt>seed</dt><dd>7</dd>" in text
    assert "Read this first" not in render_page(make_evaluation())


def test_unknown_protocol_is_refused():
    with pytest.raises(ConfigError, match="unknown protocol"):
        render_page(make_evaluation(protocols=("standart",)))


def draw_pictures(folder: Path, images, whats=("cloudy", "target", "model", "cloudy-image", "dark-channel")) -> None:
    for i, image in enumerate(images):
        for j, what in enumerate(whats):
            shade = 20 if what.startswith("cloudy") else 10 + i + j
            picture = Image.fromarray(np.full((8, 8, 3), shade, np.uint8))
            picture.save(folder / f"{image}.{what}.webp")


def test_pictures_are_embedded_with_their_scores(tmp_path):
    evaluation = EVALUATIONS["plain"]
    draw_pictures(tmp_path, evaluation.images)
    text = render_page(evaluation, pictures=tmp_path, most=9)
    psnr = {image: row["psnr"] for image, row in evaluation.scores["model", "standard"].values.items()}
    order = sorted(psnr, key=psnr.__getitem__, reverse=True)
    shown = re.findall(r"<h4>(.*?)</h4>", text)
    assert shown[:3] == order[:3]
    assert {*shown[3:6]} <= {*order[12:18]}
    assert shown[6:] == order[:-4:-1]
    pictures = Reader(text).having("img")
    assert [a["alt"].partition(":")[0] for a in pictures[:4]] == ["Cloudy", "EMRDM", "Target", "Dark channel"]
    assert len(pictures) == 9 * 4  # the cloudy image is not shown again as a method
    data = base64.b64decode(pictures[1]["src"].removeprefix("data:image/webp;base64,"))
    assert data == (tmp_path / f"{order[0]}.model.webp").read_bytes()
    cards = [t for t in Reader(text).tables if not t["class"]]
    assert [row[1] for row in cards[0]["rows"][1:]] == [
        show("psnr", evaluation.scores[m.name, "standard"].values[order[0]]["psnr"]) for m in (MODEL, CLOUDY, DARK)
    ]


@pytest.mark.parametrize("count", range(12))
def test_no_image_is_shown_twice(tmp_path, count):
    evaluation = make_evaluation(count)
    draw_pictures(tmp_path, evaluation.images, ["model"])
    for most in (-1, 0, 1, 2, 6, 7):
        shown = re.findall(r"<h4>(.*?)</h4>", render_page(evaluation, pictures=tmp_path, most=most))
        assert len(shown) == len({*shown}) == max(0, min(most, count))


def test_missing_broken_and_foreign_pictures_are_passed_over(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    images = ["../secret", "good", "broken", "x" * 300, "nul\0", '<b a="', "deep/er"]
    draw_pictures(tmp_path, ["secret"], ["model"])
    draw_pictures(folder, ["good", '<b a="'], ["model", "cloudy"])
    (folder / "deep").mkdir()
    draw_pictures(folder, ["deep/er"], ["model"])
    (folder / "broken.model.webp").write_bytes(b"<svg onlWEBP=alert(1)>")
    reader = Reader(render_page(make_evaluation(images=images), pictures=folder, most=9))
    assert sorted(a["alt"] for a in reader.having("img")) == [
        *('Cloudy: <b a="', "Cloudy: good", 'EMRDM: <b a="', "EMRDM: deep/er", "EMRDM: good"),
    ]
    assert not Reader(render_page(make_evaluation(), pictures=tmp_path / "missing")).having("img")


def test_pictures_stop_where_the_page_would_be_too_large(tmp_path, monkeypatch):
    draw_pictures(tmp_path, ["image 0", "image 1"])
    size = len(Reader(render_page(make_evaluation(), pictures=tmp_path)).having("img")[0]["src"])
    monkeypatch.setattr("emrdm.evaluation.page.gallery._ROOM", 5 * size)
    text = render_page(make_evaluation(), pictures=tmp_path)
    kinds = [a["alt"].partition(":")[0] for a in Reader(text).having("img")]
    assert kinds.count("Cloudy") == kinds.count("EMRDM") == 2  # what matters most comes first
    assert "Left out: the page would be too large." in text


def test_the_first_column_of_the_images_is_what_the_reader_came_for():
    """The scatter is drawn from it, against the cloudy image."""
    baselines = tuple(method for method in make_evaluation().methods if method.kind == "baseline")
    evaluation = make_evaluation(methods=baselines)
    assert evaluation.subject.name != "cloudy-image"
    table = Reader(render_page(evaluation)).table("images", "standard")
    first = evaluation.images[0]
    expected = evaluation.scores[evaluation.subject.name, "standard"].values[first]["psnr"]
    assert table["rows"][1][:2] == [first, show("psnr", expected)]
