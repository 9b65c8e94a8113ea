"""The run that tests of training disturb, and the same run undisturbed."""

import shutil

import pytest
import torch
from tests.training import runs

from emrdm.cli import main
from emrdm.training import export


@pytest.fixture(scope="module")
def quick():
    """One thread and no curves."""
    threads, curves = torch.get_num_threads(), export.training_curves
    torch.set_num_threads(1)
    runs.without_curves()
    yield
    torch.set_num_threads(threads)
    export.training_curves = curves


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """Images to train on."""
    return runs.pairs(tmp_path_factory.mktemp("data") / "pairs")


@pytest.fixture(scope="session")
def reference(root, tmp_path_factory):
    """The run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    command = runs.Command(runs.words(root, folder), folder)
    assert command.code() == 0, command.errors
    return folder


@pytest.fixture
def half(reference, tmp_path):
    """That run, as it was at step 20."""
    folder = tmp_path / "run"
    shutil.copytree(reference, folder)
    (folder / "checkpoints" / "step-00000024.safetensors").unlink()
    return folder


@pytest.fixture
def told(capsys):
    """Gives a command in this process and expects an exit code; the one line it answers with."""

    def tell(arguments, code):
        assert main([*arguments, "-q"]) == code
        line = capsys.readouterr().err.strip()
        assert line.startswith("emrdm train: ")
        assert "\n" not in line
        return line

    return tell
