"""Tables of studies: ours and the paper's told apart, numbers in full for scripts."""

import csv
import io
import json
import math

import pytest

from emrdm.ablation import Findings, Result, as_csv, as_json, as_markdown, as_text, from_json, read
from emrdm.errors import InputError

PAPER = {"psnr": 20.0, "ssim": 0.708, "lpips": 0.255}


def found(**changes):
    """Two values of alpha, the first with two seeds."""
    options = {
        "name": "alpha",
        "title": "Effect of alpha",
        "source": "Table 3, upper part",
        "axes": ("model.process.alpha",),
        "results": (
            Result(
                "alpha 1",
                {"model.process.alpha": 1.0},
                {**PAPER, "psnr": 19.44},
                ({"psnr": 30.0, "ssim": 0.9}, {"psnr": 31.0, "ssim": 0.92}),
            ),
            Result("alpha 3", {"model.process.alpha": 3.0}, PAPER, ({"psnr": 1 / 3, "ssim": 0.95},)),
        ),
        "protocol": "standard",
        "images": 100,
        "caption": {"data": "rice1 (RICE1), split test, 100 images", "protocol": "standard", "seeds": "3407, 3408"},
        "notes": ("something | to know",),
    }
    return Findings(**{**options, **changes})


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_papers_scores_have_columns_of_their_own_and_say_that_they_are_of_other_data():
    for text in (as_markdown(found()), as_text(found())):
        assert "paper: PSNR" in text
        assert "19.44" in text
        assert "paper: Table 3, upper part as printed, Sen2_MTC_New by protocol sen2-mtc-new" in text
        assert "compare which case is better, not the numbers" in text


def test_a_figure_of_the_paper_without_numbers_has_no_columns():
    results = tuple(Result(result.label, result.point, {}, result.seeds) for result in found().results)
    text = as_markdown(found(results=results, source="Figure 5, upper row"))
    assert "paper: PSNR" not in text
    assert "paper: Figure 5, upper row, which has no numbers" in text


def test_markdown_has_caption_notes_and_the_best_in_bold():
    text = as_markdown(found())
    lines = text.splitlines()
    assert lines[2].startswith("| case | PSNR ^ | SSIM ^ |")
    assert len({line.count("|") for line in lines[2:6]}) == 1
    assert "| alpha 1 | **30.50 ± 0.71** | 0.9100 ± 0.0141 |" in text
    assert "| alpha 3 | 0.33 | **0.9500** |" in text
    assert "- data: rice1 (RICE1), split test, 100 images" in text
    assert "- note: something | to know" in text


def test_the_screen_marks_the_best_with_a_star_and_all_of_them_if_they_look_equal():
    same = tuple(Result(f"case {i}", {}, {}, ({"psnr": value},)) for i, value in enumerate((30.001, 30.002, 29.0)))
    text = as_text(found(results=same, axes=()))
    assert text.count("30.00*") == 2
    assert "29.00*" not in text
    assert "*" not in as_text(found(results=same[:2], axes=())).splitlines()[2]  # nothing to choose from


def test_csv_has_every_number_in_full():
    first, second = rows(as_csv(found()))
    assert (first["case"], first["alpha"], first["protocol"], first["images"], first["seeds"]) == (
        "alpha 1",
        "1.0",
        "standard",
        "100",
        "2",
    )
    assert float(second["psnr"]) == 1 / 3
    assert float(first["psnr_std"]) == pytest.approx(0.5**0.5)
    assert second["psnr_std"] == ""
    assert float(first["paper_psnr"]) == 19.44
    assert "paper_lpips" in first  # the paper has it although this protocol gave none


def test_one_seed_has_no_deviation_column():
    results = tuple(Result(result.label, result.point, result.paper, result.seeds[:1]) for result in found().results)
    assert "psnr_std" not in as_csv(found(results=results))


def test_json_is_valid_with_infinite_and_missing_scores():
    results = (Result("a", {}, {}, ({"psnr": math.inf, "sam": math.nan},)), Result("b", {}, {}, ()))
    facts = json.loads(as_json(found(results=results, axes=(), left=("1 of 2 cases: b",))), parse_constant=pytest.fail)
    assert facts["cases"][0]["scores"] == {"psnr": "inf"}
    assert facts["cases"][1]["scores"] == {"psnr": None}
    assert facts["left"] == ["1 of 2 cases: b"]
    assert facts["paper"]["dataset"] == "Sen2_MTC_New"


def test_what_is_left_is_said():
    assert "not done yet: 1 of 2 cases: alpha 3" in as_text(found(left=("1 of 2 cases: alpha 3",)))


def test_a_study_is_read_back_from_its_folder(tmp_path):
    study = found(left=("1 of 2 cases: alpha 3",))
    (tmp_path / "table.json").write_text(as_json(study))
    again = read(tmp_path)
    assert again == read(tmp_path / "table.json")
    assert as_json(again) == as_json(study)
    assert again.results[0].seeds == study.results[0].seeds
    assert again.caption == study.caption


def test_scores_without_bounds_or_without_a_value_survive_the_file():
    result = Result("a", {"model.process.alpha": 1.0}, {}, ({"psnr": math.inf}, {"psnr": math.nan}))
    seeds = from_json(as_json(found(results=(result,)))).results[0].seeds
    assert seeds[0]["psnr"] == math.inf
    assert math.isnan(seeds[1]["psnr"])


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        as_json(found()).replace('"standard"', '"nobodys"'),
        as_json(found()).replace('"model.process.alpha": 1.0', '"other": 1.0'),
        as_json(found()).replace('"data"', '"datum"'),
    ],
)
def test_what_is_no_study_is_refused(text, tmp_path):
    (tmp_path / "table.json").write_text(text)
    with pytest.raises(InputError, match=r"table\.json is no table of a study: expected JSON that emrdm ablate wrote"):
        read(tmp_path)


def test_a_folder_without_a_table_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has no table\.json: expected the folder of a study"):
        read(tmp_path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(tmp_path / "missing.json")
