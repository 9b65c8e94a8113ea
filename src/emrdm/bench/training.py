"""One step of training: gradients, optimiser and average, on images that are already there. Needs lightning-fabric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from emrdm.bench.cases import TRAINING_BATCH
from emrdm.bench.measure import Effort, may_end, measure
from emrdm.bench.paths import OURS, Images, Way, duplicate, published_style
from emrdm.bench.results import Measured, Row
from emrdm.model import EMRDM
from emrdm.noise import fold
from emrdm.presets import Preset
from emrdm.presets.recipe import TrainConfig

# What the authors run, and what this package recommends for GPUs; the compiler is left to the package there.
_PUBLISHED: dict[str, Any] = {"train.precision": "tf32", "train.compile": False}
_OURS: dict[str, Any] = {"train.precision": "bf16-mixed", "train.compile": None}
_FIRST = 4  # steps that make up the first call: compiling, tuning, recording
_COMMON: dict[str, Any] = {
    "train.batch_size": TRAINING_BATCH,
    "train.gpus": 1,
    "train.accumulate": 1,
    "train.recompute": False,
    "train.deterministic": False,
}


def step(
    model: EMRDM,
    recipe: Preset | None,
    size: int,
    device: torch.device,
    baseline: str | None,
    effort: Effort,
    announce: Callable[[str], None],
) -> Row:
    """The step in the published way and in ours, at batch 4; without a recipe the optimiser is the paper's.

    ``baseline`` names the attention of the published way; None for what is fastest forward and backward.
    """
    recipe = recipe or Preset("", model.config, TrainConfig(steps=100_000, batch_size=TRAINING_BATCH))
    label = f"training step, batch {TRAINING_BATCH}"
    found: list[Measured | None] = []
    losses: list[float] = []
    notes: list[str] = []
    published = published_style(model.config, device, size, baseline, training=True)
    for way, changes in ((published, _PUBLISHED), (OURS, _OURS)):
        announce(f"{label}: {way.name}")
        measured, loss, words = _timed(model, recipe.replace(_COMMON | changes), size, device, way, effort)
        found.append(measured)
        losses += [] if loss is None else [loss]
        notes.append(f"{way.name} {words}" + (f", {way.attention} attention" if way.attention else ""))
    if len(losses) == 2:
        notes.append(f"loss of the first step {losses[0]:.5f} and {losses[1]:.5f}")
    theirs, ours = found
    return Row("training", label, theirs, ours, note=", ".join(notes))


def _timed(
    model: EMRDM, recipe: Preset, size: int, device: torch.device, way: Way, effort: Effort
) -> tuple[Measured | None, float | None, str]:
    """One way: its time, the loss of its first step, and how it ran in words."""
    from emrdm.training.machine import Machine, numerics, start
    from emrdm.training.step import Stepper

    on_gpu = device.type == "cuda"
    fabric = start(Machine(device="cuda" if on_gpu else "cpu"), recipe.train)
    losses: list[float] = []
    words: list[str] = [recipe.train.precision]

    def prepare() -> Callable[[], None]:
        stepper = Stepper(duplicate(model, device), recipe, fabric)
        if way is not OURS:
            stepper.recorder = None  # eager means eager
        words.extend(["compiled"] if stepper.compiled else [])
        batch = _batch(model, size).to(device)

        def call() -> None:
            for _ in range(1 if losses else _FIRST):
                loss, _ = stepper.step_once(batch, step=len(losses))
                losses.append(loss)

        return call

    random = torch.random.fork_rng(devices=[torch.cuda.current_device()] if on_gpu else [])
    with random, way.entered(), numerics(recipe.train), may_end(in_any_way=way is not OURS) as ended:
        measured, _ = measure(prepare, device, effort, path=way.name, items=TRAINING_BATCH)
        return measured, losses[0], ", ".join(words)
    return None, None, ended[0]


def _batch(model: EMRDM, size: int) -> Any:
    from emrdm.training.samples import TrainingBatch

    images = Images.drawn(model.config, TRAINING_BATCH, size)
    return TrainingBatch(
        names=tuple(str(i) for i in range(TRAINING_BATCH)),
        keys=tuple(fold(0, i) for i in range(TRAINING_BATCH)),
        cloudy=images.cloudy,
        clear=images.cloudy.mean(1),
        aux=images.aux,
        valid=None,
    )
