"""``python -m emrdm``: the command line where nothing is installed."""

from emrdm.cli import program

program()
