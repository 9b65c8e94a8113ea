"""How fast a model is and how much memory it takes, against the published way, with the same results."""

from emrdm.bench.cases import CASES, default_cases, read_cases
from emrdm.bench.measure import Effort
from emrdm.bench.paths import BASELINES, lively
from emrdm.bench.results import Report, as_json, from_json, read
from emrdm.bench.run import Settings, bench, read_device
from emrdm.bench.tables import as_markdown, as_text

__all__ = [
    "BASELINES",
    "CASES",
    "Effort",
    "Report",
    "Settings",
    "as_json",
    "as_markdown",
    "as_text",
    "bench",
    "default_cases",
    "from_json",
    "lively",
    "read",
    "read_cases",
    "read_device",
]
