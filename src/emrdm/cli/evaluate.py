"""``emrdm evaluate``: score a model, somebody's images or simple baselines on a data set, and write a report."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emrdm.cli import dataset_options, models, seen
from emrdm.cli.progress import Progress
from emrdm.errors import InputError, printable

if TYPE_CHECKING:
    from emrdm.data import Dataset
    from emrdm.evaluation import Predictor

HELP = "score a model or images on a data set, with a report"
DESCRIPTION = """\
Score a model, images that another program made, or simple baselines alone.
Every score is printed with its protocol (docs/metrics.md). A run that was
stopped goes on where it was when the same command is given again."""
EXAMPLES = """\
examples:
  emrdm evaluate weights.safetensors rice1 ROOT -o report/
  emrdm evaluate default rice1 ROOT               the model inside the package
  emrdm evaluate weights.safetensors rice1 ROOT sampler.steps=8 sampler.churn=0
  emrdm evaluate --predictions FOLDER rice1 ROOT -o report/
  emrdm evaluate rice1 ROOT                       baselines only
  emrdm evaluate rice1 ROOT --protocol standard --protocol cuhk
"""


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.usage = "%(prog)s [MODEL] DATASET ROOT [sampler.KEY=VALUE ...] [options]"
    parser.add_argument(
        "words",
        nargs="+",
        metavar="[MODEL] DATASET ROOT [sampler.KEY=VALUE ...]",
        help="weights file, preset or default; name of a data set (emrdm data list), its folder, sampler settings",
    )
    report = parser.add_argument_group("report")
    report.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="write a report with pictures there")
    report.add_argument("--overwrite", action="store_true", help="forget another evaluation in the report's folder")
    report.add_argument("--json", action="store_true", help="print the scores as JSON, for scripts")

    scored = parser.add_argument_group("what is scored")
    scored.add_argument("--predictions", type=Path, metavar="FOLDER", help="score the images in FOLDER")
    scored.add_argument(
        "--protocol", action="append", metavar="NAME", help="how, may be repeated (default: by DATASET)"
    )
    scored.add_argument("--no-baselines", action="store_true", help="leave out the simple methods")
    scored.add_argument("--limit", type=int, metavar="N", help="score N images only, evenly spread")
    dataset_options.add_refinements(parser)

    how = parser.add_argument_group("how it is done")
    how.add_argument("--exact", action="store_true", help="run the float32 network as it is, however slow")
    how.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the noise (default: %(default)s)")
    how.add_argument("--batch-size", type=int, default=4, metavar="N", help="images at a time (default: %(default)s)")
    how.add_argument("--workers", type=int, default=0, metavar="N", help="processes that read (default: %(default)s)")
    how.add_argument("--device", metavar="NAME", help="cpu or cuda (default: cuda where there is one)")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Evaluate, print the tables, write the report."""
    model_name, overrides = _words(arguments)
    _check(arguments, model_name, overrides)

    from emrdm.evaluation import Settings, as_json, as_text, evaluate, write_report
    from emrdm.metrics import find_protocols

    dataset = dataset_options.open_dataset(arguments)
    protocols = find_protocols(arguments.protocol or dataset.layout.protocols)
    device = models.device(arguments.device)
    count = min(len(dataset), arguments.limit or len(dataset))
    indices = [i * len(dataset) // count for i in range(count)]
    predictors, facts = _predictors(arguments, dataset, indices, model_name, overrides, device)
    found = evaluate(
        dataset,
        predictors,
        protocols,
        settings=Settings(
            folder=arguments.output,
            batch_size=arguments.batch_size,
            workers=arguments.workers,
            on_error=arguments.on_error,
            device=device,
            overwrite=arguments.overwrite,
        ),
        indices=indices,
        facts=facts,
        progress=Progress("evaluating", unit="images", silent=arguments.quiet),
    )
    page = None if arguments.output is None else write_report(found, arguments.output)[0]  # before anybody reads
    print(as_json(found) if arguments.json else "\n".join(map(printable, as_text(found).split("\n"))))
    if page is not None and not arguments.quiet and not arguments.json:
        print(f"\n{page}: open it in a browser; tables and per-image scores are beside it")


def _words(arguments: argparse.Namespace) -> tuple[str | None, dict[str, Any]]:
    """[MODEL] DATASET ROOT and settings of the sampler from the words of the command."""
    plain, overrides = models.sampler_words(arguments.words)
    if len(plain) not in (2, 3):
        setting = next((word for word in plain if re.fullmatch(r"[a-z_]+=.*", word)), None)
        hint = f"; a setting of the sampler is written sampler.{setting}" if setting else ""
        raise InputError(f"found {' '.join(plain)!r}: expected [MODEL] DATASET ROOT{hint}")
    *model, arguments.dataset, root = plain
    arguments.root = Path(root)
    return (model[0] if model else None), overrides


def _check(arguments: argparse.Namespace, model: str | None, overrides: dict[str, Any]) -> None:
    """Refuse what cannot work before anything is loaded."""
    if arguments.predictions is not None and model is not None:
        raise InputError(f"both a model ({model}) and --predictions were given: expected one of them")
    if overrides and model is None:
        raise InputError(f"sampler.{next(iter(overrides))} was given without a model: expected MODEL DATASET ROOT")
    if arguments.no_baselines and model is None and arguments.predictions is None:
        raise InputError("--no-baselines leaves nothing to score: give a model or --predictions")
    for option in ("limit", "batch_size"):
        value = getattr(arguments, option)
        if value is not None and value < 1:
            raise InputError(f"--{option.replace('_', '-')} is {value}: expected 1 or more")
    if arguments.workers < 0:
        raise InputError(f"--workers is {arguments.workers}: expected 0 or more")
    if arguments.output is not None and arguments.output.exists() and not arguments.output.is_dir():
        raise InputError(f"OUTPUT {arguments.output} is a file: expected a folder to write the report into")
    if arguments.overwrite and arguments.output is None:
        raise InputError("--overwrite is for a report: expected -o FOLDER with it")


def _predictors(
    arguments: argparse.Namespace,
    dataset: Dataset,
    indices: Sequence[int],
    model: str | None,
    overrides: dict[str, Any],
    device: str,
) -> tuple[list[Predictor], dict[str, str]]:
    """What is scored, and what a report says about how."""
    from emrdm.evaluation import BASELINES, BaselinePredictor, FolderPredictor, ModelPredictor

    predictors: list[Predictor] = []
    facts: dict[str, str] = {}
    if model is not None:
        loaded = models.load(model)
        digest, sampler = loaded.digest(), models.sampler(loaded, overrides)
        predictor = ModelPredictor(
            loaded.to(device),
            dataset,
            name=Path(model).name,
            digest=digest,
            sampler=sampler,
            seed=arguments.seed,
            exact=arguments.exact,
        )
        known = seen.note(model, loaded.card, dataset, [dataset.items[i].name for i in indices])
        predictor.notes += (known,) if known else ()
        predictors.append(predictor)
        facts |= {
            "model": f"{Path(model).name}: {loaded.card.title or 'untitled'}",
            "weights": f"{loaded.card.source}, digest {digest}",
            "sampler": f"{sampler.method}, {sampler.steps} steps, churn {sampler.churn:g}, noise {sampler.noise:g}",
            "seed": str(arguments.seed),
            "numbers": loaded.numbers(exact=arguments.exact),
            "device": device,
        }
    if arguments.predictions is not None:
        predictors.append(FolderPredictor(arguments.predictions, dataset))
        facts["predictions"] = arguments.predictions.name
    if not arguments.no_baselines:
        predictors += [BaselinePredictor(baseline, dataset.data) for baseline in BASELINES.values()]
    return predictors, facts
