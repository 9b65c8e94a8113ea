"""What is wrong with a server's wishes is said before anything is loaded."""

import os
import socket
import subprocess
import sys
import urllib.request

import pytest

from emrdm.cli import main
from emrdm.errors import InputError
from emrdm.serve.server import serving


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"port": 0}, "--port is 0: expected 1 to 65535"),
        ({"host": "no.such.host.invalid"}, "--host no.such.host.invalid is not known"),
        ({"upload_limit": 10}, "--upload-limit is 10 bytes: expected 1000 at least"),
    ],
)
def test_wrong_wishes_are_refused(wrong, words):
    with pytest.raises(InputError, match=words), serving([], **{"upload_limit": 10**6, **wrong}):
        pass


def test_a_port_in_use_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match=r"cannot be used \(Address already in use\): expected another --port"):
            serving([], port=taken.getsockname()[1], upload_limit=10**6).__enter__()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--upload-limit", "much"], "--upload-limit 'much': expected a size such as 200MB or 1GB"),
        (["--models", "/no/such/folder"], "--models /no/such/folder: expected a folder with weights files"),
        (["--model", "/no/such.safetensors"], "/no/such.safetensors"),
        (["--port", "99999"], "--port is 99999"),
        (["--device", "abacus"], "--device abacus cannot be used"),
    ],
)
def test_the_command_says_it_in_one_line(options, words, capsys):
    assert main(["serve", "--no-browser", *options]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_the_page_is_served_and_leaves_nothing_behind(tmp_path):
    """In a process of its own: the server's libraries leave loops and sockets to the end of theirs."""
    pytest.importorskip("gradio")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "emrdm", "serve", "--no-browser", "--port", str(port)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = f"http://127.0.0.1:{port}/"
            assert server.stdout.readline() == f"{address} is the page; Ctrl-C ends it\n"
            with urllib.request.urlopen(f"{address}config", timeout=30) as found:
                assert "default (red, green, blue)" in found.read().decode()
            assert list(tmp_path.glob("emrdm-serve-*"))
        finally:
            server.terminate()
        assert server.wait(30) == 0
    assert not list(tmp_path.glob("emrdm-serve-*"))
