"""Restoring that is killed, interrupted or begun twice: nothing is lost, and the result is the same to the byte."""

import os
import random
import shutil
import signal

import pytest
import torch
from tests.restoration import small
from tests.training import runs

from emrdm import EMRDM, EmrdmError, InputError, open_scene, restore_scene
from emrdm.files import _this_host
from emrdm.networks.fused import cpu
from emrdm.restoration import Reading, Settings, Writing, denoising, journal, local, state

pytest.importorskip("rasterio", reason="GeoTIFFs of the tests are written by rasterio")

pytestmark = pytest.mark.usefixtures("settled")


class Attempts:
    """The same command again and again."""

    def __init__(self, folder, given, *more):
        folder.mkdir(exist_ok=True)
        self.output, self.log, self.number = folder / "out" / "clear.tif", folder / "log", 0
        self.words = small.words(*given, self.output, *more)
        self.folder = journal.run_folder(self.output)

    def start(self, *hooked, before=small.watch, more=()):
        self.number += 1
        place = self.output.parent.with_suffix(f".{self.number}")
        return runs.Command([*self.words, *more], place, before=before, given=(self.log, *hooked))

    def assert_same(self, expected, *, waste):
        """The output is as expected, nothing else is there, and hardly anything was computed twice."""
        assert small.digest(self.output) == expected
        assert [entry.name for entry in self.output.parent.iterdir()] == [self.output.name]
        lines = self.log.read_text().splitlines()
        kept = [line for line in lines if line.startswith("kept")]
        assert len(kept) == len(set(kept)), "a finished tile was computed again"
        assert small.TILE_STEPS <= small.counts(self.log)[0] <= small.TILE_STEPS + waste


# ---------------------------------------------------------------- killed


def _killed_at_random(folder, given, reference, chance):
    attempts = Attempts(folder, given)
    killed = attempts.start("", 1, signal.SIGKILL, 0.01).kill_after(chance.uniform(0.05, reference.seconds))
    command = attempts.start()
    code = command.code()
    if code == 2:  # it was over
        assert "is there already" in command.errors
    else:
        assert code == 0, command.errors
    attempts.assert_same(reference.digest, waste=local.usable_cpus())
    return killed


@pytest.mark.parametrize("seed", range(2))
def test_a_run_killed_at_a_random_time_goes_on_to_the_same_bytes(seed, given, reference, tmp_path):
    for attempt in range(5):  # on a machine that is suddenly quicker, a kill may come too late
        if _killed_at_random(tmp_path / f"{attempt}", given, reference, random.Random(10 * seed + attempt)):
            return
    pytest.fail("no run was killed before its end")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_runs_killed_at_random_times_go_on_to_the_same_bytes(given, reference, tmp_path):
    chance = random.Random(5)
    killed = sum(_killed_at_random(tmp_path / f"{i}", given, reference, chance) for i in range(20))
    print(f"20 of 20 the same, {killed} killed before their end")  # noqa: T201 - the figure
    assert killed >= 10


CHAIN = (  # one run, killed at each of these in turn; how often the point is passed before
    ("before computing a tile", 1),
    ("before moving a tile", 5),
    ("after keeping a tile", 3),
    ("before marking a step", 1),
    ("after marking a step", 1),
    ("after computing a tile", 5),
    ("before removing a step", 1),
    ("after computing a tile", 8),
    ("after marking a step", 1),
    ("after writing a window", 1),
    ("before making the output", 2),
    ("before verifying the output", 1),
    ("after noting the end", 1),
    ("after writing the output", 1),
)


def test_a_run_killed_at_every_stage_goes_on_to_the_same_bytes(given, reference, tmp_path):
    attempts = Attempts(tmp_path, given)
    for point in CHAIN:
        command = attempts.start(*point)
        assert command.code() == -signal.SIGKILL, (point, command.errors)
        assert attempts.output.exists() == (point == CHAIN[-1])
        assert attempts.folder.is_dir()
    command = attempts.start()
    assert command.code() == 0, command.errors
    attempts.assert_same(reference.digest, waste=local.usable_cpus() * len(CHAIN))


@pytest.mark.parametrize(
    "milliseconds", [2, pytest.param(4, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)]
)
def test_a_run_killed_inside_of_gdal_goes_on_to_the_same_bytes(milliseconds, given, reference, tmp_path):
    attempts = Attempts(tmp_path, given)
    command = attempts.start(milliseconds / 1000, before=small.die_in_the_copy)
    assert command.code() == -signal.SIGALRM, command.errors
    assert small.hidden(attempts.output.parent)
    assert not attempts.output.exists()
    assert attempts.start().code() == 0
    attempts.assert_same(reference.digest, waste=0)


@pytest.mark.parametrize("more", [(), pytest.param(("--overwrite",), marks=pytest.mark.slow), ("--resume",)])
def test_a_run_killed_between_its_output_and_its_end_is_ended_by_the_same_command(more, given, reference, tmp_path):
    attempts = Attempts(tmp_path, given, *more)
    assert attempts.start("before removing the work").code() == -signal.SIGKILL
    assert small.digest(attempts.output) == reference.digest
    command = attempts.start()
    assert command.code() == 0, command.errors
    attempts.assert_same(reference.digest, waste=0)


def test_an_uncertainty_map_that_was_written_before_the_kill_is_no_obstacle(given, tmp_path):
    sampling = ("--samples", 2, "--uncertainty", tmp_path / "out" / "std.tif")
    attempts = Attempts(tmp_path, given, *sampling)
    assert attempts.start("after writing the output").code() == -signal.SIGKILL  # the first of two files
    spread = small.digest(tmp_path / "out" / "std.tif")
    assert not attempts.output.exists()
    command = attempts.start()
    assert command.code() == 0, command.errors
    assert small.digest(tmp_path / "out" / "std.tif") == spread
    assert small.hidden(attempts.output.parent) == []


def test_what_killed_runs_left_goes_whatever_the_host_and_number_of_the_process(given, model, tmp_path):
    output = tmp_path / "clear.tif"
    for name in ("otherhost-1-0a0b0c0d", f"{_this_host()}-{os.getpid()}-0a0b0c0d"):  # as in containers
        (tmp_path / f".clear.tif.{name}.partial").mkdir()
    (tmp_path / ".clear.tif.notes.partial").write_text("mine")
    restore_scene(open_scene(given[0]), model, output, settings=small.SETTINGS, reading=small.READING)
    assert small.hidden(tmp_path) == [".clear.tif.notes.partial"]


def test_half_removed_work_is_not_gone_on_with(given, model, reference, tmp_path, monkeypatch):
    output = tmp_path / "clear.tif"

    def restore(**options):
        return restore_scene(
            open_scene(given[0]), model, output, settings=small.SETTINGS, reading=small.READING, **options
        )

    _stop_after(15, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        restore()
    assert len(small.tiles(journal.run_folder(output))) > 5
    monkeypatch.setattr(shutil, "rmtree", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        restore(seed=1, write=Writing(overwrite=True))  # throws the work away, and is killed while it does
    monkeypatch.undo()
    next(journal.run_folder(output).glob("*/*/c/*/*/0/0/0")).unlink()
    found = restore()
    assert not found.summary.resumed
    assert small.digest(output) == reference.digest


def _interrupted(*_, **__):
    raise KeyboardInterrupt


def _stop_after(calls, monkeypatch):
    """Ctrl-C at a network call."""
    left = [calls]
    original = denoising.TileDenoiser.compute

    def compute(self, *arguments):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(denoising.TileDenoiser, "compute", compute)


# ---------------------------------------------------------------- interrupted


@pytest.mark.parametrize(
    ("kind", "point", "words"),
    [
        (signal.SIGINT, ("before computing a tile", 10), " of 36 tile steps are kept in "),
        (signal.SIGTERM, ("before computing a tile", 20), " of 36 tile steps are kept in "),
        (signal.SIGINT, ("before making the output", 2), "36 of 36 tile steps are kept in "),
    ],
)
def test_an_interrupted_run_leaves_no_output_and_goes_on(kind, point, words, given, reference, tmp_path):
    attempts = Attempts(tmp_path, given, "--quiet")
    command = attempts.start(*point, kind)
    assert command.code() == 130
    (line,) = command.errors.splitlines()
    assert line.startswith("emrdm restore: interrupted; ")
    assert words in line
    assert line.endswith(f"{attempts.folder}: the same command goes on")
    assert [entry.name for entry in attempts.output.parent.iterdir()] == [attempts.folder.name]
    assert not list(attempts.folder.rglob("*.partial"))
    kept = small.tiles(attempts.folder)
    assert kept
    assert attempts.start().code() == 0
    attempts.assert_same(reference.digest, waste=0)


def test_an_interrupt_before_any_tile_leaves_nothing(given, tmp_path):
    attempts = Attempts(tmp_path, given, "--quiet")
    # both threads sleep in a call, and wake up to a disk that takes nothing: no tile is finished
    command = attempts.start("before computing a tile", 1, signal.SIGINT, 0.3, before=_watch_without_room)
    assert command.code() == 130
    assert command.errors == "emrdm restore: interrupted before a tile was finished; nothing is left behind\n"
    assert not list(attempts.output.parent.iterdir())


def _watch_without_room(*hooked):
    small.watch(*hooked)
    state.StepState.write = _full


def _full(*_):
    raise EmrdmError("no space left on device")


# ---------------------------------------------------------------- two at a time


def test_a_second_run_on_the_same_output_is_refused_while_the_first_goes_on(given, reference, tmp_path):
    attempts = Attempts(tmp_path, given, "--quiet")
    first = attempts.start("", 1, signal.SIGKILL, 0.1).until(lambda: small.tiles(attempts.folder))
    second = attempts.start(more=("--overwrite",))
    assert second.code() == 2
    (line,) = second.errors.splitlines()
    assert "is in use by another process: expected one restoration of clear.tif at a time" in line
    first.send(signal.SIGKILL)
    assert first.code() == -signal.SIGKILL
    third = attempts.start()  # nobody holds the lock any more
    assert third.code() == 0, third.errors
    attempts.assert_same(reference.digest, waste=local.usable_cpus())


# ---------------------------------------------------------------- another plan


@pytest.fixture
def unfinished(given, model, tmp_path, monkeypatch):
    """An unfinished run, and a function that goes on with it."""
    output = tmp_path / "out" / "clear.tif"

    def restore(image=given[0], model=model, **options):
        options = {"settings": small.SETTINGS, "reading": small.READING, "output": output} | options
        with open_scene(image) as scene:
            return restore_scene(scene, model, **options)

    _stop_after(15, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        restore()
    monkeypatch.undo()
    return restore, output


CHANGES = {
    "seed": lambda given: {"seed": 3},
    "samples": lambda given: {"samples": 2},
    "overlap": lambda given: {"settings": Settings(tile=64, overlap=17)},
    "tile": lambda given: {"settings": Settings(tile=128, overlap=16)},
    "model": lambda given: {"model": EMRDM.load(given[1].parent / "other.safetensors")},
    "images": lambda given: {"image": given[0].parent / "other.tif"},
    "range": lambda given: {"reading": Reading(range=(0.0, 5000.0))},
}


def test_another_plan_on_unfinished_work_is_refused_and_nothing_is_lost(given, unfinished):
    restore, output = unfinished
    shutil.copy(given[0], given[0].parent / "other.tif")
    other = EMRDM.load(given[1])
    next(other.network.parameters()).data += 0.01
    other.save(given[1].parent / "other.safetensors")
    before = small.tiles(journal.run_folder(output))
    for what, change in CHANGES.items():
        with pytest.raises(InputError, match=f"unfinished run for clear.tif with another {what} .*--overwrite"):
            restore(**change(given))
        assert small.tiles(journal.run_folder(output)) == before


def test_overwrite_begins_anew_where_the_plan_is_another_and_goes_on_where_it_is_not(
    unfinished, reference, monkeypatch
):
    restore, output = unfinished
    calls = small.counted(monkeypatch)
    restore(write=Writing(overwrite=True))
    assert small.digest(output) == reference.digest
    assert len(calls) == small.TILE_STEPS - 15
    calls.clear()
    restore(write=Writing(overwrite=True), seed=3)
    assert len(calls) == small.TILE_STEPS
    assert small.digest(output) != reference.digest


def test_a_run_goes_on_in_the_numbers_it_began_with(unfinished, reference, model, monkeypatch):
    restore, output = unfinished
    monkeypatch.setattr(cpu, "faster_dtype", lambda: cpu.Choice(torch.bfloat16, "as the test says"))
    fresh = EMRDM.fresh(model.config)
    fresh.network.load_state_dict(model.network.state_dict())
    assert fresh.numbers() == "bfloat16"
    assert restore(model=fresh).summary.resumed
    assert small.digest(output) == reference.digest
    assert fresh.numbers() == "bfloat16"


def test_what_only_the_output_depends_on_may_change(unfinished, monkeypatch):
    restore, output = unfinished
    calls = small.counted(monkeypatch)
    found = restore(write=Writing(dtype="float32", kind="gtiff"))
    assert found.summary.resumed
    assert len(calls) == small.TILE_STEPS - 15
    assert small.hidden(output.parent) == []
