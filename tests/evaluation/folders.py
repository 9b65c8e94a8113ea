"""Small data sets in folders, and what they should score."""

import numpy as np
from PIL import Image

from emrdm.data import open_dataset


def rice(root, count=6, side=48, *, masks=False, test=None, seed=0):
    """A folder like RICE: smooth clear images under a bright haze of growing strength."""
    random = np.random.default_rng(seed)
    for kind in ("cloud", "label", *(("mask",) if masks else ())):
        (root / kind).mkdir(parents=True)
    for i in range(count):
        small = Image.fromarray(random.integers(20, 200, (4, 4, 3), dtype=np.uint8))
        clear = np.asarray(small.resize((side, side), Image.Resampling.BICUBIC)).astype(float)
        haze = 0.1 + 0.5 * i / count
        cloudy = clear * (1 - haze) + 255 * haze
        Image.fromarray(clear.astype(np.uint8)).save(root / "label" / f"{i}.png")
        Image.fromarray(cloudy.astype(np.uint8)).save(root / "cloud" / f"{i}.png")
        if masks:
            mask = np.zeros((side, side, 3), np.uint8)
            mask[: side // 2] = 255
            Image.fromarray(mask).save(root / "mask" / f"{i}.png")
    names = [str(i) for i in range(count)]
    held_out = names[count // 3 :] if test is None else test
    (root / "test.txt").write_text("\n".join(held_out))
    (root / "train.txt").write_text("\n".join(name for name in names if name not in held_out))
    return root


def opened(root, name="rice1", **options):
    return open_dataset(name, root, **options)
