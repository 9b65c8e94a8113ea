"""Training that is killed: nothing is lost that was written, and nothing can be told from a run that never was."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest
import torch
from tests.training import killing, runs

from emrdm.errors import WeightsError
from emrdm.files import _this_host
from emrdm.training.checkpoint import Checkpoints, load

pytestmark = pytest.mark.usefixtures("quick")
SLOW = {"before": killing.slow, "given": (0.05,)}  # seconds a step, so that most kills hit steps


@pytest.fixture(scope="module")
def seconds(root, tmp_path_factory):
    """How long such a run takes, once everything is imported."""
    place = tmp_path_factory.mktemp("timed") / "run"
    command = runs.Command(runs.words(root, place), place, **SLOW)
    assert command.code() == 0
    return time.monotonic() - command.began


# ---------------------------------------------------------------- killed at any time


def _kill_until_done(start, folder, seconds, chance, kills):
    """The same command again and again, killed at any time of what is left; then once more, to its end."""
    killed = 0
    for _ in range(kills):
        command = start(folder)
        left = 1 - (runs.steps(folder) or [0])[-1] / 24 if folder.exists() else 1
        killed += command.kill_after(chance.uniform(0, seconds * max(left, 0.3)))
        assert command.process.exitcode in (0, -signal.SIGKILL), command.errors
    command = start(folder)
    assert command.code() == 0, command.errors
    return killed


@pytest.mark.parametrize("seed", range(2))
def test_a_run_killed_at_random_times_ends_bit_for_bit_as_one_that_was_not(seed, root, reference, seconds, tmp_path):
    def start(folder):
        return runs.Command(runs.words(root, folder), folder, **SLOW)

    for attempt in range(5):  # on a machine that is suddenly quicker, all kills may come too late
        folder = tmp_path / f"run{attempt}"
        killed = _kill_until_done(start, folder, seconds, random.Random(10 * seed + attempt), kills=4)
        runs.assert_same_run(folder, reference)
        if killed:
            return
    pytest.fail("no run was killed before its end")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_of_twenty_killed_runs_end_bit_for_bit_as_one_that_was_not(root, reference, tmp_path):
    good, killed = 0, 0
    timed = runs.Command(runs.words(root, tmp_path / "timed"), tmp_path / "timed", **SLOW)
    assert timed.code() == 0
    seconds = time.monotonic() - timed.began
    for seed in range(20):
        folder, workers = tmp_path / f"run{seed}", "2" if seed % 2 else "0"

        def start(folder, workers=workers):
            return runs.Command(runs.words(root, folder, "--workers", workers), folder, **SLOW)

        killed += _kill_until_done(start, folder, seconds, random.Random(100 + seed), kills=6)
        runs.assert_same_run(folder, reference)
        good += 1
    print(f"{good} of 20 runs, {killed} kills")  # noqa: T201 - the figure
    assert good == 20


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_real_command_killed_from_its_very_start_ends_the_same(workers, root, reference, tmp_path):
    folder, chance = tmp_path / "run", random.Random(7)
    command = [sys.executable, "-m", "emrdm", *runs.words(root, folder, "--workers", workers)]
    began, killed = time.monotonic(), 0
    subprocess.run([*command[:-1], command[-1], "-o", str(tmp_path / "timed")], check=True, capture_output=True)
    seconds = time.monotonic() - began
    for _ in range(6):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, errors = process.communicate(timeout=chance.uniform(0, seconds))
            assert process.returncode == 0, errors
        except subprocess.TimeoutExpired:
            process.kill()
            killed += 1
            process.wait()
            process.stderr.close()
    assert killed
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    runs.assert_same_run(folder, reference)


def test_a_validation_that_was_repeated_stands_in_the_log_once(root, reference, tmp_path):
    folder = tmp_path / "run"
    long = {"watch__checkpoint_every": 100}
    first = runs.Command(runs.words(root, folder, **long), folder, before=killing.signal_at, given=(12,))
    assert first.code() == 130  # at a step whose validation is due, and left to the next process
    assert [row["step"] for row in runs.rows(folder, "validation")] == []
    second = runs.Command(runs.words(root, folder, **long), folder, before=killing.die_at, given=(15,))
    assert second.code() == -signal.SIGKILL  # behind that validation, before another checkpoint
    third = runs.Command(runs.words(root, folder, **long), folder)
    assert third.code() == 0
    assert runs.rows(folder) == runs.rows(reference)


# ---------------------------------------------------------------- killed in a write


def _die_in_a_write(folder, point, writes):
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=killing.write_and_die, args=(folder, point, writes))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    _check_what_is_left(folder, writes - 1)


def _check_what_is_left(folder, done):
    """The last or the one before is there, whole; what was begun is swept away by the next writer."""
    checkpoints = Checkpoints(folder, keep=killing.KEEP)
    assert not runs.leftovers(folder)
    found = checkpoints.newest()
    if found is None:
        assert done == 0
        return
    tensors, state = found
    assert state["step"] in (done, done + 1)
    assert state["note"] == f"step {state['step']}"
    runs.assert_same_tensors(tensors, killing.content(state["step"]))
    for path in checkpoints.paths():
        load(path)
    # who is killed before the oldest goes leaves it to the next write
    checkpoints.write(state["step"] + 1, killing.content(state["step"] + 1), {"note": f"step {state['step'] + 1}"})
    assert len(checkpoints.paths()) == min(killing.KEEP, state["step"] + 1)


@pytest.mark.parametrize("point", [0.5, "before syncing the file", "after moving", "before pruning"])
def test_killed_inside_a_write_the_last_checkpoint_or_the_one_before_is_whole(point, tmp_path):
    _die_in_a_write(tmp_path, point, 4)


@pytest.mark.slow
def test_killed_at_fifty_points_of_a_write_the_last_checkpoint_or_the_one_before_is_whole(tmp_path):
    points = [(point, writes) for point in killing.SHARES for writes in (4,)]
    points += [(point, 4) for point in killing.STAGES] + [(point, 1) for point in (0.3, *killing.STAGES[1:4])]
    assert len(points) == 50
    for number, (point, writes) in enumerate(points):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        _die_in_a_write(folder, point, writes)


def _kill_writers(folder, chance, times, seconds):
    context = multiprocessing.get_context("forkserver")
    report = folder.parent / "report"
    for _ in range(times):
        process = context.Process(target=killing.write_for_ever, args=(folder, report))
        report.unlink(missing_ok=True)
        process.start()
        while not report.exists() or report.stat().st_size < 8:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, seconds))
        process.kill()
        process.join()
        (done,) = struct.unpack("q", report.read_bytes())
        assert len(runs.leftovers(folder)) <= 1  # its own; none of those before
        _check_what_is_left(folder, done)


def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    _kill_writers(tmp_path / "checkpoints", random.Random(1), times=4, seconds=0.05)


@pytest.mark.slow
def test_a_writer_killed_at_fifty_moments_leaves_a_whole_checkpoint(tmp_path):
    _kill_writers(tmp_path / "checkpoints", random.Random(2), times=50, seconds=0.05)


def test_what_another_host_left_behind_goes_as_well_when_the_run_is_held(root, reference, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(reference, folder)
    # a container has a new name and the old process numbers every time
    for name in (".step-00000024.safetensors.otherhost-1-0a0b0c0d.partial", f".step-00000024.safetensors.{_me()}"):
        (folder / "checkpoints" / name).write_bytes(b"x" * 1000)
    (folder / "checkpoints" / "notes.txt").write_text("mine")
    runs.run(root, folder)
    assert not runs.leftovers(folder)
    assert (folder / "checkpoints" / "notes.txt").read_text() == "mine"


def _me():
    return f"{_this_host()}-{os.getpid()}-0a0b0c0d.partial"


# ---------------------------------------------------------------- damaged


def _cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def _flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 0x04
    path.write_bytes(bytes(content))


def _pickled(path):
    torch.save({"weights": torch.zeros(3)}, path)


def _a_folder(path):
    path.unlink()
    path.mkdir()


DAMAGES = {
    "truncated": _cut,
    "a bit of a tensor": lambda path: _flip(path, -1000),
    "a bit of the header": lambda path: _flip(path, 200),
    "a bit of the header's length": lambda path: _flip(path, 6),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a pickle": _pickled,
    "a text": lambda path: path.write_text("checkpoint"),
    "a folder": _a_folder,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_instead_of_a_damaged_checkpoint_the_one_before_is_used_and_said(damage, reference, tmp_path, caplog):
    folder = tmp_path / "checkpoints"
    shutil.copytree(reference / "checkpoints", folder)
    checkpoints = Checkpoints(folder, keep=2)
    *_, before, newest = checkpoints.paths()
    DAMAGES[damage](newest)
    found = checkpoints.newest()
    assert found is not None
    assert found[1]["step"] == 20
    runs.assert_same_tensors(found[0], load(before)[0])
    (warning,) = caplog.messages
    assert newest.name in warning
    assert "\n" not in warning


def test_no_flipped_bit_is_believed_or_ends_in_anything_but_our_error(tmp_path):
    path = tmp_path / "step-00000001.safetensors"
    Checkpoints(tmp_path, keep=1).write(1, {"model.a": torch.arange(3.0), "average.a": torch.ones(2)}, {"note": "x"})
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8) if place < 8 else (place % 8,):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(bytes(damaged))
            with pytest.raises(WeightsError, match="step-00000001"):
                load(path)


def test_a_run_goes_on_from_before_the_damage_and_ends_the_same(root, reference, tmp_path, caplog):
    folder = tmp_path / "run"
    shutil.copytree(reference, folder)
    _cut(folder / "checkpoints" / "step-00000024.safetensors")
    assert runs.run(root, folder).reason == "finished"
    assert any("step-00000024" in message for message in caplog.messages)
    runs.assert_same_run(folder, reference)


@pytest.mark.parametrize("keep", [1, 2])
def test_a_damaged_checkpoint_does_not_push_whole_ones_out(keep, tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=keep)
    for step in (10, 20):
        checkpoints.keep = 2
        checkpoints.write(step, killing.content(step, 0.01), {})
    _cut(tmp_path / "step-00000020.safetensors")
    checkpoints.keep = keep
    for step in (12, 14, 16):
        checkpoints.write(step, killing.content(step, 0.01), {})
        found = checkpoints.newest()
        assert found is not None
        assert found[1]["step"] == step
    whole = [path for path in checkpoints.paths() if not path.name.endswith("20.safetensors")]
    assert len(whole) == keep


def test_where_all_checkpoints_are_damaged_nothing_is_touched(root, reference, tmp_path, told):
    folder = tmp_path / "run"
    shutil.copytree(reference, folder)
    for path in (folder / "checkpoints").iterdir():
        _flip(path, -1000)
    before = runs.content(folder)
    line = told(runs.words(root, folder), 2)
    assert "step-00000024.safetensors" in line
    assert "every other checkpoint" in line
    assert runs.content(folder) == before


def test_a_torn_last_line_of_the_log_is_written_anew(root, reference, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(reference, folder)
    log = folder / "log.jsonl"
    log.write_text(log.read_text()[:-200])
    (folder / "checkpoints" / "step-00000024.safetensors").unlink()
    runs.run(root, folder)
    runs.assert_same_run(folder, reference)
    for line in log.read_text().splitlines():
        json.loads(line)
