"""A study as files: tables, a plot and a sheet of pictures."""

from __future__ import annotations

from pathlib import Path

from emrdm.ablation.figures import draw
from emrdm.ablation.findings import Findings
from emrdm.ablation.sheets import write_sheet
from emrdm.ablation.tables import tables
from emrdm.errors import MissingDependencyError
from emrdm.files import atomic_path

PLOTS, SHEET = ("plot.png", "plot.svg"), "sheet.png"


def write_report(findings: Findings, folder: Path) -> tuple[list[Path], list[str]]:
    """Write the tables, the plot and the sheet, each whole or not at all.

    Returns:
        the files, and a line for each that a missing package stood in the way of.
    """
    written = []
    for name, text in tables(findings).items():
        with atomic_path(folder / name) as temporary:
            temporary.write_text(text, "utf-8")
        written.append(folder / name)
    missing = []
    try:
        for name in PLOTS:
            draw(findings, folder / name)
            written.append(folder / name)
    except MissingDependencyError as error:
        missing.append(f"no plot: {error}")
    try:
        write_sheet(findings, folder / SHEET)
        written.append(folder / SHEET)
    except MissingDependencyError as error:
        missing.append(f"no picture sheet: {error}")
    return written, missing
