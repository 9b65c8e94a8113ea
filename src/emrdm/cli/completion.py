"""``emrdm completion``: what the Tab key knows of this command line."""

from __future__ import annotations

import argparse

HELP = "print a script that teaches your shell to complete"
DESCRIPTION = """\
Print a script that teaches your shell to complete verbs, options, their values,
and names of presets, data sets and files. It is made from the options of this
version and runs nothing when Tab is pressed: renew it after an upgrade."""
EXAMPLES = """\
examples:
  source <(emrdm completion bash)               now, or in ~/.bashrc
  source <(emrdm completion zsh)                in ~/.zshrc, behind compinit
  emrdm completion fish > ~/.config/fish/completions/emrdm.fish
"""


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.usage = "%(prog)s {bash,zsh,fish} [options]"
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    from emrdm.cli import build_parser, commands, shells

    write = {"bash": shells.bash, "zsh": shells.zsh, "fish": shells.fish}[arguments.shell]
    print(write(commands.read(build_parser())), end="")
