"""The notebook of the examples: stripped, and every cell runs from top to bottom, without Jupyter."""

import json
import re

import numpy as np
import pytest
from tests.examples import FOLDER

NOTEBOOK = FOLDER / "tour.ipynb"
ROOT = FOLDER.parent


def cells(kind=""):
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if kind in ("", cell["cell_type"])]


def test_it_has_15_cells_with_ids_of_format_4_5():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len(cells()) == len(cells("markdown")) + len(cells("code")) == 15
    names = [cell["id"] for cell in cells()]
    assert len(set(names)) == 15
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)


def test_it_is_kept_without_results():
    for cell in cells("code"):
        assert cell["outputs"] == [], cell["id"]
        assert cell["execution_count"] is None, cell["id"]
    assert all(cell["metadata"] == {} for cell in cells())
    assert NOTEBOOK.stat().st_size < 30_000


def test_pages_that_it_names_are_there():
    text = "".join(line for cell in cells("markdown") for line in cell["source"])
    pages = re.findall(r"`(docs/\w+\.md)`", text)
    assert len(pages) > 5
    for page in pages:
        assert (ROOT / page).is_file(), page


@pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")  # rasterio's own use of affine
def test_it_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    for module in ("matplotlib", "PIL"):
        pytest.importorskip(module)
    rasterio = pytest.importorskip("rasterio")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for cell in cells("code"):
        exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    said = capsys.readouterr().out

    assert [path.name for path in tmp_path.iterdir()] == ["tour_output"]
    with rasterio.open("tour_output/restored.tif") as restored, rasterio.open(names["example"]().cloudy) as whole:
        assert restored.crs == whole.crs
        assert restored.crs.to_epsg() == 32621
        assert restored.xy(0, 0) == whole.xy(0, 224)  # the window's corner
        assert restored.shape == (256, 256)
        np.testing.assert_array_equal(restored.read(), names["several"].pixels)
    assert "EPSG:32621" in said
    assert "same place  True" in said
    assert names["after"]["psnr"] >= names["before"]["psnr"]
    for name in ("before", "after"):
        assert f"{name:8} PSNR {names[name]['psnr']:.2f} dB" in said

    assert names["spread"].max() > 0
    assert f"spread / error {names['found'].spread_skill:.2f}" in said
    assert names["psnr"]["toy model"] > max(names["psnr"][day] for day in names["days"])  # it has learned something
    np.testing.assert_allclose(names["weights"].sum(1), 1, atol=1e-4)
    image = names["Image"]
    for name in ("before_after", "uncertainty", "series"):
        with image.open(f"tour_output/{name}.png") as picture:
            assert picture.width > 600
            assert np.ptp(np.asarray(picture.convert("L"))) > 200
