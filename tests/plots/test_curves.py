"""How a training went, as a figure."""

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from emrdm.errors import InputError, MissingDependencyError
from emrdm.plots import training_curves
from emrdm.plots.curves import compared_figure, training_figure
from emrdm.plots.figure import spread, wrapped


def step(at, loss=0.5, lr=1e-4):
    return {"kind": "step", "step": at, "loss": loss, "lr": lr, "norm": 1.0, "images_per_s": 9.0}


def validation(at, best=False, protocol="standard", **psnr):
    scores = {name: {"protocol": protocol, "psnr": value, "ssim": 0.8} for name, value in psnr.items()}
    return {"kind": "validation", "step": at, "scores": scores, "best": best}


def run(count=300, every=50):
    for at in range(1, count + 1):
        yield step(at, loss=1 / at, lr=1e-4 * at)
        if at % every == 0:
            yield validation(at, best=at in (100, 200), rice1=20 + at / 100, rice2=19 + at / 200)


def labels(figure):
    return [axes.get_ylabel().partition("\n")[0] for axes in figure.axes]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def line(axes, label):
    (found,) = [found for found in axes.lines if str(found.get_label()).startswith(label)]
    return found


# ---------------------------------------------------------------- panels


def test_loss_rate_and_scores_have_a_panel_each():
    figure = training_figure(list(run()), title="a run")
    assert labels(figure) == ["loss", "learning", "PSNR ↑", "SSIM ↑"]
    assert figure.get_suptitle() == "a run"
    assert figure.axes[0].get_yscale() == "log"
    assert figure.axes[-1].get_xlabel() == "step"


def test_a_constant_rate_and_a_log_without_validation_leave_their_panels_out():
    assert labels(training_figure([step(at) for at in range(9)])) == ["loss"]


def test_a_log_of_validations_alone_has_no_loss():
    assert labels(training_figure([validation(1, rice1=20.0)])) == ["PSNR ↑", "SSIM ↑"]


def test_scores_without_ssim_have_no_panel_of_it():
    row = {"kind": "validation", "step": 1, "scores": {"a": {"protocol": "p", "psnr": 20.0}}, "best": True}
    assert labels(training_figure([row])) == ["PSNR ↑"]


def test_other_kinds_of_rows_are_passed_over():
    assert labels(training_figure([{"kind": "start", "host": "x"}, step(1)])) == ["loss"]


@pytest.mark.parametrize("rows", [[], [{"kind": "start"}], [validation(3)]])
def test_a_log_of_nothing_is_refused(rows):
    with pytest.raises(InputError, match="expected one row at least"):
        training_figure(rows)


@pytest.mark.parametrize(
    "row", [{"kind": "step", "loss": 1.0}, step("7"), step(True), {"kind": "validation", "step": 1, "scores": {"a": 1}}]
)
def test_rows_that_are_not_of_a_log_are_named(row):
    with pytest.raises(InputError, match="row 2 of the training log"):
        training_figure([step(1), row])


# ---------------------------------------------------------------- loss


def test_the_smooth_line_is_the_mean_of_the_rows_around():
    losses = np.random.default_rng(3).uniform(0.1, 1, 500)
    figure = training_figure([step(at, loss) for at, loss in enumerate(losses.tolist())])
    smooth = line(figure.axes[0], "mean of 11 rows").get_ydata()
    expected = [losses[max(0, at - 5) : at + 6].mean() for at in range(500)]
    np.testing.assert_allclose(smooth, expected)


def test_one_explosion_does_not_spoil_the_mean_of_what_follows():
    losses = [0.5] * 100 + [1e25] + [0.5] * 100
    figure = training_figure([step(at, loss) for at, loss in enumerate(losses)])
    np.testing.assert_allclose(line(figure.axes[0], "mean").get_ydata()[110:], 0.5)


def test_thousands_of_rows_become_few_points_with_the_same_extremes():
    losses = np.random.default_rng(1).lognormal(size=30000)
    figure = training_figure([step(at, loss) for at, loss in enumerate(losses.tolist())])
    drawn = line(figure.axes[0], "each row")
    assert len(drawn.get_xdata()) <= 2000
    assert (np.diff(drawn.get_xdata()) > 0).all()
    assert (drawn.get_ydata().min(), drawn.get_ydata().max()) == (losses.min(), losses.max())
    assert tuple(drawn.get_xdata()[[0, -1]]) == (0, 29999)
    assert len(line(figure.axes[0], "mean").get_xdata()) <= 2001


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, "nan"])
def test_losses_that_are_not_finite_are_ticks_at_the_top(bad, tmp_path):
    figure = training_figure([step(1), step(2, bad), step(5, 0.25)])
    drawn, ticks = line(figure.axes[0], "each row"), line(figure.axes[0], "not finite (1)")
    assert (list(drawn.get_xdata()), list(drawn.get_ydata())) == ([1, 5], [0.5, 0.25])
    assert list(ticks.get_xdata()) == [2]
    top = figure.axes[0].transAxes.transform((0, 1))[1]
    assert ticks.get_transform().transform((2, ticks.get_ydata()[0]))[1] == pytest.approx(top)


def test_a_log_without_a_finite_loss_says_so(tmp_path):
    rows = [step(at, math.nan) for at in range(4)]
    assert texts(training_figure(rows).axes[0]) == ["no finite loss"]
    training_curves(rows, tmp_path / "a.png")


def test_a_loss_of_zero_turns_the_logarithmic_axis_off():
    assert training_figure([step(1, 0.0), step(2, 1.0)]).axes[0].get_yscale() == "linear"


def test_the_last_row_of_a_step_counts_as_stopped_trainings_repeat_some():
    figure = training_figure([step(1, 0.9), step(2, 0.8), step(3, 0.7), step(2, 0.4), step(3, 0.3)])
    assert list(line(figure.axes[0], "each row").get_ydata()) == [0.9, 0.4, 0.3]


# ---------------------------------------------------------------- validation


def test_each_data_set_has_a_line_and_its_name_at_the_end():
    psnr = training_figure(list(run())).axes[2]
    np.testing.assert_allclose(line(psnr, "rice1").get_ydata(), [20.5, 21, 21.5, 22, 22.5, 23])
    assert list(line(psnr, "rice2").get_xdata()) == [50, 100, 150, 200, 250, 300]
    assert {"rice1", "rice2"} <= set(texts(psnr))


def test_the_last_step_called_best_is_marked_with_its_scores():
    psnr = training_figure(list(run())).axes[2]
    assert {"best: step 200", "● 22.00", "● 20.00"} <= set(texts(psnr))
    assert [200.0, 22.0] in [[*found.get_xdata(), *found.get_ydata()] for found in psnr.lines]


def test_without_a_word_on_the_best_it_is_the_highest_mean_psnr():
    rows = [validation(1, a=20.0, b=30.0), validation(2, a=21.0, b=30.0), validation(3, a=25.0, b=21.0)]
    assert "best: step 2" in texts(training_figure(rows).axes[0])


def test_scores_are_shown_with_their_protocol():
    (psnr, _) = training_figure([validation(1, a=20.0)]).axes
    assert psnr.get_ylabel() == "PSNR ↑\n(dB, standard)"
    rows = [validation(1, a=20.0), validation(2, protocol="other", b=20.0)]
    assert {"a (standard)", "b (other)"} <= set(texts(training_figure(rows).axes[0]))


def test_many_data_sets_get_a_legend_instead():
    rows = [validation(at, **{f"set{i}": 20.0 + i for i in range(9)}) for at in (1, 2)]
    figure = training_figure(rows)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"set{i}" for i in range(9)]
    looks = {
        (found.get_color(), found.get_linestyle()) for found in figure.axes[0].lines if len(found.get_xdata()) == 2
    }
    assert len(looks) >= 9


def test_scores_that_are_not_finite_are_left_out(tmp_path):
    rows = [validation(1, a=20.0, b=math.nan), validation(2, True, a=math.inf, b=21.0), validation(3, a=22.0)]
    figure = training_figure(rows)
    assert list(line(figure.axes[0], "a").get_xdata()) == [1, 3]
    training_curves(rows, tmp_path / "a.png")


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("suffix", [".png", ".svg", ".PNG"])
def test_the_same_log_gives_the_same_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        training_curves(list(run()), path, title="again")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == paths


def test_the_users_own_settings_have_no_say_and_are_left_alone(tmp_path):
    import matplotlib

    training_curves(list(run()), tmp_path / "a.png")
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.grid": False, "font.size": 20, "savefig.dpi": 10}):
        before = dict(matplotlib.rcParams)
        training_curves(list(run()), tmp_path / "b.png")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_pyplot_is_not_needed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    training_curves([step(1)], tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert image.size[0] == 1440


@pytest.mark.parametrize("name", ["a.jpg", "a", "png"])
def test_other_formats_are_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(InputError, match=r"expected a name ending in \.png, \.svg"):
        training_curves([step(1)], tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"plots need matplotlib: pip install 'emrdm\[plots\]'"):
        training_curves([step(1)], tmp_path / "a.png")


@pytest.mark.parametrize("name", ["_low", "a$b$c", "$\\frac{", "负", "x" * 300, "two\nlines", ""])
@pytest.mark.parametrize("sets", [1, 7])
def test_any_name_can_be_drawn(tmp_path, name, sets):
    names = [f"{name}{i or ''}" for i in range(sets)]
    training_curves([step(1), validation(1, True, name, **dict.fromkeys(names, 20.0))], tmp_path / "a.png", title=name)


@pytest.mark.parametrize("odd", [1e300, -1e300, 1e-320, 0.0, -5.0, 1e29, 10**400, None])
def test_whatever_the_numbers_are_there_is_a_file(tmp_path, odd):
    rows = [
        step(1, odd, 1e-4),
        step(2, 0.5, 0.0),
        step(10**7, 0.25, 1e-9),
        validation(1, a=20.0),
        validation(2, a=odd or 0.0),
    ]
    training_curves(rows, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


# ---------------------------------------------------------------- labels


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.01, 0.5))
def test_labels_keep_a_gap_and_their_order(wanted, gap):
    found = spread(wanted, gap)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    assert all(found[b] - found[a] >= gap - 1e-9 for a, b in itertools.pairwise(order))


def test_labels_with_room_stay_where_they_are():
    assert spread([0.9, 0.1, 0.5], 0.2) == pytest.approx([0.9, 0.1, 0.5])


@given(st.text(max_size=400), st.integers(8, 40), st.integers(1, 3))
def test_long_text_keeps_to_its_lines(text, width, lines):
    found = wrapped(text, width, lines=lines).splitlines()
    assert len(found) <= lines
    assert all(len(each) <= width for each in found)


# ---------------------------------------------------------------- several runs


def test_runs_are_compared_by_colour_on_what_all_were_validated_on():
    rows = list(run())
    other = [step(at, loss=2 / at, lr=1e-4) for at in range(1, 301)] + [validation(300, rice1=25.0, mine=50.0)]
    figure = compared_figure({"first": rows, "second": other}, title="two")
    assert labels(figure) == ["loss, running mean", "learning", "PSNR ↑", "SSIM ↑"]
    assert "rice1" in figure.axes[2].get_ylabel()  # and neither rice2 nor mine
    first, second = figure.axes[2].lines
    assert first.get_ydata()[-1] == 23
    assert second.get_xydata().tolist() == [[300, 25]]
    assert texts(figure.axes[2]) == ["23.00", "25.00"]
    assert first.get_color() == figure.axes[0].lines[0].get_color() != second.get_color()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["first", "second"]


def test_scores_of_several_sets_are_their_mean():
    figure = compared_figure({name: [validation(9, rice1=20.0, rice2=30.0)] for name in "ab"})
    assert "mean of 2 sets" in figure.axes[0].get_ylabel()
    assert figure.axes[0].lines[0].get_ydata().tolist() == [25]


def test_runs_without_a_common_set_have_no_scores():
    runs = {name: [step(1), validation(1, **{name: 20.0})] for name in "ab"}
    assert labels(compared_figure(runs)) == ["loss, running mean"]
    with pytest.raises(InputError, match="without a step and without a common validation set"):
        compared_figure({name: [validation(1, **{name: 20.0})] for name in "ab"})


def test_losses_that_are_not_finite_are_left_out_of_a_comparison():
    figure = compared_figure({"a": [step(1, loss=math.nan)], "b": [step(1, loss=0.0), step(2)]})
    assert len(figure.axes[0].lines) == 1
    assert figure.axes[0].get_yscale() == "linear"
