"""The command line: one verb a part, and one line for what goes wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import benchmarks.results

from emrdm.errors import EmrdmError


def main(words: Sequence[str] | None = None) -> int:
    """Parse, run, and say in one line what was wrong."""
    arguments = _parser().parse_args(words)
    try:
        arguments.run(arguments)
    except EmrdmError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.results",
        description=benchmarks.results.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    score = _measuring(verbs.add_parser("score", help="a model on the test lists"), "score")
    score.add_argument("--limit", type=int, metavar="N", help="N images of each list only, for a try")
    score.add_argument("--no-baselines", action="store_true", help="leave out what needs no training")
    score.add_argument("--sheet", type=Path, metavar="FILE", help="a few images as a picture, not for publication")
    sweep = _measuring(verbs.add_parser("sweep", help="settings of the sampler on validation images"), "sweep")
    sweep.add_argument("--images", type=int, default=40, metavar="N", help="of each set (default: %(default)s)")
    # more than 16 images of 256 x 256 are not recorded as CUDA graphs, one for each setting
    sweep.set_defaults(batch_size=20)
    _measuring(verbs.add_parser("lists", help="how hard the test lists are, for a model"), "lists", "lists")
    collect = verbs.add_parser("collect", help="studies and runs that are finished")
    collect.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="of a study, of a run, or of some")
    collect.add_argument("--out", type=Path, required=True, metavar="RUNS", help="folder of the results")
    kinds, what = ("recipe", "alpha", "modules"), "what runs are: of a recipe search, or cases of a study"
    collect.add_argument("--as", dest="kind", choices=kinds, default="recipe", help=what)
    collect.add_argument("--base", default="rgb-small", metavar="BASE", help="preset or run to compare with")
    collect.add_argument("--note", default="", metavar="TEXT", help="what a reader must know of these runs")
    collect.add_argument("--rice", type=Path, metavar="ROOT", help="score cases that are runs on all validation images")
    collect.add_argument("--device", metavar="NAME", help="for --rice: cpu or cuda (default: cuda where there is one)")
    collect.add_argument("--batch-size", type=int, default=20, metavar="N", help="for --rice: images at a time")
    collect.set_defaults(run=_of("collecting", "collect"))
    embed = verbs.add_parser("embed", help="the weights as the package has them, in half precision")
    embed.add_argument("model", type=Path, metavar="MODEL", help="weights file, or the folder of a run")
    embed.add_argument("sampler", nargs="*", metavar="KEY=VALUE", help="settings of its sampler, such as steps=5")
    embed.add_argument("--name", required=True, help="what the model is called on the page, such as rgb-small")
    embed.add_argument("--runs", type=Path, required=True, metavar="RUNS", help="folder of the results, for its card")
    embed.add_argument("--out", type=Path, required=True, metavar="FILE", help="to write")
    embed.set_defaults(run=_of("embedding", "embed"))
    page = verbs.add_parser("page", help="the page, from what is there")
    page.add_argument("runs", type=Path, metavar="RUNS", help="folder of the results")
    page.add_argument("--docs", type=Path, required=True, metavar="FOLDER", help="gets results.md and its pictures")
    page.set_defaults(run=_of("page", "page"))
    return parser


def _of(module: str, function: str) -> Callable[[argparse.Namespace], None]:
    """A part that is imported when it is run: measuring needs no matplotlib, the page no model."""

    def run(arguments: argparse.Namespace) -> None:
        getattr(import_module(f"benchmarks.results.{module}"), function)(arguments)

    return run


def _measuring(parser: argparse.ArgumentParser, verb: str, module: str = "measuring") -> argparse.ArgumentParser:
    parser.add_argument("model", metavar="MODEL", help="weights file, or the folder of a run")
    parser.add_argument("--name", required=True, help="what the model is called on the page, such as rgb-small")
    parser.add_argument("--rice", type=Path, required=True, metavar="ROOT", help="folder with RICE1 and RICE2")
    parser.add_argument("--out", type=Path, required=True, metavar="RUNS", help="folder of the results")
    parser.add_argument("--device", metavar="NAME", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument("--batch-size", type=int, default=16, metavar="N", help="images at a time")
    parser.set_defaults(run=_of(module, verb))
    return parser


if __name__ == "__main__":
    sys.exit(main())
