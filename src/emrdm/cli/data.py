"""``emrdm data``: what data sets there are, whether a folder is one, and what it looks like."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from emrdm.cli import dataset_options
from emrdm.cli.outputs import check_new
from emrdm.cli.progress import Progress
from emrdm.errors import DataError, InputError, printable

_LOG = logging.getLogger(__name__)
HELP = "list data sets, check a folder, show what is in it"
DESCRIPTION = "Look at data sets: those that are known, and folders that you have."
EXAMPLES = """\
examples:
  emrdm data list
  emrdm data list rice1                         what its folder must look like
  emrdm data verify sen12ms-cr ROOT             everything; --no-decode is quick
  emrdm data verify sen12ms-cr ROOT --rule paper
  emrdm data preview rice2 ROOT -o sheet.png
  emrdm data preview pairs ROOT --range 0:10000 --bands B4,B3,B2 -o sheet.png
"""


def configure(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Declare the arguments; the parsers of the tasks."""
    tasks = parser.add_subparsers(dest="task", metavar="TASK", title="tasks", required=True)
    listing = tasks.add_parser(
        "list",
        help="list those that are known, with the folders they expect",
        description="List the data sets that are known, or what the folder of one must look like.",
        epilog=_examples("list"),
    )
    listing.add_argument("name", nargs="?", metavar="NAME", help="tell all about this one")
    listing.add_argument("--json", action="store_true", help="print the answer as JSON, for scripts")

    verify = tasks.add_parser(
        "verify",
        help="check a folder: layout, counts, every file, leaks",
        description="Check a folder: layout, counts, every file, leaks between training and test.\n"
        "Ends with exit code 2 if something is wrong.",
        epilog=_examples("verify"),
    )
    dataset_options.add(verify, split=False)
    verify.add_argument("--no-decode", action="store_true", help="list the files only, do not open them")
    verify.add_argument("--workers", type=int, default=4, metavar="N", help="threads that read (default: %(default)s)")
    verify.add_argument("--json", action="store_true", help="print the answer as JSON, for scripts")

    preview = tasks.add_parser(
        "preview",
        help="draw a contact sheet: cloudy frames, masks, target",
        description="Draw a contact sheet of a folder: cloudy frames, auxiliary bands, masks, target.",
        epilog=_examples("preview"),
    )
    sheet = preview.add_argument_group("sheet")
    sheet.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help=".png, .jpg or .webp to write")
    sheet.add_argument("--rows", type=int, default=6, metavar="N", help="samples to show (default: %(default)s)")
    sheet.add_argument("--name", action="append", metavar="NAME", help="show this sample; may be repeated")
    sheet.add_argument(
        "--side", type=int, default=224, metavar="PIXELS", help="side of a picture (default: %(default)s)"
    )
    sheet.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    dataset_options.add(preview, default_split="all")
    return [listing, verify, preview]


def _examples(task: str) -> str:
    """Those of the verb that show this task."""
    head, *lines = EXAMPLES.splitlines()
    return "\n".join([head, *(line for line in lines if f" data {task}" in line)])


def run(arguments: argparse.Namespace) -> None:
    """Do the task."""
    {"list": _list, "verify": _verify, "preview": _preview}[arguments.task](arguments)


def _list(arguments: argparse.Namespace) -> None:
    from emrdm.data import CATALOG, find_layout

    chosen = {arguments.name: find_layout(arguments.name)} if arguments.name else CATALOG
    if arguments.json:
        facts = {
            name: {
                "title": layout.title,
                "folder": layout.layout_help(),
                "bands": [band.name for band in layout.bands],
                "aux": [band.name for band in layout.aux],
                "frames": layout.frames,
                "protocols": layout.protocols,
                "rules": layout.rules,
                "expected": dict(layout.expected),
                "homepage": layout.homepage,
            }
            for name, layout in chosen.items()
        }
        print(json.dumps(facts, indent=2))
        return
    if not arguments.name:
        width = max(map(len, chosen))
        for name, layout in chosen.items():
            print(f"{name:{width}}  {layout.title}")
        print("\nemrdm data list NAME tells what a folder must look like.")
        return
    print(_describe(chosen[arguments.name]))


def _describe(layout: object) -> str:
    import textwrap

    from emrdm.data import Layout

    assert isinstance(layout, Layout)
    rows = [
        ("folder", layout.layout_help()),
        ("bands", ", ".join(band.name for band in layout.bands) or "those of the files, or --bands"),
        ("beside them", ", ".join(band.name for band in layout.aux)),
        ("frames", str(layout.frames) if layout.frames > 1 else ""),
        ("protocols", ", ".join(layout.protocols)),
        ("rules", ", ".join(f"{rule} (default)" if i == 0 else rule for i, rule in enumerate(layout.rules))),
        ("complete", ", ".join(f"{split} {count:,}" for split, count in layout.expected.items())),
        ("from", layout.homepage),
    ]
    lines = [f"{layout.name}: {layout.title}", ""]
    for label, text in rows:
        if text:
            lines += textwrap.wrap(
                text, 78, initial_indent=f"{label:12}", subsequent_indent=" " * 12, break_on_hyphens=False
            )
    return "\n".join(lines)


def _verify(arguments: argparse.Namespace) -> None:
    from emrdm.data.dataset import pick_rule
    from emrdm.data.verify import verify

    layout = dataset_options.layout(arguments)
    if arguments.workers < 1:
        raise InputError(f"--workers is {arguments.workers}: expected 1 or more")
    rule = pick_rule(layout, arguments.rule)
    progress = Progress("reading", unit="samples", silent=arguments.quiet)
    found = verify(
        layout, arguments.root, rule=rule, decode=not arguments.no_decode, workers=arguments.workers, progress=progress
    )
    if arguments.json:
        facts = {
            "dataset": layout.name,
            "rule": rule,
            "good": found.good,
            "counts": found.counts,
            "expected": found.expected,
            "carved": found.carved,
            "sizes": found.sizes,
            "problems": found.problems,
            "leaks": found.leaks,
            "notes": found.notes,
        }
        print(json.dumps(facts, indent=2))
    else:
        _print_findings(arguments, rule, found)
    if not found.good:
        wrong = f"{len(found.problems)} problem{'s' * (len(found.problems) > 1)}" if found.problems else ""
        leaking = (
            f"{len(found.leaks)} leak{'s' * (len(found.leaks) > 1)} from training into test" if found.leaks else ""
        )
        raise DataError(f"{arguments.root}: {' and '.join(filter(None, (wrong, leaking)))}")


def _print_findings(arguments: argparse.Namespace, rule: str, found: object) -> None:
    from emrdm.data.verify import Findings

    assert isinstance(found, Findings)
    print(printable(f"{arguments.dataset} in {arguments.root}") + (f", rule {rule}" if rule else ""))
    for split, count in found.counts.items():
        expected = found.expected.get(split)
        complete = "" if expected is None else "  complete" if expected == count else f"  expected {expected:,}"
        if split == "val" and found.carved:
            complete = "  of train, chosen by a hash of their names"
        print(f"  {split:6}{count:>9,}{complete}")
    for size, count in found.sizes.items():
        print(f"  {count:,} of {size} pixels")
    for heading, lines in (("note", found.notes), ("problem", found.problems), ("leak", found.leaks)):
        for line in lines:
            print(printable(f"{heading}: {line}"))
    if found.good:
        print("the lists are good; no file was opened" if arguments.no_decode else "all files are good")


def _preview(arguments: argparse.Namespace) -> None:
    from emrdm import pictures
    from emrdm.data import Sample
    from emrdm.data.preview import tiles

    target = arguments.output
    check_new(target, pictures.FORMATS, overwrite=arguments.overwrite)
    for option in ("rows", "side"):
        if getattr(arguments, option) < 1:
            raise InputError(f"--{option} is {getattr(arguments, option)}: expected 1 or more")
    dataset = dataset_options.open_dataset(arguments)
    chosen = _spread(len(dataset), arguments.rows)
    if arguments.name:
        from emrdm.strict import nearest

        for name in arguments.name:
            if name not in dataset.names:
                raise InputError(
                    f"--name {name!r} is not in split {dataset.split}{nearest(name, dataset.names[:2000])}"
                )
        chosen = [dataset.names.index(name) for name in arguments.name]
    progress = Progress("drawing", unit="samples", silent=arguments.quiet)
    rows = []
    progress(0, len(chosen))
    for done, index in enumerate(chosen, 1):
        sample = dataset.fetch(index)
        if isinstance(sample, Sample):
            rows.append(tiles(sample, dataset.bands, dataset.aux))
        elif arguments.on_error == "stop":
            raise DataError(sample.reason)
        else:
            _LOG.warning("left out: %s", sample.reason)
        progress(done, len(chosen))
    if not rows:
        raise DataError(f"{arguments.root}: none of {len(chosen)} samples can be read")
    title = f"{dataset.root.resolve().name}: {dataset.layout.name}, {dataset.split}, {len(rows)} of {len(dataset)}"
    if any(tile.label == "mask" for row in rows for tile in row):
        title += "; mask: white thick, blue thin, yellow shadow, purple no data"
    pictures.save(pictures.sheet(rows, side=arguments.side, title=title), target)
    if not arguments.quiet:
        print(printable(f"{target}: {len(rows)} of {len(dataset)} samples"))


def _spread(count: int, wanted: int) -> list[int]:
    """So many indices, evenly spread."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]
