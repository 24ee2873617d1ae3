"""A real run, started in a browser, watched, stopped, and read."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from analyzer.load.archive import load
from collector.contract.archive import RUN_FILE
from tests.dashboard.browser.serving import pictured, settled

pytestmark = [pytest.mark.slow, pytest.mark.distributed]
START_MS = 60_000
"""Until the first step of a real run, on a machine where others work as well."""


def test_a_run_is_started_watched_stopped_and_can_be_read(
    served: Callable[..., str], page: Page, tmp_path: Path
) -> None:
    address = served({"kind": "folder", "path": str(tmp_path)}, runs=str(tmp_path))
    page.goto(f"{address}/start")
    settled(page, "Start a run")
    name = page.get_by_label("Name of the folder")
    name.fill("mine")
    name.press("Enter")
    nodes = page.get_by_label("Emulated nodes")
    nodes.fill("2")
    nodes.press("Enter")
    expect(page.get_by_text("--nodes 2")).to_be_visible(timeout=START_MS)

    page.get_by_role("button", name="Start", exact=True).click()

    expect(page.get_by_text(re.compile(r"mine is running: step \d+ of 150"))).to_be_visible(
        timeout=START_MS
    )
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_disabled(timeout=START_MS)
    pictured(page, "start-running")

    page.get_by_role("button", name="Stop", exact=True).click()

    expect(page.get_by_text(re.compile("mine was stopped after"))).to_be_visible(timeout=START_MS)
    # The whole page is drawn once more.
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_enabled(timeout=START_MS)
    told = json.loads((tmp_path / "mine" / RUN_FILE).read_text())
    assert "interrupted" == told["outcome"]["ending"]
    assert 2 == len(load(tmp_path / "mine").ranks)

    page.goto(f"{address}/runs")
    settled(page, "Runs")
    expect(page.get_by_text(re.compile("1 run: stopped"))).to_be_visible(timeout=START_MS)
    pictured(page, "runs-stopped")
