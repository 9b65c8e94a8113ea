"""emrdm data: list, verify, preview."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from emrdm.cli import main
from emrdm.data import CATALOG
from emrdm.data.sen12ms_cr import split_lists

pytest.importorskip("rasterio", reason="made-up GeoTIFFs are written by rasterio")
from tests.data import trees

RANGE = ("--range", "0:10000")


@pytest.fixture
def run(capsys):
    """Runs a command line: exit code, lines of output, lines of messages."""

    def call(*arguments):
        try:
            code = main(["data", *map(str, arguments)])
        except SystemExit as caught:
            code = caught.code
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err.splitlines()

    return call


@pytest.fixture
def refused(run):
    """Runs a command line that is a mistake: its one line."""

    def call(*arguments):
        code, out, err = run(*arguments)
        assert (code, out, len(err)) == (2, [], 1), (code, out, err)
        assert err[0].startswith("emrdm data")
        assert err[0].isprintable()
        return err[0]

    return call


# ---------------------------------------------------------------- list


def test_list_names_every_data_set(run):
    code, out, err = run("list")
    assert (code, err) == (0, [])
    assert [line.split()[0] for line in out[: len(CATALOG)]] == list(CATALOG)
    assert max(map(len, out)) <= 100


@pytest.mark.parametrize("name", CATALOG)
def test_list_tells_all_about_one(name, run):
    code, out, _ = run("list", name)
    text = " ".join(" ".join(out).split())
    layout = CATALOG[name]
    assert code == 0
    assert out[0] == f"{name}: {layout.title}"
    assert max(map(len, out[1:])) <= 80
    for part in (layout.layout_help(), *layout.protocols, *layout.rules, layout.homepage):
        assert part in text
    for band in (*layout.bands, *layout.aux):
        assert band.name in text


def test_the_second_part_has_its_own_folder(run):
    assert "ROOT/CUHK-CR2/" in " ".join(run("list", "cuhk-cr2")[1])


def test_lists_for_scripts(run):
    facts = json.loads("\n".join(run("list", "--json")[1]))
    assert list(facts) == list(CATALOG)
    assert facts["sen12ms-cr"]["expected"] == {"train": 114050, "val": 7176, "test": 7899}
    assert facts["sen2-mtc-new"]["bands"] == ["B4", "B3", "B2"]
    assert facts["sen2-mtc-new"]["aux"] == ["B8"]
    one = json.loads("\n".join(run("list", "rice1", "--json")[1]))
    assert one == {"rice1": facts["rice1"]}


# ---------------------------------------------------------------- verify


def test_a_good_folder(run, tmp_path):
    root = trees.rice(tmp_path)
    code, out, err = run("verify", "rice1", root)
    assert code == 0
    assert [line.split() for line in out[1:6]] == [
        ["train", "3"],
        ["val", "1", "of", "train,", "chosen", "by", "a", "hash", "of", "their", "names"],
        ["test", "1"],
        ["all", "4", "expected", "500"],
        ["4", "of", "12", "x", "8", "pixels"],
    ]
    assert out[0] == f"rice1 in {root}"
    assert out[-1] == "all files are good"
    assert len(err) == 2
    assert err[-1].startswith("reading: 4/4 samples (100 %)")
    assert run("verify", "rice1", root, "-q", "--no-decode") == (
        0,
        [*out[:5], "the lists are good; no file was opened"],
        [],
    )


def test_every_problem_is_a_line_and_the_exit_code_is_two(run, tmp_path):
    root = trees.rice(tmp_path, masks=True, train=("1", "2", "4", "5"))
    trees.DAMAGES["empty"](root / "cloud/1.png")
    trees.DAMAGES["cut to a third"](root / "label/2.png")
    (root / "mask/4.png").unlink()
    trees.write_list(root / "test.txt", ["3", "5"])
    code, out, err = run("verify", "rice2", root, "-q")
    assert code == 2
    assert err == [f"emrdm data: {root}: 3 problems and 1 leak from training into test"]
    assert [line for line in out if line.startswith(("problem", "leak"))] == [
        f"problem: {root / 'cloud/4.png'} has no mask mask/4",
        f"problem: {root / 'cloud/1.png'} is empty: expected an image",
        f"problem: {root / 'label/2.png'} is not a whole PNG image: image file is truncated",
        "leak: 5 is in training and in test",
    ]
    assert "good" not in " ".join(out)


def test_findings_for_scripts(run, tmp_path):
    root = trees.rice(tmp_path)
    code, out, err = run("verify", "rice1", root, "--json", "-q")
    facts = json.loads("\n".join(out))
    assert (code, err) == (0, [])
    assert (facts["dataset"], facts["good"], facts["problems"]) == ("rice1", True, [])
    assert facts["counts"] == {"train": 3, "val": 1, "test": 1, "all": 4}
    assert facts["sizes"] == {"12 x 8": 4}
    trees.DAMAGES["empty"](root / "cloud/1.png")
    code, out, err = run("verify", "rice1", root, "--json", "-q")
    assert (code, len(err)) == (2, 1)
    assert json.loads("\n".join(out))["problems"] == [f"{root / 'cloud/1.png'} is empty: expected an image"]


def test_the_leak_of_the_paper(run, tmp_path):
    regions = sorted(set().union(*split_lists().values()))
    root = trees.sen12ms_cr(tmp_path / "data_s1" / "s1", [(region, 1) for region in regions], empty=True)
    code, out, err = run("verify", "sen12ms-cr", root, "--rule", "paper", "--no-decode", "-q")
    assert code == 2
    assert err == [f"emrdm data: {root}: 6 leaks from training into test"]
    season = {"spring": "ROIs1158_spring", "summer": "ROIs1868_summer", "fall": "ROIs1970_fall"}
    leaking = ("spring_106", "spring_123", "spring_140", "summer_73", "summer_119", "fall_139")
    expected = [f"{season[entry.split('_')[0]]}_s1/s1_{entry.split('_')[1]}" for entry in leaking]
    assert [line for line in out if line.startswith("leak")] == [
        f"leak: {region} is in training and in test" for region in expected
    ]
    assert out[0].endswith(", rule paper")
    assert [line.split() for line in out[1:4]] == [
        ["train", "164", "expected", "114,050"],
        ["val", "10", "expected", "7,176"],
        ["test", "10", "expected", "7,899"],
    ]
    code, out, err = run("verify", "sen12ms-cr", root, "--no-decode", "-q")
    assert (code, err) == (0, [])
    assert [line.split()[:2] for line in out[1:4]] == [["train", "155"], ["val", "10"], ["test", "10"]]


def test_names_with_control_characters_do_not_break_the_output(run, tmp_path):
    name = "a\nproblem: none\x1b[2J\udcff"
    root = trees.rice(tmp_path / "root\nof all", train=("1", name), test=("2", f"2{name}"), lists=False)
    trees.DAMAGES["empty"](root / "cloud" / f"{name}.png")
    (root / "label" / f"2{name}.png").unlink()
    code, out, err = run("verify", "rice1", root, "-q")
    assert code == 2
    assert len(err) == 1
    assert len(out) == 9
    assert all(line.isprintable() for line in (*out, *err))
    assert r"a\nproblem: none\x1b[2J\udcff.png is empty" in out[-1]


# ---------------------------------------------------------------- preview


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp"])
def test_a_sheet_of_the_expected_size(suffix, run, tmp_path):
    root = trees.rice(tmp_path / "rice", masks=True)
    path = tmp_path / f"sheet{suffix}"
    code, out, _ = run("preview", "rice2", root, "-o", path, "--rows", 2, "--side", 50)
    assert code == 0
    assert out == [f"{path}: 2 of 4 samples"]
    with Image.open(path) as image:
        assert image.size == (3 * 56 + 6, 30 + 2 * 74)


def test_every_frame_and_auxiliary_band_has_its_column(run, tmp_path):
    root = trees.sen2_mtc_new(tmp_path / "mtc", {"train": {"T1": ("a",)}})
    assert run("preview", "sen2-mtc-new", root, "-o", tmp_path / "a.png", "--side", 20)[0] == 0
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == ((3 * 2 + 1) * 26 + 6, 30 + 44)
    assert run("preview", "sen2-mtc-new", root, "-o", tmp_path / "b.png", "--side", 20, "--frames", 1)[0] == 0
    with Image.open(tmp_path / "b.png") as image:
        assert image.size == (3 * 26 + 6, 30 + 44)


def test_chosen_samples_in_the_order_asked_for(run, tmp_path):
    root = trees.rice(tmp_path / "rice", shape=(3, 8, 8))
    assert run("preview", "rice1", root, "-o", tmp_path / "a.png", "--side", 8, "--name", "10", "--name", "1")[0] == 0
    with Image.open(tmp_path / "a.png") as image:
        page = np.asarray(image)
    for row, seed in enumerate((2, 0)):
        shown = page[30 + row * 32 + 18 :][:8, 6:14].transpose(2, 0, 1)
        np.testing.assert_array_equal(shown, trees.texture((3, 8, 8), seed))


def test_folders_of_ones_own(run, tmp_path):
    pairs = trees.pairs(tmp_path / "pairs")
    bands = ("--bands", "B4,B3,B2,B8")
    assert run("preview", "pairs", pairs, *RANGE, *bands, "-o", tmp_path / "pairs.png")[0] == 0
    assert run("preview", "synthetic", pairs, *RANGE, "--frames", 3, "-o", tmp_path / "drawn.png", "--side", 20)[0] == 0
    with Image.open(tmp_path / "drawn.png") as image:
        assert image.size == (7 * 26 + 6, 30 + 3 * 44)
    assert run("verify", "pairs", pairs, *RANGE, *bands)[0] == 0


def test_the_kind_of_drawn_clouds_can_be_chosen(run, tmp_path):
    root = trees.pairs(tmp_path / "clear", ("1",), folders=("", ""), shape=(4, 32, 32))
    sheets = []
    for clouds in ((), ("--clouds", "thick"), ("--clouds", "thin")):
        path = tmp_path / f"{len(sheets)}.png"
        assert run("preview", "synthetic", root, *RANGE, *clouds, "-o", path)[0] == 0
        sheets.append(path.read_bytes())
    assert len(set(sheets)) == 3


def test_an_existing_sheet_is_kept_unless_told_otherwise(run, refused, tmp_path):
    root, path = trees.rice(tmp_path / "rice"), tmp_path / "sheet.png"
    path.write_text("mine")
    assert "OUTPUT" in refused("preview", "rice1", root, "-o", path)
    assert path.read_text() == "mine"
    assert run("preview", "rice1", root, "-o", path, "--overwrite", "-q") == (0, [], [])
    with Image.open(path) as image:
        assert image.format == "PNG"


def test_files_that_cannot_be_read_stop_or_are_left_out_and_said(run, refused, tmp_path):
    root = trees.rice(tmp_path / "rice")
    trees.DAMAGES["empty"](root / "cloud/2.png")
    (root / "label/10.png").unlink()
    missing = f"{root / 'cloud/10.png'} has no clear image label/10"
    empty = f"{root / 'cloud/2.png'} is empty: expected an image"
    sheet = ("-o", tmp_path / "sheet.png", "-q")
    assert refused("preview", "rice1", root, *sheet) == f"emrdm data: {missing}"
    code, _, _ = run("preview", "rice1", root, *sheet, "--on-error", "skip", "--side", 10)
    assert code == 0
    with Image.open(tmp_path / "sheet.png") as image:
        assert image.height == 30 + 2 * 34
    trees.save(root / "label/10.png", trees.texture(trees.RGB, 1))
    assert refused("preview", "rice1", root, *sheet, "--overwrite") == f"emrdm data: {empty}"


def test_what_is_left_out_is_said_on_the_error_channel(tmp_path):
    root = trees.rice(tmp_path / "rice")
    trees.DAMAGES["empty"](root / "cloud/2.png")
    (root / "label/10.png").unlink()
    command = [sys.executable, "-m", "emrdm", "data", "preview", "rice1", root, "-o", tmp_path / "s.png"]
    result = subprocess.run([*command, "--on-error", "skip"], capture_output=True, text=True, check=True)
    assert [line for line in result.stderr.splitlines() if not line.startswith("drawing")] == [
        f"emrdm: left out: {root / 'cloud/10.png'} has no clear image label/10",
        f"emrdm: left out: {root / 'cloud/2.png'} is empty: expected an image",
    ]


def test_a_sheet_of_nothing_but_broken_files_is_refused(refused, tmp_path):
    root = trees.rice(tmp_path / "rice", train=("1",), test=("2",))
    for name in ("1", "2"):
        trees.DAMAGES["text"](root / f"cloud/{name}.png")
    line = refused("preview", "rice1", root, "-o", tmp_path / "sheet.png", "--on-error", "skip", "-q")
    assert "none of 2 samples can be read" in line


def test_names_with_control_characters_can_be_shown(run, tmp_path):
    root = trees.rice(tmp_path / "rice", train=("a\nb\x1b[31m\udcff",), test=("1",), lists=False)
    code, out, err = run("preview", "rice1", root, "-o", tmp_path / "she\net.png", "-v")
    assert code == 0
    assert len(out) == 1
    assert all(line.isprintable() for line in (*out, *err))


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("list", "rise1"), "unknown data set 'rise1'; did you mean 'rice1'?"),
        (("verify", "sen12mscr", "ROOT"), "did you mean 'sen12ms-cr'?"),
        (("verify", "rice1", "ROOT/none"), "ROOT/none does not exist: expected ROOT/cloud/N.png"),
        (("verify", "rice1", "ROOT/cloud/1.png"), "ROOT/cloud/1.png is not a folder: expected ROOT/cloud"),
        (("verify", "rice1", "ROOT", "--rule", "paper"), "rule is 'paper': rice1 has one way to be read"),
        (("verify", "sen12ms-cr", "ROOT", "--rule", "papr"), "rule is 'papr': expected strict or paper"),
        (("verify", "rice1", "ROOT", "--range", "0:1"), "rice1 takes no --bands or --range"),
        (("verify", "rice1", "ROOT", "--workers", "0"), "--workers is 0: expected 1 or more"),
        (("verify", "rice1", "ROOT", "--workers", "x"), "found 'x': expected a whole number"),
        (("verify", "pairs", "PAIRS"), "1.tif has numbers of type uint16: say which values are black"),
        (("verify", "pairs", "PAIRS", "--range", "0"), "--range is '0': expected two numbers LOW:HIGH"),
        (("verify", "pairs", "PAIRS", "--range", "0:1:2"), "--range is '0:1:2': expected two numbers"),
        (("verify", "pairs", "PAIRS", "--range", "5:1"), "--range is '5:1': expected two numbers"),
        (("verify", "pairs", "PAIRS", "--range", "a:b"), "--range is 'a:b': expected two numbers"),
        (("verify", "pairs", "PAIRS", "--range", "0:nan"), "--range is '0:nan': expected two numbers"),
        (("verify", "pairs", "PAIRS", "--range", "0:1e40"), "expected low < high, within 1e30"),
        (("verify", "pairs", "PAIRS", "--range", "0:9", "--bands", "B4,B3"), "bands are B4, B3: expected 4 names"),
        (("verify", "pairs", "PAIRS", "--range", "0:9", "--bands", "a,b,c,a"), "expected 4 names"),
        (("verify", "pairs", "PAIRS", "--bands", "a,,b"), "--bands is 'a,,b': expected names with commas"),
        (("verify", "pairs", "ROOT/label", "--range", "0:9"), "has no folder cloudy or cloud or input"),
        (("verify", "series", "EMPTY", "--range", "0:9"), "has no images: expected ROOT/PLACE/NAME.tif"),
        (("verify", "synthetic", "EMPTY"), "has no images: expected ROOT/NAME.tif"),
        (("preview", "rice1", "ROOT"), "required: -o/--output"),
        (("preview", "rice1", "ROOT", "-o", "OUT.gif"), "expected a name ending in .png, .jpg"),
        (("preview", "rice1", "ROOT", "-o", "none/OUT.png"), "OUTPUT folder none does not exist"),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--rows", "0"), "--rows is 0: expected 1 or more"),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--rows", "-3"), "--rows is -3: expected 1 or more"),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--rows", "two"), "found 'two': expected a whole number"),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--side", "0"), "--side is 0: expected 1 or more"),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--side", "900000"), "expected fewer rows or smaller"),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--clouds", "thin"), "rice1 takes no --clouds"),
        (
            ("preview", "synthetic", "ROOT", "-o", "OUT.png", "--clouds", "thing"),
            "argument --clouds: found 'thing'; did you mean 'thin'?",
        ),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--frames", "0"), "--frames is 0: expected 1 or more"),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--frames", "2"), "has 1 frames: expected 2 at least"),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--split", "tset"), "found 'tset'; did you mean 'test'?"),
        (
            ("preview", "pairs", "PAIRS", "-o", "OUT.png", "--range", "0:10000", "--split", "test"),
            "no images for split 'test': the folder has no split; expected --split all for",
        ),
        (
            ("preview", "rice1", "ROOT", "-o", "OUT.png", "--name", "11"),
            "--name '11' is not in split all; did you mean",
        ),
        (("preview", "rice1", "ROOT", "-o", "OUT.png", "--name", "3", "--split", "train"), "'3' is not in split train"),
        (("preview", "pairs", "PAIRS", "-o", "OUT.png"), "has numbers of type uint16"),
        (("look",), "unknown task 'look': expected one of list, verify, preview"),
        ((), "required: TASK"),
    ],
)
def test_every_mistake_is_one_line(arguments, message, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trees.rice(tmp_path / "ROOT", shape=(3, 4, 4))
    trees.pairs(tmp_path / "PAIRS", ("1",))
    (tmp_path / "EMPTY").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert message in refused(*arguments, *(["-q"] if arguments else []))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("task", ["", "list", "verify", "preview"])
def test_help_fits_eighty_columns(task, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(*task.split(), "--help")
    assert code == 0
    assert max(map(len, out)) <= 80
    assert task or any(line == "examples:" for line in out)


def test_help_tells_the_exit_code_that_verify_has(run):
    assert "Ends with exit code 2 if something is wrong" in " ".join(" ".join(run("verify", "--help")[1]).split())
