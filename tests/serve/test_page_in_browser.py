"""The page in a real browser, where Chromium, Playwright and Gradio are at hand; nothing is loaded from outside."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import rasterio
from tests.serve.samples import geotiff, pixels, series, tiny

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
SHOTS = os.environ.get("EMRDM_SHOTS")  # a folder for screenshots, for those who want to look
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
    pytest.mark.skipif(importlib.util.find_spec("gradio") is None, reason="gradio is not installed"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The command itself, with small models and a small limit; afterwards nothing is left of it."""
    folder = tmp_path_factory.mktemp("serve")
    models, temporary = folder / "models", folder / "tmp"
    for path in (models, temporary):
        path.mkdir()
    tiny(models)
    series(models)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "emrdm", "serve", "--no-browser", "--port", str(port), "--upload-limit", "1MB"]
    with subprocess.Popen(
        [*command, "--models", str(models)], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        line = process.stdout.readline()
        assert line.startswith(f"http://127.0.0.1:{port}/ "), line
        yield line.split()[0], temporary
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert list(temporary.iterdir()) == []


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET.split())
        yield found
        found.close()


@pytest.fixture
def visit(browser, server):
    """Opens the page for a visitor of their own; no visitor may ask for anything outside, or meet an error."""
    address, requests, complaints, contexts = server[0], [], [], []

    def opened(width=1400, model="tiny"):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True))
        page = contexts[-1].new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        page.wait_for_selector("#run", timeout=60_000)
        page.click("#model input")
        page.get_by_role("option", name=model, exact=True).click()
        page.wait_for_timeout(500)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    hosts = {urlsplit(url).netloc for url in requests if not url.startswith(("data:", "blob:"))}
    assert hosts == {urlsplit(address).netloc}


def drop(page, *files):
    page.locator("#files input[type=file]").set_input_files([str(file) for file in files])


def says(page, words, timeout=120_000):
    page.locator("#status", has_text=words).wait_for(timeout=timeout)


def ready(page):
    page.wait_for_selector("#watched img", timeout=60_000)
    page.locator("#run:enabled").wait_for()


def shoot(page, name):
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"serve_{name}.png", full_page=True)


def test_an_image_goes_in_and_a_clear_geotiff_comes_out(visit, tmp_path):
    page = visit()
    drop(page, geotiff(tmp_path / "<b>field.tif", pixels()))
    ready(page)
    says(page, "One image: 56 x 48 pixels, 3 bands, WGS 84 / UTM zone 32N.")
    page.locator("#samples input[type=number]").fill("2")
    page.locator("#samples input[type=number]").press("Enter")
    page.click("#run")
    says(page, "Done: 56 x 48 pixels")
    slider = page.locator("#slider img")
    assert slider.count() == 2
    page.wait_for_function("[...document.querySelectorAll('#slider img')].every(image => image.naturalWidth === 56)")
    with page.expect_download() as waiting:
        page.locator("#downloads a", has_text="KB").first.click()
    waiting.value.save_as(tmp_path / "found.tif")
    with rasterio.open(tmp_path / "found.tif") as found:
        assert found.crs.to_epsg() == 32632
        assert found.shape == (48, 56)
    assert page.locator("#downloads a").count() == 4
    page.get_by_role("tab", name="Uncertainty").click()
    page.wait_for_selector("#uncertainty img")
    page.get_by_role("tab", name="Steps").click()
    assert page.locator("#history img").count() == 4


def test_a_bad_file_gets_a_clear_line(visit, tmp_path):
    page = visit()
    (tmp_path / "text.tif").write_text("I am no image")
    drop(page, tmp_path / "text.tif")
    says(page, "text.tif is not a whole GeoTIFF")
    assert page.locator("#run").is_disabled()


@pytest.mark.slow
def test_a_file_that_is_too_large_is_refused_by_page_and_server(visit, server, tmp_path):
    page = visit()
    (tmp_path / "large.tif").write_bytes(bytes(1_200_000))
    drop(page, tmp_path / "large.tif")
    page.locator(".toast-body", has_text='exceed the maximum allowed size of 1.0 Mb: "large.tif"').wait_for()
    body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.tif"\r\n\r\n' + bytes(1_200_000)
    request = urllib.request.Request(
        f"{server[0]}gradio_api/upload",
        body + b"\r\n--x--\r\n",
        {"Content-Type": "multipart/form-data; boundary=x"},
    )
    with pytest.raises(urllib.error.HTTPError, match="413") as refused:  # whoever does not use the page
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
    refused.value.close()


@pytest.mark.slow
def test_cancelling_stops_the_work(visit, tmp_path):
    page = visit()
    drop(page, geotiff(tmp_path / "field.tif", pixels(height=300, width=300)))
    ready(page)
    for name, value in (("steps", "25"), ("samples", "16")):
        page.locator(f"#{name} input[type=number]").fill(value)
        page.locator(f"#{name} input[type=number]").press("Enter")
    page.click("#run")
    says(page, "Step 2 of 25, sample 1 of 16")
    shoot(page, "busy")
    page.click("#cancel")
    says(page, "Cancelled.", timeout=20_000)
    page.locator("#run:enabled").wait_for()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 400])
def test_two_visitors_wait_for_each_other_and_see_their_own_alone(visit, server, width, tmp_path):
    pages = [visit(width, "tiny"), visit(width, "series")]
    drop(pages[0], geotiff(tmp_path / "one.tif", pixels(height=300, width=300)))
    drop(pages[1], *(geotiff(tmp_path / f"2024-05-{i}1.tif", pixels(i, 64, 64)) for i in (0, 1, 2)))
    for page in pages:
        ready(page)
    for page in pages:
        page.click("#run")
        page.wait_for_timeout(300)
    says(pages[1], "Waiting: yours is next")
    says(pages[0], "Done: 300 x 300")
    says(pages[1], "Done: 64 x 64")
    for page, name in zip(pages, ("one", "2024-05-21"), strict=True):
        names = page.locator("#downloads a").evaluate_all("links => links.map(link => link.download)")
        assert names == [f"{name}_clear.tif", f"{name}_clear.png"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    shoot(pages[0], f"done_{width}")
    pages[1].get_by_role("tab", name="Dates").click()
    pages[1].wait_for_selector("#attention img")
    assert pages[1].locator("#attention img").count() == 3
    shoot(pages[1], f"dates_{width}")
    (folder,) = server[1].glob("emrdm-serve-*")
    assert len(list((folder / "results").iterdir())) >= 2
    for page in pages:
        page.close()
    until = time.monotonic() + 30
    while list((folder / "results").iterdir()) and time.monotonic() < until:
        time.sleep(0.2)
    assert [path for path in folder.rglob("*") if path.is_file()] == [folder / "example" / "example_cloudy.tif"]
