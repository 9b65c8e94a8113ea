"""A line that says how far long work is."""

import itertools

import pytest

from emrdm.cli.progress import Progress, duration


class Stream:
    def __init__(self, terminal):
        self.terminal, self.text = terminal, ""

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_in_a_log_is_a_line_now_and_then(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("emrdm.cli.progress.time.monotonic", lambda: clock[0])
    stream = Stream(terminal=False)
    progress = Progress("reading", unit="files", stream=stream)
    progress(0, 100)
    for done in range(1, 101):
        clock[0] += 1
        progress(done, 100)
    lines = stream.text.splitlines()
    assert lines.pop(0) == "reading: 0/100 files"
    assert lines[0] == "reading: 15/100 files (15 %), 1.0/s, 1 min 25 s left"
    assert lines[-1] == "reading: 100/100 files (100 %), 1.0/s in 1 min 40 s"
    assert len(lines) == 7


def test_progress_on_a_terminal_stays_on_its_line(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("emrdm.cli.progress.time.monotonic", lambda: clock[0])
    stream = Stream(terminal=True)
    progress = Progress("reading", unit="files", stream=stream)
    progress(0, 10)
    for done in range(1, 11):
        clock[0] += 0.5
        progress(done, 10)
    assert stream.text.count("\n") == 1
    assert stream.text.endswith("\n")
    shown = stream.text.rstrip("\n").split("\r")[1:]
    assert len(shown) == 10
    assert all(len(later) >= len(text.rstrip()) for text, later in itertools.pairwise(shown))


def test_what_an_earlier_run_did_does_not_count_as_speed(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("emrdm.cli.progress.time.monotonic", lambda: clock[0])
    stream = Stream(terminal=False)
    progress = Progress("scoring", unit="images", stream=stream)
    progress(900, 1000)
    for done in (910, 920):  # ten at a time
        clock[0] += 20
        progress(done, 1000)
    assert stream.text.splitlines()[-1] == "scoring: 920/1000 images (92 %), 0.5/s, 2 min 40 s left"


def test_silence_is_silent():
    stream = Stream(terminal=True)
    Progress("reading", unit="files", silent=True, stream=stream)(1, 1)
    assert stream.text == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (7300, "2 h 01 min")]
)
def test_durations_as_people_say_them(seconds, text):
    assert duration(seconds) == text
