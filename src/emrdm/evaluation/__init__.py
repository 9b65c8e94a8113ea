"""A model or somebody's predictions, and a data set, in; scores, tables and a page with pictures, out."""

from emrdm.evaluation.baselines import BASELINES
from emrdm.evaluation.predictors import BaselinePredictor, FolderPredictor, ModelPredictor, Predictor
from emrdm.evaluation.report import write_report
from emrdm.evaluation.results import Evaluation, Method, Published
from emrdm.evaluation.run import Settings, evaluate
from emrdm.evaluation.tables import as_csv, as_json, as_markdown, as_text

__all__ = [
    "BASELINES",
    "BaselinePredictor",
    "Evaluation",
    "FolderPredictor",
    "Method",
    "ModelPredictor",
    "Predictor",
    "Published",
    "Settings",
    "as_csv",
    "as_json",
    "as_markdown",
    "as_text",
    "evaluate",
    "write_report",
]
