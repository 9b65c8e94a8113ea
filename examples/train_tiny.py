"""Train a tiny model for a minute and remove the clouds from a picture it has never seen.

    python examples/train_tiny.py --out tiny

Everything is drawn here, landscapes and clouds: nothing is downloaded, and the truth is known. The picture shows, from
left to right, the cloudy image, the restored one and the truth. This is the paper's method from end to end, Algorithm 1
to train and Algorithm 2 without churn to sample, on a network 200 times smaller than the paper's: a demonstration, not
a model to use.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import Tensor

from emrdm import EMRDM, ModelCard, Results, load_preset
from emrdm.diffusion import log_normal_sigma
from emrdm.noise import Window, fold, normal, scalars

SIZE, BATCH, LEARNING_RATE, EMA_DECAY = 64, 8, 4e-3, 0.995
COLOURS = (
    torch.tensor([[28, 52, 74], [38, 66, 48], [70, 98, 52], [142, 140, 82], [172, 148, 116], [120, 104, 90]]) / 255
)


def main() -> None:
    """Train, restore, score, and write a picture and the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("tiny"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=600, help="training steps (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    model = train(arguments.steps)
    clear, cloudy = scenes([fold(2, 2026)], 128, 128)
    start = time.perf_counter()
    restored = model.restore(cloudy[0] * 255, seed=0).clamp(0, 255).round() / 255
    seconds = time.perf_counter() - start

    before, after = psnr(cloudy[0], clear[0]), psnr(restored, clear[0])
    print(f"\nrestored 128 x 128 pixels in {seconds:.2f} s, {model.config.sampler.steps} steps")
    print(
        f"PSNR against the truth: cloudy {before:.2f} dB, restored {after:.2f} dB (all bands and pixels, range [0, 1])"
    )
    pictures = {f"cloudy {before:.1f} dB": cloudy[0], f"restored {after:.1f} dB": restored, "truth": clear[0]}
    write_picture(arguments.out / "before_after.png", pictures)
    model.card = ModelCard(
        title="A tiny model trained on drawn landscapes",
        source="examples/train_tiny.py",
        licence="Apache-2.0",
        training=f"{arguments.steps} steps of {BATCH} drawn landscapes of {SIZE} x {SIZE} pixels under drawn clouds",
        results=(
            Results("one drawn landscape", "psnr over all bands and pixels", "measured", {"psnr": round(after, 2)}),
        ),
    )
    model.save(arguments.out / "tiny.safetensors")
    print(f"wrote {arguments.out / 'before_after.png'} and {arguments.out / 'tiny.safetensors'}")


def train(steps: int) -> EMRDM:
    """Algorithm 1 with AdamW and an average of the weights; everything random is a function of the step."""
    model = EMRDM.from_preset("tiny", seed=0)
    noise_levels = load_preset("tiny").model.training_noise
    network = model.network.train()
    average = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
    print(f"training {model.config.cost().parameters:,} parameters for {steps} steps ...")
    start, recent = time.perf_counter(), math.nan
    for step in range(1, steps + 1):
        keys = [fold(1, step, sample) for sample in range(BATCH)]
        clear, cloudy = scenes(keys, SIZE, SIZE)
        sigma = log_normal_sigma(scalars([fold(key, 0) for key in keys]), noise_levels.p_mean, noise_levels.p_std)
        noise = normal([fold(key, 1) for key in keys], Window(0, 0, SIZE, SIZE), bands=3)
        loss = model.losses(clear * 2 - 1, cloudy.unsqueeze(1) * 2 - 1, sigma=sigma, noise=noise).mean()
        for group in optimizer.param_groups:  # warm up, then fall to zero along a cosine
            group["lr"] = LEARNING_RATE * min(1, step / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        for name, tensor in network.state_dict().items():
            average[name].lerp_(tensor, 1 - min(EMA_DECAY, (1 + step) / (10 + step)))
        recent = loss.item() if math.isnan(recent) else 0.98 * recent + 0.02 * loss.item()
        if step % 50 == 0 or step == steps:
            left = (time.perf_counter() - start) / step * (steps - step)
            print(f"\r  step {step:5d} of {steps}   loss {recent:.3f}   {left:4.0f} s left ", end="", flush=True)
    network.load_state_dict(average)
    network.eval()
    return model


def scenes(keys: list[int], height: int, width: int) -> tuple[Tensor, Tensor]:
    """Landscapes (B, 3, H, W) in [0, 1], clear and under clouds."""
    terrain = fractal([fold(key, 10) for key in keys], height, width, roughness=0.55)
    moisture = fractal([fold(key, 11) for key in keys], height, width, roughness=0.5)
    fields = (fractal([fold(key, 12) for key in keys], height, width, roughness=0.3) * 4).round() / 4
    place = (2.5 + 1.1 * terrain + 0.5 * fields).clamp(0, len(COLOURS) - 1.001)
    low = place.floor()
    clear = torch.lerp(COLOURS[low.long()], COLOURS[low.long() + 1], (place - low)[..., None]).movedim(-1, 1)
    clear = (clear * (1 + 0.12 * moisture)[:, None]).clamp(0, 1)

    thickness = fractal([fold(key, 20) for key in keys], height, width, roughness=0.6)
    opacity = 0.85 * torch.sigmoid(2.2 * thickness - 0.4)[:, None]
    shadow = 1 - 0.35 * torch.roll(opacity, (6, -6), (2, 3))
    return clear, (clear * shadow * (1 - opacity) + 0.94 * opacity).clamp(0, 1)


def fractal(keys: list[int], height: int, width: int, *, roughness: float) -> Tensor:
    """Smooth noise of unit variance (B, H, W): octaves of coarse grids, each finer and weaker."""
    total, strength, variance = torch.zeros(len(keys), 1, height, width), 1.0, 0.0
    for octave, cells in enumerate((3, 6, 12, 24, 48)):
        grid = normal([fold(key, octave) for key in keys], Window(0, 0, cells, cells))[:, 0]
        total += strength * F.interpolate(grid, (height, width), mode="bicubic", align_corners=True)
        variance += strength**2
        strength *= roughness
    return total[:, 0] / math.sqrt(variance)


def psnr(a: Tensor, b: Tensor) -> float:
    """Peak signal-to-noise ratio in dB for values in [0, 1]."""
    return -10 * math.log10((a - b).square().mean().item())


def write_picture(path: Path, images: dict[str, Tensor], *, enlarge: int = 3) -> None:
    """Put images (3, H, W) in [0, 1] side by side, each under its caption."""
    row = torch.cat([F.pad(image, (4, 4, 10, 4), value=1.0) for image in images.values()], dim=-1)
    pixels = (row.movedim(0, -1) * 255).round().to(torch.uint8).numpy()
    picture = Image.fromarray(np.repeat(np.repeat(pixels, enlarge, 0), enlarge, 1))
    for i, caption in enumerate(images):
        ImageDraw.Draw(picture).text((4 * enlarge + i * picture.width // len(images), 8), caption, fill="black")
    picture.save(path)


if __name__ == "__main__":
    main()
