"""Every page of the documentation: its Python runs, its commands are understood, the paper is in it whole."""

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.evaluation.folders import rice
from tests.examples import piece_files
from tests.test_readme import scene

from emrdm import EMRDM, load_preset
from emrdm.cli import build_parser, main
from emrdm.restoration import memory

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
REFERENCE = sorted(str(path.relative_to(DOCS)) for path in DOCS.glob("api/*.md"))
RUN = ("index.md", "scenes.md", "bands.md", "series.md", "uncertainty.md", "faq.md")  # every command, on small files
SENTINEL2 = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B11", "B12")  # L2A: no B10
_TINY = load_preset("tiny").model.network


def blocks(page, language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def commands(page):
    """Lines of blocks without a language that begin with emrdm; a backslash goes on in the next."""
    lines = [line for block in blocks(page, "") for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("emrdm ")]


def small(preset, **changes):
    """A preset's model with a tiny network."""
    names = ("patch", "widths", "depths", "hidden", "neighborhood_levels", "head_channels", "dropout")
    names = (*names, "mapping_depth", "mapping_width", "mapping_hidden")
    settings = {f"model.network.{name}": getattr(_TINY, name) for name in names}
    return EMRDM.fresh(load_preset(preset).replace(settings | changes).model)


def raster(path, names, low=0, high=3000, dtype="uint16"):
    rasterio = pytest.importorskip("rasterio")
    generator = np.random.default_rng(len(names))
    options = {"driver": "GTiff", "height": 70, "width": 90, "dtype": dtype, "crs": "EPSG:32632"}
    with rasterio.open(
        path, "w", count=len(names), transform=rasterio.Affine(10, 0, 4e5, 0, -10, 5e6), **options
    ) as file:
        file.write(generator.uniform(low, high, (len(names), 70, 90)).astype(dtype))
        if any(names):
            file.descriptions = tuple(names)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with all files that the pages name."""
    monkeypatch.chdir(tmp_path)
    scene(tmp_path)
    raster("sentinel2.tif", SENTINEL2)
    raster("unnamed.tif", [""] * 4, 0, 256, "uint8")
    raster("s1.tif", ("VV", "VH"), -25, 0, "float32")
    for day in ("2024-05-01", "2024-05-11", "2024-05-21"):
        raster(f"{day}.tif", ("B2", "B3", "B4", "B8"))
    EMRDM.from_preset("tiny").save("weights.safetensors")
    small("sen12ms-cr").save("sen12.safetensors")
    temporal = load_preset("tiny-temporal").model.network
    heads = {
        f"model.network.temporal_{name}": getattr(temporal, f"temporal_{name}") for name in ("heads", "key_channels")
    }
    small("sen2-mtc-new", **heads).save("series.safetensors")
    shutil.copytree(rice(tmp_path / "RICE1", 12) / "label", "restored")
    return tmp_path


@pytest.mark.parametrize("page", [page for page in [*PAGES, *REFERENCE] if blocks(page, "python")])
def test_python_runs(page, desk, capsys, monkeypatch):
    (desk / "piece").mkdir()
    monkeypatch.setattr("emrdm.embedded.example", lambda: piece_files(desk / "piece", 100, 100, 64))
    monkeypatch.setattr(EMRDM, "push_to_hub", lambda self, repository: repository)
    monkeypatch.setattr(EMRDM, "from_hub", lambda repository: EMRDM.from_preset("tiny"))
    names = {
        "root": desk / "RICE1",
        "prediction": torch.rand(2, 3, 40, 40),
        "target": torch.rand(2, 3, 40, 40),
        "model": EMRDM.from_preset("tiny"),
        "emrdm": importlib.import_module("emrdm"),
    }
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
    if page == "data.md":
        assert "torch.Size([3, 48, 48])" in capsys.readouterr().out


@pytest.mark.parametrize("page", RUN)
def test_commands_run(page, desk, capsys, monkeypatch):
    lines = commands(page)
    assert lines
    if page != "index.md":  # there it is the real one
        monkeypatch.setattr(EMRDM, "default", lambda: small("rgb-small"))
    monkeypatch.setattr(memory, "_in_use", lambda: 5 * 10**8)  # as a new process; this one has run other tests before
    for line in lines:
        arguments = shlex.split(line, comments=True)[1:]
        if arguments[0] in ("restore", "preview"):
            arguments.append("--overwrite")  # pages name an output more than once
        assert main(arguments) == 0, f"{line}\n{capsys.readouterr().err}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_understood(page, capsys):
    lines = commands(page)
    if page == "method.md":  # in its tables; a verb alone is no command
        lines += re.findall(r"`(emrdm \w+ [^`]+)`", (DOCS / page).read_text())
    for line in lines:
        arguments = shlex.split(line, comments=True)[1:]
        try:
            parsed, rest = build_parser().parse_known_args(arguments)
        except SystemExit:
            pytest.fail(f"{page}: {line}\n{capsys.readouterr().err}")
        assert not [word for word in rest if word.startswith("-")], line
        assert parsed.verb, line


def test_the_method_page_has_the_whole_paper():
    """Every equation, algorithm, figure and table, by number and label, in a row that says where it is."""
    text = (DOCS / "method.md").read_text()
    rows = [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", text, re.MULTILINE)]
    by_first = {row[0]: row[-1] for row in rows}
    assert len([row for row in rows if row[0].startswith("**")]) == 94 + 3 + 12 + 6
    for line in (ROOT / "tests" / "published" / "labels.txt").read_text().splitlines():
        kind, number, label = line.split()
        first = f"**{'Algorithm ' if kind == 'algorithm' else ''}{number}** " + (
            "(no label)" if label == "-" else f"`{label}`"
        )
        assert first in by_first, line
        assert by_first[first].strip() not in ("", "?"), line


@pytest.mark.parametrize("page", PAGES)
def test_what_links_to_the_reference_names_is_there(page):
    links = re.findall(r"\]\(api/\w+\.md#(emrdm[\w.]+)\)", (DOCS / page).read_text())
    for name in links:
        assert found(name) is not None, name
    if page == "method.md":
        assert len(set(links)) > 40


def test_tests_and_files_that_the_method_page_names_are_there():
    for name in re.findall(r"`(tests/[\w/]+\.py)`", (DOCS / "method.md").read_text()):
        assert (ROOT / name).is_file(), name


def found(name):
    """What a dotted name stands for: modules as far as they go, then attributes."""
    parts = name.split(".")
    for stop in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:stop]))
        except ModuleNotFoundError:
            continue
        for part in parts[stop:]:
            thing = getattr(thing, part)
        return thing
    return None


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    for path in DOCS.rglob("*.md"):
        assert f": {path.relative_to(DOCS)}\n" in text, path


def test_the_site_builds_and_loads_nothing_from_outside(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=\"?(https?:)?//[^\s\">]*", text)
        assert not loaded, page
        assert ":func:" not in text, page
        assert ":class:" not in text, page
    for style in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", style.read_text()), style
