"""The training loop: Algorithm 1 of the paper, on one device or many, from any step on.

Everything random is a function of the seed and of numbers that count from the beginning of the run: which samples a
step sees and how they are augmented (``order``), noise levels and noise (``objective``), dropout (below). A run that
was stopped therefore goes on as if nothing had happened, and several processes do what one would.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from emrdm import weights
from emrdm.data import Failure
from emrdm.errors import InputError, printable
from emrdm.files import as_path, locked
from emrdm.model import EMRDM
from emrdm.presets import Preset
from emrdm.training import export
from emrdm.training.checkpoint import Checkpoints, pack, unpack, whole
from emrdm.training.folder import RunFolder, facts_of
from emrdm.training.log import Log, Row
from emrdm.training.machine import Machine, describe, memory, numerics, start
from emrdm.training.order import Order
from emrdm.training.place import Outcome, Place
from emrdm.training.samples import Ahead, Samples, batches
from emrdm.training.sources import contents, open_training, open_validation, sizes, summary, with_ranges_of
from emrdm.training.step import Stepper
from emrdm.training.stopping import Stopping
from emrdm.training.together import anywhere, first_alone, merged
from emrdm.training.validation import Validation, criterion
from emrdm.wording import brief, many

_LOG = logging.getLogger(__name__)


def train(
    recipe: Preset,
    folder: str | Path,
    *,
    machine: Machine | None = None,
    start_from: str | Path | None = None,
    allow_changes: bool = False,
    overwrite: bool = False,
    max_minutes: float | None = None,
    listener: Callable[[Row], None] | None = None,
) -> Outcome:
    """Train a model, or go on with the run that is in the folder.

    Args:
        recipe: model, optimiser, steps and data; see ``emrdm.load_preset`` and ``Preset.replace``.
        folder: of the run: checkpoints, log, pictures, and in the end the weights and their model card.
        machine: devices, processes, workers.
        start_from: weights to start from instead of random ones.
        allow_changes: go on although the recipe is not the one the run was begun with.
        overwrite: forget the run that is in the folder.
        max_minutes: stop with a checkpoint when they are up.
        listener: hears every row of the log, in the first process.

    Returns:
        how it ended. After a signal there is a checkpoint as well; a second signal ends at once.
    """
    began = time.monotonic()
    machine = machine or Machine()
    if max_minutes is not None and not max_minutes > 0:
        raise InputError(f"--max-minutes is {max_minutes:g}: expected more than 0")
    run = RunFolder(folder)
    weights_before = None if start_from is None else as_path(start_from, "start_from")
    fabric = start(machine, recipe.train)
    with ExitStack() as held:

        def hold() -> None:
            run.make()
            held.callback(run.unmake_if_empty)
            held.enter_context(locked(run.path, "training"))
            run.refuse_others()

        first_alone(fabric, hold)
        stopping = held.enter_context(Stopping(max_minutes=max_minutes, started=began))
        held.enter_context(numerics(recipe.train))
        training = _Training(recipe, run, fabric, machine, stopping, weights_before, allow_changes, overwrite, listener)
        if training.log is not None:
            held.callback(training.log.close)  # however the run ends
        return training.run()


class _Training:
    """A run: set up in ``__init__``, then ``run``, step by step."""

    def __init__(
        self,
        recipe: Preset,
        folder: RunFolder,
        fabric: Any,
        machine: Machine,
        stopping: Stopping,
        start_from: Path | None,
        allow_changes: bool,
        overwrite: bool,
        listener: Callable[[Row], None] | None,
    ) -> None:
        datasets = open_training(recipe.data, recipe.model, recipe.train, machine.make_cache)
        recipe = with_ranges_of(datasets, recipe)
        self.recipe, self.folder, self.fabric, self.stopping = recipe, folder, fabric, stopping
        rank, self.ranks, self.first = fabric.global_rank, fabric.world_size, fabric.is_global_zero
        config, self.workers = recipe.model, machine.workers

        # Data. A step sees ``accumulate`` batches in each process.
        self.accumulate = recipe.train.batches_a_step(self.ranks)
        self.samples = Samples(datasets, config, train=recipe.train)
        self.order = Order(
            len(self.samples),
            recipe.train.seed,
            batch_size=self.accumulate * recipe.train.batch_size,
            steps=recipe.train.steps,
            rank=rank,
            ranks=self.ranks,
        )
        held_out = open_validation(recipe.data, config, machine.make_cache)
        self.validation = Validation(
            held_out,
            images=recipe.watch.validation_images,
            rows=recipe.watch.sheet_images,
            batch_size=recipe.train.batch_size,
            rank=rank,
            ranks=self.ranks,
        )

        # Model. Validation has a network of its own: the live one is never touched, wherever its parameters are.
        model = EMRDM.load(start_from) if start_from else EMRDM.fresh(config, seed=recipe.train.seed)
        if model.config.network != config.network or model.config.in_channels != config.in_channels:
            raise InputError(f"{start_from} holds another network than the recipe's: expected the same")
        begun_with = model.digest() if start_from else None
        self.shown = EMRDM(config, network=copy.deepcopy(model.network)).to(fabric.device)
        self.stepper = Stepper(EMRDM(config, network=model.network, card=model.card), recipe, fabric)
        self.parameters = sum(parameter.numel() for parameter in self.stepper.parameters)

        # The run's folder, and where the run is.
        self.place, self.log, self.start, self.a_step = Place(), None, begun_with, self.order.batch_size * self.ranks
        samples = contents(self.samples.datasets)
        facts = facts_of(recipe, samples=samples, samples_a_step=self.a_step, start=begun_with)

        def claim() -> tuple[list[str], Any]:
            if begun_with is None and folder.has_checkpoint():
                facts["start"] = folder.facts().get("start")  # what it started from does not matter any more
            if overwrite:  # only now: data, recipe and weights have been read, and may have come from here
                folder.clear()
            changes = folder.claim(facts, allow_changes=allow_changes)
            self.checkpoints = Checkpoints(folder.checkpoints, keep=recipe.watch.keep)
            return changes, self.checkpoints.newest()

        changes, found = first_alone(fabric, claim) or ([], None)
        self._resume(found)

        def adopt() -> None:
            if self.place.step < recipe.train.steps:
                self.checkpoints.check_space(16 * self.parameters)
            folder.adopt(facts)
            self.log = Log(folder.path, step=self.place.step, validated=self.place.validated, listener=listener)
            self.start = facts["start"]
            if recipe.optimizer.warmup > recipe.train.steps:
                warmup, run = recipe.optimizer.warmup, many(recipe.train.steps, "step")
                _LOG.warning(
                    "optimizer.warmup is %d: in %s the learning rate does not get to optimizer.lr", warmup, run
                )
            self._say_where(machine, changes)

        first_alone(fabric, adopt)
        self.saved = self.place.marks
        self.checkpoint_seconds = self.validation_seconds = 0.0
        self.counted = 0  # steps since the last line of the log
        self.clock = self.timed = time.monotonic()  # when that was, and when training was last timed

    # ---------------------------------------------------------------- the loop

    def run(self) -> Outcome:
        """All steps that are left, unless the run is stopped."""
        steps = self.recipe.train.steps
        reason: Literal["finished", "time", "signal"] = "finished"
        if not self._validate_if_due():  # a run may have been stopped just before
            reason, steps = "signal", self.place.step
        turns = batches(
            self.samples,
            self.order,
            batch_size=self.recipe.train.batch_size,
            start=self.place.step * self.order.batch_size,
            workers=self.workers,
            pin=self.fabric.device.type == "cuda",
        )
        self.batches = Ahead(turns, self.fabric.device)
        self.clock = self.timed = time.monotonic()
        for step in range(self.place.step, steps):
            loss, norm, stop = self._step(step)
            self.place.step = step + 1
            self._note(loss, norm)
            if stop and step + 1 < steps:
                reason = "signal" if stop == 2 else "time"
                break
            if self._validation_is_due() or (step + 1) % self.recipe.watch.checkpoint_every == 0:
                self._checkpoint()  # before a validation, which may take longer than a scheduler waits
                if not self._validate_if_due():
                    reason = "signal"
                    break
        if reason == "finished":
            self._finish()
        else:
            self._stop()
        signal = self.stopping.signal.name if self.stopping.signal else None
        return Outcome(reason, self.place, self.recipe.train.steps, self.folder, self.first, signal)

    def _step(self, step: int) -> tuple[float, float, int]:
        """One step of the optimiser: loss, norm of the gradient, and whether to stop (1 time is up, 2 a signal)."""
        self.stepper.begin(step)
        names: list[str] = []
        for turn in range(self.accumulate):
            parts, failures = next(self.batches)
            self._quarantine(failures)
            self.samples.check_full(parts, failures, self.recipe.train.batch_size)
            names += [name for batch in parts for name in batch.names]
            self.stepper.turn(turn, parts)
        norm = self.stepper.norm()
        self.batches.send()  # for the next step, while a GPU is busy with this one
        due = self._validation_is_due(step + 1)
        needed = self.checkpoint_seconds + (self.validation_seconds if due else 0.0)
        wishes = self.stopping.time_is_up(needed), self.stopping.heard()
        loss, size, time_is_up, signal = self.stepper.agree(norm, *wishes)
        if not self.stepper.finish(norm, loss, size):
            self._skip(step, loss, size, names)
        return loss, size, 2 if signal else 1 if time_is_up else 0

    def _note(self, loss: float, norm: float) -> None:
        """A line in the log now and then."""
        total, count = self.place.window
        if math.isfinite(loss):
            total, count = total + loss, count + 1
        self.place.window = (total, count)
        self.counted += 1
        if self.place.step % self.recipe.watch.log_every and self.place.step != self.recipe.train.steps:
            return
        now = time.monotonic()
        seconds, self.clock = now - self.clock, now
        self._time()
        speed = self.counted * self.a_step / max(seconds, 1e-9)
        self.place.window, self.counted = (0.0, 0), 0
        if self.log is not None:
            self.log.add(
                "step",
                self.place.step,
                loss=total / count if count else math.nan,
                norm=norm,
                lr=self.stepper.optimizer.param_groups[0]["lr"],
                images_per_s=speed,
                memory=memory(self.fabric.device),
                seconds=self.place.seconds,
                steps=self.recipe.train.steps,
            )

    def _time(self) -> None:
        """Count the seconds of training until now."""
        now = time.monotonic()
        self.place.seconds, self.timed = self.place.seconds + now - self.timed, now

    # ---------------------------------------------------------------- what happens now and then

    def _validation_is_due(self, step: int | None = None) -> bool:
        step = self.place.step if step is None else step
        last = step == self.recipe.train.steps
        due = step > 0 and (last or step % self.recipe.watch.validate_every == 0)
        return due and self.place.validated < step and bool(self.validation.datasets)

    def _validate_if_due(self) -> bool:
        """Score the averaged weights; where they are the best so far, they are exported. False after a signal."""
        if not self._validation_is_due():
            return True
        began, step = time.monotonic(), self.place.step
        self._show_average()
        scores = self.validation.score(self.shown, progress=self._say_validating, cancelled=self.stopping.heard)
        if scores is None:
            return False
        value = criterion(scores)
        best = self.place.best is None or value > self.place.best["value"]
        row: dict[str, Any] = {"step": step, "value": value, "scores": scores}
        self.place.validated = step
        self.place.validations.append(row)
        if best:
            self.place.best = row

        def keep() -> None:
            assert self.log is not None
            path = self.folder.sheets / f"step-{step:08}.png"
            title = (
                f"step {step:,}   {'   '.join(export.scores_in_words(name, s) for name, s in row['scores'].items())}"
            )
            picture = self.validation.sheet(self.shown, path, title=title)
            self.log.add("validation", step, scores=row["scores"], value=value, best=best)
            if picture is not None:
                self.log.picture("validation", step, picture)
            if best:
                self._export_weights()

        first_alone(self.fabric, keep)
        if best:
            self.place.exported = step
        self.validation_seconds = time.monotonic() - began
        self.clock += self.validation_seconds  # the speed is that of training
        self.timed = time.monotonic()
        return True

    def _say_validating(self, done: int, total: int) -> None:
        if self.log is not None:
            self.log.tell("validating", self.place.step, done=done, total=total)

    def _show_average(self) -> None:
        """Put the averaged weights into the network that is shown; its buffers are as they were made."""
        with torch.no_grad():
            for parameter, averaged in zip(self.shown.network.parameters(), self.stepper.average.averages, strict=True):
                parameter.copy_(whole(averaged))
            for mine, live in zip(self.shown.network.buffers(), self.stepper.network.buffers(), strict=True):
                mine.copy_(whole(live))

    def _export_weights(self) -> None:
        data = summary(sizes(self.samples.datasets))
        card = export.model_card(self.recipe, self.place, data, self.a_step, start=self.start)
        weights.save(self.folder.model, self.shown.config, card, self.shown.network.state_dict())

    def _checkpoint(self) -> None:
        """Write all of it down. Parameters may be spread over processes, so all of them take part."""
        self._time()
        began = time.monotonic()
        stepper = self.stepper
        tensors = pack(stepper.network, stepper.optimizer, stepper.average, keep=self.first)
        self._quarantine([Failure(name, reason) for name, reason in merged(self.place.quarantine).items()])
        state = {**asdict(self.place), "updates": stepper.average.updates}
        first_alone(self.fabric, lambda: self.checkpoints.write(self.place.step, tensors, state))
        self.saved = self.place.marks
        self.checkpoint_seconds = time.monotonic() - began
        self.clock += self.checkpoint_seconds
        self.timed = time.monotonic()

    def _resume(self, found: tuple[dict[str, Tensor], dict[str, Any]] | None) -> None:
        """Go on from a checkpoint, which the first process has read for all."""
        found = self.fabric.broadcast(found) if self.ranks > 1 else found
        if found is None:
            return
        tensors, state = found
        unpack(tensors, self.stepper.network, self.stepper.optimizer, self.stepper.average)
        self.stepper.average.updates = state["updates"]
        self.place = Place.of(state)
        if self.place.step > self.recipe.train.steps:
            raise InputError(
                f"{self.folder.path} has done {self.place.step:,} steps: expected train.steps of as many at least"
            )

    def _stop(self) -> None:
        """A checkpoint; then the weights as they are, as long as no validation has chosen any."""
        if self.saved != self.place.marks:
            self._checkpoint()
        if self.place.best is None:
            self._show_average()
            first_alone(self.fabric, self._export_weights)

    def _finish(self) -> None:
        """The last weights, where they are wanted or no others were chosen; the last checkpoint; the model card."""
        last = self.recipe.train.select == "last" or self.place.best is None
        wanted = last and self.place.exported != self.place.step
        if anywhere(wanted or (self.first and not self.folder.model.exists())):
            self._show_average()
            first_alone(self.fabric, self._export_weights)
            self.place.exported = self.place.step
        if self.saved != self.place.marks:
            self._checkpoint()
        card = (self.folder, self.recipe, self.place, self.samples.datasets, self.a_step)
        first_alone(self.fabric, lambda: export.write_card(*card))

    # ---------------------------------------------------------------- what goes wrong

    def _skip(self, step: int, loss: float, norm: float, names: Sequence[str]) -> None:
        """Leave the weights as they are; too many such steps end the run."""
        if self.log is not None:
            self.log.add("skipped", step + 1, loss=loss, norm=norm, names=list(names))
        what = f"step {step + 1}: loss {loss:g}, gradient {norm:g}"
        _LOG.warning("%s: the step was skipped (%s)", what, printable(brief(names, 3)))
        self.place.skip(step, what, names, limit=self.recipe.train.skip_limit)

    def _quarantine(self, failures: Sequence[Failure]) -> None:
        """Remember samples that could not be read, each once."""
        for failure in self.place.quarantine_new(failures):
            _LOG.warning("left out: %s", printable(failure.reason))
            if self.log is not None:
                self.log.add("quarantine", self.place.step + 1, name=failure.name, reason=failure.reason)
        self.place.check_quarantine(len(self.samples))

    def _say_where(self, machine: Machine, changes: Sequence[str]) -> None:
        assert self.log is not None
        self.log.add(
            "start",
            self.place.step,
            **describe(machine, self.fabric, compiled=self.stepper.compiled),
            batch_size=self.recipe.train.batch_size,
            accumulate=self.accumulate,
            samples_a_step=self.a_step,
            samples=len(self.samples),
            validation_images=len(self.validation),
            parameters=self.parameters,
            steps=self.recipe.train.steps,
            changes=list(changes),
            start=self.start,
        )
