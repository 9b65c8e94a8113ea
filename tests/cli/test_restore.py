"""emrdm restore: names of files, several images, and one line for what is typed wrong."""

import json
import os
import shutil
from pathlib import Path

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


def test_broken_images_are_left_out_where_that_is_asked_for(several, run, tmp_path):
    images, words = several
    for image in images[:2]:
        image.write_bytes(image.read_bytes()[:100])
    code, _, errors = run(words)
    assert [code, *(str(image) in line for image, line in zip(images[:2], errors, strict=True))] == [2, True, True]
    code, _, errors = run([*words, "-q", "--on-error", "skip"])
    assert code == 1
    assert errors[-1] == "emrdm restore: 2 of 3 images were not restored"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["c.tif"]


def test_an_interrupt_stops_all_images(several, run, tmp_path, monkeypatch):
    seen = []

    def interrupted(scene, *_, **__):
        seen.append(scene)
        raise KeyboardInterrupt

    monkeypatch.setattr("emrdm.restoration.restore_scene", interrupted)
    code, _, errors = run(several[1])
    assert (code, len(seen)) == (130, 1)
    assert "interrupted" in errors[-1]


def test_a_folder_among_the_images_is_named(several, run, tmp_path):
    images, words = several
    words[words.index(str(images[1]))] = str(images[1].parent)
    code, _, errors = run(words)
    assert code == 2
    assert f"{images[1].parent} is a folder: expected images" in errors[-1]


def test_going_on_wants_the_uncertainty_map_too(given, run, tmp_path):
    output = tmp_path / "clear.tif"
    assert run(small.words(*given, output, "-q"))[0] == 0
    code, _, errors = run(
        small.words(*given, output, "--samples", 2, "--uncertainty", tmp_path / "std.tif", "--resume")
    )
    assert code == 2
    assert "std.tif is not: expected both" in errors[-1]


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
    "model": (["--model", "tinny"], "is neither a file nor a preset; did you mean 'tiny'?"),
    "model file": (["--model", "nothing.safetensors"], "nothing.safetensors"),
    "checkpoint": (["--model", "a.ckpt"], "emrdm convert"),
    "image": (lambda w: ["restore", "nothing.tif", *w[2:]], "nothing.tif"),
    "setting": (["sampler.stepz=3"], "steps"),
    "steps": (["sampler.steps=0"], "sampler.steps"),
    "steps of nothing": (["steps=3"], "steps=3 is a setting of the sampler: expected sampler.steps=3"),
    "method": (["sampler.method=heun"], "expected stochastic or euler"),
    "unknown option": (["--seeds", "3"], "unknown option --seeds"),
    "tile": (["--tile", "63"], "tile is 63: expected a multiple of"),
    "small tile": (["--tile", "0"], "tile is 0: expected a multiple of"),
    "tile text": (["--tile", "big"], "argument --tile: found 'big': expected a whole number"),
    "overlap": (["--overlap", "40"], "an overlap of 40 for tiles of 64: expected 1 to"),
    "negative overlap": (["--overlap", "-1"], "an overlap of -1 for tiles of 64: expected 1 to"),
    "samples": (["--samples", "0"], "samples is 0: expected 1 to 1000"),
    "batch": (["--batch", "0"], "--batch is 0: expected 1 or more"),
    "workers": (["--workers", "0"], "--workers is 0: expected 1 or more"),
    "memory": (["--memory", "lots"], "expected a size such as 4GB"),
    "little memory": (["--memory", "10MB"], "--memory 10MB: expected "),
    "device": (["--device", "gpu"], "--device gpu cannot be used: expected cpu or cuda"),
    "range": (["--range", "0-4000"], "expected LOW:HIGH"),
    "range upside down": (["--range", "4000:0"], "the smaller one first"),
    "range without end": (["--range", "0:inf"], "expected two numbers"),
    "dtype": (["--dtype", "uint12"], "--dtype uint12: expected one of uint8"),
    "format": (["--format", "jp2"], "argument --format: found 'jp2': expected one of cog, gtiff"),
    "offset": (lambda w: [word for word in w if word not in ("--range", "0:4000")] + ["--offset", "x"], "offset"),
    "fill": (["--fill-band", "B10"], "--fill-band B10: expected NAME=NUMBER"),
    "fill NaN": (["--fill-band", "B10=nan"], "--fill-band B10=nan: expected NAME=NUMBER"),
    "fill unknown": (["--fill-band", "B10=1"], "expected a band of the model: red, green, blue"),
    "bands": (["--bands", "a,b"], "3 bands"),
    "dates": (["--dates", "yesterday"], "expected a day such as 2024-05-01"),
    "nodata": (["--nodata", "-1"], "expected a number that uint16 can have"),
    "mask alone": (["--mask", "m.tif"], "expected --keep-clear with it"),
    "keep": (["--keep-clear", "--clear-by", "most"], "argument --clear-by: found 'most'"),
    "clear by": (["--clear-by", "score"], "expected --keep-clear with it"),
    "two ways": (["--keep-clear", "--mask", "m.tif", "--clear-by", "score"], "expected one of them"),
    "feather alone": (["--feather", "4"], "--feather is about which pixels are clear: expected --keep-clear with it"),
    "grow alone": (["--grow", "4"], "--grow is about which pixels are clear: expected --keep-clear with it"),
    "feather": (["--keep-clear", "--feather", "-1"], "--feather is -1: expected 0 to 512"),
    "by a mask": (["--keep-clear", "--clear-by", "mask"], "expected --mask"),
    "quantiles alone": (["--quantiles", "5,95"], "expected --uncertainty FILE with it"),
    "quantiles": (["--quantiles", "5,950", "--uncertainty", "s.tif", "--samples", "2"], "expected percent from 0 to 100, such as 5,95"),
    "quantiles as shares": (["--quantiles", "0.05", "--uncertainty", "s.tif", "--samples", "2"], "such as 5 for a share of 0.05"),
    "uncertainty": (["--uncertainty", "s.tif"], "expected --samples 2 or more"),
    "uncertainty picture": (["--uncertainty", "s.png", "--samples", "2"], "s.png"),
    "two cluster options": (["--workers", "2", "--cluster", "tcp://h:1"], "expected one of them"),
    "radar as image": (lambda w: [*w, "--sar", w[1]], "is given as image and as --sar: expected different images"),
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


@pytest.mark.parametrize("more", [(), ("--overwrite",), ("--resume",)])
def test_an_input_is_never_the_output(more, run, calls, tmp_path):
    image = small.write(tmp_path / "image.tif", small.pixels())
    before = image.read_bytes()
    for words in (default_words(image, image, *more), default_words(image, tmp_path / "o.tif", "--uncertainty", image)):
        code, out, errors = run(words)
        assert (code, out, calls) == (2, [], [])
        assert errors == [f"emrdm restore: {image} is one of the inputs: expected another name for the output"]
    assert image.read_bytes() == before


# ---------------------------------------------------------------- the model inside the package

DEFAULT = "; this is the default model, for one image of red, green, blue from 0 to 255: expected such an image, or --model with another"  # fmt: skip
SENTINEL2 = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B10", "B11", "B12")
QUICK = ("--tile", 64, "sampler.steps=1", "--device", "cpu")


def default_words(image, output, *more):
    return ["restore", str(image), "-o", str(output), *map(str, (*QUICK, *more))]


def test_without_a_model_it_is_the_one_inside_the_package(run, tmp_path):
    image = small.write(tmp_path / "a.tif", (small.pixels(height=64, width=64) // 16).astype(np.uint8))
    code, _, notes = run(default_words(image, tmp_path / "plain.tif"))
    assert code == 0
    assert notes[0] == f"  no --model: the one inside the package, {EMRDM.default().card.title}"
    code, out, notes = run(default_words(image, tmp_path / "named.tif", "--model", "default"))
    assert code == 0
    assert not any("no --model" in line for line in notes)
    assert "64 x 64 pixels, 3 bands; 1 tile in " in out[-1]
    assert np.array_equal(read(tmp_path / "plain.tif"), read(tmp_path / "named.tif"))


@pytest.mark.parametrize(
    ("bands", "more", "words"),
    [
        (3, (), "--range LOW:HIGH or --range auto says what they mean"),
        (4, ("--bands", "a,b,c,d"), "has no band red, green, blue: it has a, b, c, d"),
        (4, ("--bands", "red,a,b,c", "--range", "auto"), "--bands gives the bands other names"),
        (2, ("--bands", "red,green", "--range", "auto"), "--fill-band blue=0 puts a number there; this is"),
        (2, ("--bands", ","), "image.tif has 2 bands without names: expected 3, red, green, blue; this is"),
    ],
)
def test_what_the_default_model_cannot_take_is_one_line_that_names_it(
    bands, more, words, run, calls, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    small.write(tmp_path / "image.tif", small.pixels(bands))
    code, out, errors = run(default_words("image.tif", "out.tif", "-q", *more))
    assert (code, out, calls) == (2, [], [])
    (line,) = errors
    assert words in line
    assert line.endswith(DEFAULT)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("again.tif",), "2 images were given to a model that restores one at a time"),
        (("--range", "3000:0"), "expected two numbers, the smaller one first"),
        (("--sar", "again.tif"), "this model sees no radar"),
        (("--fill-band", "nir=0"), "expected a band of the model: red, green, blue"),
    ],
)
def test_other_mistakes_are_none_of_the_default_model(more, words, run, calls, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("image.tif", "again.tif"):
        small.write(tmp_path / name, small.pixels())
    code, out, errors = run(default_words("image.tif", "out.tif", "-q", *more))
    assert (code, out, calls) == (2, [], [])
    (line,) = errors
    assert words in line
    assert "default model" not in line


def test_other_models_say_nothing_of_the_default(given, run, tmp_path):
    code, _, errors = run(["restore", str(given[0]), "--model", str(given[1]), "-o", str(tmp_path / "a.tif"), "-q"])
    assert code == 2
    assert "--range auto" in errors[0]
    assert "default" not in errors[0]


@pytest.mark.parametrize("names", [SENTINEL2, ("",) * 13])
def test_the_default_model_takes_red_green_and_blue_of_sentinel_2(names, run, tmp_path):
    image = small.write(tmp_path / "s2.tif", small.pixels(13, 64, 64), names=names)
    code, _, notes = run(default_words(image, tmp_path / "clear.tif", "--range", "auto"))
    assert code == 0
    assert any(line.startswith("  range: ") for line in notes)
    assert any("red is B4" in line for line in notes) == bool(names[0])
    with rasterio.open(tmp_path / "clear.tif") as file:
        assert file.dtypes == ("uint16",) * 3
        assert file.descriptions == (("B2", "B3", "B4") if names[0] else ("blue", "green", "red"))
        assert [meaning.name for meaning in file.colorinterp] == ["blue", "green", "red"]


# ---------------------------------------------------------------- for scripts


def test_what_was_done_is_told_as_json(given, run, tmp_path):
    output, spread = tmp_path / "clear.tif", tmp_path / "std.tif"
    code, out, messages = run(small.words(*given, output, "--samples", 2, "--uncertainty", spread, "--json"))
    assert code == 0
    (facts,) = json.loads("\n".join(out))["restored"]
    assert (facts["output"], facts["uncertainty"]) == (str(output), str(spread))
    with rasterio.open(output) as file:
        assert (facts["width"], facts["height"], len(facts["bands"])) == (file.width, file.height, file.count)
    assert any(line.startswith(f"{output}: ") for line in messages)  # for people, beside it
    code, out, messages = run(small.words(*given, output, "--resume", "--json"))
    assert (code, json.loads("\n".join(out))) == (0, {"restored": [], "skipped": [str(output)], "failed": []})
    assert messages == [f"{output} is there: nothing to do"]


def test_what_failed_is_told_beside_what_was_done(several, run, tmp_path):
    images, words = several
    rasterio.shutil.copy(images[1], tmp_path / "packed.tif", driver="GTiff", compress="deflate")
    content = (tmp_path / "packed.tif").read_bytes()
    images[1].write_bytes(content[:-9000] + bytes(9000))
    code, out, _ = run([*words, "-q", "--json"])
    assert code == 1
    told = json.loads("\n".join(out))
    assert [Path(facts["output"]).name for facts in told["restored"]] == ["a.tif", "c.tif"]
    assert [Path(facts["output"]).name for facts in told["failed"]] == ["b.tif"]
    assert str(images[1]) in told["failed"][0]["error"]
    assert told["failed"][0]["input"] == [str(images[1])]
    assert told["restored"][1]["input"] == [str(images[2])]
    code, out, _ = run([*words, "-q", "--json", "--resume"])
    assert [Path(path).name for path in json.loads("\n".join(out))["skipped"]] == ["a.tif", "c.tif"]


@pytest.mark.parametrize("span", ["-.5:1", "-0.5:1"])
def test_a_range_may_begin_below_zero(span, given, run, tmp_path):
    image = small.write(tmp_path / "a.tif", small.pixels(height=70, width=80).astype(np.float32) / 4000)
    words = small.words(image, given[1], tmp_path / "clear.tif", "-q")
    words[words.index("--range") + 1] = span
    assert run(words) == (0, [], [])
