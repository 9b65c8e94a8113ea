"""The server: this computer alone, limits on uploads, nothing from outside, nothing left behind."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from emrdm import embedded
from emrdm.errors import InputError, MissingDependencyError
from emrdm.serve.desk import Desk
from emrdm.serve.guard import OwnPageOnly
from emrdm.serve.shelf import Offer, Shelf

LOCAL = ("127.0.0.1", "localhost", "::1")
"""What this computer calls itself."""
_LEAST_UPLOAD = 1000  # bytes


@contextmanager
def serving(
    offers: Sequence[Offer], *, host: str = "127.0.0.1", port: int = 7860, upload_limit: int, device: str = "cpu"
) -> Iterator[str]:
    """Serve the page while the block runs; its address. All temporary files are gone afterwards."""
    if upload_limit < _LEAST_UPLOAD:
        raise InputError(f"--upload-limit is {upload_limit} bytes: expected {_LEAST_UPLOAD} at least")
    _check_free(host, port)
    with tempfile.TemporaryDirectory(prefix="emrdm-serve-") as name, _quiet_gradio(Path(name) / "uploads"):
        folder = Path(name)
        gradio = _gradio()
        from emrdm.serve.page import STYLE, Page, theme

        results, uploads = folder / "results", folder / "uploads"
        example = folder / "example" / "example_cloudy.tif"
        for path in (results, uploads, example.parent):
            path.mkdir()
        shutil.copy(embedded.example().cloudy, example)
        gradio.set_static_paths([results, example.parent])  # served from where they are, and gone when they are
        desk = Desk(Shelf(offers, device), results, uploads)
        page = Page(desk, example, _words(upload_limit)).build()
        page.queue(default_concurrency_limit=None)
        try:
            page.launch(
                server_name=host,
                server_port=port,
                prevent_thread_lock=True,
                quiet=True,
                share=False,
                inbrowser=False,
                show_error=True,
                max_file_size=upload_limit,
                max_threads=64,
                ssr_mode=False,
                pwa=False,
                mcp_server=False,
                enable_monitoring=False,
                footer_links=[],
                app_kwargs=_guarded(host, port),
                theme=theme(),
                css_paths=[STYLE],
            )
            yield f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}/"
        finally:
            desk.close()
            page.close(verbose=False)


def _guarded(host: str, port: int) -> dict[str, Any]:
    """A server for this computer alone is also for its own page alone; others may be reached under many names."""
    if host not in LOCAL:
        return {}
    from starlette.middleware import Middleware

    hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))
    return {"middleware": [Middleware(OwnPageOnly, hosts=hosts)]}


def _gradio() -> Any:
    try:
        import gradio
    except ImportError:
        raise MissingDependencyError("the web page needs gradio: pip install 'emrdm[serve]'") from None
    return gradio


@contextmanager
def _quiet_gradio(uploads: Path) -> Iterator[None]:
    """Gradio's settings, which it reads from the environment: it tells nobody that it runs, and puts files here."""
    wanted = {
        "GRADIO_ANALYTICS_ENABLED": "False",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": "1",
        "GRADIO_TEMP_DIR": str(uploads),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _check_free(host: str, port: int) -> None:
    if not 1 <= port <= 65535:
        raise InputError(f"--port is {port}: expected 1 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror:
        raise InputError(
            f"--host {host} is not known: expected an address of this computer, such as 127.0.0.1"
        ) from None
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be used ({error.strerror}): expected another --port or --host"
        ) from None


def _words(size: int) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"
