"""Time one call of a full-size network and measure the memory it takes.

python benchmarks/forward.py [PRESET] [--size 256] [--device cpu]
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import torch

from emrdm import EMRDM


def main() -> None:
    """Print seconds and memory of single network calls."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("preset", nargs="?", default="sen12ms-cr")
    parser.add_argument("--size", type=int, default=256, help="side of the image in pixels (default: %(default)s)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()

    model = EMRDM.from_preset(arguments.preset).to(arguments.device)
    config, cost = model.config, model.config.cost(arguments.size, arguments.size)
    frames = (config.frames,) if config.network.multi_temporal else ()
    x = torch.randn(1, *frames, config.in_channels, arguments.size, arguments.size, device=arguments.device)
    c_noise = torch.zeros(1, device=arguments.device)
    on_gpu = x.is_cuda
    before = torch.cuda.memory_allocated() if on_gpu else _resident()
    times = []
    with torch.inference_mode():
        for _ in range(arguments.repeats + 1):
            start = time.perf_counter()
            model.network(x, c_noise)
            if on_gpu:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if on_gpu else _peak()
    seconds = min(times[1:])
    place = torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    print(f"{arguments.preset}, one call at {arguments.size} x {arguments.size}, float32, {place}")
    print(
        f"  time    {seconds:.3f} s ({2 * cost.macs / seconds / 1e9:.0f} GFLOP/s); the first call took {times[0]:.3f} s"
    )
    extra, estimate = (peak - before) / 1e6, cost.activation_bytes / 1e6
    print(f"  memory  {extra:.0f} MB above what was there before (estimate: {estimate:.0f} MB)")
    if not on_gpu:
        print(f"          {peak / 1e6:.0f} MB the whole process at its peak")


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
