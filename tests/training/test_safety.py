"""What may happen to a run: signals, the clock, a full disk, a second process."""

import errno
import os
import shutil
import signal
import time
from collections import namedtuple
from pathlib import Path

import pytest
import safetensors.torch
from tests.training import killing, runs

from emrdm import files
from emrdm.errors import EmrdmError
from emrdm.training.checkpoint import Checkpoints
from emrdm.training.log import Log

Usage = namedtuple("Usage", "total used free")


pytestmark = pytest.mark.usefixtures("quick")


# ---------------------------------------------------------------- signals


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_a_run_with_a_checkpoint_at_that_very_step(name, root, reference, tmp_path):
    folder, number = tmp_path / "run", signal.Signals[name]
    command = runs.Command([*runs.words(root, folder), "-q"], folder, before=killing.signal_at, given=(7, number))
    assert command.code() == 130
    assert command.errors == f"emrdm train: {name} at step 7 of 24: saved; the same command goes on\n"
    assert runs.steps(folder) == [4, 7]
    assert not leftovers_and_results(folder)
    runs.run(root, folder)
    runs.assert_same_run(folder, reference)


def leftovers_and_results(folder):
    """Temporary files, and files that only a run at its end has."""
    return [*runs.leftovers(folder), *(path for path in (folder / "README.md",) if path.exists())]


def test_ctrl_c_reaches_the_reading_processes_as_well_and_nobody_grumbles(root, reference, tmp_path):
    folder = tmp_path / "run"
    arguments = [*runs.words(root, folder, "--workers", "2"), "-q"]
    command = runs.Command(arguments, folder, before=killing.slow, given=(0.05,))
    command.until(lambda: (folder / "checkpoints").is_dir() and bool(runs.steps(folder)))
    command.send(signal.SIGINT, group=True)
    assert command.code() == 130
    (line,) = command.errors.splitlines()
    step = runs.steps(folder)[-1]
    assert line == f"emrdm train: SIGINT at step {step} of 24: saved; the same command goes on"
    runs.run(root, folder)
    runs.assert_same_run(folder, reference)


def test_pressing_ctrl_c_again_ends_at_once(root, reference, tmp_path):
    folder, sign = tmp_path / "run", tmp_path / "hangs"
    arguments = [*runs.words(root, folder), "-q"]
    command = runs.Command(arguments, folder, before=killing.hang_at, given=(6, sign)).until(sign.exists)
    time.sleep(0.4)  # as long as a person takes at least
    assert command.process.is_alive()
    began = time.monotonic()
    command.send(signal.SIGINT)
    assert command.code() == 130
    assert time.monotonic() - began < 5
    assert command.errors == "emrdm train: interrupted\n"
    assert runs.steps(folder) == [4]
    assert not runs.leftovers(folder)
    runs.run(root, folder)
    runs.assert_same_run(folder, reference)


def test_two_signals_in_a_moment_are_one(root, tmp_path):
    folder = tmp_path / "run"
    arguments = [*runs.words(root, folder), "-q"]
    command = runs.Command(arguments, folder, before=killing.signal_at, given=(7, signal.SIGINT, 2))
    assert command.code() == 130
    assert command.errors == "emrdm train: SIGINT at step 7 of 24: saved; the same command goes on\n"
    assert runs.steps(folder) == [4, 7]


# ---------------------------------------------------------------- the clock


def test_when_the_minutes_are_up_the_run_is_saved_and_the_same_command_goes_on(root, reference, tmp_path):
    folder, stops = tmp_path / "run", 0
    for _ in range(20):
        arguments = runs.words(root, folder, "--max-minutes", "0.015")
        command = runs.Command(arguments, folder, before=killing.slow, given=(0.05,))
        assert command.code() == 0, command.errors
        if "finished" in command.out:
            break
        assert f"time is up at step {runs.steps(folder)[-1]} of 24: saved" in command.out
        stops += 1
    assert stops
    runs.assert_same_run(folder, reference)


# ---------------------------------------------------------------- a full disk


def test_a_run_that_cannot_fit_is_refused_before_its_first_step(root, tmp_path, monkeypatch, told):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**6, 10**6 - 1000, 1000))
    line = told(runs.words(root, tmp_path / "run"), 1)
    needed = 3 * 16 * 10628
    assert f"{tmp_path / 'run' / 'checkpoints'} needs {needed:,} bytes" in line
    assert "1,000 are free" in line
    assert not runs.steps(tmp_path / "run")


def _no_room_later(monkeypatch):
    calls = []

    def usage(_):
        calls.append(1)
        return Usage(10**9, 0, 10**9 if len(calls) == 1 else 1000)  # the first question is that of the start

    monkeypatch.setattr(shutil, "disk_usage", usage)


def _full_in_the_middle(monkeypatch, error):
    def save_file(tensors, path, metadata):
        whole = safetensors.torch.save(tensors, metadata)
        Path(path).write_bytes(whole[: len(whole) // 2])
        raise error

    monkeypatch.setattr(safetensors.torch, "save_file", save_file)


def _full_at_sync(monkeypatch):
    def fsync(path):
        if Path(path).name.startswith(".step-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "sync", fsync)


def _full_at_move(monkeypatch):
    original = Path.replace

    def replace(self, target):
        if self.name.startswith(".step-"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(self, target)

    monkeypatch.setattr(Path, "replace", replace)


FULL = {
    "before writing": _no_room_later,
    "in the middle": lambda patch: _full_in_the_middle(patch, OSError(errno.ENOSPC, "No space left on device")),
    "in the middle, by safetensors": lambda patch: _full_in_the_middle(
        patch, safetensors.SafetensorError("I/O error: No space left on device (os error 28)")
    ),
    "at sync": _full_at_sync,
    "at the move": _full_at_move,
}


@pytest.mark.parametrize("where", FULL)
def test_a_disk_that_fills_up_leaves_the_checkpoints_before_as_they_were(where, root, half, monkeypatch, told):
    before = runs.content(half / "checkpoints")
    with monkeypatch.context() as patch:
        FULL[where](patch)
        line = told(runs.words(root, half, watch__validate_every=100, watch__checkpoint_every=2), 1)
    path = half / "checkpoints" / "step-00000022.safetensors"
    assert f"{path} could not be written" in line
    assert "bytes are needed" in line
    assert runs.content(half / "checkpoints") == before
    assert not runs.leftovers(half)
    found = Checkpoints(half / "checkpoints", keep=2).newest()
    assert found is not None
    assert found[1]["step"] == 20


def test_a_real_limit_on_files_is_survived_and_the_run_goes_on_when_it_is_gone(root, reference, half):
    command = runs.Command([*runs.words(root, half), "-q"], half, before=runs.limit_files, given=(100_000,))
    assert command.code() == 1
    (line,) = command.errors.splitlines()
    assert "step-00000024.safetensors could not be written" in line
    assert "bytes are needed" in line
    assert runs.steps(half) == [20]
    assert not runs.leftovers(half)
    runs.run(root, half)
    runs.assert_same_run(half, reference)


def test_no_room_for_the_exported_weights_is_said_with_their_path_and_size(root, reference, half):
    before = (half / "model.safetensors").read_bytes()
    arguments = [*runs.words(root, half, train__select="last"), "-q"]
    command = runs.Command(arguments, half, before=killing.no_room_for, given=("model.safetensors",))
    assert command.code() == 1
    (line,) = command.errors.splitlines()
    assert f"{half / 'model.safetensors'} could not be written" in line
    assert "bytes are needed" in line
    assert (half / "model.safetensors").read_bytes() == before
    assert not runs.leftovers(half)


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    log = Log(tmp_path, step=0, validated=-1)
    log._file.close()
    with Path("/dev/full").open("ab", buffering=0) as log._file:
        with pytest.raises(EmrdmError, match=r"log\.jsonl could not be written: No space left"):
            log.add("step", 1, loss=1.0)
        log.close()


# ---------------------------------------------------------------- two at a time


def test_a_second_trainer_is_refused_while_the_first_goes_on(root, reference, tmp_path, told):
    folder = tmp_path / "run"
    first = runs.Command(runs.words(root, folder), folder, before=killing.slow, given=(0.05,))
    first.until(lambda: (folder / "checkpoints").is_dir() and bool(runs.steps(folder)))
    for more in ((), ("--overwrite",)):
        assert "is in use by another process" in told(runs.words(root, folder, *more), 2)
    assert first.process.is_alive()
    assert first.code() == 0
    runs.assert_same_run(folder, reference)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_a_killed_run_held_is_free_at_once(workers, root, reference, tmp_path):
    folder = tmp_path / "run"
    first = runs.Command(runs.words(root, folder, "--workers", workers), folder, before=killing.die_at, given=(6,))
    assert first.code() == -signal.SIGKILL
    runs.run(root, folder)
    runs.assert_same_run(folder, reference)
