"""Set-up of all tests."""

import os

import pytest
import torch

# Workers of pytest-xdist share the cores; torch in each of them would take all.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))


@pytest.fixture(autouse=True)
def _repeatable():
    """Random inputs are the same in every run."""
    torch.manual_seed(0)
