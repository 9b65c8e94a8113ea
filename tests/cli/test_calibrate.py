"""emrdm calibrate."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from emrdm import cli
from emrdm.restoration import comparison
from emrdm.restoration.calibration import calibrate as compare

rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs of the tests are written by rasterio")

NAMES = ("B4", "B3")
TAGS = {"EMRDM_SAMPLES": "8", "EMRDM_SEED": "0"}


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a command line: exit code, lines of output, lines of messages."""
    monkeypatch.setattr(comparison, "_PIECE", 64)

    def call(*arguments):
        try:
            code = cli.main(["calibrate", *map(str, arguments)])
        except SystemExit as caught:
            code = caught.code
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err.splitlines()

    return call


def write(path, pixels, names=(), *, tags=(), nodata=None, east=0.0, scale=1.0):
    count, height, width = pixels.shape
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        count=count,
        height=height,
        width=width,
        dtype=pixels.dtype,
        nodata=nodata,
        crs="EPSG:32632",
        transform=rasterio.Affine(10, 0, east, 0, -10, 5e6),
    ) as file:
        file.write(pixels)
        if names:
            file.descriptions = names
        file.scales = [scale] * count
        file.update_tags(**dict(tags))


@pytest.fixture
def scene(tmp_path):
    """An image, its truth and a map that is right under clouds, and half of what it should be elsewhere."""
    rng = np.random.default_rng(0)
    shape = (2, 150, 200)
    mask = np.zeros((1, *shape[1:]), np.uint8)
    mask[:, 20:130, 30:170] = 1
    std = rng.uniform(20, 60, shape).astype(np.float32)
    clear = rng.integers(1000, 3000, shape).astype(np.uint16)
    truth = clear + std * np.where(mask, 1, 2) * np.sqrt(1 + 1 / 8) * rng.normal(size=shape)
    truth = truth.round().astype(np.uint16)
    truth[:, :, :10] = 0
    write(tmp_path / "clear.tif", clear, NAMES, tags=TAGS)
    write(tmp_path / "truth.tif", truth[[1, 0]], ("B03", "Band 4"), nodata=0)
    write(tmp_path / "std.tif", std, [f"{name}_std" for name in NAMES], tags=TAGS, nodata=np.nan)
    write(tmp_path / "mask.tif", mask)
    return {"folder": tmp_path, "clear": clear, "truth": truth, "std": std, "mask": mask[0] > 0}


def paths(scene):
    folder = scene["folder"]
    return folder / "clear.tif", folder / "truth.tif", "--uncertainty", folder / "std.tif"


def test_windows_give_what_whole_arrays_give(run, scene):
    code, out, err = run(*paths(scene), "--json")
    assert (code, err) == (0, [])
    found = json.loads("\n".join(out))
    valid = np.broadcast_to(np.arange(200) >= 10, (150, 200))
    arrays = [scene[name] for name in ("clear", "std", "truth")]
    whole = compare(*arrays, valid=valid, samples=8).as_dict()
    assert (found["samples"], found["pixels"], found["compared"]) == (8, 150 * 190, 150 * 190)
    for key in ("rmse", "spread_skill", "coverage", "sparsification", "unranked", "count"):
        assert found[key] == pytest.approx(whole[key], rel=1e-9), key
    assert list(found["bands"]) == list(NAMES)
    alone = compare(*(array[1] for array in arrays), valid=valid, samples=8)
    assert found["bands"]["B3"]["rmse"] == pytest.approx(alone.rmse, rel=1e-9)


def test_a_mask_limits_it_to_clouds(run, scene):
    code, out, _ = run(*paths(scene), "--mask", scene["folder"] / "mask.tif", "--json")
    assert code == 0
    found = json.loads("\n".join(out))
    assert found["pixels"] == scene["mask"].sum()
    assert found["spread_skill"] == pytest.approx(1, abs=0.02)
    assert found["coverage"]["0.95"] == pytest.approx(0.95, abs=0.01)
    assert json.loads("\n".join(run(*paths(scene), "--json")[1]))["spread_skill"] < 0.8


def test_no_data_in_a_mask_is_no_cloud(run, scene):
    mask = np.full((1, 150, 200), 255, np.uint8)
    mask[:, 50:60, 50:70] = 1
    write(scene["folder"] / "mask.tif", mask, nodata=255)
    code, out, _ = run(*paths(scene), "--mask", scene["folder"] / "mask.tif", "--json")
    assert (code, json.loads("\n".join(out))["pixels"]) == (0, 200)


def test_the_lines_say_what_was_compared(run, scene):
    code, out, err = run(*paths(scene), "-q")
    assert (code, err) == (0, [])
    assert out[0] == "pixels          28,500, all compared"
    assert out[1] == "samples         8, std x 1.061"
    assert out[2].startswith("values          57,000, RMSE ")
    assert [line.split()[0] for line in out[-2:]] == list(NAMES)


def test_of_large_images_an_even_sample_is_compared(run, scene, monkeypatch):
    monkeypatch.setattr(comparison, "_MOST", 12_000)
    mask = ("--mask", scene["folder"] / "mask.tif", "--json")
    first, again = (run(*paths(scene), *mask)[1] for _ in range(2))
    found = json.loads("\n".join(first))
    assert first == again
    assert found["pixels"] == scene["mask"].sum()
    assert 2500 < found["compared"] <= 6000
    assert found["count"] == 2 * found["compared"]
    assert found["spread_skill"] == pytest.approx(1, abs=0.04)
    assert "even sample of" in run(*paths(scene), "-q")[1][0]


def test_a_sample_is_spread_over_all_pieces():
    sample = comparison.Sample(1000)
    rng = np.random.default_rng(0)
    for piece in range(50):
        sample.add(np.full((1, 400), piece), rng.random(400))
    assert sample.seen == 20_000
    assert 400 < sample.kept <= 1000
    counts = np.bincount(sample.values()[0], minlength=50)
    assert counts.sum() == sample.kept
    assert counts.min() > 0
    assert counts[:25].sum() == pytest.approx(counts[25:].sum(), rel=0.25)  # early ones are thinned like late ones


def test_files_without_tags_and_names(run, scene):
    folder = scene["folder"]
    write(folder / "clear.tif", scene["clear"])
    write(folder / "truth.tif", scene["truth"], nodata=0)
    assert json.loads("\n".join(run(*paths(scene), "--json")[1]))["samples"] == 8  # the map's own tag
    write(folder / "std.tif", scene["std"], [f"{name}_std" for name in NAMES])
    code, out, _ = run(*paths(scene), "-q")
    assert code == 0
    assert out[1] == "samples         number unknown: no allowance for few"


def test_other_bands_of_the_map_and_the_truth_are_passed_over(run, scene):
    before = run(*paths(scene), "--json")
    more = np.insert(scene["truth"], 0, 7 * (scene["truth"][0] > 0), axis=0)
    write(scene["folder"] / "truth.tif", more, ("B2", *NAMES), nodata=0)
    write(scene["folder"] / "std.tif", np.insert(scene["std"], 1, 7, axis=0), ("B4_std", "B4_q5", "B3_std"), tags=TAGS)
    assert run(*paths(scene), "--json") == before


def test_a_perfect_image_is_still_json(run, scene):
    write(scene["folder"] / "truth.tif", scene["clear"], NAMES)
    code, out, _ = run(*paths(scene), "--json")
    found = json.loads("\n".join(out), parse_constant=lambda name: pytest.fail(name))
    assert (code, found["rmse"], found["spread_skill"]) == (0, 0, None)
    assert run(*paths(scene), "-q", "-o", scene["folder"] / "perfect.png")[0] == 0


def test_the_figure(run, scene):
    target = scene["folder"] / "calibration.png"
    code, out, _ = run(*paths(scene), "-o", target)
    assert (code, out[-1]) == (0, f"{target}: drawn")
    with Image.open(target) as picture:
        assert picture.size[0] == 1440
    assert run(*paths(scene), "-q", "-o", target)[0] == 2
    assert run(*paths(scene), "-q", "-o", target, "--overwrite")[0] == 0


def test_without_matplotlib_nothing_is_read(run, scene, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(*paths(scene), "-q")[0] == 0
    code, out, err = run(*paths(scene), "-o", scene["folder"] / "a.png")
    assert (code, out, len(err)) == (1, [], 1)
    assert "pip install 'emrdm[plots]'" in err[0]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("truth", {"east": 35.0}, "not on the same grid: transform"),
        ("std", {"pixels": np.ones((2, 9, 9), np.float32)}, "not on the same grid: size 9 x 9 pixels against 200 x"),
        ("truth", {"names": ("B4", "B8")}, "has no band B3: it has B4, B8"),
        ("truth", {"names": ("B4", "B04")}, "has no band B3"),
        ("truth", {"pixels": np.ones((3, 150, 200), np.uint16)}, "has 3 bands without names: expected 2, B4, B3"),
        ("truth", {"names": (*NAMES, "b3"), "pixels": np.ones((3, 150, 200), np.uint16)}, "has band B3 twice"),
        ("truth", {"scale": 1e-4}, "band B4 has scale 0.0001 and offset 0 against scale 1 and offset 0"),
        ("clear", {"names": ("B4", "B8")}, "has no band B8_std: expected one for each band"),
        ("clear", {"names": ("B4",), "pixels": np.ones((1, 150, 200), np.uint16)}, "has no band B3: it has B4"),
        ("std", {"names": NAMES}, "has bands B4, B3: expected NAME_std"),
        ("std", {"tags": {"EMRDM_SEED": "1"}}, "was not written with"),
        ("clear", {"tags": {"EMRDM_SAMPLES": "1"}}, "was not written with"),
        ("std", {"pixels": np.full((2, 150, 200), -1, np.float32)}, "std goes down to -1"),
        ("std", {"pixels": np.full((2, 150, 200), np.nan, np.float32)}, "no pixel has data in"),
    ],
)
def test_files_that_do_not_fit_are_one_line(run, scene, name, change, message):
    usual = {"names": tuple(f"{band}_std" for band in NAMES) if name == "std" else NAMES, "tags": TAGS}
    if "pixels" in change and name == "truth" and "names" not in change:
        usual["names"] = ()
    settings = {"pixels": scene[name], **usual, **change}
    write(scene["folder"] / f"{name}.tif", settings.pop("pixels"), settings.pop("names"), **settings)
    code, out, err = run(*paths(scene), "-q")
    assert (code, out, len(err)) == (2, [], 1), err
    assert message in err[0]


@pytest.mark.parametrize("text", ["1", "many", "9" * 5000])
def test_a_strange_number_of_samples_is_one_line(run, scene, text):
    for name, names in (("clear", NAMES), ("std", [f"{band}_std" for band in NAMES])):
        write(scene["folder"] / f"{name}.tif", scene[name], names, tags={"EMRDM_SAMPLES": text})
    code, out, err = run(*paths(scene), "-q")
    assert (code, out, len(err)) == (2, [], 1)
    assert "expected 2 or more" in err[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "{}/out.jpg"), "expected a name ending in .png, .svg"),
        (("-o", "{}/none/out.png"), "does not exist"),
        (("--mask", "{}/none.tif"), "none.tif"),
        (("--mask", "{}/std.tif"), "given twice"),
        (("--mask", "{}/two.tif"), "has 2 bands: expected 1"),
        (("--mask", "{}/empty.tif"), "and cloud in"),
    ],
)
def test_mistakes_are_one_line(run, scene, options, message):
    folder = scene["folder"]
    write(folder / "two.tif", np.ones((2, 150, 200), np.uint8))
    write(folder / "empty.tif", np.zeros((1, 150, 200), np.uint8))
    code, out, err = run(*paths(scene), "-q", *(word.format(folder) for word in options))
    assert (code, out, len(err)) == (2, [], 1), err
    assert message in err[0]


def test_the_map_is_needed(run, scene):
    code, _, err = run(*paths(scene)[:2])
    assert (code, len(err)) == (2, 1)
    assert "--uncertainty" in err[0]


def test_help_fits_eighty_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("--help")
    assert (code, max(map(len, out)) <= 80) == (0, True)
    assert "emrdm calibrate clear.tif truth.tif --uncertainty std.tif" in "\n".join(out)
