"""The report in a real browser: headless Chromium opens a page made from smoke runs."""

import csv
import json
import os
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.report_runs import EVIL, arena, train_arena, train_figure, variant
from helpers.run_folders import store_run

from slsgd_mx import load_runs
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import groups
from slsgd_mx.report.page import ASSETS, write_report
from slsgd_mx.report.sources import Request
from slsgd_mx.report.table import from_runs
from slsgd_mx.runs.index import RunIndex
from slsgd_mx.runs.metrics import column, read_metrics
from slsgd_mx.runs.pushes import read_pushes
from slsgd_mx.runs.selection import parse_filter

ROOT = Path(__file__).resolve().parent.parent.parent
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
HOW = "no browser: install one with apt-get install chromium chromium-driver"
pytest.importorskip("plotly")
selenium = pytest.importorskip("selenium", reason='no selenium: pip install "slsgd-mx[dev]"')
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason=HOW)


def open_browser(downloads):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    words = ["headless=new", "disable-gpu", "disable-dev-shm-usage", "window-size=1280,900"]
    words += ["no-sandbox"] * (os.geteuid() == 0)
    for word in words:
        options.add_argument(f"--{word}")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


class Page:
    """A browser, and what tests ask of the page in it."""

    def __init__(self, browser):
        self.browser = browser

    def open(self, path):
        self.browser.get(path.as_uri())
        self.wait("return document.documentElement.dataset.ready === 'yes'")

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, script, *arguments, seconds=30):
        until = time.monotonic() + seconds
        while True:
            found = self.run(script, *arguments)
            if found:
                return found
            assert time.monotonic() < until, f"not within {seconds} seconds: {script}"
            time.sleep(0.05)

    def find(self, selector):
        return self.browser.find_elements("css selector", selector)

    def click(self, element):
        self.run("arguments[0].scrollIntoView({block: 'center'}); arguments[0].click()", element)

    def chart(self, place):
        """The curves of a chart, once it is drawn, by name: x, y, visible, hover texts, colour."""
        self.run("arguments[0].scrollIntoView({block: 'center'})", place)
        self.wait("return Boolean(arguments[0].data && arguments[0]._fullLayout)", place)
        script = """return arguments[0].data.filter((t) => t.mode === "lines+markers").map((t) => (
          {name: t.name, x: t.x, y: t.y, visible: t.visible, hover: t.customdata,
           ink: t.line.color}))"""
        return {curve["name"]: curve for curve in self.run(script, place)}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Smoke runs, one of them in a folder whose name is a tag."""
    home = tmp_path_factory.mktemp("report") / "runs"
    train_arena(home)
    train_figure(home)
    one = next(iter(sorted(home.iterdir())))
    shutil.copytree(one, home / EVIL.replace("/", "∕"))
    return home


@pytest.fixture(scope="module")
def written(home):
    path = home.parent / "report.html"
    request = Request(home, variants=(variant(),), chosen=True)
    return path, write_report(path, request)


@pytest.fixture(scope="module")
def session(tmp_path_factory, written):
    downloads = tmp_path_factory.mktemp("downloads")
    browser = open_browser(downloads)
    page = Page(browser)
    page.downloads = downloads
    page.open(written[0])
    yield page
    browser.quit()


@pytest.fixture
def page(session):
    """The one page of this module; no test may leave an error in the console."""
    yield session
    entries = session.browser.get_log("browser")
    assert [e for e in entries if e["level"] in ("SEVERE", "WARNING")] == []


def test_charts_have_the_curves_and_values_of_the_runs(page, home):
    (group, lines), *_ = groups(FIGURES["fig3"], variant()).items()
    place = page.find("#figures-0 .chart")[0]
    curves = page.chart(place)
    assert len(curves) == len(lines) == 6
    index = RunIndex(home)
    for line, curve in zip(lines, curves.values()):
        rows = [read_metrics(index.folder(run)) for run in line.runs]
        values = np.array([column(each, "test_accuracy") for each in rows])
        assert curve["x"] == [1, 2]
        assert np.allclose(curve["y"], values.mean(axis=0), rtol=1e-5)
        for low, high, hover in zip(values.min(axis=0), values.max(axis=0), curve["hover"]):
            spread = hover.split(", ")[1].split(" to ") if low < high else []
            assert np.allclose([float(x) for x in spread], [low, high][: len(spread)], rtol=1e-3)
            assert hover.startswith("mean of 2 repeats" if low < high else "2 repeats")


def test_a_click_on_the_legend_hides_a_curve_in_every_panel(page):
    places = page.find("#figures-0 .chart")[:2]
    button = page.find("#figures-0 .legend button")[0]
    name = next(iter(page.chart(places[0])))
    assert button.text.startswith(name)
    for pressed, visible in (("false", False), ("true", True)):
        page.click(button)
        assert button.get_attribute("aria-pressed") == pressed
        assert [page.chart(place)[name]["visible"] for place in places] == [visible, visible]


def test_log_scale_and_zoom(page):
    place = page.find("#figures-0 .chart")[1]
    page.chart(place)
    log, whole, _ = page.find("#figures-0 .controls button")
    kind = "return arguments[0]._fullLayout.yaxis.type"
    assert page.run(kind, place) == "linear"
    page.click(log)
    assert page.wait(f"{kind} === 'log'", place)
    page.click(log)
    assert page.wait(f"{kind} === 'linear'", place)
    page.run("return Plotly.relayout(arguments[0], {'xaxis.range': [1, 1.5]})", place)
    assert page.run("return arguments[0]._fullLayout.xaxis.range", place) == [1, 1.5]
    page.run("return Plotly.relayout(arguments[0], {'xaxis.autorange': true})", place)
    page.click(whole)
    assert page.wait("return arguments[0]._fullLayout.yaxis.autorange", place)
    page.click(whole)


def test_the_csv_behind_a_figure_can_be_downloaded(page, written):
    page.click(page.find("#figures-0 .csv")[0])
    file = page.downloads / "fig03.csv"
    until = time.monotonic() + 20
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.05)
    data = written[1]
    assert file.read_text() == data["files"][data["figures"][0]["csv"]]
    rows = list(csv.DictReader(file.open()))
    assert len(rows) == 2 * 2 * 7  # two epochs and seeds; the run without attack is in both groups


def test_claims_are_filtered_by_verdict_and_word(page, written):
    claims = written[1]["claims"][0]["claims"]
    shown = "return [...document.querySelectorAll('.claim')].filter((e) => !e.hidden).length"
    verdict = claims[0]["verdict"]
    page.click(page.find(f"[data-choice='{verdict}']")[0])
    assert page.run(shown) == sum(claim["verdict"] == verdict for claim in claims)
    page.click(page.find("[data-choice=all]")[0])
    field = page.find("#find-claims")[0]
    field.send_keys("catastrophically")
    assert page.run(shown) == 1
    field.send_keys("\b" * 16)
    assert page.run(shown) == len(claims) == 12


def test_the_table_is_filtered_sorted_and_opened(page, home):
    field = page.find("#find-runs")[0]
    rows = "return [...document.querySelectorAll('tr.run')].map((r) => r.innerText)"
    assert len(page.run(rows)) == len(list(home.iterdir())) == 17
    field.send_keys("rule=median q>=1")
    assert len(page.run(rows)) == sum(run.rule == "median" and run.q > 0 for run in arena().runs())
    field.clear()
    field.send_keys("x\b")
    heads = {head.text: head for head in page.find(".runs thead button")}
    for up in (True, False):
        page.click(heads["train_loss"])
        place = list(heads).index("train_loss")
        found = [float(row.split("\t")[place]) for row in page.run(rows)]
        assert found == sorted(found, reverse=not up)
    page.click(page.find("tr.run")[0])
    (detail,) = page.find("tr.detail")
    assert "batch_size 10" in detail.text and str(home) in detail.text
    assert len(page.chart(detail.find_elements("css selector", ".chart")[0])) == 1
    page.click(page.find("tr.run")[0])


@pytest.mark.parametrize(
    "text",
    [
        *("attack=alie", "attack=alie:z=2", "attack=alie:z=3", "attack!=alie", "attack=none"),
        *("rule=bucketing+median", "rule=bucketing:s=3+median", "rule!=bucketing+median", "q>=1"),
        *("warm_up=true", "warm_up=False", "warm_up=yes", "seed=x", "seed!=x", "status=done"),
        *("attack=None", "T=3", "H=none"),
    ],
)
def test_conditions_mean_what_they_mean_on_the_command_line(page, tiny, tmp_path, text):
    attacked = tiny(q=1, attack="alie:z=2", warm_up=True)
    for config in (tiny(), attacked, tiny(rule="bucketing:s=3+median")):
        store_run(tmp_path, config, [3, 2, 1])
    runs = load_runs(tmp_path)
    program = (ASSETS / "4_runs.js").read_text()
    program += "; return parseFilter(arguments[0])(arguments[1])"
    for run, row in zip(runs, from_runs(runs, tmp_path)["rows"]):
        values = {**row["symbols"], **row["last"], "status": row["status"], "epoch": row["epoch"]}
        assert page.run(program, text, {"values": values, "words": ""}) == parse_filter(text)(run)


def test_a_cell_of_the_arena_shows_its_curves_and_which_pushes_were_kept(page, home):
    (run,) = [run for run in arena().runs() if run.rule == "median" and run.q]
    page.click(page.find("[data-cell='median/sign-flip']")[0])
    curves, pushes = page.find(".cell .chart")
    found = page.chart(curves)
    assert list(found) == ["median, no attack", "median, sign-flip"]
    folder = RunIndex(home).folder(run)
    stored = column(read_metrics(folder), "test_accuracy")
    assert np.allclose(found["median, sign-flip"]["y"], stored)
    page.wait("return Boolean(arguments[0].data)", pushes)
    used = page.run("return arguments[0].data[0].z", pushes)  # slots by epochs
    assert np.allclose(np.transpose(used), [row.used for row in read_pushes(folder)], rtol=1e-3)
    poisoned = page.run("return [arguments[0].data[1].x, arguments[0].data[1].y]", pushes)
    expected = [(row.epoch, slot) for row in read_pushes(folder) for slot in row.poisoned]
    assert list(zip(*poisoned)) == expected


def test_dark_mode_changes_page_and_curves(page):
    place = page.find("#figures-0 .chart")[0]
    before = page.chart(place)
    back = "return getComputedStyle(document.body).backgroundColor"
    light = page.run(back)
    page.click(page.find("#theme")[0])
    assert page.run("return document.documentElement.dataset.theme") == "dark"
    assert sum(map(int, page.run(back)[4:-1].split(","))) < 150 < 600
    after = page.chart(place)
    assert [c["y"] for c in before.values()] == [c["y"] for c in after.values()]
    assert all(before[name]["ink"] != after[name]["ink"] for name in before)
    page.click(page.find("#theme")[0])
    assert page.run(back) == light


def test_nothing_overflows_a_phone(page, tmp_path):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.wait("return innerWidth === 390 && document.documentElement.scrollWidth === 390")
        panels = page.find("#figures-0 .panel")[:2]
        assert panels[0].rect["y"] < panels[1].rect["y"]  # one below the other
        (name, *_) = page.find("#arena .heat tbody th")
        page.run("arguments[0].textContent = 'bucketing+nnm+geometric-median'", name)
        assert name.rect["width"] < 390 / 3  # a long name is wrapped
        assert page.browser.save_screenshot(str(tmp_path / "phone.png"))
        assert (tmp_path / "phone.png").stat().st_size > 10_000
    finally:
        page.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_text_from_files_appears_as_text(page, written):
    assert page.run("return window.broken") is None
    assert page.find("img") == [] and len(page.find("script")) == 3
    assert "<img src=x onerror" in page.find("#runs")[0].text


def test_everything_is_drawn_for_printing(page):
    page.run("window.dispatchEvent(new Event('beforeprint'))")
    empty = "return [...document.querySelectorAll('.chart')].filter((c) => !c.data).length"
    assert page.wait(f"{empty.replace('.length', '.length === 0')}")
    page.run("window.dispatchEvent(new Event('afterprint'))")


def test_a_watched_page_refreshes_itself(page, home, written):
    path, request = home.parent / "watched.html", Request(home, variants=(variant(),))
    plan = {"started": time.time() - 100, "runs": [{"folder": "x", "start": 0, "epochs": 10}]}
    for run in home.iterdir():
        plan["runs"].append({"folder": run.name, "start": 0, "epochs": 2})
    (home / "plan.json").write_text(json.dumps(plan))
    write_report(path, Request(home, watch=1.0))
    page.open(path)
    text = page.find("#progress")[0].text
    assert "34 of 44 epochs, 17 of 18 runs ended" in text
    assert int(re.search(r"about (\d+) (seconds|minutes) left", text).group(1)) >= 2
    plan["runs"] = plan["runs"][1:]
    (home / "plan.json").write_text(json.dumps(plan))
    write_report(path, Request(home, watch=1.0))
    page.wait("return document.getElementById('progress').innerText.includes('All 17 runs')")
    (home / "plan.json").unlink()
    write_report(path, request)  # the last version
    page.wait("return document.getElementById('progress').innerText === ''")


def test_the_committed_results_open_quickly(page, tmp_path):
    path = tmp_path / "laptop.html"
    data = write_report(path, Request(None, (ROOT / "figures" / "laptop",)))
    assert path.stat().st_size < 10e6
    page.open(path)
    assert len(page.find("#figures .figure")) == len(data["figures"]) == 14
    assert len(page.find("#theory .figure")) == 9
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    busy = page.run("return performance.now()")
    assert busy < 60_000  # milliseconds, on a busy machine; under 2,000 on a quiet one
    file = ROOT / "figures" / "laptop" / "fig03.csv"
    rows = [
        row
        for row in csv.DictReader(file.open())
        if row["curve"] == "SLSGD; gamma=0.1; alpha=1; b=2"
    ]
    last = [float(row["test_accuracy"]) for row in rows if row["epoch"] == "32"]
    curve = page.chart(page.find("#figures-2 .chart")[0])["SLSGD, γ=0.1, α=1, b=2"]
    assert np.isclose(curve["y"][-1], np.mean(last), rtol=1e-5)
