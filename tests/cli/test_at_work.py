"""emrdm plot: a model at work, from images to figures."""

import numpy as np
import pytest
from PIL import Image
from tests.cli.test_plot import run  # noqa: F401 - a fixture

from emrdm import EMRDM, load_preset
from emrdm.evaluation import samplers

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"


@pytest.fixture
def images(tmp_path):
    """Three dates and the truth, 40 x 24 pixels."""
    rng = np.random.default_rng(0)
    for name in ("2024-05-01", "2024-05-11", "2024-05-21", "truth"):
        Image.fromarray(rng.integers(0, 255, (24, 40, 3), np.uint8)).save(tmp_path / f"{name}.png")
    return tmp_path


@pytest.fixture
def series(tmp_path):
    """A multi-temporal model of red, green and blue."""
    preset = load_preset("tiny-temporal").replace({"model.aux": [], "model.inputs": ["noisy", "cloudy"]})
    preset = preset.replace({"model.bands": load_preset("tiny").model.bands})
    EMRDM.fresh(preset.model).save(tmp_path / "series.safetensors")
    return tmp_path / "series.safetensors"


def rows(figure, columns):
    return [figure.axes[i : i + columns] for i in range(0, len(figure.axes), columns)]


def test_a_trajectory_has_a_column_a_step(run, images):  # noqa: F811
    words = ("--model", "tiny", "--truth", images / "truth.png", "sampler.steps=3", "sampler.method=euler")
    code, _, figure = run("trajectory", images / "2024-05-01.png", *words)
    assert code == 0
    states, estimates = rows(figure, 4)
    assert [axes.get_title() for axes in states] == [f"{SIGMA} 100", f"{SIGMA} 2.69", f"{SIGMA} 0.001", "cloudy"]
    assert all(axes.get_xlabel().endswith(" dB") for axes in estimates[:-1])
    assert estimates[-1].get_xlabel() == "truth"
    assert states[-1].images[0].get_array().shape == (24, 40, 3)
    with Image.open(images / "truth.png") as truth:
        assert np.array_equal(estimates[-1].images[0].get_array(), np.asarray(truth))
    assert figure.get_supxlabel() == "euler, 3 steps, seed 0; PSNR to the truth, all bands"


def test_a_long_run_shows_a_few_of_its_steps(run, images):  # noqa: F811
    options = ("--model", "tiny", "--window", "0,0,16,16", "sampler.steps=9")
    _, _, figure = run("trajectory", images / "2024-05-01.png", *options)
    titles = [axes.get_title() for axes in rows(figure, 7)[0]]
    assert titles[0] == f"{SIGMA} 100"
    assert titles[-2:] == [f"{SIGMA} 0.001", "cloudy"]
    assert "6 of 9 steps shown" in figure.get_supxlabel()


def test_attention_shows_frames_by_date_above_their_masks(run, images, series):  # noqa: F811
    dates = [images / f"2024-05-{day}.png" for day in ("21", "01", "11")]
    code, _, figure = run("attention", *dates, "--model", series)
    assert code == 0
    *lines, scale = rows(figure, 3)
    assert [axes.get_title() for axes in lines[0]] == ["2024-05-01", "2024-05-11", "2024-05-21"]
    names = [line[0].get_ylabel().replace("\n", " ") for line in lines]
    assert [name[:5] for name in names] == ["cloud", "head ", "head "]
    assert all("% to " in axes.get_xlabel() for line in lines[1:] for axes in line)
    assert len(scale) == 1


def test_attention_of_chosen_heads_at_a_step_as_weights(run, images, series):  # noqa: F811
    dates = [images / "2024-05-01.png", images / "2024-05-11.png"]
    _, _, figure = run("attention", *dates, "--model", series, "--heads", "mean,1", "--step", "1", "--weights")
    lines = rows(figure, 2)[:-1]
    names = [line[0].get_ylabel().replace("\n", " ") for line in lines]
    assert names == ["cloudy", "head 1", "mean of heads"]
    masks = [axes.images[0].get_array() for axes in lines[1]]
    assert np.allclose(sum(masks), 1, atol=1e-5)
    assert figure.get_supxlabel().startswith(f"step 1 of 4, {SIGMA} 100")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(samplers, "_REFERENCE", 3)


def test_samplers_have_a_line_each(run, images, short):  # noqa: F811
    words = ("--model", "tiny", "--truth", images / "truth.png", "--window", "0,0,16,16", "--calls", "1,3")
    _, _, figure = run("samplers", images / "2024-05-01.png", *words)
    psnr, distance = figure.axes
    assert psnr.get_ylabel().startswith("PSNR to the truth")
    assert distance.get_ylabel() == "distance from 3\nsteps of heun (RMS) ↓"
    assert [line.get_label() for line in psnr.lines] == ["euler", "heun", "multistep", "stochastic, churn 1"]
    assert distance.lines[0].get_xdata().tolist() == [1, 3]


def test_samplers_are_shown_as_pictures_as_well(run, images, short):  # noqa: F811
    words = ("--model", "tiny", "--truth", images / "truth.png", "--window", "0,0,16,16", "--calls", "1,2")
    _, _, figure = run("samplers", images / "2024-05-01.png", *words, "--methods", "euler,stochastic", "--pictures")
    euler, stochastic = rows(figure, 3)
    assert (euler[0].get_ylabel(), stochastic[0].get_ylabel().replace("\n", " ")) == ("euler", "stochastic, churn 1")
    assert [axes.get_title() for axes in euler] == ["1 call", "2 calls", "cloudy"]
    assert stochastic[2].get_title() == "truth"
    assert stochastic[0].get_xlabel().endswith(" dB")


def test_settings_of_a_sampler_that_is_not_the_models_are_taken(run, images, short):  # noqa: F811
    words = ("--model", "tiny", "--truth", images / "truth.png", "--window", "0,0,16,16", "--calls", "2")
    options = ("--methods", "euler,stochastic", "--pictures", "sampler.churn=0.5")
    code, lines, figure = run("samplers", images / "2024-05-01.png", *words, *options)
    assert code == 0, lines  # the sampler of tiny is euler, which has no churn
    assert [line[0].get_ylabel().replace("\n", " ") for line in rows(figure, 2)] == ["euler", "stochastic, churn 0.5"]


def test_the_process_of_a_preset_a_file_and_the_default(run, series):  # noqa: F811
    for words, title, steps in (
        ((), "default: alpha", None),
        (("sen2-mtc-new", "sampler.steps=10"), "sen2-mtc-new: alpha 3, 10 steps", 10),
        (("sen2-mtc-new", "process.alpha=0", "model.sampler.steps=4"), "sen2-mtc-new: alpha 0, 4 steps", 4),
        ((series, "sampler.steps=2"), "series.safetensors: alpha 3, 2 steps", 2),
    ):
        code, _, figure = run("process", *words)
        assert code == 0
        assert title in figure.get_suptitle()
        if steps is not None:
            assert len(figure.axes[3].lines[0].get_xdata()) == steps


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trajectory", "sampler.steps=2"), "no image was given"),
        (("trajectory", "{}/missing.png"), "missing.png"),
        (("trajectory", "{}/a.png", "--window", "0,0,99,99"), "--window 0,0,99,99: expected a part of 40 x 24 pixels"),
        (("trajectory", "{}/a.png", "--window", "1,2"), "expected ROW,COLUMN,HEIGHT,WIDTH"),
        (("trajectory", "{}/a.png", "--truth", "{}/small.png"), "small.png is not on the grid of"),
        (("trajectory", "{}/a.png", "--range", "5"), "expected LOW:HIGH"),
        (("trajectory", "{}/a.png", "{}/b.png", "--model", "tiny"), "2 images were given to a model that restores one"),
        (("attention", "{}/a.png", "--model", "tiny"), "expected a multi-temporal one"),
        (("attention", "{}/a.png", "{}/b.png", "--model", "{}/series.safetensors", "--heads", "x"), "--heads is 'x'"),
        (("attention", "{}/a.png", "--model", "{}/series.safetensors", "--heads", "64"), "expected numbers from 0 to"),
        (("attention", "{}/a.png", "--model", "{}/series.safetensors", "--heads", ""), "--heads is ''"),
        (("attention", "{}/a.png", "--model", "{}/series.safetensors", "--step", "6"), "--step is 6: expected 1 to 4"),
        (("samplers", "{}/a.png", "--model", "tiny", "--calls", "1,x"), "--calls is '1,x': expected whole numbers"),
        (("samplers", "{}/a.png", "--model", "tiny", "--calls", "0"), "expected numbers of 1 or more"),
        (("samplers", "{}/a.png", "--model", "tiny", "--methods", "ruler"), "sampler ruler: expected some of euler"),
        (("process", "tiny", "tiny"), "expected one model"),
        (("process", "tiny", "train.steps=3"), "train.steps cannot be set for this figure: expected settings of"),
        (("process", "tiny", "model=3"), "model cannot be set for this figure"),
        (("process", "tiny", "steps=3"), "expected sampler.steps=3"),
        (("process", "{}/series.safetensors", "process.alpha=0"), "which is trained: expected settings of sampler"),
        (("process", "tinny"), "is neither a file nor a preset"),
    ],
)
def test_wrong_input_is_one_line(arguments, message, run, images, series):  # noqa: F811
    for name, date in (("a", "2024-05-01"), ("b", "2024-05-11")):
        (images / f"{name}.png").write_bytes((images / f"{date}.png").read_bytes())
    Image.new("RGB", (8, 8)).save(images / "small.png")
    code, lines, _ = run(*(word.format(images) for word in arguments))
    lines = [line for line in lines if "is a preset" not in line]
    assert code == 2
    assert len(lines) == 1
    assert message in lines[0]
