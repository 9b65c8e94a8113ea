"""Scenes: what is opened together, and in which order."""

import pickle
from datetime import date

import numpy as np
import pytest

from emrdm.rasters.grid import Grid
from emrdm.rasters.memory import ArraySource
from emrdm.rasters.scene import open_scene
from emrdm.window import Window


def frame(day=None, value=1, bands=1):
    return ArraySource(
        np.full((bands, 4, 4), value, np.uint8), name=f"{day}", date=None if day is None else date(2024, 5, day)
    )


def test_frames_come_in_order_of_time_and_radar_stays_with_its_frame():
    days, radar = (21, 1, 11), [frame(None, value) for value in (21, 1, 11)]
    scene = open_scene(*(frame(day) for day in days), sar=radar)
    assert [one.date.day for one in scene.frames] == [1, 11, 21]
    assert [one.read(Window(0, 0, 1, 1))[0].item() for one in scene.sar] == [1, 11, 21]


def test_frames_stay_as_given_where_a_date_is_missing():
    scene = open_scene(frame(21), frame(None, 2), frame(1))
    assert [one.name for one in scene.frames] == ["21", "None", "1"]


def test_dates_by_hand_go_instead_of_the_files_own():
    scene = open_scene(frame(1), frame(1, 2), dates=["2024-06-02", date(2024, 6, 1)])
    assert [one.date for one in scene.frames] == [date(2024, 6, 1), date(2024, 6, 2)]


def test_names_by_hand_go_instead_of_the_files_own_and_leave_the_source_alone():
    source = frame(1, bands=2)
    scene = open_scene(source, bands=("red", "nir"))
    assert scene.frames[0].names == ("red", "nir")
    assert source.names == ("", "")


def test_one_radar_image_is_for_all_frames_and_need_not_be_in_a_list():
    scene = open_scene(frame(1), frame(2, 2), sar=frame(None, 3))
    assert len(scene.sar) == 1
    assert scene.grid == Grid(4, 4)
    assert len(scene.sources) == 3


def test_scenes_of_files_travel_and_close(tmp_path):
    pytest.importorskip("rasterio")
    from tests.data import trees

    path = trees.save_tiff(tmp_path / "x.tif", np.full((1, 4, 4), 7, np.uint8))
    mask = trees.save_tiff(tmp_path / "m.tif", np.ones((1, 4, 4), np.uint8))
    with open_scene(path, mask=mask) as scene:
        again = pickle.loads(pickle.dumps(scene))
    assert again.frames[0].read(Window(0, 0, 1, 1))[0].item() == 7
    assert again.mask.read(Window(0, 0, 1, 1))[0].item() == 1
