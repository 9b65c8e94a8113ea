"""What the search for a recipe has taught, in short: each change as a difference of two runs that are kept."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.results.tables import markdown

_METRICS = {"psnr": 1, "ssim": 3, "lpips": 3}
SEEDS = ("base", "base-2", "base-3", "base-4")  # one recipe, trained four times: how far chance alone goes
_HEAD = ["tried", "RICE1: PSNR / SSIM / LPIPS", "RICE2: PSNR / SSIM / LPIPS", "kept"]


class Change(NamedTuple):
    """One thing that was tried: the run with it, the run without, and the verdict."""

    what: str
    run: str
    against: str
    kept: str


CHANGES = (
    Change(
        "noise levels up to where sampling starts: ln sigma ~ N(0, 1.8²), not the paper's N(-1.4, 1.4²)",
        "base",
        "muon-noise-paper",
        "yes",
    ),
    Change("the same, with AdamW", "adamw-5e-4-noise", "adamw-5e-4", "yes"),
    Change(
        "still more noise: ln sigma ~ N(0.7, 1.8²)", "noise-high", "base", "no: more PSNR and less SSIM, both chance"
    ),
    Change("less noise: ln sigma ~ N(-0.7, 1.8²)", "noise-low", "base", "no"),
    Change("Muon instead of AdamW", "base", "adamw-5e-4-noise", "yes"),
    Change("a cosine instead of a constant learning rate", "base", "constant", "yes"),
    Change("learning rate 5e-4 instead of 1e-3", "lr-5e-4", "base", "no: SSIM is worse"),
    Change("learning rate 2e-3 instead of 1e-3", "lr-2e-3", "base", "no"),
    Change("learning rate 4e-3 instead of 1e-3", "lr-4e-3", "base", "no"),
    Change(
        "clouds thinned in half of the pairs",
        "thinning",
        "base",
        "no; a quarter, in `rgb-small-1`, was not tried alone",
    ),
    Change("tones varied by 0.2, alike in both images", "tones", "base", "no; `rgb-small-2` was trained with it"),
    Change(
        "no turning and mirroring",
        "unturned",
        "base",
        "no: chance, and they cost nothing; 800 steps see a pair 15 times",
    ),
    Change(
        "8 samples a step, twice the steps", "batch-8", "base", "no: better after as many samples, but a quarter slower"
    ),
    Change("32 samples a step, half the steps", "batch-32", "base", "no: SSIM and LPIPS are worse"),
    Change("averages (EMA) over about 100 steps, not 500", "ema-0.99", "base", "no: chance"),
    Change("averages over about 2,000 steps", "ema-0.9995", "base", "for long runs: chance here"),
    Change("single precision (TF32) instead of bfloat16", "tf32", "base", "no: chance, and slower"),
    Change(
        "four more runs, 22,000 steps, with as many drawn clouds as real ones",
        "rgb-small-5",
        "rgb-small-1",
        "yes: for pictures that are not from RICE",
    ),
    Change("`rgb`: 8,500 more steps, learning rate 5e-4", "rgb-2", "rgb-1", "yes"),
    Change("3,000 more steps without random tones, at a lower learning rate", "rgb-small-3", "rgb-small-2", "yes"),
)


def table(facts: Mapping[str, Any]) -> str:
    """What chance does, then the changes whose runs are both there; empty where there is none."""
    runs = {run["name"]: run for run in facts["runs"]}
    rows = [
        [change.what, *(_gain(runs, change, key) for key in ("rice1", "rice2")), change.kept]
        for change in CHANGES
        if change.run in runs and change.against in runs
    ]
    if not rows:
        return ""
    seeds = sum(seed in runs for seed in SEEDS)
    if seeds > 1:
        spread = [_deviation(runs, key) for key in ("rice1", "rice2")]
        rows.insert(0, [f"*another seed: standard deviation of {seeds} runs*", *spread, ""])
    return markdown([_HEAD, *rows])


def chance(facts: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """How far two runs of one recipe are apart in 19 of 20 cases, by data set and metric; empty without seeds."""
    runs = {run["name"]: run for run in facts["runs"]}
    if sum(seed in runs for seed in SEEDS) < 2:
        return {}
    return {
        key: {metric: 2 * 2**0.5 * statistics.stdev(_values(runs, "base", key, metric)) for metric in _METRICS}
        for key in ("rice1", "rice2")
    }


def _same(runs: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The runs that stand for a name: the recipe that most are compared with has several seeds."""
    return [runs[seed] for seed in SEEDS if seed in runs] if name == "base" else [runs[name]]


def _values(runs: Mapping[str, Any], name: str, key: str, metric: str) -> list[float]:
    return [run["end"][key][metric] for run in _same(runs, name)]


def _gain(runs: Mapping[str, Any], change: Change, key: str) -> str:
    def mean(name: str, metric: str) -> float:
        return statistics.fmean(_values(runs, name, key, metric))

    gains = {metric: mean(change.run, metric) - mean(change.against, metric) for metric in _METRICS}
    return " / ".join(f"{gains[metric]:+.{digits}f}" for metric, digits in _METRICS.items())


def _deviation(runs: Mapping[str, Any], key: str) -> str:
    return " / ".join(
        f"{statistics.stdev(_values(runs, 'base', key, metric)):.{digits}f}" for metric, digits in _METRICS.items()
    )
