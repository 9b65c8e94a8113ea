"""Print how accurate the method is, as the tests measure it.

python benchmarks/accuracy.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests hold the measurements

from tests.diffusion.test_preconditioning import variances, worst_error
from tests.diffusion.test_process import Exponential
from tests.diffusion.test_samplers import convergence_order
from tests.networks.test_neighborhood import FAST, SIZES, disagreement
from tests.test_oracle_agreement import full_size_error

from emrdm.diffusion import MeanReverting, euler, heun, multistep


def main() -> None:
    """Print one line a measurement."""
    print("preconditioning, largest relative error in float32 against fifty digits, 50 sigmas in [1e-3, 1e2]")
    for frames in (1, 2, 3, 8):
        print(f"  L = {frames}: {worst_error(3.0, frames, (1.0, 1.0, 0.9)):.1e}")
    print("variance of network input and target, a million correlated Gaussian samples")
    for frames in (1, 3):
        for sigma in (0.01, 0.3, 5.0):
            print(
                f"  L = {frames}, sigma {sigma:g}: {variances(frames, sigma)[0]:.4f}, {variances(frames, sigma)[1]:.4f}"
            )
    print("order of convergence to the exact solution of a Gaussian, one frame and three")
    for process in (MeanReverting(3.0), MeanReverting(0.0), Exponential()):
        for sampler in (euler, heun, multistep):
            orders = ", ".join(f"{convergence_order(sampler, process, frames):.3f}" for frames in (1, 3))
            print(f"  {sampler.__name__:9} {type(process).__name__:13} {getattr(process, 'alpha', ''):3}: {orders}")
    print("neighbourhood attention, largest difference from the reference, forward and backward, float32")
    for backend in FAST:
        for size in SIZES:
            forward, backward = disagreement(backend, size)
            print(f"  {backend} {size[0]:2} x {size[1]:2}: {forward:.1e}, {backward:.1e}")
    print("full-size networks, relative difference in float32 from the second implementation in float64")
    for preset in ("cuhk-cr1", "sen12ms-cr", "sen2-mtc-new"):
        print(f"  {preset}: {full_size_error(preset):.1e}")


if __name__ == "__main__":
    main()
