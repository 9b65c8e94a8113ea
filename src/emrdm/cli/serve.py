"""``emrdm serve``: a web page on this computer, for people who never typed a command."""

from __future__ import annotations

import argparse
import re
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path

from emrdm.errors import EmrdmError, InputError

HELP = "a web page on this computer: drop images, watch, download"
DESCRIPTION = """\
Serve a web page on this computer: drop one or several images or GeoTIFFs,
choose a model, watch the clouds go step by step, compare, download. It is for
this computer alone (127.0.0.1) and loads nothing from outside. Ctrl-C ends it;
nothing that was uploaded is kept."""
EXAMPLES = """\
examples:
  emrdm serve
  emrdm serve --models weights/ --port 8000
  emrdm serve --model runs/rice/model.safetensors --upload-limit 1GB
"""


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.add_argument(
        "--model", type=Path, action="append", default=[], metavar="FILE",
        help="weights to offer beside the model inside the package; may be repeated",
    )  # fmt: skip
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="offer all weights files in this folder")
    parser.add_argument(
        "--port", type=int, default=7860, metavar="N",
        help="port of the page, 127.0.0.1:N (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="to listen on; any other than the default lets others in, without a password (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--upload-limit", default="200MB", metavar="SIZE", help="of one uploaded file (default: %(default)s)"
    )
    parser.add_argument("--device", metavar="NAME", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page in a browser")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Serve until somebody ends it."""
    from emrdm.cli import models
    from emrdm.serve import server, shelf

    limit = _limit(arguments.upload_limit)
    offers = shelf.offers(arguments.model, arguments.models)
    device = models.device(arguments.device)
    with server.serving(offers, host=arguments.host, port=arguments.port, upload_limit=limit, device=device) as address:
        print(f"{address} is the page; Ctrl-C ends it", flush=True)
        if arguments.host not in server.LOCAL:
            print(f"  {arguments.host}: whoever can reach this computer can use it, without a password", flush=True)
        if not arguments.no_browser:
            webbrowser.open(address)
        with suppress(KeyboardInterrupt):  # the way to end it
            threading.Event().wait()


def _limit(text: str) -> int:
    """Bytes of a limit; MB and GB are powers of two here, as the browser counts that tells of them."""
    from emrdm.restoration.memory import parse_size

    try:
        return parse_size(re.sub(r"(?i)([mg])b$", r"\1iB", text.strip()))
    except EmrdmError:
        raise InputError(f"--upload-limit {text!r}: expected a size such as 200MB or 1GB") from None
