"""argparse as this command line wants it: mistakes in one line, help that reads well at 80 columns."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from emrdm.cli import terminal
from emrdm.errors import printable
from emrdm.strict import nearest

_HEADING = re.compile(r"^(usage:|\S[^\n]*:$)", re.MULTILINE)


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Says the value of an option once, breaks lines at blanks alone, and does not name what verbs are called."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _format_action(self, action: argparse.Action) -> str:
        if isinstance(action, argparse._SubParsersAction):
            return self._join_parts([self._format_action(part) for part in action._get_subactions()])
        return super()._format_action(action)


class Parser(argparse.ArgumentParser):
    """Answers a mistake with one line that names what may have been meant; options are not guessed from beginnings."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, **options}, allow_abbrev=False)
        self.color = False  # Python 3.14 paints help in many colours of its own
        self._positionals.title = "arguments"
        self._given: Sequence[str] = ()
        for action in self._actions:
            if isinstance(action, argparse._HelpAction):
                action.help = "show this help"

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; a misspelt option is what is told first, whatever else is missing because of it."""
        self._given = list(sys.argv[1:] if args is None else args)
        for word in self._given:
            name = word.partition("=")[0]
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                break  # what follows is the verb's
            if name.startswith("--") and name not in self._option_string_actions:
                self.error(f"unknown option {printable(name)}{self._nearest_option(name)}")
        return super().parse_known_args(self._given, namespace)

    def _nearest_option(self, name: str) -> str:
        known = [option for option in self._option_string_actions if option.startswith("--")]
        hint = nearest(name, known)
        return hint if "did you mean" in hint else ""  # all of them would be a long line

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """A value that is none of the choices."""
        if action.choices is None or value in action.choices:
            return
        what = f"unknown {str(action.metavar).lower()}" if isinstance(action, argparse._SubParsersAction) else "found"
        message = f"{what} {str(value)[:100]!r}{nearest(value, action.choices)}"
        if isinstance(action, argparse._SubParsersAction):
            self.error(message)
        raise argparse.ArgumentError(action, message)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """A value that is no number where one is expected."""
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in (int, float):
                raise
        expected = "a whole number" if action.type is int else "a number"
        raise argparse.ArgumentError(action, f"found {arg_string[:100]!r}: expected {expected}")

    def error(self, message: str) -> NoReturn:
        """End with 2 and one line."""
        terminal.complain(self.prog, f"{message} (see {self.prog} --help)", plain="--json" in self._given)
        self.exit(2)

    def format_usage(self) -> str:
        """One line: arguments and options that are required; the rest is listed below it."""
        self._summarise()
        return super().format_usage()

    def format_help(self) -> str:
        """Groups that a verb made for itself before those that all have."""
        self._summarise()
        self._action_groups.sort(key=lambda group: (group is not self._positionals, group is self._optionals))
        return super().format_help()

    def print_help(self, file: Any = None) -> None:
        """Print it, with headings in bold where there are colours."""
        file = sys.stdout if file is None else file
        text = self.format_help()
        if terminal.coloured(file):
            text = _HEADING.sub("\x1b[1m\\1\x1b[0m", text)
        print(text, end="", file=file)  # argparse's own way says nothing of a full disk

    def _summarise(self) -> None:
        if self.usage is not None:
            return
        formatter = HelpFormatter(self.prog)
        words = [self.prog]
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                words += ["[options]", f"{action.metavar} ..."]
            elif not action.option_strings:
                words.append(formatter._format_args(action, formatter._get_default_metavar_for_positional(action)))
        if self._subparsers is None:
            for action in self._actions:
                if action.option_strings and action.required:
                    value = formatter._format_args(action, formatter._get_default_metavar_for_optional(action))
                    words.append(f"{action.option_strings[0]} {value}")
            words.append("[options]")
        self.usage = " ".join(words).replace("%", "%%")
