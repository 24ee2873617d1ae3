"""From the cluster to one collective, and from an alert to a node, in a real browser."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page

from tests.dashboard.browser.serving import pictured, settled

pytestmark = pytest.mark.slow
WAY = (
    ("Node", re.compile(r"^\W*node-1$")),
    ("GPU and rank", re.compile(r"GPU 0, rank 1$")),
    ("Collectives", re.compile(r"dp-all-reduce$")),
)
"""Title of the next page, and the link to it."""


@pytest.fixture
def address(served: Callable[..., str], archive: Path) -> str:
    return served({"kind": "folder", "path": archive.parent})


@pytest.fixture(scope="session")
def told(archive: Path) -> dict[str, str]:
    """run.json of the archive."""
    words: dict[str, str] = json.loads((archive / "run.json").read_text())
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
    for title in ("GPU and rank", "Node", "Cluster"):
        page.go_back()
        settled(page, title)
    assert {} == words(page)


def test_a_click_on_a_mark_of_the_map_leads_to_its_gpu(page: Page, address: str) -> None:
    page.goto(f"{address}/cluster")
    settled(page, "Cluster")
    mark = page.locator(".scatterlayer .point").first.bounding_box()
    assert mark is not None
    page.mouse.click(mark["x"] + mark["width"] / 2, mark["y"] + mark["height"] / 2)
    page.get_by_text("You clicked:").wait_for()
    follow(page, "GPU and rank", re.compile(r"node-\d GPU 0$"))
    there = words(page)
    assert (f"node-{there['rank']}", "0") == (there["node"], there["gpu"])


def test_the_link_of_an_alert_lands_on_the_node_and_its_range(
    page: Page, address: str, told: dict[str, str]
) -> None:
    page.goto(f"{address}/node?node=node-1&from=now-5s&to=now&run={told['run']}")
    settled(page, "Node")
    shown = page.evaluate(
        "document.querySelector('.js-plotly-plot')._fullLayout.xaxis.range.map("
        "text => Date.parse(text.replace(' ', 'T') + 'Z'))"
    )
    assert 5_000 == pytest.approx(shown[1] - shown[0], abs=2)


def test_a_choice_stands_in_the_address_and_back_undoes_it(page: Page, address: str) -> None:
    page.goto(f"{address}/cluster")
    settled(page, "Cluster")
    page.get_by_role("radio", name="GPU temperature").click()
    page.wait_for_url("**/cluster?metric=temperature")
    page.get_by_text("GPU temperature (°C)").wait_for()
    page.go_back()
    page.get_by_text("Own time over peers (×)").first.wait_for()
    assert {} == words(page)
