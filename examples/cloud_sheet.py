"""Draw clouds over a clear scene and put them on a sheet, to see whether they look right.

    python examples/cloud_sheet.py SCENE.tif --out docs/images/clouds.jpg

The first rows show the styles: clear image, under clouds, opacity, and mask (black clear, white thick cloud, blue thin
cloud, orange shadow). The last two rows show one place on four dates, and their masks. The sheet of the documentation
is a Landsat 8 scene of the USGS (public domain), LC08_L1TP_224078_20200518, bands 4, 3, 2.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import rasterio
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from emrdm.data.clouds import STYLES, Clouds, draw_clouds, draw_series
from emrdm.noise import fold

SIZE, GAP, CAPTION = 256, 6, 16
COLOURS = torch.tensor([[24, 26, 30], [250, 250, 250], [96, 160, 236], [232, 138, 40]]) / 255  # by class


def main() -> None:
    """Read the scene, draw, write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", type=Path, help="GeoTIFF without clouds, 512 x 512 pixels or more")
    parser.add_argument("--out", type=Path, default=Path("clouds.jpg"), help="picture to write (default: %(default)s)")
    parser.add_argument("--bands", default="red,green,blue", help="names of its first bands (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=4, help="other numbers draw other clouds (default: %(default)s)")
    arguments = parser.parse_args()
    names = arguments.bands.split(",")

    scene, valid = read(arguments.scene, len(names))
    places = crops(scene, valid, len(STYLES) + 1)
    rows = []
    for i, (style, place) in enumerate(zip(STYLES, places[:-1], strict=True)):
        drawn = draw_clouds(place, fold(arguments.seed, i), bands=names, style=STYLES[style])
        rows.append(
            {f"{style}: clear": place, "under clouds": drawn.cloudy, "opacity": drawn.alpha, "mask": mask(drawn)}
        )
    dates = draw_series(places[-1], arguments.seed, frames=4, bands=names)
    rows.append({f"series: date {i + 1}": date.cloudy for i, date in enumerate(dates)})
    rows.append({f"mask of date {i + 1}": mask(date) for i, date in enumerate(dates)})
    sheet(rows).save(arguments.out, quality=72, optimize=True, progressive=True)
    print(f"wrote {arguments.out}, {arguments.out.stat().st_size / 1000:.0f} kB")


def read(path: Path, bands: int) -> tuple[Tensor, Tensor]:
    """The scene (C, H, W) in [0, 1], and which pixels have data (H, W).

    Every band is stretched from its 1st percentile to its 98th. Ground ends at 0.75: cloud is brighter.
    """
    with rasterio.open(path) as file:
        values = file.read(list(range(1, bands + 1))).astype(np.float32)
        valid = file.read_masks(1) > 0
    low, high = np.percentile(values[:, valid], (1, 98), axis=1)[..., None, None]
    stretched = ((values - low) / (high - low)).clip(0, 1) * 0.75
    return torch.from_numpy(stretched.astype(np.float32)), torch.from_numpy(valid)


def crops(scene: Tensor, valid: Tensor, count: int) -> list[Tensor]:
    """Square pieces without missing pixels, spread over the scene, from its end to its beginning."""
    height, width = valid.shape
    corners = [(row, column) for row in range(0, height - SIZE + 1, 64) for column in range(0, width - SIZE + 1, 64)]
    full = [(row, column) for row, column in corners if valid[row : row + SIZE, column : column + SIZE].all()]
    if len(full) < count:
        sys.exit(f"the scene has {len(full)} full pieces of {SIZE} x {SIZE} pixels: expected {count} or more")
    chosen = [full[len(full) * (2 * i + 1) // (2 * count)] for i in range(count)]
    return [scene[:, row : row + SIZE, column : column + SIZE] for row, column in reversed(chosen)]


def mask(clouds: Clouds) -> Tensor:
    """The classes in colours, (3, H, W)."""
    return COLOURS[clouds.classes.long()].movedim(-1, 0)


def sheet(rows: list[dict[str, Tensor]]) -> Image.Image:
    """Images (3, H, W) in [0, 1] in rows, each below its caption."""
    columns = max(len(row) for row in rows)
    step = (SIZE + GAP, SIZE + GAP + CAPTION)
    page = Image.new("RGB", (columns * step[0] + GAP, len(rows) * step[1] + GAP), "white")
    for i, row in enumerate(rows):
        for j, (caption, image) in enumerate(row.items()):
            corner = (GAP + j * step[0], GAP + i * step[1])
            ImageDraw.Draw(page).text(corner, caption, fill="black")
            pixels = (image[:3].movedim(0, -1) * 255).round().to(torch.uint8).numpy()
            page.paste(Image.fromarray(pixels), (corner[0], corner[1] + CAPTION))
    return page


if __name__ == "__main__":
    main()
