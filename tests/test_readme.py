"""Everything the README tells a user to type works."""

import dataclasses
import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.evaluation.folders import rice
from tests.test_published import small_entries, their_state
from tests.training.little import SMALL

from emrdm import EMRDM, load_preset
from emrdm.cli import main
from emrdm.presets.recipe import OptimizerConfig, TrainConfig, WatchConfig

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def scene(folder):
    """A small cloudy GeoTIFF with its mask and the truth, and a folder of two."""
    rasterio = pytest.importorskip("rasterio")
    options = {"driver": "GTiff", "height": 70, "width": 90, "dtype": "uint8", "crs": "EPSG:32632"}
    transform = rasterio.Affine(10, 0, 4e5, 0, -10, 5e6)
    generator = np.random.default_rng(0)
    (folder / "scenes").mkdir()
    for name in ("cloudy.tif", "truth.tif", "scenes/a.tif", "scenes/b.tif", "clouds.tif"):
        bands = 1 if name == "clouds.tif" else 3
        with rasterio.open(folder / name, "w", count=bands, transform=transform, **options) as file:
            file.write(generator.integers(0, 2 if bands == 1 else 256, (bands, 70, 90)).astype(np.uint8))
            file.descriptions = ("cloud",) if bands == 1 else ("red", "green", "blue")


def test_python_blocks_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scene(tmp_path)
    EMRDM.from_preset("tiny").save("weights.safetensors")
    generator = np.random.default_rng(0)
    names = {
        "cloudy": generator.integers(0, 256, (3, 20, 24), dtype=np.uint8)
    }  # a small image, as a user would have it
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert names["clear"].shape == (3, 20, 24)
    assert names["image"].shape == (1, 4, 32, 32)


def test_commands_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": their_state(small_entries())}, "their.ckpt")
    EMRDM.from_preset("tiny").save("weights.safetensors")
    scene(tmp_path)
    root = rice(tmp_path / "RICE1", 12)
    shutil.copytree(root / "label", tmp_path / "restored")
    commands = [line for block in blocks("") for line in block.splitlines() if line.startswith("emrdm ")]
    assert len(commands) >= 11
    for command in commands:
        arguments = shlex.split(command, comments=True)[1:]
        if arguments[0] == "serve":  # goes on until somebody ends it; tests/serve has it in a browser
            continue
        if "scenes/*.tif" in arguments:  # as a shell does
            at = arguments.index("scenes/*.tif")
            arguments[at : at + 1] = sorted(str(path) for path in Path("scenes").glob("*.tif"))
        if "cuhk-cr1" in arguments:  # the stand-in checkpoint is a tiny one
            arguments[arguments.index("cuhk-cr1")] = "tiny"
        if arguments[0] == "bench":
            arguments += ["tiny", "--quick", "--size", "32", "--cases", "forward"]
        if arguments[0] in ("train", "ablate"):  # minutes instead of hours, and those in a moment
            arguments = ["tiny" if word == "rgb-small" else word for word in arguments]
            arguments += [f"{key}={json.dumps(value)}" for key, value in SMALL.items() if arguments[0] == "train"]
        assert main(arguments) == 0, command
    assert "emrdm" not in capsys.readouterr().err  # progress, no complaint
    assert (tmp_path / "report" / "report.html").is_file()


def test_figures_are_those_of_the_command(capsys):
    rows = re.findall(r"^\| .*\| ([\d,]+) \| ([\d.]+) G \| ([\d.]+) G \| `emrdm (.*?)` \|$", README, flags=re.MULTILINE)
    assert len(rows) == 3
    for parameters, paper, full, command in rows:
        assert main(shlex.split(command)) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert parameters in text
        assert f"{paper} G in the paper's convention" in text
        assert f"{full} G counted fully" in text


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_between_pages_resolve(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (ROOT / target).exists(), target


def test_the_architecture_page_names_every_module():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    package = ROOT / "src" / "emrdm"
    for path in package.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py") and path.parent.name not in ("cli", "neighborhood"):
            assert path.name in text, path


def test_the_recipe_on_the_training_page_is_one(tmp_path):
    (block,) = re.findall(
        r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "training.md").read_text(), re.MULTILINE | re.DOTALL
    )
    path = tmp_path / "my.yaml"
    path.write_text(block)
    recipe = load_preset(path)
    assert recipe.model == load_preset("rgb-small").model
    assert [source.dataset for source in recipe.data] == ["rice1", "synthetic"]


def test_the_training_page_names_every_setting():
    text = (ROOT / "docs" / "training.md").read_text()
    for part in (TrainConfig, OptimizerConfig, WatchConfig):
        for field in dataclasses.fields(part):
            assert re.search(rf"[`.]{field.name}`", text), field.name


@pytest.mark.parametrize(
    ("row", "file", "method"),
    [
        ("the cloudy image itself", "rgb-small", "cloudy-image"),
        ("dark-channel dehazing", "rgb-small", "dark-channel"),
        ("`rgb-small`, inside the package", "rgb-small", "model"),
        ("`rgb`, the paper's network", "rgb", "model"),
    ],
)
def test_its_scores_are_those_of_the_saved_runs(row, file, method):
    facts = json.loads((ROOT / "benchmarks" / "results" / "runs" / f"test-{file}.json").read_text())
    cells = []
    for key in ("rice1", "rice2"):
        means = facts["datasets"][key]["methods"][method]["protocols"]["standard"]
        cells.append(
            "{:.2f} / {:.3f} / {:.3f}".format(*(means[metric]["mean"] for metric in ("psnr", "ssim", "lpips")))
        )
    assert f"| {row} | {' | '.join(cells)} |" in README


def test_its_speeds_are_those_of_the_page_on_speed():
    page = (ROOT / "docs" / "speed.md").read_text()
    table = README[README.index("**Speed**") : README.index("**Sizes**")]
    said = re.findall(r"^\| .*? \| (\S.*?) \| (\S.*?), \S.*?x \|", table, flags=re.MULTILINE)
    assert len(said) == 4
    for theirs, ours in said:
        assert f"| {theirs} | {ours} |" in page
