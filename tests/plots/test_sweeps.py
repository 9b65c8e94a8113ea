"""The paper's studies, as figures."""

import math

import numpy as np
import pytest
from PIL import Image

from emrdm.errors import InputError
from emrdm.plots import bars, heatmaps, lines
from emrdm.plots.figure import digits_for
from emrdm.plots.sweeps import bars_figure, heatmaps_figure, lines_figure

BETTER = {"psnr": "higher", "ssim": "higher", "mae": "lower", "sam": "lower", "lpips": "lower"}
X = [4, 5, 6, 8]
OURS = {"psnr": [20.0, 20.5, 20.25, 20.0], "lpips": [0.3, 0.29, 0.28, 0.31]}
PAPER = {"psnr": [19.98, 20.0, 19.97, 19.89], "lpips": [0.259, 0.255, None, 0.257], "sam": [1, 2, 3, 4]}
GRID = {"psnr": {(x, y): 20 + x - y for x in (0, 1, 2) for y in (0.5, 1.5) if x < y + 1}}


def titles(figure):
    return [axes.get_title("left") for axes in figure.axes if axes.get_title("left")]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def legend(figure):
    return [text.get_text() for each in figure.legends for text in each.get_texts()]


def patches(axes, gid):
    return [tuple(np.add(patch.get_xy(), 0.5).round()) for patch in axes.patches if patch.get_gid() == gid]


def size_of(path):
    with Image.open(path) as image:
        return image.size


def check_files(draw, folder):
    for suffix in (".png", ".svg"):
        paths = [folder / f"{name}{suffix}" for name in "ab"]
        for path in paths:
            draw(path)
        assert paths[0].read_bytes() == paths[1].read_bytes()
    assert min(size_of(folder / "a.png")) > 200
    assert len(list(folder.iterdir())) == 4


# ---------------------------------------------------------------- lines


def test_each_metric_has_a_panel_that_says_where_better_is():
    figure = lines_figure("steps", "N", X, {**OURS, "zero_pixels": [1, 2, 3, 4]}, better=BETTER)
    assert titles(figure) == ["PSNR ↑", "LPIPS ↓", "zero_pixels"]
    assert figure.axes[0].get_xlabel() == "N"


def test_our_line_is_drawn_in_order_of_x():
    figure = lines_figure("", "N", [8, 4, 6], {"psnr": [3.0, 1.0, 2.0]}, better=BETTER)
    ours = figure.axes[0].lines[0]
    assert (list(ours.get_xdata()), list(ours.get_ydata())) == ([4, 6, 8], [1, 2, 3])


def test_the_papers_line_is_dashed_on_an_axis_of_its_own():
    figure = lines_figure("", "N", X, OURS, better=BETTER, paper=PAPER)
    left, _, right, _ = figure.axes
    theirs = right.lines[0]
    assert list(theirs.get_ydata()) == PAPER["psnr"]
    assert theirs.get_linestyle() == "--"
    assert left.get_ylim() != right.get_ylim()
    assert left.get_shared_x_axes().joined(left, right)
    assert legend(figure) == ["ours (left axis)", "paper (right axis)", "best"]


@pytest.mark.parametrize("paper", [None, {}, {"sam": [1, 2, 3, 4]}, {"psnr": [None] * 4, "lpips": [math.nan] * 4}])
def test_without_values_of_the_paper_there_is_no_second_axis(paper):
    figure = lines_figure("", "N", X, OURS, better=BETTER, paper=paper)
    assert len(figure.axes) == 2
    assert legend(figure) == ["ours", "best"]


def test_the_best_point_is_ringed_and_its_value_written():
    figure = lines_figure("", "N", X, OURS, better=BETTER, paper=PAPER, digits={"psnr": 1})
    psnr, lpips, papers, _ = figure.axes
    rings = [axes.lines[1].get_xydata().tolist() for axes in (psnr, lpips, papers)]
    assert rings == [[[5, 20.5]], [[6, 0.28]], [[5, 20.0]]]
    assert (texts(psnr), texts(lpips)) == (["20.5"], ["0.280"])


def test_a_metric_without_better_has_no_best():
    figure = lines_figure("", "N", X, {"psnr": OURS["psnr"]}, better={"psnr": ""})
    assert len(figure.axes[0].lines) == 1
    assert legend(figure) == ["ours"]


def test_ticks_are_the_values_that_were_tried_where_there_is_room():
    figure = lines_figure("", "N", [4, 5, 6, 8, 10, 15, 50], {"psnr": [20.0] * 7}, better=BETTER, log_x=True)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["4", "5", "6", "8", "10", "15", "50"]
    figure = lines_figure("", "a", [1, 1.0001, 2], {"psnr": [20.0] * 3}, better=BETTER)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["1", "2"]


def test_lines_are_written_the_same_twice(tmp_path):
    check_files(lambda path: lines("t", r"$\alpha$", X, OURS, path, better=BETTER, paper=PAPER), tmp_path)


@pytest.mark.parametrize(
    ("x", "series", "paper", "says"),
    [
        ([], {"psnr": []}, None, "expected a metric and a point"),
        (X, {}, None, "expected a metric and a point"),
        (X, {"psnr": [1.0]}, None, "psnr has 1 values: expected 4"),
        (X, OURS, {"psnr": [1.0]}, "paper psnr has 1 values: expected 4"),
        ([0, 1, 2, 3], OURS, None, "expected finite positive numbers"),
        ([1, 2, 3, math.nan], OURS, None, "expected finite positive numbers"),
    ],
)
def test_lines_that_do_not_fit_are_refused(x, series, paper, says):
    with pytest.raises(InputError, match=says):
        lines_figure("", "x", x, series, better=BETTER, paper=paper, log_x=True)


def test_a_direction_that_is_none_is_refused():
    with pytest.raises(InputError, match="better of 'psnr' is 'up': expected 'higher' or 'lower'"):
        lines_figure("", "x", X, OURS, better={"psnr": "up"})


@pytest.mark.parametrize("odd", [None, math.inf, 1e300, 1e29, -1e29, 1e-320, 0.0, -3.0])
def test_whatever_the_scores_are_lines_and_bars_can_be_drawn(tmp_path, odd):
    series, paper = {"psnr": [20.0, odd], "mae": [odd, odd]}, {"psnr": [odd, odd], "mae": [odd, 1.0]}
    lines("t", "x", [1e-3, 1e4], series, tmp_path / "a.png", better=BETTER, paper=paper, log_x=True)
    bars("t", ["a", "b"], series, tmp_path / "b.png", better=BETTER, paper=paper)
    assert len(list(tmp_path.iterdir())) == 2


# ---------------------------------------------------------------- bars

ROWS = ["A: noise alone", "B: + corrupted images", "C: + infrared images", "D: + mean-reverting process"]


def test_rows_are_named_from_the_top_down():
    axes = bars_figure("", ROWS, OURS, better=BETTER).axes[0]
    assert [text.get_text().replace("\n", " ") for text in axes.get_yticklabels()] == ROWS
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_bars_end_at_their_scores_and_carry_them():
    axes = bars_figure("", ROWS, OURS, better=BETTER).axes[0]
    assert [bar.get_x() + bar.get_width() for bar in axes.patches] == pytest.approx(OURS["psnr"])
    assert texts(axes) == ["20.00", "20.50", "20.25", "20.00"]


def test_the_best_bar_has_the_full_colour_and_bold_figures():
    axes = bars_figure("", ROWS, OURS, better=BETTER).axes[1]
    assert [text.get_fontweight() for text in axes.texts] == ["normal", "normal", "bold", "normal"]
    colours = [bar.get_facecolor() for bar in axes.patches]
    assert colours[2] not in (colours[0], colours[1], colours[3])


def test_equal_bars_are_all_best():
    axes = bars_figure("", ["a", "b", "c"], {"psnr": [2.0, 1.0, 2.0]}, better=BETTER).axes[0]
    assert [text.get_fontweight() for text in axes.texts] == ["bold", "normal", "bold"]


def test_bars_that_do_not_begin_at_zero_say_so():
    assert legend(bars_figure("", ["a", "b"], {"psnr": [20.0, 21.0]}, better=BETTER))[-1] == "dotted base: not zero"
    for scores in ([1.0, 21.0], [20.0, 20.0], [-20.0, -21.0]):
        figure = bars_figure("", ["a", "b"], {"psnr": scores}, better=BETTER)
        assert legend(figure) == ["ours", "best in full colour"]
        assert all(bar.get_x() == 0 for bar in figure.axes[0].patches)


def test_the_papers_bars_have_their_own_scale_and_equal_shapes_look_equal():
    paper = {"psnr": [2 * score for score in OURS["psnr"]]}
    ours, theirs = bars_figure("", ROWS, {"psnr": OURS["psnr"]}, better=BETTER, paper=paper).axes
    shares = [
        [(bar.get_x() + bar.get_width() - axes.get_xlim()[0]) / np.ptp(axes.get_xlim()) for bar in axes.patches]
        for axes in (ours, theirs)
    ]
    np.testing.assert_allclose(*shares)
    assert texts(theirs)[1] == "41.00"


def test_a_row_without_a_score_has_no_bar():
    axes = bars_figure("", ["a", "b", "c"], {"psnr": [1.0, None, math.nan]}, better=BETTER).axes[0]
    assert len(axes.patches) == 1
    assert texts(axes) == ["1.000", "no value", "no value"]


def test_bars_are_written_the_same_twice(tmp_path):
    check_files(lambda path: bars("t", ROWS, OURS, path, better=BETTER, paper=PAPER), tmp_path)


@pytest.mark.parametrize("label", ["x" * 300, "many words " * 30, "$\\frac{", "_a", "负", ""])
def test_any_label_can_be_drawn(tmp_path, label):
    bars(label, [label, "b"], {"psnr": [1.0, 2.0]}, tmp_path / "a.png", better=BETTER)
    assert size_of(tmp_path / "a.png")[0] < 2000


# ---------------------------------------------------------------- heat maps


def test_cells_are_drawn_and_written_where_they_belong():
    axes = heatmaps_figure("", "churn", [2, 0, 1], "noise", [0.5, 1.5], GRID, better=BETTER).axes[0]
    found = {text.get_position(): text.get_text() for text in axes.texts}
    assert found == {(0, 0): "19.50", (1, 0): "20.50", (0, 1): "18.50", (1, 1): "19.50", (2, 1): "20.50"}
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0", "1", "2"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0.5", "1.5"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("churn", "noise")


def test_cells_that_were_left_out_are_hatched_and_blank():
    figure = heatmaps_figure("", "x", [0, 1, 2], "y", [0.5, 1.5], GRID, better=BETTER)
    assert patches(figure.axes[0], "missing") == [(2, 0)]
    assert legend(figure) == ["best (darker is better)", "left out"]
    assert [bool(patch.get_hatch()) for patch in figure.axes[0].patches if patch.get_gid() == "missing"] == [True]


def test_all_equally_good_cells_are_framed():
    axes = heatmaps_figure("", "x", [0, 1, 2], "y", [0.5, 1.5], GRID, better=BETTER).axes[0]
    assert sorted(patches(axes, "best")) == [(1, 0), (2, 1)]
    cells = {"mae": GRID["psnr"]}
    axes = heatmaps_figure("", "x", [0, 1, 2], "y", [0.5, 1.5], cells, better=BETTER).axes[0]
    assert patches(axes, "best") == [(0, 1)]


@pytest.mark.parametrize("metric", ["psnr", "mae"])
def test_better_is_darker_whichever_way_better_is(metric):
    axes = heatmaps_figure("", "x", [0, 1], "y", [0], {metric: {(0, 0): 1.0, (1, 0): 2.0}}, better=BETTER).axes[0]
    mesh = axes.collections[0]
    dark, light = (1.0, 2.0) if metric == "mae" else (2.0, 1.0)
    assert sum(mesh.to_rgba(dark)[:3]) < sum(mesh.to_rgba(light)[:3])


def test_only_the_first_panel_of_a_row_names_y():
    cells = dict.fromkeys(("psnr", "ssim", "lpips", "mae"), GRID["psnr"])
    figure = heatmaps_figure("", "x", [0, 1, 2], "y", [0.5, 1.5], cells, better=BETTER)
    assert [axes.get_ylabel() for axes in figure.axes] == ["y", "", "", "y"]


@pytest.mark.parametrize("cells", [{}, {(0, 1): math.nan}, {(0, 1): 3.0}, {(0, 1): 0.0}])
def test_a_grid_of_one_cell_or_none_can_be_drawn(tmp_path, cells):
    heatmaps("t", "x", [0], "y", [1], {"psnr": cells}, tmp_path / "a.png", better=BETTER)
    assert (tmp_path / "a.png").exists()


def test_a_large_grid_has_colours_and_a_scale_instead_of_numbers(tmp_path):
    cells = {(i, j): float(i * j) for i in range(40) for j in range(30)}
    figure = heatmaps_figure("t", "x", range(40), "y", range(30), {"psnr": cells}, better=BETTER)
    assert not texts(figure.axes[0])
    assert len(figure.axes) == 2


def test_cells_off_the_grid_are_refused():
    with pytest.raises(InputError, match=r"psnr has scores at \(2, 0.5\)|psnr has scores at \(2, 1.5\)"):
        heatmaps_figure("", "x", [0, 1], "y", [0.5, 1.5], GRID, better=BETTER)


@pytest.mark.parametrize(("x", "series"), [([], GRID), ([0], {})])
def test_heat_maps_of_nothing_are_refused(x, series):
    with pytest.raises(InputError, match="heat maps of nothing"):
        heatmaps_figure("", "x", x, "y", [1], series, better=BETTER)


def test_heat_maps_are_written_the_same_twice(tmp_path):
    check_files(lambda path: heatmaps("t", "x", [0, 1, 2], "y", [0.5, 1.5], GRID, path, better=BETTER), tmp_path)


# ---------------------------------------------------------------- digits


@pytest.mark.parametrize(
    ("given_", "wanted", "digits"),
    [
        ([20.0, 21.0], None, 2),
        ([20.0, 20.01], None, 3),
        ([0.7, 0.71], None, 3),
        ([0.7, 0.7001], None, 5),
        ([], None, 3),
        ([1.0], 0, 0),
    ],
)
def test_digits_tell_scores_apart(given_, wanted, digits):
    assert digits_for(np.array(given_, np.float64), wanted) == digits
