"""How a model is trained, as data: everything beside the model that decides the weights, and what is watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

from emrdm.errors import ConfigError
from emrdm.strict import check

Kind = Literal["adamw", "muon"]
Groups = Literal["one", "hdit"]
Schedule = Literal["constant", "cosine"]
Precision = Literal["fp32", "tf32", "bf16-mixed"]
Augmentation = Literal["none", "flips-and-turns", "dihedral"]


@final
@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW and the average of the weights. The defaults are the paper's.

    Attributes:
        kind: "muon" turns the steps of the blocks' matrices into orthogonal ones (Jordan et al. 2024).
        groups: "one" for all parameters, as published; "hdit" gives the mapping network a third of the learning rate
            and takes weight decay from gains, scales and queries, as Crowson et al. 2024 do.
        schedule: of the learning rate; "cosine" falls to zero behind the last step.
        warmup: steps over which the learning rate rises from zero.
        clip: largest norm of the gradient; None for no clipping.
        ema_decay: of the moving average, reached after a warm-up.
    """

    kind: Kind = "adamw"
    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 1e-2
    groups: Groups = "one"
    schedule: Schedule = "constant"
    warmup: int = 0
    clip: float | None = None
    ema_decay: float = 0.9999

    @property
    def title(self) -> str:
        """Its name, for people."""
        return {"adamw": "AdamW", "muon": "Muon with AdamW"}[self.kind]

    def __post_init__(self) -> None:
        check(self, "optimizer")
        _within(self, "optimizer", {"lr": 1.0, "eps": 1.0, "weight_decay": 1e3, "ema_decay": 1.0, "warmup": 1e9})
        if not self.lr:
            raise ConfigError("optimizer.lr is 0: expected more than 0, since nothing is learnt with it")
        for beta in self.betas:
            if not 0 <= beta < 1:
                raise ConfigError(f"optimizer.betas has {beta:g}: expected 0 or more and less than 1")
        if self.clip is not None and not 0 < self.clip < 1e30:
            raise ConfigError(f"optimizer.clip is {self.clip:g}: expected more than 0")


@final
@dataclass(frozen=True)
class TrainConfig:
    """The steps.

    Attributes:
        steps: of the optimiser.
        batch_size: samples of one process at a time.
        gpus: processes the recipe is for. Where there are fewer, gradients are accumulated over as many batches as
            make up for it, so that a step sees as many samples.
        accumulate: batches a step and process; None for what ``gpus`` says.
        precision: "tf32" is float32 with products rounded to 10 bits on GPUs that can.
        seed: of the weights, the order, the noise and dropout.
        crop: side of a square cut out of each image at random; None for whole images.
        augmentation: None for the data set's own recipe.
        thinning: share of the samples whose clouds are made thinner, by any amount.
        tones: how much the tones of pictures vary, alike in cloudy and clear image; the spread of ln gamma.
        compile: compile every block (torch.compile); None for where it pays: on GPUs that can, in runs of 300 steps or
            more.
        recompute: keep less in memory and compute activations twice, for large images.
        deterministic: refuse operations whose result differs from run to run, on GPUs; CPUs need nothing.
        select: which weights are exported, the best in validation or the last.
        skip_limit: more steps than this with NaN or infinite loss among the last 1000 end the run.
    """

    steps: int
    batch_size: int
    gpus: int = 1
    accumulate: int | None = None
    precision: Precision = "tf32"
    seed: int = 3407
    crop: int | None = None
    augmentation: Augmentation | None = None
    thinning: float = 0.0
    tones: float = 0.0
    compile: bool | None = None
    recompute: bool = False
    deterministic: bool = False
    select: Literal["best", "last"] = "best"
    skip_limit: int = 20

    def __post_init__(self) -> None:
        check(self, "train")
        _from_one(self, "train", "steps", "batch_size", "gpus", "accumulate", "crop")
        _within(self, "train", {"skip_limit": 1e9, "seed": 2.0**63, "thinning": 1.0, "tones": 1.0})

    def batches_a_step(self, processes: int) -> int:
        """How many batches each of so many processes goes through before the optimiser's step."""
        return self.accumulate or -(-self.gpus // processes)


@final
@dataclass(frozen=True)
class WatchConfig:
    """What is shown and kept on the way; none of it changes the weights.

    Attributes:
        log_every: steps between lines of the log.
        validate_every: steps between validations.
        validation_images: validated each time, evenly spread; None for all.
        sheet_images: rows of the picture sheet.
        checkpoint_every: steps between checkpoints; there is always one at a validation and when the run stops.
        keep: checkpoints that are kept.
    """

    log_every: int = 10
    validate_every: int = 1000
    validation_images: int | None = 100
    sheet_images: int = 4
    checkpoint_every: int = 500
    keep: int = 2

    def __post_init__(self) -> None:
        check(self, "watch")
        names = ("log_every", "validate_every", "validation_images", "sheet_images", "checkpoint_every", "keep")
        _from_one(self, "watch", *names)


@final
@dataclass(frozen=True)
class Source:
    """A folder to train on.

    Attributes:
        dataset: its kind, see ``emrdm data list``.
        root: the folder.
        rule: how the data set's own lists are read; None for its default.
        bands: names of the bands of one's own images.
        range: black and white of one's own images, (low, high).
        clouds: kind of clouds that "synthetic" draws.
        frames: dates that "synthetic" draws, of which a model takes the first; None for as many as it takes.
    """

    dataset: str
    root: str
    rule: str | None = None
    bands: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    clouds: Literal["thin", "thick", "mixed", "varied"] | None = None
    frames: int | None = None

    def __post_init__(self) -> None:
        check(self, "data")
        _from_one(self, "data", "frames")


def _from_one(config: Any, where: str, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and value < 1:
            raise ConfigError(f"{where}.{name} is {value}: expected 1 or more")


def _within(config: Any, where: str, ranges: dict[str, float]) -> None:
    for name, largest in ranges.items():
        value = getattr(config, name)
        if not 0 <= value <= largest:
            raise ConfigError(f"{where}.{name} is {value:g}: expected 0 to {largest:g}")
