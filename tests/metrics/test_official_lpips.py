"""LPIPS against the official package, where somebody has it.

It is never installed: it needs torchvision. Unpack its wheel (``pip download --no-deps lpips==0.1.4`` and ``unzip``) and
set EMRDM_LPIPS to that folder. A stand-in gives it AlexNet with the convolutions that this package carries.
"""

import os
import sys
import types
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import emrdm.metrics
from emrdm.metrics import lpips

FOLDER = os.environ.get("EMRDM_LPIPS", "")
WEIGHTS = Path(emrdm.metrics.__file__).parent / "lpips_alex.safetensors"


def alexnet(**_options):
    layers = [
        nn.Conv2d(3, 64, 11, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
    ]
    network = nn.Module()
    network.features = nn.Sequential(*layers)
    state = load_file(WEIGHTS)
    network.load_state_dict({name: value for name, value in state.items() if name.startswith("features.")})
    return network


@pytest.fixture
def official(monkeypatch):
    if not (Path(FOLDER) / "lpips" / "lpips.py").is_file():
        pytest.skip("EMRDM_LPIPS does not name a folder with the official package")
    torchvision = types.ModuleType("torchvision")
    torchvision.models = types.SimpleNamespace(alexnet=alexnet, vgg16=None, squeezenet1_1=None)
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.setitem(sys.modules, "torchvision.models", torchvision.models)
    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=iter))  # only its trainer uses it
    monkeypatch.syspath_prepend(FOLDER)
    import lpips as package

    heads = torch.load(Path(FOLDER) / "lpips/weights/v0.1/alex.pth", map_location="cpu", weights_only=True)
    ours = load_file(WEIGHTS)
    for name, value in heads.items():
        torch.testing.assert_close(ours[name.replace("model.1.", "")], value, rtol=0, atol=0)
    return package.LPIPS(net="alex", verbose=False, eval_mode=True)


@pytest.mark.parametrize("size", [(64, 64), (65, 97), (256, 256)])
def test_agrees_with_the_official_package(official, size):
    target = torch.rand(4, 3, *size) * 2 - 1
    for spread in (0.01, 0.3, 1.0):
        prediction = target + spread * torch.randn_like(target)
        with torch.no_grad():
            theirs = official(prediction, target).flatten().double()
        torch.testing.assert_close(lpips(prediction, target), theirs, rtol=1e-5, atol=1e-6)
    with torch.no_grad():  # as the protocol of CUHK-CR uses it
        theirs = official((prediction + 1) * 127.5, (target + 1) * 127.5).flatten().double()
    torch.testing.assert_close(lpips((prediction + 1) * 127.5, (target + 1) * 127.5), theirs, rtol=1e-5, atol=1e-6)
