"""The command line: ``emrdm VERB ...``, one file a verb.

Built on argparse alone, so that it starts at once and works on a host that has torch, numpy and nothing else. A
verb's file says how it is called and imports what is heavy only when it runs.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import emrdm
from emrdm.cli import ablate, bench, calibrate, convert, data, evaluate, info, preview, restore, train
from emrdm.errors import EmrdmError, printable

VERBS = (restore, preview, calibrate, info, data, train, ablate, evaluate, bench, convert)

_EPILOG = """\
exit codes: 0 done, 1 failed, 2 wrong input or usage, 130 interrupted
"""


class _Parser(argparse.ArgumentParser):
    """Answers a mistake with one line instead of the whole usage; options are not guessed from their beginnings."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser with all verbs."""
    parser = _Parser(
        prog="emrdm",
        description="Remove clouds from satellite images with the EMRDM diffusion model.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"emrdm {emrdm.__version__}")
    parser.set_defaults(verb=None)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for module in VERBS:
        verb = verbs.add_parser(
            module.__name__.rpartition(".")[2],
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        tasks: list[argparse.ArgumentParser] = module.configure(verb)
        for part in (verb, *tasks):
            _add_volume(part, default=argparse.SUPPRESS)  # before the verb or after it
        verb.set_defaults(run=module.run)
    _add_volume(parser, default=False)
    return parser


def _add_volume(parser: argparse.ArgumentParser, *, default: Any) -> None:
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("-v", "--verbose", action="store_true", default=default, help="say more about what is done")
    volume.add_argument("-q", "--quiet", action="store_true", default=default, help="say only what was asked for")


def _with_negative_ranges(arguments: Sequence[str]) -> list[str]:
    """``--range -25:0`` as ``--range=-25:0``: argparse would take -25:0 for an option."""
    words = list(arguments)
    for i in range(len(words) - 1, 0, -1):
        if words[i - 1] == "--range" and words[i][:1] == "-" and words[i][1:2].isdigit():
            words[i - 1 : i + 1] = [f"--range={words[i]}"]
    return words


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    parser = build_parser()
    parsed, rest = parser.parse_known_args(_with_negative_ranges(sys.argv[1:] if arguments is None else arguments))
    if hasattr(parsed, "words") and not any(word.startswith("-") for word in rest):
        parsed.words += rest  # settings such as sampler.steps=8 may stand behind options
    elif rest:
        verb = f"{parser.prog} {parsed.verb}" if parsed.verb else parser.prog
        parser.exit(2, f"{verb}: unrecognized arguments: {' '.join(rest)} (see {verb} --help)\n")
    if parsed.verb is None:
        parser.print_help()
        return 0
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as for Ctrl-C
    level = logging.INFO if parsed.verbose else logging.ERROR if parsed.quiet else logging.WARNING
    logging.basicConfig(level=level, format="emrdm: %(message)s", stream=sys.stderr)
    if not parsed.verbose:  # GDAL grumbles about odd tags of images that are fine
        logging.getLogger("rasterio").setLevel(logging.CRITICAL)
    try:
        parsed.run(parsed)
    except EmrdmError as error:
        print(f"emrdm {parsed.verb}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"emrdm {parsed.verb}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{printable(str(error.filename))}: " if error.filename else ""
        print(f"emrdm {parsed.verb}: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def program() -> NoReturn:
    """Run the command line of this process, and end it."""
    try:
        code: object = main()
    except SystemExit as end:
        code = end.code
    if "WORLD_SIZE" in os.environ and isinstance(code, int | None):
        # One of several processes: threads of torch's collectives may still be there, and every so often abort what has
        # ended well. So without Python's way out.
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    raise SystemExit(code)
