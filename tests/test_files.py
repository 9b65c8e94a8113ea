"""Files that are either absent or complete."""

import hashlib

import pytest

from emrdm.files import atomic_path, sha256


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


def test_sha256_from_any_byte_on(tmp_path):
    path = tmp_path / "a.bin"
    data = bytes(range(256)) * 10_000
    path.write_bytes(data)
    assert sha256(path) == hashlib.sha256(data).hexdigest()
    assert sha256(path, start=1000) == hashlib.sha256(data[1000:]).hexdigest()
