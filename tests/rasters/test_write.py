"""Writing images: whole and verified, or not at all; the same pixels give the same bytes."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.rasters.written import PLACE, UTM, digest, hole, names_in, refused, texture, tiles, write

from emrdm.errors import EmrdmError, InputError
from emrdm.rasters import read
from emrdm.rasters.grid import Grid
from emrdm.rasters.write import writing
from emrdm.window import Window

# ---------------------------------------------------------------- the same bytes


@pytest.mark.parametrize("kind", ["cog", "gtiff"])
@pytest.mark.parametrize("how", [{"nodata": 0}, {"masked": True}])
def test_the_same_pixels_give_the_same_bytes(kind, how, tmp_path):
    pixels, valid = texture((3, 1100, 600)), hole((1100, 600))
    grid = Grid(1100, 600, UTM, PLACE)
    orders = [tiles(grid, 512, 512), tiles(grid, 512, 512)[::-1], tiles(grid, 77, 600), tiles(grid, 1100, 130)]
    np.random.default_rng(0).shuffle(orders[2])
    digests = set()
    for i, windows in enumerate(orders):
        path = write(tmp_path / f"{i}.tif", pixels, valid, windows=windows, kind=kind, tags={"A": "b"}, **how)
        digests.add(digest(path))
    assert len(digests) == 1
    pixels[0, 0, 599] += 1
    assert digest(write(tmp_path / "other.tif", pixels, valid, kind=kind, tags={"A": "b"}, **how)) not in digests


def test_threads_may_write_together(tmp_path):
    pixels, grid = texture((3, 700, 600)), Grid(700, 600, UTM, PLACE)
    alone = write(tmp_path / "alone.tif", pixels)
    with writing(tmp_path / "many.tif", grid, bands=("",) * 3, dtype="uint16") as image:

        def work(windows):
            for w in windows:
                image.write(w, pixels[:, w.rows, w.columns], np.ones((w.height, w.width), bool))

        threads = [threading.Thread(target=work, args=(tiles(grid, 64, 64)[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert digest(alone) == digest(tmp_path / "many.tif")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"nodata": -9999}, "nodata -9999: expected a whole number from 0 to 65535"),
        ({"nodata": 1.5}, "nodata 1.5: expected a whole number"),
        ({"nodata": float("nan")}, "nodata nan: expected a whole number"),
        ({"dtype": "float16"}, "type float16: expected one of uint8"),
        ({"dtype": "complex64"}, "type complex64: expected one of uint8"),
        ({"bands": ()}, "0 bands"),
        ({"scales": (1.0,)}, "1 scales for 2 bands: expected one a band"),
        ({"kind": "png"}, "kind 'png': expected one of cog, gtiff, picture"),
        ({"kind": "picture"}, r"expected a name ending in \.png"),
        ({"tags": {"A": "\0b"}}, "a GeoTIFF cannot hold this"),
        ({"grid": Grid(0, 5)}, "at least one of each"),
    ],
)
def test_what_no_file_can_hold_is_refused_before_any_work(options, match, tmp_path):
    pixels = texture((2, 5, 6))
    refused(InputError, match, tmp_path / "a.tif", pixels, **{"bands": ("", ""), **options})
    assert not names_in(tmp_path)


@pytest.mark.parametrize(
    ("windows", "match"),
    [
        ([Window(0, 0, 20, 30), Window(10, 10, 1, 1)], "overlap: expected each pixel once"),
        ([Window(0, 0, 20, 30), Window(0, 0, 20, 30)], "overlap: expected each pixel once"),
        ([Window(0, 0, 10, 30)], "300 of 600 pixels were written: expected all of them"),
        ([Window(0, 0, 21, 30)], "not inside of 30 x 20"),
        ([Window(-1, 0, 5, 30)], "not inside of 30 x 20"),
    ],
)
@pytest.mark.parametrize("name", ["a.tif", "a.png"])
def test_each_pixel_is_written_once(windows, match, name, tmp_path):
    grid = Grid(20, 30)
    pixels = np.zeros((1, 21, 30), np.uint8)

    def write_all():
        with writing(tmp_path / name, grid, bands=("",), dtype="uint8") as image:
            for window in windows:
                _, _, height, width = window
                image.write(window, pixels[:, :height, :width], np.ones((height, width), bool))

    with pytest.raises(InputError, match=match):
        write_all()
    assert not names_in(tmp_path)


@pytest.mark.parametrize(
    ("pixels", "valid", "match"),
    [
        (np.zeros((1, 20, 31), np.uint8), np.ones((20, 30), bool), "expected uint8"),
        (np.zeros((1, 20, 30), np.int16), np.ones((20, 30), bool), "a window holds int16"),
        (np.zeros((1, 20, 30), np.uint8), np.ones((20, 30)), "a mask is float64"),
        (np.zeros((1, 20, 30), np.uint8), np.zeros((20, 30), bool), "expected a nodata value or a mask"),
    ],
)
def test_windows_that_are_not_as_said(pixels, valid, match, tmp_path):
    grid = Grid(20, 30)
    with pytest.raises(InputError, match=match), writing(tmp_path / "a.tif", grid, bands=("",), dtype="uint8") as image:
        image.write(Window(0, 0, 20, 30), pixels, valid)
    assert not names_in(tmp_path)


def test_what_is_there_is_only_replaced_when_told_to(tmp_path):
    path, pixels = tmp_path / "a.tif", texture((1, 5, 6))
    path.write_text("old")
    refused(InputError, "is there already", path, pixels)
    assert path.read_text() == "old"
    write(path, pixels, overwrite=True)
    np.testing.assert_array_equal(read(path).pixels, pixels)
    (tmp_path / "b.tif").mkdir()
    refused(InputError, "is no file", tmp_path / "b.tif", pixels, overwrite=True)
    (tmp_path / "file").touch()
    refused(InputError, "is a file: expected a folder", tmp_path / "file" / "a.tif", pixels)


def test_a_file_that_appeared_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "a.tif"

    def write_slowly():
        with writing(path, Grid(5, 6), bands=("",), dtype="uint8") as image:
            image.write(Window(0, 0, 5, 6), np.ones((1, 5, 6), np.uint8), np.ones((5, 6), bool))
            path.write_text("faster")

    with pytest.raises(InputError, match="is there already"):
        write_slowly()
    assert path.read_text() == "faster"
    assert names_in(tmp_path) == ["a.tif"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "data.tif", tmp_path / "link.tif"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write(link, texture((1, 5, 6)), overwrite=True)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    np.testing.assert_array_equal(read(target).pixels, texture((1, 5, 6)))
    assert names_in(tmp_path / "there") == ["data.tif"]


# ---------------------------------------------------------------- disks


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["a.tif", "a.png"])
def test_nothing_changes_when_the_block_ends_badly(error, name, tmp_path):
    path = tmp_path / name
    path.write_text("old")

    def fail():
        with writing(path, Grid(20, 30), bands=("",), dtype="uint8", overwrite=True) as image:
            image.write(Window(0, 0, 10, 30), np.ones((1, 10, 30), np.uint8), np.ones((10, 30), bool))
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert names_in(tmp_path) == [name]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    refused(InputError, "cannot be written", tmp_path / "a.tif", texture((1, 5, 6)))


@pytest.mark.parametrize("name", ["a.tif", "a.png"])
def test_a_folder_that_the_system_refuses(name, tmp_path, monkeypatch):
    """As on a read-only disk, also for root."""

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("os.mkdir", refuse)
    monkeypatch.setattr("os.open", refuse)
    refused(
        InputError,
        "cannot be written: Read-only file system",
        tmp_path / name,
        texture((1, 5, 6), "uint8"),
        grid=Grid(5, 6),
    )
    monkeypatch.undo()
    assert not names_in(tmp_path)


@pytest.mark.parametrize("name", ["a.tif", "a.png"])
def test_what_cannot_fit_is_refused_before_any_work(name, tmp_path, monkeypatch):
    monkeypatch.setattr("emrdm.files.free_bytes", lambda folder: 1000)
    message = refused(EmrdmError, "needs up to", tmp_path / name, texture((1, 50, 60), "uint8"), grid=Grid(50, 60))
    assert "1,000 are free" in message
    assert str(tmp_path) in message
    assert not names_in(tmp_path)


FULL_DISK = """
    import resource, signal, sys
    import numpy as np
    from pathlib import Path
    from emrdm.errors import EmrdmError
    from emrdm.rasters import write_geotiff
    from emrdm.rasters.grid import Grid
    from emrdm.rasters.write import writing
    from emrdm.window import Window

    path, limit, moment, kind = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill_the_disk(*_):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def first(moment, function):
        def patched(*arguments):
            if "first.tif" not in str(arguments[0]):
                fill_the_disk()
            return function(*arguments)
        return patched

    if moment == "close":
        write_geotiff.GeoTiffWriter.close = first(moment, write_geotiff.GeoTiffWriter.close)
    if moment == "copy":
        write_geotiff._copy = first(moment, write_geotiff._copy)
    if moment == "overview":
        write_geotiff._Level.overview = first(moment, write_geotiff._Level.overview)
    pixels = np.random.default_rng(0).integers(1, 60000, (3, 1100, 600)).astype(np.uint16)
    try:
        with writing(path, Grid(1100, 600), bands=("",) * 3, dtype="uint16", nodata=0, kind=kind, overwrite=True) as image:
            if moment == "write":
                fill_the_disk()
            for row in range(0, 1100, 100):
                image.write(Window(row, 0, 100, 600), pixels[:, row : row + 100], np.ones((100, 600), bool))
    except EmrdmError as error:
        print("refused:", error)
        sys.exit(3)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of processes are known to POSIX alone")
@pytest.mark.parametrize("kind", ["cog", "gtiff"])
@pytest.mark.parametrize("moment", ["write", "close", "overview", "copy"])
@pytest.mark.parametrize("limit", [0, 4096, 500_000, 1_500_000])
def test_a_disk_that_is_full_is_noticed_at_whatever_moment(moment, kind, limit, tmp_path):
    """A process may write files of so many bytes from a moment on: GDAL fails as on a full disk, and tells nobody."""
    if moment == "overview" and kind == "gtiff":
        pytest.skip("has none")
    path = tmp_path / "a.tif"
    path.write_text("old")
    command = [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path), str(limit), moment, kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"refused: {path} could not be written" in done.stdout
    assert "bytes are needed" in done.stdout
    assert done.stdout.count("\n") == 1
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["a.tif"]


@pytest.mark.parametrize("name", ["a.tif", "a.png"])
@pytest.mark.parametrize("moment", ["replace", "fsync"])
def test_a_disk_that_is_full_at_the_last_moment(name, moment, tmp_path, monkeypatch):
    path = tmp_path / name
    path.write_text("old")

    def refuse(*_):
        raise OSError(28, "No space left on device")

    original = Path.replace
    monkeypatch.setattr(Path, "replace", lambda a, b: refuse() if b == path and moment == "replace" else original(a, b))
    if moment == "fsync":
        monkeypatch.setattr("os.fsync", refuse)
    grid = Grid(50, 60, None, PLACE)
    match = "could not be written: No space left on device; up to .* bytes are needed"
    refused(EmrdmError, match, path, texture((1, 50, 60), "uint8"), grid=grid, overwrite=True)
    assert path.read_text() == "old"
    assert names_in(tmp_path) == [name]


def test_a_bit_that_is_lost_on_the_way_is_noticed(tmp_path, monkeypatch):
    from emrdm.rasters import write_geotiff

    def lossy(path):
        content = bytearray(path.read_bytes())
        content[len(content) // 2 : len(content) // 2 + 64] = bytes(64)
        path.write_bytes(content)

    monkeypatch.setattr(write_geotiff, "sync", lossy)
    refused(EmrdmError, "could not be written", tmp_path / "a.tif", texture((3, 1100, 600)))
    assert not names_in(tmp_path)


def test_what_a_killed_process_left_is_swept_away(tmp_path):
    code = """
        import os, signal, sys
        import numpy as np
        from emrdm.rasters.grid import Grid
        from emrdm.rasters.write import writing
        from emrdm.window import Window
        with writing(sys.argv[1], Grid(600, 600), bands=("",), dtype="uint8") as image:
            image.write(Window(0, 0, 300, 600), np.ones((1, 300, 600), np.uint8), np.ones((300, 600), bool))
            os.kill(os.getpid(), signal.SIGKILL)
    """
    path = tmp_path / "a.tif"
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], timeout=120, check=False)
    assert not path.exists()
    assert len(names_in(tmp_path)) == 1
    write(path, texture((1, 5, 6)))
    assert names_in(tmp_path) == ["a.tif"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is told on Linux")
@pytest.mark.parametrize("rows", [1000, 4000])
def test_memory_does_not_grow_with_the_image(rows, tmp_path):
    code = """
        import re, sys
        from pathlib import Path
        import numpy as np
        from emrdm.rasters.grid import Grid
        from emrdm.rasters.write import writing
        from emrdm.window import Window
        rows, side = int(sys.argv[2]), 500
        pixels = np.random.default_rng(0).normal(1500, 300, (13, side, side)).astype(np.uint16)
        with writing(sys.argv[1], Grid(rows, 11000), bands=("",) * 13, dtype="uint16", nodata=0) as image:
            for row in range(0, rows, side):
                for column in range(0, 11000, side):
                    image.write(Window(row, column, side, side), pixels, np.ones((side, side), bool))
        # not ru_maxrss, which begins with what the parent had
        print(int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "a.tif"), str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True)
    assert int(done.stdout) < 400


def test_thousands_of_windows_take_no_time_to_be_told_apart(tmp_path):
    start = time.perf_counter()
    grid = Grid(1000, 1000)
    write(tmp_path / "a.png", np.zeros((1, 1000, 1000), np.uint8), grid=grid, windows=tiles(grid, 10, 10))
    assert time.perf_counter() - start < 10
