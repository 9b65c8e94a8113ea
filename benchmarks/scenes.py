"""Measure what restoring whole scenes is judged by: seams, memory, speed.

python benchmarks/scenes.py seams WEIGHTS [IMAGE]       tiles that agree at every step against tiles blended at the end
python benchmarks/scenes.py memory [ROWS ...]           peak memory of scenes of 11,000 columns, 13 bands, 3 dates
python benchmarks/scenes.py speed MODEL [--device cuda] tiles a second on a scene in memory

Without an image, a scene under drawn clouds is made. Results are printed as lines of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from emrdm import EMRDM, open_scene, restore_scene
from emrdm.bench.paths import lively
from emrdm.presets import preset_names
from emrdm.rasters.source import ArraySource
from emrdm.rasters.tiles import TilePlan
from emrdm.restoration import Inputs, Plan, Reading, Settings
from emrdm.restoration.denoising import TileDenoiser
from emrdm.restoration.local import all_steps, on_this_machine
from emrdm.restoration.memory import Room
from emrdm.window import Window


def say(**facts: object) -> None:
    """A line of results."""
    print(json.dumps(facts), flush=True)


def seam_index(image: np.ndarray, control: np.ndarray, tiles: TilePlan) -> dict[str, float]:
    """Mean difference of neighbouring pixels across borders of tiles, by that elsewhere: 1 where no border shows.

    Borders are the first pixels of tiles, the pixels behind their last, and the lines half way between, where one tile
    has as much to say as the next. A scene is not the same everywhere, and the borders of the network's patches show in
    a weak model's results. So it is taken by the same figure, at the same lines, of a control: the same scene restored
    with tiles of another size, whose borders are elsewhere.
    """

    def across(image: np.ndarray, kind: str) -> float:
        found = []
        for axis, side in ((1, tiles.rows), (2, tiles.columns)):
            steps = np.abs(np.diff(image.astype(np.float64), axis=axis)).mean(tuple({0, 1, 2} - {axis}))
            starts, ends = np.array(side.origins[1:]), np.array(side.origins[:-1]) + side.tile
            lines = {"first": starts, "middle": (starts + ends) // 2, "last": ends}
            elsewhere = np.ones(len(steps), bool)
            elsewhere[np.concatenate(list(lines.values())) - 1] = False
            found.append(steps[lines[kind] - 1].mean() / steps[elsewhere].mean())
        return float(np.mean(found))

    return {kind: round(across(image, kind) / across(control, kind), 4) for kind in ("first", "middle", "last")}


def _restored(model: EMRDM, scene: np.ndarray, plan: Plan, folder: Path, *, apart: bool) -> TileDenoiser:
    span = float(scene.min()), float(scene.max())
    inputs = Inputs(open_scene(ArraySource(scene)), model.config, Reading(range=span))
    denoiser = TileDenoiser(plan, inputs, model, folder, apart=apart)
    all_steps(denoiser, on_this_machine(denoiser, Room.within(None, plan, model, 1)), lambda *_: None)
    return denoiser


def sampled(model: EMRDM, scene: np.ndarray, settings: Settings, *, apart: bool) -> tuple[np.ndarray, np.ndarray, Plan]:
    """A restored scene in [-1, 1], blended; the same with hard borders in the middle of overlaps; and the plan."""
    plan = Plan.of(*scene.shape[1:], model, settings)
    with tempfile.TemporaryDirectory() as folder:
        denoiser = _restored(model, scene, plan, Path(folder), apart=apart)
        state = denoiser.result(0)
        blended = state.read(Window(0, 0, *scene.shape[1:]))
        hard = np.zeros_like(blended)
        for tile in plan.tiles:
            window = plan.tiles.window(tile)
            own = np.outer(plan.tiles.rows.weights(tile.row) >= 0.5, plan.tiles.columns.weights(tile.column) >= 0.5)
            target = hard[:, window.rows, window.columns]
            np.copyto(target, state.own(tile), where=own)
    return blended, hard, plan


def disagreement(model: EMRDM, scene: np.ndarray, settings: Settings, *, apart: bool) -> float:
    """Root mean square difference, in [-1, 1], of what two neighbouring tiles say of the pixels they share."""
    plan = Plan.of(*scene.shape[1:], model, settings)
    with tempfile.TemporaryDirectory() as folder:
        denoiser = _restored(model, scene, plan, Path(folder), apart=apart)
        state, squares = denoiser.result(0), []
        origins = plan.tiles.columns.origins
        for tile in plan.tiles:
            if tile.column + 1 < len(origins):
                shared = plan.tiles.columns.tile - (origins[tile.column + 1] - origins[tile.column])
                left, right = state.own(tile), state.own(tile._replace(column=tile.column + 1))
                squares.append(float(np.square(left[..., -shared:] - right[..., :shared]).mean()))
    return float(np.mean(squares) ** 0.5)


def seams(arguments: argparse.Namespace) -> None:
    """Tiles that agree at every step against finished tiles that are blended, or cut."""
    model = EMRDM.load(arguments.model)
    tile = arguments.tile
    side = tile + 7 * (tile - tile // 4)
    scene = _scene(arguments.image, side)
    settings = Settings(tile=tile)
    control, _, _ = sampled(model, scene, Settings(tile=3 * tile // 2), apart=False)
    together, _, plan = sampled(model, scene, settings, apart=False)
    blended, hard, _ = sampled(model, scene, settings, apart=True)
    say(
        what="seam index",
        tiles=f"{len(plan.tiles.rows.origins)} x {len(plan.tiles.columns.origins)} of {tile}",
        every_step=seam_index(together, control, plan.tiles),
        finished_blended=seam_index(blended, control, plan.tiles),
        finished_cut=seam_index(hard, control, plan.tiles),
    )
    say(
        what="root mean square difference of neighbours where they overlap",
        every_step=disagreement(model, scene, settings, apart=False),
        finished=disagreement(model, scene, settings, apart=True),
    )


def _scene(path: Path | None, side: int) -> np.ndarray:
    if path is not None:
        source = open_scene(path).frames[0]
        return source.read(Window(0, 0, min(side, source.grid.height), min(side, source.grid.width)), [0, 1, 2])[0]
    generator = torch.Generator().manual_seed(0)
    image = torch.zeros(3, side, side)
    for cells in (6, 24, 96):
        layer = torch.randn(1, 3, cells, cells, generator=generator)
        image += torch.nn.functional.interpolate(layer, (side, side), mode="bicubic")[0] * 30 * (6 / cells) ** 0.5
    return (110 + image).clamp(0, 255).byte().numpy()


def memory(arguments: argparse.Namespace) -> None:
    """Peak memory for other heights, each in a process of its own."""
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            paths = [str(_large(Path(folder) / f"2024-05-0{i + 1}.tif", rows, arguments.columns, i)) for i in range(3)]
            weights = Path(folder) / "tiny.safetensors"
            _tiny().save(weights)
            code = "import sys; from emrdm.cli import main; sys.exit(main(sys.argv[1:]))"
            words = ["restore", *paths, "--model", str(weights), "-o", str(Path(folder) / "clear.tif"), "-q"]
            words += [f"sampler.steps={arguments.steps}", "--memory", arguments.budget]
            started = time.perf_counter()
            process = subprocess.Popen([sys.executable, "-c", code, *words])
            _, status, usage = os.wait4(process.pid, 0)
            if status:
                sys.exit(f"the run with {rows} rows failed")
            say(
                what="peak memory",
                rows=rows,
                columns=arguments.columns,
                bands=13,
                frames=3,
                steps=arguments.steps,
                budget=arguments.budget,
                peak_MB=usage.ru_maxrss // 1024,
                seconds=round(time.perf_counter() - started),
            )


def _tiny() -> EMRDM:
    import dataclasses

    from emrdm.config import Band

    names = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B10", "B11", "B12")
    config = EMRDM.from_preset("tiny-temporal").config
    bands = tuple(Band(name, "reflectance x 10000", 0, 10000) for name in names)
    network = dataclasses.replace(config.network, patch=4)  # what is measured is everything else
    return lively(
        EMRDM.fresh(dataclasses.replace(config, network=network, bands=bands, aux=(), inputs=("noisy", "cloudy")))
    )


def _large(path: Path, rows: int, columns: int, seed: int) -> Path:
    import rasterio
    from rasterio.transform import Affine
    from rasterio.windows import Window as Part

    block = np.random.default_rng(seed).integers(500, 4000, (13, 512, columns)).astype(np.uint16)
    options = {"driver": "GTiff", "dtype": "uint16", "count": 13, "height": rows, "width": columns, "tiled": True}
    options |= {"blockxsize": 512, "blockysize": 512, "crs": "EPSG:32632", "nodata": 0, "BIGTIFF": "YES"}
    with rasterio.open(path, "w", transform=Affine(10, 0, 4e5, 0, -10, 5e6), **options) as file:
        for row in range(0, rows, 512):
            height = min(512, rows - row)
            file.write(block[:, :height], window=Part(0, row, columns, height))
        for i, name in enumerate(("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B10", "B11", "B12")):
            file.set_band_description(i + 1, name)
    return path


def speed(arguments: argparse.Namespace) -> None:
    """Tile steps a second, all in all, of a scene in memory."""
    known = arguments.model in preset_names()
    model = lively(EMRDM.from_preset(arguments.model)) if known else EMRDM.load(arguments.model)
    model = model.to(arguments.device)
    config, side = model.config, arguments.side
    generator = np.random.default_rng(0)

    def image(bands: tuple[object, ...], low: float, high: float) -> np.ndarray:
        return generator.uniform(low, high, (len(bands), side, side)).astype(np.float32)

    def source(bands: tuple, seed: int) -> ArraySource:
        pixels = image(bands, bands[0].low, bands[0].high)
        return ArraySource(pixels, names=[band.name for band in bands], name=f"image {seed}")

    frames = [source(config.bands, i) for i in range(config.frames)]
    sar = [source(config.aux, i + 100) for i in range(config.frames)] if config.aux else ()
    scene = open_scene(*frames, sar=list(sar))
    for _ in range(2):  # the first one compiles
        started = time.perf_counter()
        found = restore_scene(scene, model, memory=arguments.memory)
        seconds = time.perf_counter() - started
    say(
        what="speed",
        model=arguments.model,
        side=side,
        frames=config.frames,
        tiles=found.summary.tiles,
        calls=found.summary.calls,
        seconds=round(seconds, 2),
        tile_steps_a_second=round(found.summary.calls / seconds, 1),
        path=model.path(),
    )


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("seams")
    part.add_argument("model")
    part.add_argument("image", type=Path, nargs="?")
    part.add_argument("--tile", type=int, default=64)
    part.set_defaults(run=seams)
    part = parts.add_parser("memory")
    part.add_argument("rows", type=int, nargs="*", default=[2000, 4000, 11000])
    part.add_argument("--columns", type=int, default=11000)
    part.add_argument("--steps", type=int, default=1)
    part.add_argument("--budget", default="2GB")
    part.add_argument("--folder", type=Path)
    part.set_defaults(run=memory)
    part = parts.add_parser("speed")
    part.add_argument("model")
    part.add_argument("--device", default="cpu")
    part.add_argument("--side", type=int, default=1024)
    part.add_argument("--memory", type=int, default=16 * 10**9)
    part.set_defaults(run=speed)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
