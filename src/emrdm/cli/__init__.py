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
import traceback
from collections.abc import Sequence
from typing import NoReturn

import emrdm
from emrdm.cli import (
    ablate,
    bench,
    calibrate,
    completion,
    convert,
    data,
    evaluate,
    info,
    plot,
    preview,
    restore,
    serve,
    terminal,
    train,
    volume,
)
from emrdm.cli.parser import Parser
from emrdm.errors import EmrdmError, InputError, InterruptedRunError, printable

VERBS = (restore, serve, preview, calibrate, info, data, train, ablate, evaluate, bench, plot, convert, completion)

_EPILOG = """\
examples:
  emrdm restore cloudy.png -o clear.png     remove the clouds
  emrdm restore --help                      all about one verb

exit codes: 0 done, 1 failed, 2 wrong input or usage, 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser with all verbs."""
    parser = Parser(
        prog="emrdm",
        description="Remove clouds from satellite images with the EMRDM diffusion model.",
        epilog=_EPILOG,
    )
    parser.set_defaults(verb=None)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for module in VERBS:
        verb = verbs.add_parser(
            module.__name__.rpartition(".")[2],
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
        )
        tasks: list[argparse.ArgumentParser] = module.configure(verb)
        verb.set_defaults(run=module.run)
        for depth, part in ((1, verb), *((2, task) for task in tasks)):  # before the verb or after it
            _add_manners(part, depth)
    _add_manners(parser, 0)
    return parser


def _add_manners(parser: argparse.ArgumentParser, depth: int) -> None:
    """What every part of a command line understands; the version is offered at the beginning alone."""
    volume.add(parser, depth)
    offered = argparse.SUPPRESS if depth else "show the version"
    parser.add_argument("--version", action="version", version=f"emrdm {emrdm.__version__}", help=offered)


def _with_negative_ranges(arguments: Sequence[str]) -> list[str]:
    """``--range -25:0`` as ``--range=-25:0``: argparse would take -25:0 for an option."""
    words = list(arguments)
    for i in range(len(words) - 1, 0, -1):
        if words[i - 1] == "--range" and words[i][:1] == "-" and words[i][1:2] in tuple("0123456789."):
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
        terminal.complain(verb, f"cannot make sense of {printable(' '.join(rest))} (see {verb} --help)")
        parser.exit(InputError.exit_code)
    if parsed.verb is None:
        parser.print_help()
        return 0
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as for Ctrl-C
    return _run(parsed)


def _run(parsed: argparse.Namespace) -> int:
    """Run a verb; what goes wrong is said in one line."""
    who, plain, level = f"emrdm {parsed.verb}", bool(getattr(parsed, "json", False)), 0
    try:
        level = volume.read(parsed)
        volume.set_up_messages(level, plain=plain)
        parsed.run(parsed)
        if sys.stdout is not None:
            sys.stdout.flush()  # a full disk is noticed here, not behind everything
    except EmrdmError as error:
        _trace(level)
        terminal.complain(who, str(error), plain=plain)
        return error.exit_code
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print(file=sys.stderr)  # behind ^C, or a line of progress
        terminal.complain(who, "interrupted", plain=plain)
        return InterruptedRunError.exit_code
    except OSError as error:
        _trace(level)
        where = f"{printable(str(error.filename))}: " if error.filename else ""
        terminal.complain(who, f"{where}{error.strerror or error}", plain=plain)
        return EmrdmError.exit_code
    return 0


def _trace(level: int) -> None:
    """Where an error was raised, for those who asked for everything."""
    if level > 1:
        traceback.print_exc()


def program() -> NoReturn:
    """Run the command line of this process, and end it."""
    terminal.settle()
    try:
        code: object = main()
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:  # before there was anything to interrupt
        code = InterruptedRunError.exit_code
    except OSError as error:  # help that could not be printed
        terminal.complain("emrdm", error.strerror or str(error))
        code = EmrdmError.exit_code
    try:
        sys.stdout.flush()
    except OSError as error:  # such as a full disk; Python would try again behind this, and complain in its own way
        if not code:
            terminal.complain("emrdm", error.strerror or str(error))
        terminal.drop(sys.stdout)
        code = code or EmrdmError.exit_code
    if "WORLD_SIZE" in os.environ and isinstance(code, int | None):
        # One of several processes: threads of torch's collectives may still be there, and every so often abort what has
        # ended well. So without Python's way out.
        logging.shutdown()
        sys.stderr.flush()
        os._exit(code or 0)
    raise SystemExit(code)
