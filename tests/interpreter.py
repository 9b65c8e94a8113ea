"""Triton kernels without a GPU: code in a process of its own, where Triton interprets kernels on the CPU."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emrdm import gpu

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")


def interpret(code, **environment):
    """What the code prints. Whether Triton interprets is settled when it is imported, hence the process."""
    root = str(Path(__file__).parents[1])
    settings = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", gpu.SWITCH: "1", "PYTHONPATH": root}
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, env=os.environ | settings | environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
