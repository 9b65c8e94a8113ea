"""A tiny benchmark, and a report without measuring anything."""

import torch

from emrdm.bench import Effort, Report, Settings, bench, lively
from emrdm.bench.results import Difference, Kernel, Measured, Point, Row, Scaling
from emrdm.model import EMRDM

CPU = torch.device("cpu")
ONCE = Effort(repeats=1, seconds=60.0)


def small(preset="tiny", *cases, **options):
    model = lively(EMRDM.from_preset(preset))
    settings = Settings(cases=cases or ("sampling",), size=options.pop("size", 16), effort=ONCE, **options)
    return bench(preset, model, settings, device=CPU, command="emrdm bench", weights="random")


def measured(seconds=0.1, *, path="ours", items=1, memory=10_000_000, runs=3):
    return Measured(path, seconds, 2 * seconds, memory, runs, items, seconds)


def report(**changes):
    def point(side, seconds):
        macs = (float(side**2), float(side**2) / 4)
        return Point(side, side**2, measured(seconds), measured(4 * seconds, path="gather"), *macs)

    facts = {
        "model": "tiny",
        "weights": "random",
        "device": "cpu",
        "machine": "a machine, 2 threads",
        "path": "CPU: plain network",
        "baseline": "eager, float32, gathered attention",
        "baseline_name": "gather",
        "memory": "sampled",
        "command": "emrdm bench tiny",
        "size": 64,
        "rows": (
            Row("forward", "forward, batch 1", measured(0.5), measured(0.1), difference=Difference(61.25, 0.003)),
            Row("best", "best batch 1 / 8", measured(0.5), measured(0.8, items=8), unit="rate"),
            Row("training", "training step, batch 4", None, measured(1.5), note="loss 1 and 2"),
        ),
        "kernels": (
            Kernel("reference", "float32", measured(0.4), measured(1.2), 1e-6),
            Kernel("tiled", "float32", measured(0.1), measured(0.3), 0.0),
            Kernel("flex", "float32", why_not="no GPU"),
        ),
        "kernel_label": "16 x 16 tokens",
        "scalings": (
            Scaling("size", "sampling", tuple(point(side, side / 1e3) for side in (16, 32, 64)), (0.0, 1e-6, 1e-12)),
            Scaling("frames", "sampling", tuple(point(count, count / 10) for count in (1, 2, 3))),
        ),
        "left_out": ("training: not here",),
    }
    return Report(**(facts | changes))
