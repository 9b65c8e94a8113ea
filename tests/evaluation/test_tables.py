"""Tables: every score beside its protocol, the same numbers everywhere."""

import csv
import io
import json
import math
import re
from pathlib import Path

import pytest
import torch

from emrdm.evaluation import Evaluation, Method, Published, as_csv, as_json, as_markdown, as_text
from emrdm.evaluation.published import published_figures
from emrdm.metrics import PROTOCOLS, Scores

TABLES = (Path(__file__).parents[1] / "published" / "tables.tex").read_text()


def made_up(**changes):
    def scores(offset):
        values = {m: torch.tensor([20.0, 30.0]) + offset for m in ("psnr", "ssim", "mae", "rmse", "sam", "lpips")}
        values |= {"zero_pixels": torch.tensor([0.0, 7.0]), "psnr/cloudy": torch.tensor([math.nan, 11.0])}
        found = Scores()
        found.add(["one", "=two|"], values)
        return found

    facts = {
        "dataset": "rice1",
        "title": "RICE1",
        "split": "test",
        "rule": "",
        "protocols": ("standard",),
        "methods": (Method("model", "my model", "model"), Method("cloudy-image", "the cloudy image", "baseline")),
        "scores": {("model", "standard"): scores(1), ("cloudy-image", "standard"): scores(0)},
        "facts": {"seed": "0"},
        "notes": ("three images left out",),
        "published": (
            Published("Theirs", "their paper", "standard", {"psnr": 33.1}),
            Published("Other", "another paper", "on luma", {"psnr": 36.2, "ssim": 0.97}, note="beware"),
        ),
    }
    return Evaluation(**{**facts, **changes})


@pytest.mark.parametrize("render", [as_text, as_markdown])
def test_texts_have_all_scores_each_under_its_protocol(render):
    text = render(made_up())
    assert "RICE1: test, 2 images" in text
    ours = next(line for line in text.splitlines() if "my model" in line)
    assert "26.00" in ours
    assert "26.0000" in ours
    before, _, after = text.partition("not comparable")
    assert "Theirs" in before
    assert "33.1" in before
    assert "Other" not in before
    assert "on luma" in after
    assert "beware" in after
    assert "three images left out" in text
    assert "7 pixels without a spectral angle" in text
    assert "cloudy pixels" in text
    first_score = text.index("26.00")
    assert "standard" in text[:first_score]


def test_markdown_tables_are_tables():
    text = as_markdown(made_up())
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().splitlines()}
        assert len(widths) == 1
    for quirk in PROTOCOLS["standard"].quirks:
        assert quirk in text


def test_csv_has_every_value_exactly_and_no_formula():
    rows = list(csv.DictReader(io.StringIO(as_csv(made_up()))))
    assert len(rows) == 4
    assert {row["protocol"] for row in rows} == {"standard"}
    assert [row["image"] for row in rows[:2]] == ["one", "'=two|"]
    assert float(rows[1]["psnr"]) == 31.0
    assert math.isnan(float(rows[0]["psnr/cloudy"]))


def test_json_is_valid_and_tells_what_was_left_out():
    facts = json.loads(as_json(made_up()), parse_constant=pytest.fail)
    found = facts["methods"]["model"]["protocols"]["standard"]
    assert found["psnr"] == {"mean": 26.0, "images": 2, "left_out": 0}
    assert found["psnr/cloudy"] == {"mean": 11.0, "images": 1, "left_out": 1}
    assert found["zero_pixels"] == {"total": 7.0 + 0}
    infinite = Scores()
    infinite.add(["a"], {"psnr": torch.tensor([math.inf]), "sam": torch.tensor([math.nan])})
    facts = json.loads(as_json(made_up(scores={("model", "standard"): infinite})), parse_constant=pytest.fail)
    assert facts["methods"]["model"]["protocols"]["standard"]["psnr"]["mean"] == "inf"
    assert facts["methods"]["model"]["protocols"]["standard"]["sam"]["mean"] is None


def test_columns_without_any_score_are_left_out():
    bare = Scores()
    bare.add(["a"], {"psnr": torch.tensor([20.0])})
    text = as_text(made_up(scores={("model", "standard"): bare}, methods=made_up().methods[:1], published=()))
    assert "PSNR" in text
    assert "LPIPS" not in text


@pytest.mark.parametrize(
    ("dataset", "metrics", "columns", "protocol"),
    [
        ("sen12ms-cr", ("psnr", "ssim", "mae", "sam"), slice(0, 4), "sen12ms-cr"),
        ("sen2-mtc-new", ("psnr", "ssim", "lpips"), slice(0, 3), "sen2-mtc-new"),
        ("cuhk-cr1", ("psnr", "ssim", "lpips"), slice(0, 3), "cuhk"),
        ("cuhk-cr2", ("psnr", "ssim", "lpips"), slice(3, 6), "cuhk"),
    ],
)
def test_published_figures_are_those_of_the_paper(dataset, metrics, columns, protocol):
    """The paper's own row, as printed in its tables."""
    row = published_figures(dataset)[-1]
    assert row.method == "EMRDM"
    rows = [line for line in TABLES.splitlines() if line.startswith("Ours (EMRDM)")]
    line = rows[{"sen12ms-cr": 0, "sen2-mtc-new": 1}.get(dataset, 2)]
    printed = [float(number) for number in re.findall(r"\{([\d.]+)\}", line)][columns]
    assert [row.scores[metric] for metric in metrics] == printed
    assert {p.protocol for p in published_figures(dataset)} == {protocol}
    assert all(row.scores["psnr"] >= other.scores["psnr"] for other in published_figures(dataset))


def test_every_published_figure_has_source_and_protocol():
    for dataset in ("cuhk-cr1", "cuhk-cr2", "sen12ms-cr", "sen2-mtc-new", "rice1", "rice2"):
        rows = published_figures(dataset)
        assert len(rows) >= 8
        for row in rows:
            assert row.source
            assert row.protocol
            assert 5 < row.scores["psnr"] < 45
    assert published_figures("pairs") == ()
