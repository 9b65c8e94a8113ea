"""The command line: one verb a part, and one line for what goes wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
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
    return parser


def _measuring(parser: argparse.ArgumentParser, verb: str) -> argparse.ArgumentParser:
    parser.add_argument("model", metavar="MODEL", help="weights file, or the folder of a run")
    parser.add_argument("--name", required=True, help="what the model is called on the page, such as rgb-small")
    parser.add_argument("--rice", type=Path, required=True, metavar="ROOT", help="folder with RICE1 and RICE2")
    parser.add_argument("--out", type=Path, required=True, metavar="RUNS", help="folder of the results")
    parser.add_argument("--device", metavar="NAME", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument("--batch-size", type=int, default=16, metavar="N", help="images at a time")

    def run(arguments: argparse.Namespace) -> None:
        from benchmarks.results import measuring

        getattr(measuring, verb)(arguments)

    parser.set_defaults(run=run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
