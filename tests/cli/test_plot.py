"""emrdm plot: what other verbs found, drawn again; mistakes in one line."""

import json
import sys

import pytest
from tests.ablation.test_tables import found
from tests.bench.small import report

from emrdm import plots
from emrdm.ablation import as_json as study_as_json
from emrdm.bench import as_json as report_as_json
from emrdm.cli import main, plot

CALIBRATION = {
    "spread_skill": 0.8,
    "coverage": {"0.5": 0.4, "0.95": 0.7},
    "reliability": [{"predicted": 1.0, "error": 2.0, "values": 9}, {"predicted": 2.0, "error": 3.0, "values": 9}],
}
KINDS = ("trajectory", "attention", "samplers", "process", "curves", "sweep", "calibration", "scaling")


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs a command line with an output: exit code, lines of messages, and the figure that was to be written."""
    drawn = []
    monkeypatch.setattr("emrdm.plots.figure.save", lambda figure, path: drawn.append(figure))

    def call(*arguments, output="out.png"):
        try:
            code = main(["plot", *map(str, arguments), "-o", str(tmp_path / output)])
        except SystemExit as caught:
            code = caught.code
        return code, capsys.readouterr().err.splitlines(), drawn[-1] if drawn else None

    return call


def log(path, *, loss=0.5, psnr=20.0):
    path.mkdir()
    rows = [{"kind": "step", "step": at, "loss": loss / at, "lr": 1e-4} for at in range(1, 31)]
    rows.append({"kind": "validation", "step": 30, "scores": {"rice1": {"psnr": psnr, "ssim": 0.9}}, "best": True})
    (path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# ---------------------------------------------------------------- help


@pytest.mark.parametrize("kind", ["", *KINDS])
def test_help_fits_eighty_columns_and_has_examples(kind, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        main(["plot", *kind.split(), "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert f"emrdm plot {kind}".rstrip() in text.partition("examples:")[2]


def test_every_kind_is_drawn_by_something():
    assert set(plot._KINDS) == set(KINDS)


# ---------------------------------------------------------------- kinds


def test_curves_of_one_run_are_those_of_training(run, tmp_path):
    code, _, figure = run("curves", log(tmp_path / "rice"))
    assert code == 0
    assert [axes.get_ylabel().partition("\n")[0] for axes in figure.axes] == ["loss", "PSNR ↑", "SSIM ↑"]
    assert figure.get_suptitle() == "rice"


def test_curves_of_several_runs_are_compared(run, tmp_path):
    runs = [log(tmp_path / "a"), log(tmp_path / "b", psnr=25.0) / "log.jsonl"]
    _, _, figure = run("curves", *runs, "--title", "mine")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert [line.get_ydata()[-1] for line in figure.axes[1].lines] == [20, 25]
    assert figure.get_suptitle() == "mine"


def test_runs_of_one_name_are_told_apart_by_their_paths(run, tmp_path):
    for parent in ("one", "two"):
        (tmp_path / parent).mkdir()
    _, _, figure = run("curves", log(tmp_path / "one" / "run"), log(tmp_path / "two" / "run"), "--title", "")
    names = [text.get_text().replace("\n", "") for text in figure.legends[0].get_texts()]
    assert names[0] == "run"
    assert names[1].endswith("run")
    assert len(set(names)) == 2
    assert figure.get_suptitle() == ""


def test_a_sweep_is_drawn_from_the_folder_of_its_study(run, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(plots, "lines", lambda *values, **options: asked.append((values, options)))
    (tmp_path / "table.json").write_text(study_as_json(found()))
    assert run("sweep", tmp_path)[0] == 0
    ((title, _, x, series, path), options) = asked[0]
    assert title.startswith("Effect of alpha: rice1")
    assert list(x) == [1, 3]
    assert series["psnr"] == [30.5, 1 / 3]
    assert options["paper"]["psnr"] == [19.44, 20.0]
    assert path == tmp_path / "out.png"
    run("sweep", tmp_path, "--metrics", "ssim", "--overwrite")
    assert list(asked[1][0][3]) == ["ssim"]


def test_a_calibration_is_drawn_from_json(run, tmp_path):
    (tmp_path / "found.json").write_text(json.dumps(CALIBRATION))
    _, _, figure = run("calibration", tmp_path / "found.json")
    left, right = figure.axes
    assert left.get_title("left") == "Reliability: spread / skill 0.800"
    assert [bar.get_height() for bar in right.patches] == [0.4, 0.7]
    assert figure.get_suptitle() == "found"


def test_a_calibration_is_drawn_from_images(run, tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs of the tests are written by rasterio")
    import numpy as np

    rng = np.random.default_rng(0)
    truth = rng.normal(100, 20, (1, 40, 40))
    images = {"clear": (truth + rng.normal(0, 2, truth.shape), "B4"), "truth": (truth, "B4")}
    images["std"] = (np.full_like(truth, 2.0), "B4_std")
    for name, (pixels, band) in images.items():
        shape = {"count": 1, "height": 40, "width": 40, "dtype": "float32"}
        place = {"crs": "EPSG:32632", "transform": rasterio.Affine(10, 0, 0, 0, -10, 5e6)}
        with rasterio.open(tmp_path / f"{name}.tif", "w", driver="GTiff", **shape, **place) as file:
            file.write(pixels.astype(np.float32))
            file.descriptions = (band,)
    code, _, figure = run("calibration", *(tmp_path / f"{name}.tif" for name in images))
    assert code == 0
    assert figure.get_suptitle() == "std.tif against truth.tif"
    shares = [bar.get_height() for bar in figure.axes[1].patches]
    assert shares == pytest.approx([0.5, 0.8, 0.9, 0.95], abs=0.05)


@pytest.mark.parametrize(
    ("options", "title", "panels"),
    [((), "tiny: sampling", 3), (("--of", "frames"), "tiny: sampling", 2), (("--of", "ratios"), "times faster", 1)],
)
def test_scaling_is_drawn_from_a_report(options, title, panels, run, tmp_path):
    (tmp_path / "speed.json").write_text(report_as_json(report()))
    _, _, figure = run("scaling", tmp_path / "speed.json", *options)
    assert title in figure.get_suptitle()
    assert len(figure.axes) == panels


def test_a_figure_is_written_in_each_format(tmp_path, capsys):
    log(tmp_path / "a")
    for suffix in ("png", "svg", "pdf"):
        output = tmp_path / f"curves.{suffix}"
        assert main(["plot", "curves", str(tmp_path / "a"), "-o", str(output)]) == 0
        assert output.stat().st_size > 1000
        assert capsys.readouterr().out == f"{output}: drawn\n"


# ---------------------------------------------------------------- mistakes


def test_the_folder_of_a_figure_is_made(tmp_path, capsys):
    assert main(["plot", "curves", str(log(tmp_path / "run")), "-o", str(tmp_path / "a" / "b" / "curves.png")]) == 0
    assert (tmp_path / "a" / "b" / "curves.png").is_file()


def test_the_output_is_checked_before_anything_is_read(run, tmp_path):
    (tmp_path / "there.png").touch()
    for output, message in (
        ("a.jpg", "expected a name ending in .png, .svg, .pdf"),
        ("there.png/a.png", "there.png is a file: expected a folder for the figure"),
        ("there.png", "exists: add --overwrite"),
    ):
        code, lines, _ = run("curves", tmp_path / "nowhere", output=output)
        assert code == 2
        assert len(lines) == 1
        assert message in lines[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("curves", "{}"), "has no log.jsonl: expected the folder of a run"),
        (("curves", "{}/empty.jsonl"), "has no step and no validation: expected the log of a run"),
        (("curves", "{}/run", "{}/run", "{}/run"), "is given twice: expected different runs"),
        (("sweep", "{}"), "has no table.json: expected the folder of a study"),
        (("sweep", "{}/good.json", "--metrics", "psnr,fid"), "metric 'fid': expected some of psnr, ssim"),
        (("sweep", "{}/study.json"), "has no scores yet: expected a study with one finished case"),
        (("calibration", "{}/wrong.json"), "is no calibration: expected JSON that emrdm calibrate --json printed"),
        (("calibration", "{}/empty.jsonl"), "is no JSON"),
        (("calibration", "{}/missing.json"), "cannot be read: No such file"),
        (("calibration", "{}/a", "{}/b"), "2 files were given: expected one JSON file, or CLEAR TRUTH STD"),
        (("calibration", "{}/wrong.json", "--mask", "m.tif"), "--mask belongs to images"),
        (("scaling", "{}/wrong.json"), "is no report of a benchmark"),
        (("scaling", "{}/speed.json"), "has none of them, not size: expected emrdm bench --cases size,frames"),
        (("scaling", "{}/speed.json", "--of", "frames"), "has none of them, not frames"),
    ],
)
def test_wrong_input_is_one_line(arguments, message, run, tmp_path):
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "wrong.json").write_text('{"a": 1}')
    (tmp_path / "speed.json").write_text(report_as_json(report(rows=(), scalings=())))
    (tmp_path / "study.json").write_text(study_as_json(found(results=())))
    (tmp_path / "good.json").write_text(study_as_json(found()))
    log(tmp_path / "run")
    code, lines, _ = run(*(word.format(tmp_path) for word in arguments))
    assert code == 2
    assert len(lines) == 1
    assert message in lines[0]


def test_without_matplotlib_it_says_so_before_any_work(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, lines, _ = run("curves", tmp_path / "nowhere")
    assert code == 1
    assert lines == ["emrdm plot: plots need matplotlib: pip install 'emrdm[plots]'"]
