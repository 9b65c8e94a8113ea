"""Data and recipes for studies that take seconds."""

import numpy as np
from PIL import Image
from tests.evaluation.folders import rice

from emrdm import load_preset
from emrdm.ablation import Scoring
from emrdm.training import Machine

CPU = Machine(device="cpu")
FEW = Scoring(limit=2, rows=1)
SMALL = {
    "model.network.widths": [16, 16],
    "model.network.hidden": [16, 16],
    "model.network.depths": [1, 1],
    "model.network.head_channels": 8,
    "model.network.mapping_width": 16,
    "model.network.mapping_hidden": 16,
    "model.sampler.steps": 2,
    "train.batch_size": 2,
    "train.steps": 2,
    "watch.log_every": 1,
    "watch.checkpoint_every": 1,
    "watch.validation_images": 1,
    "watch.sheet_images": 1,
}


def base(preset="tiny", **changes):
    """A preset whose steps take milliseconds."""
    return load_preset(preset).replace({**SMALL, **changes})


def pairs(root):
    """Pairs of 16 x 16 pixels, four of them for tests."""
    return rice(root, 10, 16, test=["6", "7", "8", "9"])


def series(root, short=()):
    """Places with three dates, two for those that are named, and a clear image; three places for tests."""
    random = np.random.default_rng(0)
    for place in range(9):
        folder = root / ("test" if place >= 6 else "train") / f"place{place}"
        folder.mkdir(parents=True)
        clear = random.integers(20, 120, (2, 2, 3)).repeat(8, 0).repeat(8, 1)
        for date in range(2 if folder.name in short else 3):
            cloudy = clear.copy()
            cloudy[4 * date : 4 * date + 8] = 240
            Image.fromarray(cloudy.astype(np.uint8)).save(folder / f"2020-01-0{date + 1}.png")
        Image.fromarray(clear.astype(np.uint8)).save(folder / "clear.png")
    return root


def on(dataset, root, **changes):
    """Changes that name the data."""
    return {"data": [{"dataset": dataset, "root": str(root)}], **changes}
