"""A dashboard and a headless Chromium for benchmarks: seconds of a page change, bytes, memory."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, WebSocket, sync_playwright

from tests.benchmarks.priority import given
from tests.dashboard.browser.serving import SETTLED, settled, started

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]
CHEAP = "Data health and help"
"""Where every page change begins."""
EMPTY = "Start a run"
"""A page with two sentences, where runs cannot be started: what any page change costs."""
WATCHED = """
    addEventListener('click', () => { window.clickedAt = performance.now(); }, true);
"""
STANDS = f"""title => {{
    const shown = document.querySelector('h1');
    return shown && shown.textContent === title && ({SETTLED})()
        ? performance.now() - window.clickedAt : null;
}}"""
"""Milliseconds since the click, by the browser's clock: asked at every frame until it is a number.

What it takes to tell the browser to click, and us to hear of the end, is of the test and left out.
"""


class Visitor:
    """Somebody who goes from page to page within the app.

    Attributes:
        page: Of the browser.
        received: Bytes that came over the wire since the last click.
    """

    def __init__(self, page: Page, server: int) -> None:
        self.page = page
        self.received = 0
        self._server = server
        page.on("websocket", self._opened)

    def go(self, title: str) -> float:
        """Seconds from a click in the sidebar until the page stands and nothing is drawn."""
        link = self.page.get_by_test_id("stSidebar").get_by_role("link", name=title, exact=True)
        self.received = 0
        link.first.click()
        stands: float = self.page.wait_for_function(STANDS, arg=title).json_value()
        return stands / 1e3

    def changes(self, title: str, tries: int) -> dict[str, float]:
        """Figures of the changes from Data health to a page, and to an almost empty one beside.

        The first one, which loads what Plotly needs into the browser, is told by itself.
        """
        self.go(CHEAP)
        shown, empty, wire = [], [], []
        for _ in range(tries + 1):
            shown.append(self.go(title))
            wire.append(self.received)
            self.go(CHEAP)
            empty.append(self.go(EMPTY))
            self.go(CHEAP)
        p50, p90 = np.quantile(shown[1:], [0.5, 0.9])
        empty50, empty90 = np.quantile(empty[1:], [0.5, 0.9])
        return {
            "page change, s, first": shown[0], "page change, s, p50": float(p50),
            "page change, s, p90": float(p90), "to an almost empty page, s, p50": float(empty50),
            "to an almost empty page, s, p90": float(empty90),
            "wire of a page change, bytes, most": max(wire[1:]),
            "resident memory of the server, MB": self.resident_mb(),
            "load average over a minute": os.getloadavg()[0],
        }  # fmt: skip

    def resident_mb(self) -> float:
        """Memory of the server."""
        for line in Path(f"/proc/{self._server}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        return float("nan")

    def _opened(self, socket: WebSocket) -> None:
        socket.on("framereceived", self._count)

    def _count(self, frame: Any) -> None:
        self.received += len(frame)


@contextmanager
def visitor(source: dict[str, Any], words: str = "") -> Iterator[Visitor]:
    """Somebody who has opened Data health; pages do not refresh by themselves.

    Args:
        source: What LOCKSTEP_DASHBOARD_SOURCE says.
        words: More of the address, as `&run=a-day`.
    """
    address, server = started(source, {})
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.set_default_timeout(60_000)
            page.add_init_script(WATCHED)
            shown = Visitor(page, server.pid)
            page.goto(f"{address}/help?refresh=0{words}")
            settled(page, CHEAP)
            given()
            yield shown
            browser.close()
    finally:
        server.terminate()
        server.wait()
