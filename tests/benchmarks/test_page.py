"""The page of results: what is measured is in it, what is not run yet is said, and the committed page is what is made."""

from pathlib import Path

import pytest
from benchmarks.results import card, learnt, page, parts, tables
from benchmarks.results.__main__ import main
from tests.benchmarks import made_up

ROOT = Path(__file__).parents[2]
RUNS, DOCS = ROOT / "benchmarks" / "results" / "runs", ROOT / "docs"


def test_page_has_every_part(tmp_path):
    runs, docs = made_up.everything(tmp_path / "runs"), tmp_path / "docs"
    assert main(["page", str(runs), "--docs", str(docs)]) == 0
    text = (docs / "results.md").read_text("utf-8")
    assert page.MISSING not in text
    assert "| `rgb-small` | 30.00 | 40.00 | 25.00 | 30.00 | 40.00 | 25.00 |" in text
    assert "| `rgb-small` | 30.25 ± 6.05 | 0.9000 | 0.0500 | 3.000 | 0.1000 | 9 |" in text
    assert text.index("| `rgb-small` |") < text.index("| `rgb` |")
    assert text.count("| the cloudy image itself | 18.68") == 2  # once a data set, however many models there are
    assert "| SpA-GAN, fed 512 x 512 | 29.49 | **0.941** | 0.035 | **2.71** | **0.084** |" in text
    assert "1.7 to 3.3 dB" in text
    assert "best PSNR with N = 5, 30.00" in text
    assert "| `muon` | optimizer.name is" in text
    pictures = {path.name: path.stat().st_size for path in (docs / "images").iterdir()}
    parts_drawn = ("alpha", "churn", "methods", "modules", "recipes-rgb-small", "steps")
    assert sorted(pictures) == [f"results-{name}.png" for name in parts_drawn]
    assert all(f"(images/{name})" in text for name in pictures)
    assert max(pictures.values()) <= 150_000


def test_page_without_runs_says_so_and_takes_old_figures_away(tmp_path):
    (tmp_path / "runs").mkdir()
    images = tmp_path / "docs" / "images"
    images.mkdir(parents=True)
    for name in ("results-steps.png", "report.jpg"):
        (images / name).write_bytes(b"old")
    assert main(["page", str(tmp_path / "runs"), "--docs", str(tmp_path / "docs")]) == 0
    text = (tmp_path / "docs" / "results.md").read_text("utf-8")
    assert text.count(page.MISSING) == 11
    assert "images/" not in text
    assert [path.name for path in images.iterdir()] == ["report.jpg"]
    assert "CR-former" in text  # published figures need no run


def test_parts_come_one_by_one(tmp_path):
    made_up.scores_file(tmp_path, "rgb-small", 30.25, baselines=False)
    text, figures = page.build(tmp_path)
    assert figures == {}
    assert "`rgb-small`" in text
    assert text.count(page.MISSING) == 7


def test_committed_page_is_what_the_runs_make():
    files = sorted(RUNS.glob("*.json"))
    text, figures = page.build(RUNS)
    assert (DOCS / "results.md").read_text("utf-8") == text
    assert (DOCS / "default-model.md").read_text("utf-8") == card.build(RUNS)
    drawn = sorted(path.name for path in (DOCS / "images").glob(page.PICTURES))
    assert drawn == sorted(figures)
    assert all((DOCS / "images" / name).stat().st_size <= 150_000 for name in drawn)
    assert sum(path.stat().st_size for path in files) <= 200_000


def case(label, ours, paper):
    return {"label": label, "paper": paper, "datasets": {"rice1": {"scores": made_up.scores(ours)}}}


def pair(first, second, low, high):
    return {"first": first, "second": second, "psnr": {"mean": (low + high) / 2, "low": low, "high": high}}


def said(cases, pairs=(), metric="psnr"):
    return tables.order_in_words(cases, pairs, "rice1", metric, {"config-d": "D", "config-e": "E"})


def test_an_order_that_holds():
    cases = [case("config-d", 27.0, {"psnr": 19.0}), case("config-e", 28.0, {"psnr": 19.5})]
    assert "1 of 1 pairs agree (Kendall's tau 1.00): the paper's order holds" in said(cases)
    doubtful = said(cases, [pair("config-d", "config-e", -2.1, 0.1)])
    assert doubtful.endswith("the images do not tell apart D and E.")
    assert "do not tell apart" not in said(cases, [pair("config-d", "config-e", -2.0, -0.1)])


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([], "does not hold. The other way round: D is before E by 1.00, in the paper behind by 0.50 (no interval)"),
        ([pair("config-d", "config-e", 0.5, 1.5)], "does not hold"),
        ([pair("config-d", "config-e", -0.5, 2.5)], "the images tell apart no pair that differs"),
    ],
)
def test_an_order_that_does_not_hold(pairs, words):
    cases = [case("config-d", 28.0, {"psnr": 19.0}), case("config-e", 27.0, {"psnr": 19.5})]
    found = said(cases, pairs)
    assert "0 of 1 pairs agree (Kendall's tau -1.00)" in found
    assert words in found


def test_lower_is_better_for_distances():
    cases = [
        {"label": "config-d", "paper": {"lpips": 0.3}, "datasets": {"rice1": {"scores": made_up.scores(1, lpips=0.2)}}},
        {"label": "config-e", "paper": {"lpips": 0.2}, "datasets": {"rice1": {"scores": made_up.scores(1, lpips=0.1)}}},
    ]
    assert "the paper has E > D; here it is E > D. 1 of 1 pairs agree" in said(cases, metric="lpips")


def test_no_order_where_there_is_nothing_to_compare():
    cases = [case("config-d", 28.0, {"psnr": 19.0}), case("config-e", 27.0, {"psnr": 19.0})]
    assert "no order to compare" in said(cases)
    assert "fewer than two cases" in said(cases[:1])


def test_the_best_is_bold_whichever_end_is_better():
    rows = [["a", "30.00 ± 1.00", "0.2000"], ["b", "29.00 ± 1.00", "0.1000"], ["c", "30.00", "-"]]
    assert tables.bold_best(rows, ("psnr", "lpips")) == [
        ["a", "**30.00 ± 1.00**", "0.2000"],
        ["b", "29.00 ± 1.00", "**0.1000**"],
        ["c", "**30.00**", "-"],
    ]


def test_bars_of_a_study_are_of_differences():
    cases = [case("config-d", 27.0, {}), case("config-e", 28.0, {}), case("config-b", 20.0, {})]
    halves = parts._halves(cases, [pair("config-d", "config-e", -2.0, -1.0)], "rice1", "psnr")
    assert halves == [0.5, None, None]


def test_a_folder_that_is_none_is_one_line(tmp_path, capsys):
    assert main(["page", str(tmp_path / "nowhere"), "--docs", str(tmp_path)]) == 2
    assert "is not a folder" in capsys.readouterr().err
    (tmp_path / "test-broken.json").write_text("{")
    assert main(["page", str(tmp_path), "--docs", str(tmp_path)]) == 2
    assert "test-broken.json cannot be read" in capsys.readouterr().err


def test_what_was_learnt_is_the_difference_of_two_runs():
    scores = {"base": (29.0, 0.9, 0.12), "constant": (26.5, 0.85, 0.15)}
    runs = [
        {"name": name, "steps": 800, "end": {key: {"psnr": p, "ssim": s, "lpips": d} for key in ("rice1", "rice2")}}
        for name, (p, s, d) in scores.items()
    ]
    table = learnt.table({"runs": runs})
    assert "| a cosine instead of a constant learning rate | +2.5 / +0.050 / -0.030 |" in table
    assert "Muon" not in table  # one of its two runs is not there
    assert learnt.table({"runs": []}) == ""


def test_seeds_of_the_base_are_averaged_and_say_what_chance_does():
    psnr = {"base": 29.0, "base-2": 28.0, "tf32": 29.5}
    runs = [
        {"name": name, "end": {key: {"psnr": p, "ssim": 0.9, "lpips": 0.1} for key in ("rice1", "rice2")}}
        for name, p in psnr.items()
    ]
    chance, tf32 = learnt.table({"runs": runs}).splitlines()[2:]
    assert "standard deviation of 2 runs* | 0.7 / 0.000 / 0.000 |" in chance
    assert "| +1.0 / +0.000 / +0.000 |" in tf32
    assert "standard deviation" not in learnt.table({"runs": [run for run in runs if run["name"] != "base-2"]})
    chance = learnt.chance({"runs": runs})
    assert chance["rice2"]["psnr"] == pytest.approx(2.0)  # 2 sqrt(2) standard deviations of 29 and 28
    assert learnt.chance({"runs": runs[:1]}) == {}


def test_cases_closer_than_chance_are_named():
    cases = [
        {
            "label": f"config-{letter}",
            "paper": {"psnr": paper},
            "datasets": {"rice1": {"scores": {"psnr": {"mean": ours}}}},
        }
        for letter, paper, ours in (("a", 18.0, 26.0), ("d", 19.0, 28.0), ("e", 20.0, 28.5))
    ]
    names = {"config-d": "D", "config-e": "E"}
    text = tables.order_in_words(cases, [], "rice1", "psnr", names, 1.0)
    assert text.endswith("the paper's order holds. Closer than two seeds of one recipe may be: D and E (0.50).")
    assert "seeds" not in tables.order_in_words(cases, [], "rice1", "psnr", names)
