"""Scenes by workers: the same bytes as without, also when one is killed; what goes wrong there is one line here."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.restoration import small

from emrdm import open_scene, restore_scene
from emrdm.cli import main
from emrdm.errors import DataError, EmrdmError, InputError, MissingDependencyError
from emrdm.rasters.source import ArraySource
from emrdm.restoration import Inputs, Plan, Reading, Settings, cluster, worker
from emrdm.restoration.denoising import TileDenoiser
from emrdm.restoration.journal import run_folder
from emrdm.restoration.memory import Room

pytest.importorskip("rasterio", reason="GeoTIFFs of the tests are written by rasterio")
distributed = pytest.importorskip("distributed", reason="workers are Dask's")
psutil = pytest.importorskip("psutil", reason="Dask brings it")

SETTINGS = Settings(tile=64, overlap=16)
READING = Reading(range=(0.0, 4000.0))
CALLS = small.TILES * small.STEPS


@pytest.fixture(scope="module")
def expected(given, tmp_path_factory):
    """What comes out without workers."""
    output = tmp_path_factory.mktemp("expected") / "clear.tif"
    assert main(["-q", *small.words(*given, output)]) == 0
    return small.digest(output)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a cluster for many tests."""
    with _cluster(tmp_path_factory.mktemp("cluster")) as (address, *_):
        yield address


@contextmanager
def _cluster(folder):
    """A scheduler and two workers, each a process of its own, elsewhere than in this folder."""
    started = [_dask("scheduler", "--host", "127.0.0.1", "--port", 0, "--scheduler-file", "it.json", folder=folder)]
    try:
        file = folder / "it.json"
        deadline = time.monotonic() + 60
        while not (file.exists() and file.read_text().endswith("}")):
            assert time.monotonic() < deadline, "no scheduler"
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        options = ("--nthreads", 1, "--no-nanny", "--host", "127.0.0.1", "--local-directory", folder)
        started += [_dask("worker", address, *options, folder=folder) for _ in range(2)]
        yield address, *started
    finally:
        for process in started:
            process.kill()
            process.wait()


def _dask(what, *options, folder):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("COV_")}
    return subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.dask_{what}", *map(str, options), "--no-dashboard", "--dashboard-address", "127.0.0.1:0"],
        cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _restore(given, model, output, **options):
    with open_scene(given[0]) as scene:
        return restore_scene(scene, model, output, settings=SETTINGS, reading=READING, **options)


@pytest.fixture
def denoiser(given, model, tmp_path):
    scene = open_scene(given[0])
    plan = Plan.of(scene.grid.height, scene.grid.width, model, SETTINGS)
    yield TileDenoiser(plan, Inputs(scene, model.config, READING), model, tmp_path)
    scene.close()


def _room(denoiser, budget=None):
    return Room.within(budget, denoiser.plan, denoiser.model, 1)


# ---------------------------------------------------------------- the same bytes


def test_hosts_of_a_cluster_give_the_same_bytes(given, address, expected, tmp_path, capsys):
    output = tmp_path / "clear.tif"
    assert main([*small.words(*given, output), "--cluster", address]) == 0
    assert small.digest(output) == expected
    assert small.hidden(tmp_path) == []
    said = capsys.readouterr()
    assert f"{CALLS}/{CALLS} tile steps" in said.err
    assert "distributed" not in said.err
    with distributed.Client(address, set_as_default=False) as client:
        assert set(client.run(lambda: len(worker._works)).values()) == {0}, "models stay with the workers"


def test_a_killed_worker_changes_nothing(given, model, expected, tmp_path):
    killed, environment = [], dict(os.environ)

    def kill(done, total):
        if not killed and 4 <= done < total:  # in mid-step: all workers have tiles under way
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    _restore(given, model, tmp_path / "clear.tif", workers=2, progress=kill)
    assert killed
    assert small.digest(tmp_path / "clear.tif") == expected
    assert multiprocessing.active_children() == []
    assert dict(os.environ) == environment
    assert small.hidden(tmp_path) == []


def test_arrays_travel_with_the_job(model, address):
    image = ArraySource(small.pixels(height=64, width=90), names=("red", "green", "blue"))
    found = [
        restore_scene(open_scene(image), model, settings=SETTINGS, reading=READING, cluster=where).pixels
        for where in (address, None)
    ]
    assert np.array_equal(*found)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_gives_the_same_bytes(given, model, expected, tmp_path, workers):
    _restore(given, model, tmp_path / "clear.tif", workers=workers)
    assert small.digest(tmp_path / "clear.tif") == expected


@pytest.mark.slow
def test_workers_that_are_killed_again_and_again_change_nothing(given, model, expected, tmp_path):
    killed = []

    def kill(done, total):
        if done >= 6 * (len(killed) + 1) and done < total:
            for process in multiprocessing.active_children()[:1]:
                killed.append(process.pid)
                os.kill(process.pid, signal.SIGKILL)

    _restore(given, model, tmp_path / "clear.tif", workers=3, progress=kill)
    assert len(killed) >= 3
    assert small.digest(tmp_path / "clear.tif") == expected


def test_a_run_that_was_stopped_goes_on_elsewhere(given, model, address, expected, tmp_path):
    output, counts = tmp_path / "clear.tif", []

    def stop(done, total):
        if done >= 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _restore(given, model, output, cluster=address, progress=stop)
    left = run_folder(output)
    assert small.tiles(left)
    assert not list(left.glob("*.job")), "late workers could still write"
    _restore(given, model, output, progress=lambda done, total: counts.append(done))  # without them
    assert counts[0] >= small.TILES  # the first step is there
    assert small.digest(output) == expected


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_and_leaves_the_work(given, tmp_path):
    output = tmp_path / "clear.tif"
    words = [sys.executable, "-m", "emrdm", *small.words(*given, output), "sampler.steps=400", "--workers", "2"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not small.tiles(run_folder(output)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        children = psutil.Process(process.pid).children()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everybody
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    *progress, last = errors.splitlines()
    assert all(line.startswith("restoring clear.tif: ") for line in progress), errors
    assert last.startswith("emrdm restore: interrupted")
    assert len(children) > 2  # they may wait for somebody to ask how they ended, but not run
    psutil.wait_procs(children, timeout=10)
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert small.tiles(run_folder(output))


# ---------------------------------------------------------------- what goes wrong


def test_a_scheduler_that_is_not_there_is_one_line(given, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT", 0.5)
    assert main(["-q", *small.words(*given, tmp_path / "clear.tif"), "--cluster", "tcp://127.0.0.1:9"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--cluster tcp://127.0.0.1:9 cannot be reached" in error


@pytest.mark.parametrize("address", ["nonsense://x:1", "tcp://", "no host:8786", ""])
def test_an_address_that_is_none_is_one_line(denoiser, address, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT", 0.5)
    with (
        pytest.raises(InputError, match="cannot be reached"),
        cluster.on_cluster(denoiser, address, None, _room(denoiser)),
    ):
        pass


def test_a_scheduler_without_workers_is_one_line(denoiser, monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE", 0.2)
    with (
        distributed.LocalCluster(
            n_workers=0, dashboard_address=None, scheduler_kwargs={"dashboard_address": ":0"}
        ) as empty,
        pytest.raises(InputError, match="has no workers"),
        cluster.on_cluster(denoiser, empty.scheduler_address, None, _room(denoiser)),
    ):
        pass


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs a path that is another one for each process")
def test_workers_that_do_not_see_the_folder_are_one_line(denoiser, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    denoiser.folder = Path("/proc/self/cwd")
    with (
        pytest.raises(
            InputError, match=r"^worker tcp://\S+: \S+\.job cannot be read there: .*storage that all workers see"
        ),
        cluster.on_cluster(denoiser, address, None, _room(denoiser)),
    ):
        pass


def test_workers_of_another_version_are_one_line(denoiser, address, monkeypatch):
    monkeypatch.setattr("emrdm.__version__", "0.0.7")
    with (
        pytest.raises(InputError, match=r"^worker tcp://\S+: emrdm is \S+ there: expected 0\.0\.7"),
        cluster.on_cluster(denoiser, address, None, _room(denoiser)),
    ):
        pass


def test_an_error_of_a_worker_is_one_line(given, model, address, tmp_path, capsys):
    image = tmp_path / "gone.tif"
    image.write_bytes(given[0].read_bytes())

    def take_away(done, total):  # from the workers: the driver has it open
        image.unlink(missing_ok=True)

    with pytest.raises(DataError, match=r"^\S+gone.tif .*No such file") as found:
        _restore([image], model, tmp_path / "clear.tif", cluster=address, progress=take_away)
    assert "\n" not in str(found.value)
    assert capsys.readouterr().err == ""


def test_a_worker_that_fails_is_one_line(denoiser, address, monkeypatch):
    (denoiser.state(0, 1)).create()
    with cluster.on_cluster(denoiser, address, None, _room(denoiser)) as run:
        with pytest.raises(EmrdmError, match=r"^a worker failed \(IndexError: .*\); the same command goes on"):
            run(0, 0, [(99, 99)], lambda count: None)
        counts = []
        run(0, 0, list(denoiser.plan.tiles), counts.append)  # others are fine
        assert sum(counts) == small.TILES


@pytest.mark.parametrize(("answer", "line"), [({}, "no worker is left"), (OSError("gone"), r"does not answer .*gone")])
def test_nobody_waits_for_ever(answer, line, monkeypatch):
    class Client:
        def nthreads(self):
            if isinstance(answer, OSError):
                raise answer
            return answer

    class Future:
        def add_done_callback(self, act):
            """It is never done."""

    monkeypatch.setattr(cluster, "_PATIENCE", 0.05)
    with pytest.raises(EmrdmError, match=f"{line}.*; the same command goes on from there"):
        list(cluster._as_they_come(Client(), [Future()]))


@pytest.mark.slow
@pytest.mark.parametrize(("whom", "line"), [("scheduler", "^the scheduler "), ("worker", "^no worker is left")])
def test_a_cluster_that_goes_away_is_one_line(given, model, tmp_path, monkeypatch, capfd, whom, line):
    monkeypatch.setattr(cluster, "_PATIENCE", 5)
    with _cluster(tmp_path) as (address, scheduler, *workers):

        def kill(done, total):
            if done >= 4:
                for process in [scheduler] if whom == "scheduler" else workers:
                    process.kill()

        with pytest.raises(EmrdmError, match=line + r".*; the same command goes on"):
            _restore(given, model, tmp_path / "clear.tif", cluster=address, progress=kill)
    assert small.tiles(run_folder(tmp_path / "clear.tif"))
    assert capfd.readouterr().err == ""


def test_tiles_that_never_arrive_here_are_one_line(denoiser, address, monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
    after = denoiser.state(0, 1)
    after.create()
    with (
        cluster.on_cluster(denoiser, address, None, _room(denoiser)) as run,
        pytest.raises(EmrdmError, match="which a worker has written: expected storage that all workers share"),
    ):
        run(
            0,
            0,
            list(denoiser.plan.tiles)[-2:],
            lambda count: [path.unlink() for path in after.folder.glob("c/*/*/0/0/0")],
        )


def test_a_share_that_is_too_small_is_one_line(denoiser):
    with (
        pytest.raises(InputError, match=r"^the share of each of 64 workers is too small: .*expected .*GB at least"),
        cluster.on_cluster(denoiser, None, 64, _room(denoiser)),
    ):
        pass


def test_without_dask_it_says_what_to_install(denoiser, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingDependencyError, match=r"pip install 'emrdm\[scale\]'"),
        cluster.on_cluster(denoiser, None, 2, _room(denoiser)),
    ):
        pass


def test_an_interrupt_while_workers_start_comes_afterwards():
    steps = []

    def start():
        signal.raise_signal(signal.SIGINT)
        steps.append("started")

    with pytest.raises(KeyboardInterrupt), cluster._undisturbed():
        start()
    assert steps == ["started"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_the_log_of_dask_is_its_own_again_afterwards(denoiser):
    log = logging.getLogger("distributed")
    before = log.handlers, log.propagate
    with cluster._silence():
        assert (log.handlers, log.propagate) != before
    assert (log.handlers, log.propagate) == before
