"""The paper's ablations as one call: a study and a data set in; models, scores, a table, a plot and pictures out."""

from emrdm.ablation.findings import Findings, Result
from emrdm.ablation.plan import Scoring
from emrdm.ablation.report import write_report
from emrdm.ablation.run import Listener, ablate
from emrdm.ablation.tables import as_csv, as_json, as_markdown, as_text, from_json, read

__all__ = [
    "Findings",
    "Listener",
    "Result",
    "Scoring",
    "ablate",
    "as_csv",
    "as_json",
    "as_markdown",
    "as_text",
    "from_json",
    "read",
    "write_report",
]
