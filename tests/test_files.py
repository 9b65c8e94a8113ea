"""Files that are either absent or complete."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emrdm.errors import EmrdmError, InputError
from emrdm.files import atomic_path, free_bytes, require_space, temporary_folder


def test_a_file_appears_when_the_block_ends_well(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
        assert temporary.parent == tmp_path
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_changes_when_it_does_not(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with atomic_path(path) as temporary:
            temporary.write_text("new")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_is_removed_and_what_a_running_one_writes_is_not(tmp_path):
    path = tmp_path / "a.txt"
    with atomic_path(path) as temporary:
        ours = temporary.name
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        stale = tmp_path / ours.replace(f"-{os.getpid()}-", f"-{dead.pid}-")
        foreign = tmp_path / ours.replace(".partial", ".other")
        stale.touch()
        foreign.touch()
        with atomic_path(path) as second:
            assert temporary.exists()
            assert not stale.exists()
            assert foreign.exists()
            second.write_text("second")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([foreign.name, "a.txt"])


def test_a_link_stays_a_link_and_permissions_stay_what_they_were(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600


def test_the_data_reaches_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr("os.fsync", lambda descriptor: events.append("sync"))
    original = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, target: (events.append("replace"), original(self, target))[1])
    with atomic_path(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
    assert events == ["sync", "replace", "sync"]


def test_a_long_name_of_long_letters_can_be_written(tmp_path):
    path = tmp_path / ("云" * 83 + ".txt")  # 253 of the 255 bytes that a name may have
    with atomic_path(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_temporary_folder_is_beside_a_file_and_goes_with_all_that_is_in_it(tmp_path, error):
    def work():
        with temporary_folder(tmp_path / "a.txt") as folder:
            assert folder.parent == tmp_path
            (folder / "deeper").mkdir()
            (folder / "deeper" / "file").touch()
            if error:
                raise error

    if error:
        with pytest.raises(error):
            work()
    else:
        work()
    assert not list(tmp_path.iterdir())


def test_a_temporary_folder_of_a_killed_process_is_removed_and_that_of_a_running_one_is_not(tmp_path):
    with temporary_folder(tmp_path / "a.txt") as folder:
        dead = subprocess.Popen([sys.executable, "-c", ""])
        dead.wait()
        stale = tmp_path / folder.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-")
        stale.mkdir()
        (stale / "file").touch()
        with atomic_path(tmp_path / "b.txt"):
            assert folder.exists()
            assert not stale.exists()


def test_a_temporary_folder_where_there_is_no_place_for_one(tmp_path):
    with (
        pytest.raises(InputError, match="cannot be written: No such file"),
        temporary_folder(tmp_path / "no" / "a.txt"),
    ):
        pass


def test_what_does_not_fit_is_refused(tmp_path):
    require_space(tmp_path, free_bytes(tmp_path) // 2, "it")
    with pytest.raises(EmrdmError, match=r"it needs up to 1,000,000,000,000,000,000 bytes, and [\d,]+ are free in"):
        require_space(tmp_path, 10**18, "it")
