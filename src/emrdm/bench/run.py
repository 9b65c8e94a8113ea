"""The benchmark: every case on the published-style path and on ours, with the same weights and images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from emrdm.bench import training
from emrdm.bench.attention import attention
from emrdm.bench.cases import FRAMES, GROWTH, LARGEST_BATCH, SIDES, in_order
from emrdm.bench.measure import Effort, busy, machine, may_end, measure, memory_words, room, tidy
from emrdm.bench.paths import (
    OURS,
    REFERENCE,
    Images,
    Way,
    difference,
    duplicate,
    one_call,
    published_style,
    sampling,
)
from emrdm.bench.results import Kernel, Measured, Point, Report, Row, Scaling
from emrdm.bench.scaling import bend, found_words, macs, with_fit
from emrdm.errors import ConfigError, InputError, MissingDependencyError
from emrdm.model import EMRDM
from emrdm.presets import Preset
from emrdm.wording import many

_Work = Callable[[EMRDM, Images, Way], Callable[[], Tensor]]

_COMPARED = 2  # images of a batch that are compared with the reference
_SHORT = Effort(repeats=8, seconds=2.0)  # for each of many batches


@final
@dataclass(frozen=True)
class Settings:
    """What is measured and how thoroughly.

    Attributes:
        cases: names, see ``cases.CASES``.
        size: side of the image in pixels.
        batch: images a call of "forward" and "sampling".
        steps: of the sampler; None for the model's own.
        effort: how often a call is repeated.
        baseline: attention of the published-style path; None for the best there is.
        sides: of "size".
        frames: of "frames".
    """

    cases: tuple[str, ...]
    size: int = 256
    batch: int = 1
    steps: int | None = None
    effort: Effort = field(default_factory=Effort)
    baseline: str | None = None
    sides: tuple[int, ...] = SIDES
    frames: tuple[int, ...] = FRAMES

    def check(self, model: EMRDM, name: str) -> None:
        """Refuse what cannot work before anything is measured."""
        network = model.config.network
        if not network.padded(1) <= self.size <= 8192 or self.size != network.padded(self.size):
            expected = f"a multiple of {network.multiple} from {network.padded(1)} to 8192"
            raise InputError(f"--size is {self.size}: expected {expected} for {name}")
        for option, value in (("--batch", self.batch), ("--repeats", self.effort.repeats)):
            if not 1 <= value <= 4096:
                raise InputError(f"{option} is {value}: expected 1 to 4096")
        if self.steps is not None and not 1 <= self.steps <= 1000:
            raise InputError(f"--steps is {self.steps}: expected 1 to 1000")
        if "frames" in self.cases and not network.multi_temporal:
            raise InputError(f"--cases frames with {name}, which takes one image: expected a multi-temporal model")


def bench(
    name: str,
    model: EMRDM,
    settings: Settings,
    *,
    device: torch.device,
    recipe: Preset | None = None,
    weights: str = "",
    command: str = "",
    announce: Callable[[str], None] = lambda _: None,
) -> Report:
    """Measure a model.

    Args:
        name: of the model, for the table.
        model: on the CPU; it is copied for every measurement and never run itself.
        settings: what and how.
        device: where.
        recipe: of the training step; None leaves that case out.
        weights: which ones, in words.
        command: to repeat it.
        announce: hears what is measured next.
    """
    settings.check(model, name)
    warning = busy()
    announce("warming up")
    alone = set(settings.cases) <= {"attention", "training"}  # which have baselines of their own
    attended = settings.baseline or ("tiled" if alone and device.type == "cuda" else None)
    baseline = published_style(model.config, device, settings.size, attended)
    run = _Run(model, settings, device, baseline, announce)
    rows: list[Row] = []
    kernels: list[Kernel] = []
    scalings: list[Scaling] = []
    left_out: list[str] = []
    label = ""
    for case in in_order(settings.cases):
        if case == "forward":
            rows.append(run.row(case, f"forward, batch {settings.batch}", one_call))
        elif case == "sampling":
            steps = many(run.sampler.steps, "step")
            rows.append(run.row(case, f"sampling, {steps}, batch {settings.batch}", run.sampling))
        elif case == "best":
            rows.append(run.best())
        elif case == "training":
            try:
                rows.append(
                    training.step(model, recipe, settings.size, device, settings.baseline, settings.effort, announce)
                )
            except MissingDependencyError as error:
                left_out.append(f"training: {error}")
        elif case == "attention":
            kernels, compared, label = attention(device, settings.effort, announce)
            rows += compared
        elif case == "size":
            scalings.append(run.against_size())
        elif case == "frames":
            scalings.append(run.against_frames())
    return Report(
        model=name,
        weights=weights,
        device=device.type,
        machine=machine(device),
        path=run.path or duplicate(model, device).path(),
        baseline=baseline.words,
        baseline_name=baseline.name,
        memory=memory_words(device),
        command=command,
        size=settings.size,
        rows=tuple(rows),
        kernels=tuple(kernels),
        kernel_label=label,
        scalings=tuple(scalings),
        busy=warning,
        left_out=(*left_out, *run.left_out),
    )


class _Run:
    """Cases of sampling on one model."""

    def __init__(
        self,
        model: EMRDM,
        settings: Settings,
        device: torch.device,
        baseline: Way,
        announce: Callable[[str], None],
    ) -> None:
        self.model, self.settings, self.device = model, settings, device
        self.baseline, self.announce = baseline, announce
        self.sampler = model.config.sampler
        if settings.steps is not None:
            self.sampler = dataclasses.replace(self.sampler, steps=settings.steps)
        self.left_out: list[str] = []
        self.path: str | None = None

    def sampling(self, model: EMRDM, images: Images, way: Way) -> Callable[[], Tensor]:
        """The work of most cases."""
        return sampling(model, images, self.sampler, way)

    def row(self, case: str, label: str, work: _Work) -> Row:
        """Both paths on one batch, and how far ours is from the reference."""
        images = Images.drawn(self.model.config, self.settings.batch, self.settings.size)
        baseline, _ = self._timed(self.baseline, label, images, work)
        ours, result = self._timed(OURS, label, images, work)
        gap = None
        if result is not None:
            self.announce(f"{label}: float32 reference")
            gap = difference(result[:_COMPARED], self._reference(images.first(_COMPARED), work))
        return Row(case, label, baseline, ours, difference=gap)

    def best(self) -> Row:
        """Images a second at the batch that gives most of them, for each path its own."""
        found: dict[str, Measured | None] = {}
        gap = None
        for way in (self.baseline, OURS):
            best, batch, result = None, 1, None
            while batch <= LARGEST_BATCH:
                images = Images.drawn(self.model.config, batch, self.settings.size)
                measured, restored = self._timed(way, "best batch", images, self.sampling, _SHORT)
                if measured is None:
                    break
                enough = best is not None and measured.each * GROWTH > best.each
                if best is None or measured.each < best.each:
                    best, result = measured, restored
                if enough:
                    break
                batch *= 2
            found[way.name] = best
            if way is OURS and result is not None:
                images = Images.drawn(self.model.config, min(len(result), _COMPARED), self.settings.size)
                gap = difference(result[:_COMPARED], self._reference(images, self.sampling))
        batches = " / ".join(str(one.items) if one else "-" for one in found.values())
        steps = many(self.sampler.steps, "step")
        theirs, ours = found[self.baseline.name], found[OURS.name]
        return Row("best", f"sampling, {steps}, batch {batches}", theirs, ours, unit="rate", difference=gap)

    def against_size(self) -> Scaling:
        """One image of every side."""
        config = self.model.config
        sides = [side for side in self.settings.sides if side == config.network.padded(side)]
        steps = many(self.sampler.steps, "step")
        return self._scaling(
            Scaling("size", f"sampling, {steps}, one image", ()),
            [(side, Images.drawn(config, 1, side), macs(config, side)) for side in sides],
        )

    def against_frames(self) -> Scaling:
        """One series of every length."""
        config, size = self.model.config, self.settings.size
        steps = many(self.sampler.steps, "step")
        return self._scaling(
            Scaling("frames", f"sampling, {steps}, one series of {size} x {size} pixels", ()),
            [
                (count, Images.drawn(config, 1, size, frames=count), macs(config, size, frames=count))
                for count in self.settings.frames
            ],
        )

    def _scaling(self, scaling: Scaling, series: Sequence[tuple[int, Images, tuple[int, int]]]) -> Scaling:
        """Both paths along a series; each is given up once a call takes too long, for all that is larger."""
        points: list[Point] = []
        open_ways = {self.baseline.name: self.baseline, OURS.name: OURS}
        for value, images, counted in series:
            label = f"{'side' if scaling.axis == 'size' else 'frames'} {value}"
            found: dict[str, Measured | None] = {}
            for name, way in list(open_ways.items()):
                found[name] = measured = self._timed(way, label, images, self.sampling)[0]
                if measured is None or measured.seconds > self.settings.effort.seconds:
                    del open_ways[name]
                    if measured is not None and value != series[-1][0]:
                        self.left_out.append(
                            f"more than {label}, {name}: a call takes over {self.settings.effort.seconds:g} s"
                        )
            if any(found.values()):
                pixels = images.cloudy.shape[-1] * images.cloudy.shape[-2]
                ours, theirs = found.get(OURS.name), found.get(self.baseline.name)
                points.append(Point(value, pixels, ours, theirs, *map(float, counted)))
        scaling = with_fit(dataclasses.replace(scaling, points=tuple(points)))
        return dataclasses.replace(scaling, words=found_words(scaling, bend(self.model.config)))

    def _timed(
        self, way: Way, label: str, images: Images, work: _Work, effort: Effort | None = None
    ) -> tuple[Measured | None, Tensor | None]:
        """One path; None, and a line about it, where memory does not suffice."""
        batch = len(images.cloudy)
        self.announce(f"{label}: {way.name}" + (f", batch {batch}" if label == "best batch" else ""))
        free = room() if self.device.type == "cpu" and way.attention == "reference" else None
        if free is not None and self._gathered(images) > free:  # a system that runs out of it kills without a word
            self.left_out.append(f"{label}, {way.name}: a gather takes more memory than is free")
            return None, None
        with way.entered(), may_end(in_any_way=way is not OURS) as ended:
            placed: list[EMRDM] = []

            def prepare() -> Callable[[], Tensor]:
                placed.append(duplicate(self.model, self.device))
                return work(placed[0], images, way)

            measured, result = measure(prepare, self.device, effort or self.settings.effort, path=way.name, items=batch)
            if way is OURS:
                self.path = placed[0].path()  # asked afterwards: kernels that fail are told then
            return measured, result.float().cpu()
        if label != "best batch":  # which is how that one ends
            self.left_out.append(f"{label}, {way.name}: {ended[0]}")
        return None, None

    def _gathered(self, images: Images) -> int:
        """Bytes of keys and values that a gather makes at the outermost level, twice as much to be safe."""
        network, (batch, frames, _, height, width) = self.model.config.network, images.cloudy.shape
        tokens = batch * frames * height * width // network.patch**2
        return 2 * 2 * 4 * tokens * network.kernel**2 * network.widths[0]

    def _reference(self, images: Images, work: _Work) -> Tensor:
        tidy(self.device)
        with REFERENCE.entered():
            return work(duplicate(self.model, self.device), images, REFERENCE)().float().cpu()


def read_device(name: str) -> torch.device:
    """A device by name; "auto" is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"device is {name!r}: expected auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda cannot be used: there is no CUDA device here")
    return torch.device(name)
