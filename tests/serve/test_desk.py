"""The line at the desk: one at a time, places told, visitors apart, nothing left behind."""

import threading

import pytest

from emrdm.errors import EmrdmError, InputError
from emrdm.serve import desk as module
from emrdm.serve.desk import Desk
from emrdm.serve.work import CancelledError, News, Order

ORDER = Order(("image.tif",), "tiny")


@pytest.fixture
def work(monkeypatch):
    """Stands in for restoring: begins, waits for a word, ends."""

    class Work:
        begun, go, running = [], threading.Semaphore(0), 0
        most = 0

        def __call__(self, order, shelf, folder, tell, stopped):
            self.running += 1
            self.most = max(self.most, self.running)
            self.begun.append(folder)
            tell(News("working", 0.5))
            (folder / "result").write_text("x")
            try:
                while not self.go.acquire(timeout=0.01):
                    if stopped.is_set():
                        raise CancelledError("cancelled")
            finally:
                self.running -= 1
            return (str(folder),)

    found = Work()
    monkeypatch.setattr(module, "restore", found)
    return found


@pytest.fixture
def desk(tmp_path):
    found = Desk(None, tmp_path / "results", tmp_path / "uploads")
    yield found
    found.close()
    assert not (tmp_path / "results").exists()


def test_one_at_a_time_in_order_and_places_are_told(desk, work):
    jobs = [desk.submit(name, ORDER) for name in "abc"]
    third = desk.news(jobs[2])
    assert next(third).text == "Waiting: 2 before you"
    work.go.release()
    assert next(third).text == "Waiting: yours is next"
    work.go.release()
    assert next(third).text == "working"
    work.go.release()
    assert list(third) == []
    assert [job.outcomes for job in jobs] == [(str(job.folder),) for job in jobs]
    assert work.most == 1
    assert len({job.folder.parent for job in jobs}) == 3  # a folder for each, which nobody can guess
    assert all(len(job.folder.parent.name) >= 24 for job in jobs)


def test_cancelling_stops_what_runs_and_what_waits_and_nobody_elses(desk, work):
    running, waiting, other = (desk.submit(name, ORDER) for name in "abc")
    assert next(desk.news(running)).text == "working"
    assert desk.cancel("b")
    with pytest.raises(CancelledError):
        list(desk.news(waiting))
    assert desk.cancel("a")
    with pytest.raises(CancelledError):
        list(desk.news(running))
    assert not running.folder.exists()
    work.go.release()
    list(desk.news(other))
    assert other.outcomes
    assert not desk.cancel("c")


def test_a_visitor_has_one_order_at_a_time_and_the_last_result_alone(desk, work):
    first = desk.submit("a", ORDER)
    with pytest.raises(InputError, match="still being worked on"):
        desk.submit("a", ORDER)
    work.go.release()
    list(desk.news(first))
    assert (first.folder / "result").exists()
    second = desk.submit("a", ORDER)
    assert not first.folder.exists()
    work.go.release()
    list(desk.news(second))
    assert (second.folder / "result").exists()


def test_after_cancelling_one_may_order_again_at_once(desk, work):
    first = desk.submit("a", ORDER)
    assert next(desk.news(first)).text == "working"
    desk.cancel("a")
    second = desk.submit("a", ORDER)
    with pytest.raises(CancelledError):
        list(desk.news(first))
    work.go.release()
    list(desk.news(second))
    assert second.outcomes


def test_who_leaves_takes_everything_along_but_what_others_have_uploaded_too(desk, work, tmp_path):
    (tmp_path / "uploads").mkdir()
    own, shared, foreign = tmp_path / "uploads" / "own.tif", tmp_path / "uploads" / "shared.tif", tmp_path / "foreign"
    for file in (own, shared, foreign):
        file.write_text("x")
    desk.uploaded("a", [own, shared, foreign, tmp_path / "uploads" / ".." / "foreign"])
    desk.uploaded("b", [shared])
    job = desk.submit("a", ORDER)
    assert next(desk.news(job)).text == "working"
    desk.leave("a")
    with pytest.raises(EmrdmError):
        list(desk.news(job))
    assert not job.folder.parent.exists()
    assert not own.exists()
    assert shared.exists()
    assert foreign.exists()  # not an upload, whatever was claimed
    desk.leave("b")
    assert not shared.exists()
    desk.leave("nobody")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError("a.tif: no"), "a.tif: no"),
        (OSError(28, "No space left on device"), "the server could not do it: No space left"),
        (MemoryError(), "too little memory"),
        (ZeroDivisionError("x"), "ZeroDivisionError, see its log"),
    ],
)
def test_whatever_goes_wrong_with_one_the_next_is_served(desk, work, monkeypatch, error, words):
    def fails(*_):
        raise error

    monkeypatch.setattr(module, "restore", fails)
    with pytest.raises(EmrdmError, match=words):
        list(desk.news(desk.submit("a", ORDER)))
    monkeypatch.setattr(module, "restore", work)
    work.go.release()
    job = desk.submit("a", ORDER)
    list(desk.news(job))
    assert job.outcomes


def test_the_line_is_not_endless(desk, work):
    for i in range(17):
        desk.submit(str(i), ORDER)
    with pytest.raises(InputError, match="17 orders are waiting already"):
        desk.submit("late", ORDER)
