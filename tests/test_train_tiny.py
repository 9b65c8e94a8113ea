"""The example that trains a tiny model, cut short."""

import subprocess
import sys
from pathlib import Path

from PIL import Image

from emrdm import EMRDM

SCRIPT = Path(__file__).parents[1] / "examples" / "train_tiny.py"


def test_it_trains_restores_and_writes_a_picture_and_weights(tmp_path):
    command = [sys.executable, "-W", "error", str(SCRIPT), "--out", str(tmp_path), "--steps", "30"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "PSNR against the truth: cloudy 9.5" in result.stdout
    with Image.open(tmp_path / "before_after.png") as picture:
        assert picture.size == (1224, 426)
    assert EMRDM.load(tmp_path / "tiny.safetensors").card.source == "examples/train_tiny.py"
