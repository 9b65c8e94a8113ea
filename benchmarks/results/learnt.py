"""What the search for a recipe has taught, in short: each change as a difference of two runs that are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.results.tables import markdown

_METRICS = {"psnr": 1, "ssim": 3, "lpips": 3}
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
    Change("still more noise: ln sigma ~ N(0.7, 1.8²)", "noise-high", "base", "no: SSIM and LPIPS are worse"),
    Change("less noise: ln sigma ~ N(-0.7, 1.8²)", "noise-low", "base", "no"),
    Change("Muon instead of AdamW", "base", "adamw-5e-4-noise", "yes"),
    Change("a cosine instead of a constant learning rate", "base", "constant", "yes"),
    Change("learning rate 2e-3 instead of 1e-3", "lr-2e-3", "base", "no"),
    Change("learning rate 4e-3 instead of 1e-3", "lr-4e-3", "base", "no"),
    Change(
        "clouds thinned in half of the pairs",
        "thinning",
        "base",
        "no; a quarter, in `rgb-small-1`, was not tried alone",
    ),
    Change(
        "four more runs, 22,000 steps, with as many drawn clouds as real ones",
        "rgb-small-5",
        "rgb-small-1",
        "yes: for pictures that are not from RICE",
    ),
    Change("3,000 more steps without random tones, at a lower learning rate", "rgb-small-3", "rgb-small-2", "yes"),
)


def table(facts: Mapping[str, Any]) -> str:
    """The changes whose runs are both there; empty where there is none."""
    runs = {run["name"]: run for run in facts["runs"]}
    rows = [
        [
            change.what,
            *(_gain(runs[change.run]["end"][key], runs[change.against]["end"][key]) for key in ("rice1", "rice2")),
            change.kept,
        ]
        for change in CHANGES
        if change.run in runs and change.against in runs
    ]
    return markdown([_HEAD, *rows]) if rows else ""


def _gain(new: Mapping[str, float], old: Mapping[str, float]) -> str:
    return " / ".join(f"{new[metric] - old[metric]:+.{digits}f}" for metric, digits in _METRICS.items())
