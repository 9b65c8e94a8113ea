"""The public surface, and what it needs to work."""

import subprocess
import sys

import pytest

import emrdm


def test_every_name_exists_and_nothing_else_is_offered():
    assert set(emrdm.__all__) == {*emrdm._HOMES, "__version__"}  # the linter keeps both sorted
    for name in emrdm.__all__:
        assert getattr(emrdm, name) is not None
    assert dir(emrdm) == sorted(emrdm.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Emrdm'"):
        emrdm.Emrdm  # noqa: B018


def run(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_package_and_its_command_line_imports_nothing_heavy():
    code = (
        "import sys, emrdm, emrdm.cli; print([n for n in ('torch', 'numpy', 'safetensors', 'PIL') if n in sys.modules])"
    )
    result = run(code)
    assert result.stdout == "[]\n", result.stderr


def test_the_core_needs_torch_and_numpy_alone():
    """A host with nothing else installed can build, train, restore, and use the command line."""
    code = """
import sys
allowed = {"torch", "numpy", "emrdm", "torchgen", "functorch", "typing_extensions", "sympy", "mpmath", "networkx",
           "jinja2", "markupsafe", "filelock", "fsspec", "setuptools", "packaging", "triton", "optree", "_distutils_hack"}

class Bare:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names and not top.startswith("_"):
            raise ModuleNotFoundError(f"{name} is not installed on this bare host")

sys.meta_path.insert(0, Bare())
import torch, emrdm, emrdm.cli
model = emrdm.EMRDM.from_preset("tiny")
assert model.restore(torch.rand(3, 20, 20) * 255).shape == (3, 20, 20)
cloudy = torch.rand(2, 1, 3, 16, 16)
model.losses(cloudy[:, 0], cloudy, sigma=torch.ones(2), noise=torch.randn_like(cloudy)).mean().backward()
assert emrdm.cli.main(["info", "sen12ms-cr"]) == 0
assert "safetensors" not in sys.modules and "PIL" not in sys.modules
print("done")
"""
    result = run(code)
    assert result.stdout.endswith("done\n"), result.stderr


def test_no_file_has_a_vague_name_or_is_too_long():
    from pathlib import Path

    sources = list(Path(emrdm.__file__).parent.rglob("*.py"))
    assert not [path for path in sources if path.stem in ("utils", "util", "helpers", "common", "misc")]
    assert not [path for path in sources if len(path.read_text().splitlines()) > 450]
