"""Opens files and reads a window of each, every one in a process of its own, and says what came of it.

A program: paths, as JSON, on its standard input; a list of outcomes on its standard output. A crash or a hang of the
reading library is an outcome like any other.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 20  # seconds after which a process is ended, and that is its outcome


def attempt(paths):
    """What came of each path: a list of {outcome, message, seconds, extra, total}; extra is memory in bytes."""
    command = [sys.executable, str(Path(__file__).resolve())]
    done = subprocess.run(
        command, input=json.dumps([os.fspath(path) for path in paths]), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def try_one(path):
    from emrdm.errors import EmrdmError
    from emrdm.rasters.source import open_source
    from emrdm.window import Window

    before, start, total, message = memory(), time.perf_counter(), None, ""
    try:
        source = open_source(path)
        pixels, valid = source.read(Window(0, 0, min(64, source.grid.height), min(64, source.grid.width)))
        outcome, total = "read", float(pixels[:, valid].astype(float).sum())
        message = repr((source.grid.transform, source.names, source.nodata, source.dtype.name, pixels.shape))
    except EmrdmError as error:
        outcome, message = "refused", str(error)
    except BaseException as error:
        outcome, message = type(error).__name__, str(error)
    seconds = time.perf_counter() - start
    return {"outcome": outcome, "message": message, "seconds": seconds, "extra": memory() - before, "total": total}


def in_child(path):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LIMIT)
        os.write(writing, json.dumps(try_one(path)).encode()[:60_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        return {"outcome": f"exit {status}", "message": "", "seconds": LIMIT, "extra": 0, "total": None}
    return json.loads(said)


def main():
    import numpy  # noqa: F401 - imported once, before the processes part
    import PIL.Image
    import PIL.JpegImagePlugin
    import PIL.PngImagePlugin
    import PIL.WebPImagePlugin  # noqa: F401
    import rasterio
    import rasterio.windows

    import emrdm.rasters.scene  # noqa: F401

    with rasterio.Env():
        pass
    json.dump([in_child(path) for path in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
