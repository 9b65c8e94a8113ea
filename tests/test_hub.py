"""Hugging Face Hub: a soft dependency, driven here by a stand-in that keeps files in a folder."""

import shutil
import sys
import types

import pytest
import torch

from emrdm import EMRDM, EmrdmError, MissingDependencyError


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The three functions of huggingface_hub that are used, with their real parameter names."""
    module = types.ModuleType("huggingface_hub")
    made = []

    def create_repo(repo_id, *, private, exist_ok):
        made.append((repo_id, private, exist_ok))

    def upload_file(*, path_or_fileobj, path_in_repo, repo_id):
        target = tmp_path / repo_id.replace("/", "--") / path_in_repo
        target.parent.mkdir(exist_ok=True)
        shutil.copy(path_or_fileobj, target)
        return f"hub:{repo_id}"

    def hf_hub_download(repo_id, filename, *, revision=None):
        path = tmp_path / repo_id.replace("/", "--") / filename
        if not path.exists():
            raise RuntimeError("404 Client Error.\nmore lines")
        return str(path)

    module.create_repo, module.upload_file, module.hf_hub_download = create_repo, upload_file, hf_hub_download
    module.made = made
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_what_is_pushed_can_be_pulled(hub):
    model = EMRDM.from_preset("tiny", seed=4)
    assert model.push_to_hub("me/clear-sky", private=False) == "hub:me/clear-sky"
    assert hub.made == [("me/clear-sky", False, True)]
    again = EMRDM.from_hub("me/clear-sky")
    for name, tensor in model.network.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name])


def test_failures_are_one_line(hub):
    with pytest.raises(EmrdmError) as caught:
        EMRDM.from_hub("me/nothing")
    assert str(caught.value) == "model.safetensors could not be fetched from me/nothing: 404 Client Error."


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'emrdm\[hub\]'"):
        EMRDM.from_hub("me/clear-sky")
