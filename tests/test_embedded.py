"""Files inside the package: they are there, are what they say, and the weights do their work."""

import fnmatch
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from tests import examples

from emrdm import EMRDM, EmrdmError, embedded, load_preset
from emrdm.rasters.source import open_source
from emrdm.weights import read_header, stored_dtype

ROOT = Path(__file__).parents[1]


def test_paths_are_found_without_anything_heavy():
    code = (
        "import sys; from emrdm import embedded; embedded.default_weights(); embedded.example(); "
        "print([name for name in ('torch', 'numpy', 'rasterio') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout == "[]\n", result.stderr


@pytest.mark.parametrize("find", [embedded.default_weights, embedded.example])
def test_a_file_that_is_missing_is_told_in_one_line(find, tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "_FOLDER", tmp_path)
    with pytest.raises(EmrdmError, match=r"is missing, which is part of the package: install emrdm again$") as caught:
        find()
    assert str(tmp_path) in str(caught.value)


def test_every_file_goes_into_the_wheel_and_has_its_origin_told():
    package = ROOT / "src" / "emrdm"
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["emrdm"]
    told = (package / "embedded" / "README.md").read_text()
    data = [path for path in (package / "embedded").iterdir() if path.suffix not in (".py", ".pyc", "")]
    assert len(data) == 4
    for path in data:
        assert any(fnmatch.fnmatch(str(path.relative_to(package)), pattern) for pattern in patterns), path
        assert f"`{path.name}`" in told or path.name == "README.md"


def test_the_weights_are_small_and_those_of_the_preset():
    path = embedded.default_weights()
    assert path.stat().st_size <= 25e6
    assert stored_dtype(path) == "F16"
    header = read_header(path)
    assert header.config.network == load_preset(embedded.PRESET).model.network
    assert header.config.bands == load_preset(embedded.PRESET).model.bands
    assert header.card.title
    assert header.card.licence != "unknown"


def test_the_example_is_one_place_under_clouds_and_without():
    pytest.importorskip("rasterio")
    files = embedded.example()
    assert files.cloudy.stat().st_size + files.clear.stat().st_size <= 1.5e6
    with open_source(files.cloudy) as cloudy, open_source(files.clear) as clear:
        assert cloudy.grid.difference(clear.grid) is None
        assert "32621" in clear.grid.crs
        for source in (cloudy, clear):
            assert (source.names, source.dtype, source.nodata) == (("red", "green", "blue"), np.uint8, None)
            assert str(source.date) == "2020-05-18"
    before, after, clouds = examples.piece(0, 0, 512)
    assert before.shape == (3, 512, 512)
    assert 0.6 < clouds.mean() < 0.9
    assert (before.min(0) > 190).mean() < 0.05  # no wall of white
    assert after.mean() < before.mean() < after.mean() + 50


def decibels(image, truth, where):
    return -10 * np.log10(np.square((image - truth.astype(float)) / 255)[:, where].mean())


def test_the_weights_bring_back_ground_under_clouds():
    """The quality of what lies in the package: fails for weights that were not trained."""
    pytest.importorskip("rasterio")
    cloudy, clear, clouds = examples.piece(128, 64, 256)
    restored = EMRDM.default().restore(cloudy, seed=0).clip(0, 255).round()
    before, after = decibels(cloudy, clear, clouds), decibels(restored, clear, clouds)
    assert after >= before + 3, f"restored {after:.2f} dB, cloudy {before:.2f} dB"
