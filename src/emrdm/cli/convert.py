"""``emrdm convert``: between published checkpoints and our weights files."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from emrdm.cli.outputs import check_new
from emrdm.errors import InputError

if TYPE_CHECKING:
    from emrdm.model import EMRDM

HELP = "turn a published .ckpt into a weights file, or back"
DESCRIPTION = (
    "Turn a checkpoint of the published implementation into a self-describing\n"
    "weights file, or a weights file back; a checkpoint of a run of emrdm train into\n"
    "a weights file. Checkpoints are read as plain tensors; nothing in them is run."
)
EXAMPLES = """\
examples:
  emrdm convert their.ckpt --preset cuhk-cr1 -o cuhk.safetensors
  emrdm convert their.ckpt --preset cuhk-cr1 -o cuhk.safetensors --dtype float16
  emrdm convert cuhk.safetensors -o back.ckpt
  emrdm convert runs/x/checkpoints/step-00001000.safetensors -o x.safetensors
"""
_WEIGHTS, _CHECKPOINTS = (".safetensors",), (".ckpt", ".pt", ".pth")


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments."""
    parser.add_argument(
        "input",
        type=Path,
        metavar="INPUT",
        help="a published .ckpt, a run's checkpoint, or a .safetensors weights file",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="OUTPUT",
        help="file to write: .safetensors, or .ckpt to go back",
    )
    parser.add_argument("--preset", metavar="NAME", help="preset the checkpoint was trained with (see emrdm info)")
    parser.add_argument("--live", action="store_true", help="take the live weights instead of the averaged (EMA) ones")
    parser.add_argument(
        "--dtype",
        choices=("float32", "float16", "bfloat16"),
        default=None,
        help="number type to store (default: float32)",
    )
    parser.add_argument("--licence", metavar="TEXT", help="licence of the weights, for their model card")
    parser.add_argument("--source", metavar="TEXT", help="where the weights come from, for their model card")
    parser.add_argument("--overwrite", action="store_true", help="replace OUTPUT if it exists")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON, for scripts")
    return []


def run(arguments: argparse.Namespace) -> None:
    """Convert, and say what was written."""
    source, target = arguments.input, arguments.output
    _check(arguments)

    import torch

    from emrdm.model import EMRDM
    from emrdm.weights import read_header

    if source.suffix in _WEIGHTS:
        model = _of_checkpoint(source, live=arguments.live) if _is_ours(source) else EMRDM.load(source)
        card = model.card
        model.card = replace(card, licence=arguments.licence or card.licence, source=arguments.source or card.source)
    else:
        model = EMRDM.from_published(
            source,
            preset=arguments.preset,
            ema=not arguments.live,
            licence=arguments.licence or "unknown",
            source=arguments.source,
        )
    if target.suffix in _WEIGHTS:
        model.save(target, dtype=getattr(torch, arguments.dtype or "float32"))
    else:
        model.to_published(target)
    tensors, parameters = len(model.network.state_dict()), model.config.cost().parameters
    size = target.stat().st_size
    if arguments.json:
        facts = {"output": str(target), "tensors": tensors, "parameters": parameters, "bytes": size}
        digest = read_header(target).digest if target.suffix in _WEIGHTS else None
        print(json.dumps({**facts, "digest": digest}, indent=2))
    elif not arguments.quiet:
        print(f"{target}: {tensors} tensors, {parameters:,} parameters, {size / 1e6:.1f} MB")


def _is_ours(source: Path) -> bool:
    """Whether a .safetensors file is the checkpoint of a run."""
    from emrdm.training.checkpoint import is_checkpoint

    return source.suffix in _WEIGHTS and is_checkpoint(source)


def _of_checkpoint(source: Path, *, live: bool) -> EMRDM:
    from emrdm.training.export import of_checkpoint

    return of_checkpoint(source, live=live)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot work before anything is loaded."""
    source, target = arguments.input, arguments.output
    for path, role in ((source, "INPUT"), (target, "OUTPUT")):
        if path.suffix not in _WEIGHTS + _CHECKPOINTS:
            raise InputError(f"{role} {path}: expected a name ending in {', '.join(_WEIGHTS + _CHECKPOINTS)}")
    if source.suffix in _CHECKPOINTS and target.suffix in _CHECKPOINTS:
        raise InputError(f"{source} and {target} are both checkpoints: expected a .safetensors file on one side")
    if not source.is_file():
        raise InputError(f"INPUT {source} {'is not a file' if source.exists() else 'does not exist'}")
    if target.is_dir():
        raise InputError(f"OUTPUT {target} is a folder")
    _refuse_idle_options(arguments)
    if source.suffix in _CHECKPOINTS and arguments.preset is None:
        raise InputError(f"--preset is missing: {source} does not say which network it holds (see emrdm info)")
    check_new(target, overwrite=arguments.overwrite)


def _refuse_idle_options(arguments: argparse.Namespace) -> None:
    """An option that would do nothing is a mistake."""
    if arguments.input.suffix in _WEIGHTS:
        for option in ("preset", "live"):
            if getattr(arguments, option) and not (option == "live" and _is_ours(arguments.input)):
                raise InputError(f"--{option} is for checkpoints: {arguments.input} describes itself")
    if arguments.output.suffix in _CHECKPOINTS:
        for option in ("dtype", "licence", "source"):
            if getattr(arguments, option):
                raise InputError(f"--{option} has no place in a checkpoint such as {arguments.output}")
