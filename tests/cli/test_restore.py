"""emrdm restore: names of files, several images, and one line for what is typed wrong."""

import os
import shutil

import numpy as np
import pytest
from tests.restoration import small

from emrdm import EMRDM, cli
from emrdm.networks.fused import cpu

rasterio = pytest.importorskip("rasterio", reason="GeoTIFFs of the tests are written by rasterio")
pytest.importorskip("rasterio.shutil")


@pytest.fixture(scope="module", autouse=True)
def _settled():
    before = cpu.faster_dtype
    small.settle()
    yield
    cpu.faster_dtype = before


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """The scene and the model."""
    folder = tmp_path_factory.mktemp("given")
    return small.scene(folder / "scene.tif"), small.weights(folder / "weights.safetensors")


@pytest.fixture
def run(capsys):
    """Runs a command line: exit code, lines of output, lines of messages."""
    return lambda words: small.run(capsys, words)


@pytest.fixture
def calls(monkeypatch):
    """Tiles that the network sees."""
    return small.counted(monkeypatch)


@pytest.fixture(scope="module")
def reference(given, tmp_path_factory):
    """The output of the plain command, and its sha256."""
    output = tmp_path_factory.mktemp("reference") / "clear.tif"
    assert cli.main(small.words(*given, output, "-q")) == 0
    return output, small.digest(output)


def read(path):
    with rasterio.open(path) as file:
        return file.read()


# ---------------------------------------------------------------- names


def test_an_output_that_is_there_is_refused_before_any_work(given, run, calls, tmp_path, monkeypatch):
    output = tmp_path / "clear.tif"
    output.write_text("mine")
    monkeypatch.setattr(EMRDM, "load", lambda *_: pytest.fail("the model was loaded"))
    code, _, errors = run(small.words(*given, output))
    assert code == 2
    assert errors == [
        f"emrdm restore: {output} is there already: "
        "expected a new name, --overwrite, or --resume to leave out what is done"
    ]
    code, out, errors = run(small.words(*given, output, "--resume"))
    assert (code, out, errors) == (0, [f"{output} is there: nothing to do"], [])
    assert output.read_text() == "mine"
    code, _, errors = run(small.words(*given, tmp_path / "new.tif", "--samples", 2, "--uncertainty", output))
    assert code == 2
    assert f"{output} is there already" in errors[0]
    assert [path.name for path in tmp_path.iterdir()] == ["clear.tif"]


def test_overwriting_replaces_the_output(given, reference, run, tmp_path):
    output = tmp_path / "clear.tif"
    output.write_text("mine")
    assert run(small.words(*given, output, "--overwrite"))[0] == 0
    assert small.digest(output) == reference[1]


@pytest.mark.parametrize(
    "name", ["wölken & schatten ☁.tif", "with spaces.tif", "new/folder/below/clear.tif", "x" * 240 + ".tif"]
)
def test_any_name_will_do(name, given, reference, run, tmp_path):
    image = tmp_path / "在 云.tif"
    shutil.copy(given[0], image)
    code, _, errors = run(small.words(image, given[1], tmp_path / "out" / name, "-q"))
    assert (code, errors) == (0, [])
    assert np.array_equal(read(tmp_path / "out" / name), read(reference[0]))
    assert small.hidden((tmp_path / "out" / name).parent) == []


def test_a_link_stays_a_link(given, reference, run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "target.tif", tmp_path / "link.tif"
    link.symlink_to(target)
    assert run(small.words(*given, link))[0] == 0  # to nothing
    assert run(small.words(*given, link))[0] == 2
    target.write_text("old")
    assert run(small.words(*given, link, "--overwrite"))[0] == 0
    assert link.is_symlink()
    assert small.digest(target) == reference[1]
    assert small.hidden(tmp_path) + small.hidden(target.parent) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder.tif", "is no file: expected the name of a file"),
        ("text/clear.tif", "is a file: expected a folder"),
        ("text/below/clear.tif", "Not a directory"),
        ("y" * 300 + ".tif", "File name too long"),
        ("clear.xyz", "expected a name ending in"),
        ("clear", "expected a name ending in"),
        ("clear.png", "expected 1 or 3 of uint8"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_any_work(name, words, given, run, calls, tmp_path):
    (tmp_path / "folder.tif").mkdir()
    (tmp_path / "text").write_text("")
    code, _, errors = run(small.words(*given, tmp_path / name, "-q"))
    assert code == 2
    (line,) = errors
    assert words in line
    assert calls == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.tif", "text"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(given, run, calls, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    code, _, errors = run(small.words(*given, tmp_path / "closed" / "clear.tif"))
    assert code == 2
    assert "cannot be written" in errors[-1]
    assert calls == []


# ---------------------------------------------------------------- several images


@pytest.fixture
def several(given, tmp_path):
    """Three scenes, and the command that restores each into a folder."""
    images = [tmp_path / "in" / f"{name}.tif" for name in "abc"]
    for i, path in enumerate(images):
        small.write(path, small.pixels(height=70, width=80) + 10 * i)
    words = small.words(images[0], given[1], tmp_path)
    words[4:6] = [str(images[1]), str(images[2]), "--out-dir", str(tmp_path / "out")]
    return images, words


def test_a_broken_image_is_named_before_any_work(several, run, calls, tmp_path):
    images, words = several
    images[1].write_bytes(images[1].read_bytes()[:100])
    code, _, errors = run(words)
    assert code == 2
    assert len(errors) == 1
    assert str(images[1]) in errors[0]
    assert calls == []
    assert not (tmp_path / "out").exists()


def test_one_failure_does_not_stop_the_others_and_resuming_does_the_rest(several, run, tmp_path):
    images, words = several
    rasterio.shutil.copy(images[1], tmp_path / "packed.tif", driver="GTiff", compress="deflate")
    content = (tmp_path / "packed.tif").read_bytes()
    images[1].write_bytes(content[:-9000] + bytes(9000))  # the header is fine, some pixels are not
    code, _, errors = run([*words, "-q"])
    assert code == 1
    assert [str(images[1]) in line for line in errors] == [True, False]
    assert errors[-1] == "emrdm restore: 1 of 3 images were not restored"
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.suffix == ".tif") == ["a.tif", "c.tif"]
    images[1].write_bytes(content)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.tif")}
    code, out, _ = run([*words, "--resume"])
    assert code == 0
    assert out[0] == "2 of 3 images are restored already"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.tif", "b.tif", "c.tif"]
    assert all(path.stat().st_mtime_ns == when for path, when in times.items())
    code, _, errors = run(words)
    assert code == 2
    assert "a.tif is there already" in errors[0]


# ---------------------------------------------------------------- typed wrong

WRONG = {
    "no output": (lambda w: w[:4] + w[6:], "expected either -o FILE or --out-dir FOLDER"),
    "two outputs": (["--out-dir", "x"], "expected either -o FILE or --out-dir FOLDER"),
    "no model": (lambda w: [*w[:2], *w[4:]], "no model was given"),
    "model": (["--model", "tinny"], "is neither a file nor a preset; did you mean 'tiny'?"),
    "model file": (["--model", "nothing.safetensors"], "nothing.safetensors"),
    "checkpoint": (["--model", "a.ckpt"], "emrdm convert"),
    "image": (lambda w: ["restore", "nothing.tif", *w[2:]], "nothing.tif"),
    "setting": (["sampler.stepz=3"], "steps"),
    "steps": (["sampler.steps=0"], "sampler.steps"),
    "method": (["sampler.method=heun"], "expected stochastic or euler"),
    "unknown option": (["--seeds", "3"], "unrecognized arguments: --seeds"),
    "tile": (["--tile", "63"], "tile is 63: expected a multiple of"),
    "small tile": (["--tile", "0"], "tile is 0: expected a multiple of"),
    "tile text": (["--tile", "big"], "invalid int value: 'big'"),
    "overlap": (["--overlap", "40"], "an overlap of 40 for tiles of 64: expected 1 to"),
    "negative overlap": (["--overlap", "-1"], "an overlap of -1 for tiles of 64: expected 1 to"),
    "samples": (["--samples", "0"], "samples is 0: expected 1 to 1000"),
    "batch": (["--batch", "0"], "--batch is 0: expected 1 or more"),
    "workers": (["--workers", "0"], "--workers is 0: expected 1 or more"),
    "memory": (["--memory", "lots"], "expected a size such as 4GB"),
    "little memory": (["--memory", "1MB"], "at least for tiles of this size"),
    "device": (["--device", "cudda"], "--device cudda cannot be used: expected cpu"),
    "range": (["--range", "0-4000"], "expected LOW:HIGH"),
    "range upside down": (["--range", "4000:0"], "the smaller one first"),
    "range without end": (["--range", "0:inf"], "expected two numbers"),
    "dtype": (["--dtype", "uint12"], "--dtype uint12: expected one of uint8"),
    "format": (["--format", "jp2"], "invalid choice: 'jp2'"),
    "offset": (lambda w: [word for word in w if word not in ("--range", "0:4000")] + ["--offset", "x"], "offset"),
    "fill": (["--fill-band", "B10"], "--fill-band B10: expected NAME=NUMBER"),
    "fill NaN": (["--fill-band", "B10=nan"], "--fill-band B10=nan: expected NAME=NUMBER"),
    "fill unknown": (["--fill-band", "B10=1"], "expected a band of the model: red, green, blue"),
    "bands": (["--bands", "a,b"], "3 bands"),
    "dates": (["--dates", "yesterday"], "expected a day such as 2024-05-01"),
    "nodata": (["--nodata", "-1"], "expected a number that uint16 can have"),
    "mask alone": (["--mask", "m.tif"], "expected --keep-clear with it"),
    "keep": (["--keep-clear", "--clear-by", "most"], "invalid choice: 'most'"),
    "clear by": (["--clear-by", "score"], "expected --keep-clear with it"),
    "two ways": (["--keep-clear", "--mask", "m.tif", "--clear-by", "score"], "expected one of them"),
    "feather": (["--keep-clear", "--feather", "-1"], "--feather is -1: expected 0 to 512"),
    "by a mask": (["--keep-clear", "--clear-by", "mask"], "expected --mask"),
    "quantiles alone": (["--quantiles", "5,95"], "expected --uncertainty FILE with it"),
    "quantiles": (["--quantiles", "5,950", "--uncertainty", "s.tif", "--samples", "2"], "percent, 0 or from 1 to 100"),
    "uncertainty": (["--uncertainty", "s.tif"], "expected --samples 2 or more"),
    "uncertainty picture": (["--uncertainty", "s.png", "--samples", "2"], "s.png"),
    "two cluster options": (["--workers", "2", "--cluster", "tcp://h:1"], "expected one of them"),
    "radar of no use": (["--sar", "nothing.tif"], "nothing.tif"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_typed_wrong_is_answered_by_one_line(what, given, run, calls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change, words = WRONG[what]
    plain = small.words(*given, tmp_path / "clear.tif", "-q")
    code, out, errors = run(change(plain) if callable(change) else [*plain, *change])
    assert code == 2, errors
    assert out == []
    (line,) = errors
    assert words in line
    assert calls == []
    assert list(tmp_path.iterdir()) == []


def test_the_same_uncertainty_and_output_are_refused(given, run, calls, tmp_path):
    output = tmp_path / "clear.tif"
    code, _, errors = run(small.words(*given, output, "-q", "--samples", 2, "--uncertainty", output))
    assert code == 2
    assert "expected two names" in errors[0]
    assert list(tmp_path.iterdir()) == []
