"""Small pictures and recipes for tests of training."""

from pathlib import Path

import numpy as np
from PIL import Image

from emrdm import load_preset


def landscapes(folder: Path, count: int = 12, size: int = 32, seed: int = 0) -> Path:
    """Clear pictures of fields in a few colours."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    for i in range(count):
        fields = generator.integers(20, 150, (size // 8, size // 8, 3))
        pixels = np.kron(fields, np.ones((8, 8, 1))) + generator.normal(0, 3, (size, size, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"field{i:02}.png")
    return folder


SMALL = {
    "model.network.widths": [16, 32],
    "model.network.hidden": [32, 64],
    "model.network.depths": [1, 1],
    "model.network.head_channels": 8,
    "model.network.mapping_width": 16,
    "model.network.mapping_hidden": 32,
    "model.sampler.steps": 2,
    "train.batch_size": 4,
    "train.steps": 6,
    "watch.log_every": 1,
    "watch.checkpoint_every": 2,
    "watch.validate_every": 3,
    "watch.sheet_images": 1,
}


def recipe(root: Path, changes=None, *, preset="tiny", dataset="synthetic"):
    """A recipe whose steps take milliseconds."""
    data = [{"dataset": dataset, "root": str(root)}]
    return load_preset(preset).replace({**SMALL, "data": data, **(changes or {})})
