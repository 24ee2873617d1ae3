"""A dashboard and a headless Chromium for benchmarks: seconds of a page change, bytes, memory."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from playwright.sync_api import Page, WebSocket, sync_playwright

from tests.dashboard.browser.serving import settled, started

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]


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
        begun = perf_counter()
        link.first.click()
        settled(self.page, title)
        return perf_counter() - begun

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
    """Somebody who has opened Help; pages do not refresh by themselves.

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
            shown = Visitor(page, server.pid)
            page.goto(f"{address}/help?refresh=0{words}")
            settled(page, "Help")
            yield shown
            browser.close()
    finally:
        server.terminate()
        server.wait()
