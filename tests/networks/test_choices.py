"""What was found to be fastest, kept for the next process."""

import json

import pytest

from emrdm.networks import choices


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    choices._all.cache_clear()
    yield
    choices._all.cache_clear()


def test_choices_are_read_back():
    assert choices.known("a GPU") is None
    choices.keep("a GPU", 1)
    choices.keep("a CPU", 1.5)
    choices._all.cache_clear()
    assert (choices.known("a GPU"), choices.known("a CPU")) == (1, 1.5)


@pytest.mark.parametrize("broken", ["{", "[1]", json.dumps({"a GPU": "x"})])
def test_a_broken_cache_is_ignored(broken):
    choices.keep("a GPU", 1)
    choices.cache_file().write_text(broken)
    choices._all.cache_clear()
    assert choices.known("a GPU") is None


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    choices.keep("a GPU", 1)
    assert choices.known("a GPU") == 1
