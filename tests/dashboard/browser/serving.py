"""A dashboard in a process of its own, and how a browser waits for it: for tests and benchmarks."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import Page

from lockstep.workloads.launch.joining.reachable import free_port

ROOT = Path(__file__).parents[3]
PATIENCE = 180.0
"""Seconds until a server answers, on a machine where others work as well."""
SCREENSHOTS = os.environ.get("LOCKSTEP_SCREENSHOTS", "")
"""Folder for pictures of the pages; empty = none are made."""
HIGHEST = 4000
"""Pixels of a picture."""
SETTLED = """() => {
    const app = document.querySelector('[data-testid="stApp"]');
    return app && app.dataset.testScriptState === 'notRunning'
        && !document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]')
        && [...document.querySelectorAll('[data-testid="stPlotlyChart"]')].every(
            chart => chart.querySelector('.main-svg'));
}"""
"""Streamlit says itself when a script has ended; elements of the page before go after it."""


def settled(page: Page, title: str) -> None:
    """Waits until the page with a title is drawn, its charts included."""
    page.locator("h1", has_text=title).wait_for()
    page.wait_for_function(SETTLED)


def pictured(page: Page, name: str) -> None:
    """Keeps how the page looks, light and dark, where LOCKSTEP_SCREENSHOTS says."""
    if not SCREENSHOTS:
        return
    folder = Path(SCREENSHOTS)
    folder.mkdir(parents=True, exist_ok=True)
    size = page.viewport_size
    # The page scrolls within its frame, so the window must be as high as what is in it.
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": 1400, "height": min(int(height) + 20, HIGHEST)})
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_timeout(500)  # the theme changes without an event; only pictures wait so
        page.screenshot(path=folder / f"{name}-{scheme}.png")
    if size is not None:
        page.set_viewport_size(size)


@contextmanager
def running(source: dict[str, Any], settings: dict[str, Any]) -> Iterator[str]:
    """Address of a new dashboard, which ends with the block; words as of `started`."""
    address, process = started(source, settings)
    try:
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE)


def started(source: dict[str, Any], settings: dict[str, Any]) -> tuple[str, Any]:
    """Address and process of a new dashboard; whoever starts it ends it.

    Args:
        source: What LOCKSTEP_DASHBOARD_SOURCE says.
        settings: Fields of lockstep.dashboard.context.Settings.
    """
    port = free_port()
    options = {
        "server.address": "127.0.0.1", "server.port": port, "server.headless": "true",
        "browser.gatherUsageStats": "false", "server.fileWatcherType": "none",
        "client.showErrorDetails": "none",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", str(ROOT / "dashboard" / "serve" / "server.py"),
         *(f"--{name}={value}" for name, value in options.items())],
        cwd=ROOT,
        env=os.environ | {
            "PYTHONPATH": str(ROOT),
            "LOCKSTEP_DASHBOARD_SOURCE": json.dumps(source, default=str),
            "LOCKSTEP_DASHBOARD_SETTINGS": json.dumps(settings, default=str),
        },
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    end = time.monotonic() + PATIENCE
    while not _answers(address):
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            process.wait()
            raise RuntimeError(f"the dashboard at {address} does not answer")
        time.sleep(0.05)
    return address, process


def _answers(address: str) -> bool:
    try:
        with closing(urlopen(f"{address}/_stcore/health", timeout=2)) as answer:
            return bool(answer.read() == b"ok")
    except OSError:
        return False
