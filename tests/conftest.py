"""Set-up of all tests."""

import os

import pytest
import torch

# Workers of pytest-xdist share the cores; torch in each of them would take all.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """What is found out about this machine is not kept in anybody's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _repeatable():
    """Random inputs are the same in every run."""
    torch.manual_seed(0)
