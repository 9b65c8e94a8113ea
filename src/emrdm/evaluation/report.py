"""An evaluation as files: a page with pictures, tables for people, spreadsheets and scripts."""

from __future__ import annotations

from pathlib import Path

from emrdm.evaluation.page import render_page
from emrdm.evaluation.results import Evaluation
from emrdm.evaluation.run import OUTPUTS, PICTURES
from emrdm.evaluation.tables import as_csv, as_json, as_markdown
from emrdm.files import as_path, atomic_path


def write_report(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """Write ``report.html``, ``summary.md``, ``summary.json`` and ``scores.csv``; each is whole or not there."""
    folder = as_path(folder, "the folder of a report")
    pictures = folder / PICTURES
    contents = {
        "report.html": render_page(evaluation, pictures=pictures if pictures.is_dir() else None),
        "summary.md": as_markdown(evaluation),
        "summary.json": as_json(evaluation) + "\n",
        "scores.csv": as_csv(evaluation),
    }
    assert set(contents) <= set(OUTPUTS)
    written = []
    for name, content in contents.items():
        with atomic_path(folder / name) as temporary:
            temporary.write_bytes(content.encode("utf-8", "backslashreplace"))  # names of files may not be text
        written.append(folder / name)
    return written
