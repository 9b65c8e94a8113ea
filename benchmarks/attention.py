"""Time the neighbourhood attention back-ends against each other: same inputs, one run.

python benchmarks/attention.py [--tokens 128] [--device cpu]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from emrdm.networks.neighborhood import BACKENDS, neighborhood_attention

HEADS, CHANNELS, KERNEL = 4, 64, 7  # the second level of the published networks at 256 x 256 pixels


def main() -> None:
    """Print a table: milliseconds forward, and forward with backward, and how often faster than the reference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=128, help="side of the square of tokens (default: %(default)s)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    shape = (1, arguments.tokens, arguments.tokens, HEADS, CHANNELS)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(shape, generator=generator).to(arguments.device) for _ in range(3))
    q, k = (x * 10**0.5 / x.norm(dim=-1, keepdim=True) for x in (q, k))
    print(
        f"neighbourhood attention, {arguments.tokens} x {arguments.tokens} tokens, {HEADS} heads of {CHANNELS}, "
        f"kernel {KERNEL}, float32, {arguments.device}, {torch.get_num_threads()} threads"
    )
    print(f"{'back-end':12} {'forward':>12} {'faster':>8} {'with backward':>15} {'faster':>8} {'error':>9}")
    expected = neighborhood_attention(q, k, v, kernel=KERNEL, backend="reference")
    reference: dict[str, float] = {}
    for name in BACKENDS:

        def forward(name: str = name) -> torch.Tensor:
            with torch.no_grad():
                return neighborhood_attention(q, k, v, kernel=KERNEL, backend=name)

        def both(name: str = name) -> torch.Tensor:
            leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
            neighborhood_attention(*leaves, kernel=KERNEL, backend=name).sum().backward()
            return leaves[0]

        times = {"forward": best(forward, arguments.repeats), "both": best(both, max(1, arguments.repeats // 2))}
        reference = reference or times
        error = (forward() - expected).abs().max().item()
        ratios = {key: reference[key] / times[key] for key in times}
        print(
            f"{name:12} {1e3 * times['forward']:9.1f} ms {ratios['forward']:7.1f}x "
            f"{1e3 * times['both']:12.1f} ms {ratios['both']:7.1f}x {error:9.1e}"
        )


def best(function: Callable[[], torch.Tensor], repeats: int) -> float:
    """Seconds of the fastest of several runs, after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        result = function()
        if result.is_cuda:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])


if __name__ == "__main__":
    main()
