"""A full disk, while a scene is restored: it is said in one line, and the same command goes on when there is room."""

import errno
import io
import os
from pathlib import Path

import pytest
from tests.restoration import small
from tests.training import runs

from emrdm import EmrdmError, open_scene, restore_scene
from emrdm.rasters import write_geotiff
from emrdm.restoration import journal, scenes

pytest.importorskip("rasterio", reason="GeoTIFFs of the tests are written by rasterio")

pytestmark = pytest.mark.usefixtures("settled")


# ---------------------------------------------------------------- no room


def _no_space(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _Full(io.FileIO):
    """A file on a full disk."""

    write = _no_space


def _tile_is_not_written(patch):
    original = Path.open
    patch.setattr(
        Path, "open", lambda self, *a, **o: _Full(self, "w") if "c/2/1/" in str(self) else original(self, *a, **o)
    )


def _step_is_not_marked(patch):
    original = Path.write_text
    patch.setattr(
        Path, "write_text", lambda self, *a, **o: _no_space() if ".done." in self.name else original(self, *a, **o)
    )


def _step_is_not_begun(patch):
    original = Path.mkdir
    patch.setattr(
        Path, "mkdir", lambda self, *a, **o: _no_space() if "step-2/c/1" in str(self) else original(self, *a, **o)
    )


def _window_is_not_written(patch):
    patch.setattr(write_geotiff.GeoTiffWriter, "_put", _no_space)


def _copy_is_cut(patch):
    """As GDAL leaves it when the disk is full while it closes a file: nobody is told."""
    original, calls = write_geotiff._copy, []

    def copy(source, target, *rest):
        original(source, target, *rest)
        calls.append(target)
        if len(calls) == 2:
            os.truncate(target, target.stat().st_size // 2)

    patch.setattr(write_geotiff, "_copy", copy)


def _output_is_not_synced(patch):
    patch.setattr(write_geotiff, "sync", _no_space)


def _output_is_not_moved(patch):
    original = Path.replace
    patch.setattr(Path, "replace", lambda self, to: _no_space() if to.name == "clear.tif" else original(self, to))


FULL = (
    _tile_is_not_written,
    _step_is_not_marked,
    _step_is_not_begun,
    _window_is_not_written,
    _copy_is_cut,
    _output_is_not_synced,
    _output_is_not_moved,
)


@pytest.mark.parametrize("full", FULL)
def test_a_full_disk_is_said_in_one_line_and_the_same_call_goes_on(
    full, given, model, reference, tmp_path, monkeypatch
):
    output = tmp_path / "out" / "clear.tif"

    def restore():
        with open_scene(given[0]) as scene:
            return restore_scene(scene, model, output, settings=small.SETTINGS, reading=small.READING)

    with monkeypatch.context() as patch:
        full(patch)
        with pytest.raises(
            EmrdmError, match=r"clear\.tif.*cannot be written|clear\.tif could not be written: .*bytes"
        ) as caught:
            restore()
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)
    kept = small.tiles(journal.run_folder(output))
    assert kept
    assert [entry.name for entry in output.parent.iterdir()] == [journal.run_folder(output).name]
    calls = small.counted(monkeypatch)
    assert restore().summary.resumed
    assert len(calls) < small.TILE_STEPS
    assert small.digest(output) == reference.digest
    assert small.hidden(output.parent) == []


def test_files_that_may_not_become_large_cost_no_finished_work(given, reference, tmp_path):
    output, log = tmp_path / "out" / "clear.tif", tmp_path / "log"
    words = small.words(*given, output, "--quiet")
    command = runs.Command(words, output.parent, before=_with_little_room, given=(log,))
    assert command.code() == 1
    *_, line = command.errors.splitlines()  # libtiff has something to say as well
    assert f"{output} could not be written: " in line
    assert [entry.name for entry in output.parent.iterdir()] == [journal.run_folder(output).name]
    command = runs.Command(words, output.parent, before=small.watch, given=(log,))
    assert command.code() == 0, command.errors
    assert small.digest(output) == reference.digest
    assert small.counts(log) == (small.TILE_STEPS, small.TILE_STEPS)


def _with_little_room(log):
    small.watch(log)
    runs.limit_files(100_000)  # enough for a tile, too little for the output


def test_a_run_that_does_not_fit_is_refused_before_any_work(given, model, tmp_path, monkeypatch):
    needed = []
    monkeypatch.setattr(scenes, "require_space", lambda folder, count, what: needed.append(count))
    restore_scene(open_scene(given[0]), model, tmp_path / "first.tif", settings=small.SETTINGS, reading=small.READING)
    monkeypatch.undo()
    states, files = 2 * small.TILES * 64 * 64 * 3 * 4, 2 * 512 * 512 * 3 * 2
    assert needed[0] > states + files
    for free in (1000, needed[0] - 1):
        monkeypatch.setattr("emrdm.files.free_bytes", lambda folder, free=free: free)
        calls = small.counted(monkeypatch)
        with pytest.raises(EmrdmError, match=r"clear\.tif.* needs up to [0-9,]+ bytes, and [0-9,]+ are free") as caught:
            restore_scene(
                open_scene(given[0]),
                model,
                tmp_path / "out" / "clear.tif",
                settings=small.SETTINGS,
                reading=small.READING,
            )
        assert caught.value.exit_code == 1
        assert len(calls) == 0
        assert not list((tmp_path / "out").iterdir())


def test_what_is_there_already_needs_no_further_room(given, model, tmp_path, monkeypatch):
    needed = []
    monkeypatch.setattr(scenes, "require_space", lambda folder, count, what: needed.append(count))
    output = tmp_path / "clear.tif"
    with monkeypatch.context() as patch:
        _step_is_not_begun(patch)
        with pytest.raises(EmrdmError):
            restore_scene(open_scene(given[0]), model, output, settings=small.SETTINGS, reading=small.READING)
    kept = len(small.tiles(journal.run_folder(output)))
    assert kept == small.TILES - 1
    restore_scene(open_scene(given[0]), model, output, settings=small.SETTINGS, reading=small.READING)
    assert needed[0] - needed[1] >= kept * 64 * 64 * 3 * 4
