"""The dashboard in a real browser; one file, so that its browser and archive are made once."""

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from lockstep.analyzer.findings.alerts import LOOK_BACK_SECONDS, alert
from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding, Who
from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.rules.alert_rules.shape import Addresses
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.dashboard.sources.archive.source import ArchiveSource
from tests.dashboard.browser.serving import pictured, running, settled

pytestmark = [pytest.mark.browser, pytest.mark.distributed, pytest.mark.timeout(1200)]
WAY = (
    ("Node and GPU", re.compile(r"^\W*node-1$")),
    ("Node and GPU", re.compile(r"GPU 0, rank 1$")),
    ("Collectives", re.compile(r"dp-all-reduce$")),
)
"""Title of the next page, and the link to it."""
BACK = (("Node and GPU", "What it did"), ("Node and GPU", "What was checked"),
        ("Cluster", "The 3 worst"))  # fmt: skip
"""Title of each page on the way back, and a heading that only it has."""
START_MS = 180_000
"""Until the first step of a real run, on a machine where others work as well."""
RANGE = """() => document.querySelector('.js-plotly-plot')._fullLayout.xaxis.range.map(
    text => Date.parse(text.replace(' ', 'T') + 'Z'))"""
"""Ends of the time axis that is shown, in unix milliseconds."""
DRAWN = """() => typeof
    document.querySelector('.js-plotly-plot')?._fullLayout?.xaxis?.range?.[0] === 'string'"""
"""Whether the chart has a time axis: until its data are there, Plotly's own has numbers."""
FOUND = WatchFinding(
    who=Who("", "node-1", 1, 0, None), kind=Kind.SLOW, scope="gpu", attempt=0, cause="thermal",
    tier=Tier.PAGE, confidence=0.9, slowdown=1.5, onset=0.0, first_seen=0.0, opened=0.0, seen=0.0,
    closed=None, sentence="Rank 1 is slow.", facts=(), folder="gpt/19700101T001640Z-rank-1",
)  # fmt: skip


@pytest.fixture(scope="session")
def told(archive: Path) -> dict[str, str]:
    """run.json of the archive."""
    words: dict[str, str] = json.loads((archive / RUN_FILE).read_text())
    return words


def words(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def follow(page: Page, title: str, label: re.Pattern[str]) -> None:
    page.get_by_test_id("stMain").get_by_role("link", name=label).first.click()
    settled(page, title)


def test_from_the_cluster_to_a_collective_in_three_clicks_and_back(
    page: Page, address: str, told: dict[str, str]
) -> None:
    page.goto(f"{address}/cluster")
    settled(page, "Cluster")
    pictured(page, "cluster")
    for title, label in WAY:
        follow(page, title, label)
        pictured(page, title.lower().replace(" ", "-"))
    expected = {"run": told["run"], "node": "node-1", "gpu": "0", "rank": "1",
                "op": "dp-all-reduce"}  # fmt: skip
    assert expected == words(page)
    for title, subject in BACK:
        page.go_back()
        settled(page, title)
        page.get_by_test_id("stMain").get_by_text(subject, exact=True).first.wait_for()
    assert {} == words(page)


def test_a_click_on_a_mark_of_the_map_leads_to_its_gpu(page: Page, address: str) -> None:
    page.goto(f"{address}/cluster")
    settled(page, "Cluster")
    mark = page.locator(".scatterlayer .point").first.bounding_box()
    assert mark is not None
    page.mouse.click(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
    page.get_by_text("You clicked:").wait_for()
    follow(page, "Node and GPU", re.compile(r"node-\d GPU 0$"))
    there = words(page)
    assert (f"node-{there['rank']}", "0") == (there["node"], there["gpu"])


def test_a_link_lands_on_the_node_and_its_range(
    page: Page, address: str, told: dict[str, str]
) -> None:
    page.goto(f"{address}/node?node=node-1&from=now-5s&to=now&run={told['run']}")
    settled(page, "Node and GPU")
    page.wait_for_function(DRAWN)
    shown = page.evaluate(RANGE)
    assert 5_000 == pytest.approx(shown[1] - shown[0], abs=2)


def test_the_link_of_an_alert_lands_on_who_was_found(
    page: Page, address: str, archive: Path
) -> None:
    [run] = ArchiveSource(archive).runs()
    found = replace(
        FOUND, who=replace(FOUND.who, run=run.run), onset=run.span.start + LOOK_BACK_SECONDS
    )
    page.goto(alert(found, Addresses("", address, "")).annotations["dashboard_url"])
    settled(page, "Straggler")
    expect(page.get_by_test_id("stMain").get_by_text("node-1, GPU 0").first).to_be_visible()
    pictured(page, "straggler")
    assert {"node-1", "0", "1"} == {words(page)[name] for name in ("node", "gpu", "rank")}


def test_a_choice_changes_the_chart_and_the_address_and_back_undoes_it(
    page: Page, address: str
) -> None:
    page.goto(f"{address}/cluster")
    settled(page, "Cluster")
    unit = "unit => document.querySelector('.js-plotly-plot').data[0].hovertemplate.includes(unit)"
    page.wait_for_function(unit, arg="×")
    page.get_by_role("radio", name="GPU temperature").click()
    page.wait_for_url("**/cluster?metric=temperature")
    page.get_by_text("GPU temperature (°C)").wait_for()
    page.wait_for_function(unit, arg="°C")
    page.go_back()
    page.get_by_text("Own time over peers (×)").first.wait_for()
    page.wait_for_function(unit, arg="×")
    assert {} == words(page)


def test_a_run_is_started_watched_stopped_and_can_be_read(page: Page, tmp_path: Path) -> None:
    with running({"kind": "folder", "path": tmp_path}, {"runs": tmp_path}) as address:
        _start_and_stop(page, address, tmp_path / "mine")


def _start_and_stop(page: Page, address: str, folder: Path) -> None:
    page.goto(f"{address}/start")
    settled(page, "Start a run")
    name = page.get_by_label("Name of the folder")
    name.fill("mine")
    name.press("Enter")
    nodes = page.get_by_label("Emulated nodes")
    nodes.fill("2")
    nodes.press("Enter")
    # So many that it still runs when a busy browser gets to the button.
    steps = page.get_by_label("Steps", exact=True)
    steps.fill("3000")
    steps.press("Enter")
    expect(page.get_by_text("--nodes 2")).to_be_visible(timeout=START_MS)
    expect(page.get_by_text("--steps 3000")).to_be_visible(timeout=START_MS)

    page.get_by_role("button", name="Start", exact=True).click()

    expect(page.get_by_text(re.compile(r"mine is running: step \d+ of 3,000"))).to_be_visible(
        timeout=START_MS
    )
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_disabled(timeout=START_MS)
    pictured(page, "start-running")

    page.get_by_role("button", name="Stop", exact=True).click()

    expect(page.get_by_text(re.compile("mine was stopped after"))).to_be_visible(timeout=START_MS)
    # The whole page is drawn once more.
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_enabled(timeout=START_MS)
    told = json.loads((folder / RUN_FILE).read_text())
    assert "interrupted" == told["outcome"]["ending"]
    assert 2 == len(load_archive(folder).ranks)

    page.goto(f"{address}/runs")
    settled(page, "Runs")
    expect(page.get_by_text(re.compile("1 run: stopped"))).to_be_visible(timeout=START_MS)
    pictured(page, "runs-stopped")
