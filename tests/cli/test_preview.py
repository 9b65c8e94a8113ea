"""emrdm preview."""

import numpy as np
import pytest
from PIL import Image

from emrdm import cli
from emrdm.cli import preview

rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs of the tests are written by rasterio")


@pytest.fixture
def run(capsys, monkeypatch):
    """Runs a command line: exit code, lines of output, lines of messages."""
    monkeypatch.setattr(cli, "VERBS", (preview,))

    def call(*arguments):
        try:
            code = cli.main(["preview", *map(str, arguments)])
        except SystemExit as caught:
            code = caught.code
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err.splitlines()

    return call


@pytest.fixture
def scene(tmp_path):
    """Clear, cloudy and uncertainty as GeoTIFF, 13 bands with names, with a ragged border."""
    rng = np.random.default_rng(0)
    clear = rng.integers(500, 2500, (13, 120, 150)).astype(np.uint16)
    cloudy = clear.copy()
    cloudy[:, 30:80, 40:100] += 6000
    for pixels in (clear, cloudy):
        pixels[:, :, :10] = 0
    spread = np.full((1, 120, 150), 40, np.float32)
    spread[:, 30:80, 40:100] = 400
    for name, pixels, nodata in (("clear", clear, 0), ("cloudy", cloudy, 0), ("std", spread, None)):
        write(tmp_path / f"{name}.tif", pixels, nodata=nodata)
    return tmp_path


def write(path, pixels, *, nodata=0, east=0.0):
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
        if count == 13:
            file.descriptions = [f"B{i}" for i in (1, 2, 3, 4, 5, 6, 7, 8)] + ["B8A", "B9", "B10", "B11", "B12"]


def test_before_after_and_uncertainty(run, scene):
    target = scene / "out.png"
    code, out, _ = run(
        scene / "clear.tif", scene / "cloudy.tif", "--uncertainty", scene / "std.tif", "--size", 900, "-o", target
    )
    assert code == 0
    page = np.asarray(Image.open(target))
    assert out == [f"{target}: {page.shape[1]} x {page.shape[0]} pixels"]
    assert page.shape[1] <= 900
    side = 150  # 292 pixels are not enough to double it
    pictures = [page[24 : 24 + 120, 6 + i * (side + 6) :][:, :side].astype(int) for i in range(3)]
    before, after, spread = pictures
    assert (before[:, 102:] == after[:, 102:]).all()  # the same ground, the same colours
    assert before[32:78, 42:98].mean() > after[32:78, 42:98].mean() + 60
    assert set(np.unique(after[:, :10])) == {150, 190}
    assert (spread[50, 60] == (253, 231, 37)).all()
    assert (spread[100, 140] != spread[50, 60]).any()


def test_a_series_a_window_and_bands(run, scene):
    whole = scene / "whole.png"
    args = (scene / "clear.tif", scene / "cloudy.tif", scene / "clear.tif", "--window", "20,10,100,140")
    assert run(*args, "-q", "--bands", "B8,B4,B3", "-o", whole) == (0, [], [])
    with Image.open(whole) as picture:
        assert picture.width == 3 * (3 * 140 + 6) + 6
    other = scene / "other.jpg"
    assert run(*args, "-q", "--bands", "8,4,3", "--names", "cloudy, ours, truth", "-o", other)[0] == 0
    with Image.open(other) as picture:
        assert picture.format == "JPEG"


def test_plain_pictures(run, tmp_path):
    for name, value in (("a", 10), ("b", 240)):
        Image.fromarray(np.full((50, 60, 3), value, np.uint8)).save(tmp_path / f"{name}.png")
    assert run(tmp_path / "a.png", tmp_path / "b.png", "-q", "-o", tmp_path / "c.png", "--size", 200)[0] == 0
    page = np.asarray(Image.open(tmp_path / "c.png"))
    assert (page[30, 20], page[30, 90]) == (pytest.approx(240), pytest.approx(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "{}/out.tif"), "expected a name ending in .png"),
        (("-o", "{}/none/out.png"), "does not exist"),
        (("-o", "{}/there.png"), "exists: add --overwrite"),
        (("-o", "{}/out.png", "--window", "1,2,3"), "expected ROW,COLUMN,HEIGHT,WIDTH"),
        (("-o", "{}/out.png", "--window", "a,2,3,4"), "expected ROW,COLUMN,HEIGHT,WIDTH"),
        (("-o", "{}/out.png", "--window", "0,0,999,9"), "expected a part of"),
        (("-o", "{}/out.png", "--bands", "B99"), "no band 'B99'"),
        (("-o", "{}/out.png", "--bands", "B4,B3"), "expected three, or one"),
        (("-o", "{}/out.png", "--names", "a,b,c"), "3 names for 2 images: expected one each"),
        (("-o", "{}/out.png", "--size", "0"), "--size is 0"),
        (("-o", "{}/out.png", "--size", "99"), "99 pixels wide for 2 images"),
        (("-o", "{}/out.png", "--uncertainty", "{}/none.tif"), "none.tif"),
        (("-o", "{}/out.png", "{}/elsewhere.tif"), "not on the same grid"),
    ],
)
def test_mistakes_are_one_line(run, scene, options, message):
    (scene / "there.png").write_bytes(b"x")
    write(scene / "elsewhere.tif", np.ones((1, 120, 150), np.uint8), east=35.0)
    words = [word.format(scene) for word in options]
    extra = [words.pop()] if words[-1].endswith("elsewhere.tif") else []
    code, out, err = run(scene / "clear.tif", scene / "cloudy.tif", *extra, *words)
    assert (code, out, len(err)) == (2, [], 1), err
    assert message in err[0]
    assert not (scene / "out.png").exists()
    assert (scene / "there.png").read_bytes() == b"x"


def test_overwrite(run, scene):
    target = scene / "there.png"
    target.write_bytes(b"x")
    assert run(scene / "clear.tif", scene / "cloudy.tif", "-q", "-o", target, "--overwrite")[0] == 0
    with Image.open(target) as picture:
        picture.verify()


def test_help_shows_how(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "emrdm preview clear.tif cloudy.tif -o before_after.png" in "\n".join(out)
