"""The smallest of Triton kernels: does it compile and run?"""

# mypy: ignore-errors

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr) + 1)


def run(device: torch.device) -> None:
    """Raise unless kernels work there."""
    with torch.cuda.device(device):
        x = torch.ones(1, device=device)
        _kernel[(1,)](x)
        if x.item() != 2:
            raise RuntimeError("a kernel gave a wrong result")
