"""Write the help texts that the tests compare with: python -m tests.cli.renew_help.

Read what git diff says of them before they are committed: they are what a user sees.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "help"


def texts() -> dict[str, str]:
    """Help of the program, of every verb and of every task, by the name of its file, at 80 columns."""
    from emrdm.cli import build_parser

    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        return {f"{parser.prog.replace(' ', '-')}.txt": parser.format_help() for parser in _all(build_parser())}
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def _all(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from _all(part)


def main() -> None:
    """Replace them all."""
    FOLDER.mkdir(exist_ok=True)
    found = texts()
    for path in FOLDER.glob("*.txt"):
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        (FOLDER / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
