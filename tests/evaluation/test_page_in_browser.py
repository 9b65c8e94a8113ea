"""The page in a real browser, where Chromium and Playwright are at hand: scripts run, nothing is loaded from outside."""

import shutil

import pytest
import torch
from tests.evaluation.folders import opened, rice

from emrdm.evaluation import BASELINES, BaselinePredictor, Settings, evaluate, write_report
from emrdm.metrics import PROTOCOLS

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture
def report(tmp_path):
    torch.set_num_threads(1)
    dataset = opened(rice(tmp_path / "rice", count=9, masks=True), "rice2")
    methods = [BaselinePredictor(baseline, dataset.data) for baseline in BASELINES.values()]
    protocols = [PROTOCOLS["standard"], PROTOCOLS["cuhk"]]
    found = evaluate(dataset, methods, protocols, settings=Settings(tmp_path / "report"))
    return found, write_report(found, tmp_path / "report")[0]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("width", [1400, 400])
def test_the_page_works_and_loads_nothing(report, width):
    found, path = report
    requests, complaints = [], []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET.split())
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("figure[data-chart=scatter] svg")
        assert page.locator("figure[data-chart=scatter] svg circle").count() == len(found.images)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        labels = page.locator("figure[data-chart=scatter]").inner_text()
        assert found.subject.title in labels
        slider = page.locator(".case input[type=range]").first
        slider.fill("20")
        assert slider.input_value() == "20"
        orders = []
        for _ in range(3):
            orders.append(page.locator("table.images").first.locator("tbody tr th").all_inner_texts())
            page.locator("table.images").first.locator("thead th button").first.click()
        assert sorted(orders[0]) == sorted(found.images)
        assert sorted(orders[1:]) == sorted([sorted(found.images), sorted(found.images, reverse=True)])
        browser.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
