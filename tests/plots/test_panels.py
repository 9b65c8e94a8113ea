"""Pictures in rows: steps of a sampler, and masks over cloudy frames."""

import sys

import numpy as np
import pytest

from emrdm.errors import InputError, MissingDependencyError
from emrdm.plots import Panel, attention_figure, pictures_figure, trajectory_figure


def picture(value=100, size=(8, 8)):
    return np.full((*size, 3), value, np.uint8)


def drawn(axes):
    """The picture of a panel; None where there is none."""
    return axes.images[0].get_array() if axes.images else None


def grid(figure, columns):
    return [figure.axes[i : i + columns] for i in range(0, len(figure.axes) - len(figure.axes) % columns, columns)]


def test_rows_have_names_and_pictures_texts_above_and_below():
    rows = {"first": [Panel(picture(1), "a", "b"), Panel(picture(2))], "second": [None, Panel(np.eye(8))]}
    figure = pictures_figure(rows, title="all of $it$", note="a note")
    (a, b), (c, d) = grid(figure, 2)
    assert (a.get_ylabel(), c.get_ylabel()) == ("first", "second")
    assert (a.get_title(), a.get_xlabel()) == ("a", "b")
    assert (b.get_title(), b.get_xlabel()) == ("", "")
    assert drawn(a).max() == 1
    assert drawn(b).max() == 2
    assert drawn(c) is None
    assert d.images[0].get_clim() == (0, 1)  # a map has colours that stand for numbers
    assert figure.get_suptitle() == "all of $it$"
    assert figure.get_supxlabel() == "a note"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({}, "no pictures"),
        ({"a": [None]}, "no pictures"),
        ({"a": [Panel(picture()), Panel(picture(size=(4, 8)))]}, "pictures are 8 x 4, 8 x 8 pixels"),
    ],
)
def test_pictures_that_do_not_fit_are_refused(rows, message):
    with pytest.raises(InputError, match=message):
        pictures_figure(rows)


def test_a_trajectory_shows_states_above_estimates_and_ends_with_the_truth():
    figure = trajectory_figure(
        [100.0, 0.0012],
        [[picture(10)], [picture(11)]],
        [picture(20), picture(21)],
        cloudy=[picture(30)],
        truth=picture(40),
        scores=["9.0 dB", "19.0 dB"],
    )
    states, estimates = grid(figure, 3)
    assert [axes.get_title() for axes in states] == ["σ 100", "σ 0.0012", "cloudy"]  # noqa: RUF001
    assert [axes.get_xlabel() for axes in estimates] == ["9.0 dB", "19.0 dB", "truth"]
    assert [int(drawn(axes).max()) for axes in (*states, *estimates)] == [10, 11, 30, 20, 21, 40]
    assert [row[0].get_ylabel() for row in (states, estimates)] == ["noisy state", "estimate"]


def test_a_series_has_a_row_a_frame_and_no_truth_leaves_its_place_empty():
    states = [[picture(frame) for frame in (1, 2, 3)]] * 2
    figure = trajectory_figure([1.0, 0.5], states, [picture()] * 2, cloudy=[picture()] * 3)
    rows = grid(figure, 3)
    assert [row[0].get_ylabel() for row in rows] == ["noisy 1", "noisy 2", "noisy 3", "estimate"]
    assert drawn(rows[-1][-1]) is None


@pytest.mark.parametrize(
    ("levels", "states", "estimates", "cloudy"),
    [
        ([], [], [], []),
        ([1.0], [[picture()]] * 2, [picture()], []),
        ([1.0], [[picture()]], [picture()], [picture()] * 2),
        ([1.0, 0.5], [[picture()], [picture()] * 2], [picture()] * 2, []),
    ],
)
def test_steps_that_do_not_belong_together_are_refused(levels, states, estimates, cloudy):
    with pytest.raises(InputError, match="expected as many of each"):
        trajectory_figure(levels, states, estimates, cloudy=cloudy)


def masks():
    ramp = np.linspace(0.2, 0.6, 64).reshape(8, 8)
    return np.stack([ramp, 1 - ramp])


def test_masks_are_stretched_as_in_the_paper_and_say_their_range():
    figure = attention_figure([picture(), picture()], {"head 3": masks()}, names=["may", "june"])
    (may, june), (first, second) = grid(figure, 2)[:2]
    assert [axes.get_title() for axes in (may, june)] == ["may", "june"]
    assert first.get_ylabel() == "head 3"
    assert (drawn(first).min(), drawn(first).max()) == (0, 1)
    assert [axes.get_xlabel() for axes in (first, second)] == ["20% to 60%", "40% to 80%"]
    assert "least to the most" in figure.axes[-1].get_xlabel()  # the scale


def test_weights_are_shown_as_they_are_if_asked_for():
    figure = attention_figure([picture(), picture()], {"mean": masks()}, weights=True)
    (one, _), (first, second) = grid(figure, 2)[:2]
    assert one.get_title() == "frame 1"
    assert np.allclose(drawn(first), masks()[0])
    assert [axes.get_xlabel() for axes in (first, second)] == ["40% on average", "60% on average"]
    assert figure.axes[-1].get_xlabel() == "weight of the frame"


def test_a_mask_that_prefers_nothing_is_flat():
    figure = attention_figure([picture()], {"head 0": np.ones((1, 8, 8))})
    assert (drawn(figure.axes[1]) == 0.5).all()


def test_masks_of_another_size_are_refused():
    with pytest.raises(InputError, match=r"masks of head 0 have shape \(1, 4, 4\): expected \(2, 8, 8\)"):
        attention_figure([picture(), picture()], {"head 0": np.ones((1, 4, 4))})


def test_without_matplotlib_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match="plots need matplotlib"):
        pictures_figure({"a": [Panel(picture())]})
