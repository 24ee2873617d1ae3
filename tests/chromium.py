"""A real Chromium that looks at pages: one for all tests of a worker.

Only tests/conftest.py imports these fixtures. A second copy of `browser` in one worker would start
a second Playwright, which refuses to while the first has its event loop running.
"""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LONG_MS = 180_000
"""For one step, on a machine where others work as well."""
_PROBED = "/_stcore/"
"""On a deep link Streamlit's browser side first looks for its server below the page's path; the
404 of that look is the only complaint that is none."""
_NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""Chromium drops what it was loading when an interface of the machine comes or goes, as of the
emulated networks that other tests make meanwhile."""
LOADED_AGAIN = """
window.addEventListener("error", (event) => {
  const tries = Number(sessionStorage.getItem("tries"));
  if (["SCRIPT", "LINK"].includes(event.target?.tagName) && tries < 60) {
    sessionStorage.setItem("tries", tries + 1);
    setTimeout(() => location.reload(), 2000);
  }
}, true);
"""
"""A page of which a part did not load is loaded again. What is missing for another reason is a
complaint all the same."""
SIZE = {"width": 1400, "height": 1000}


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """One Chromium for all tests."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]  # root needs the one, CI the other
        shown = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield shown
        shown.close()


@pytest.fixture(scope="session")
def visitor(browser: "Browser") -> Iterator["BrowserContext"]:
    """Whoever looks: one for all tests, for what a browser keeps of Streamlit takes long to get."""
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    context.set_default_timeout(LONG_MS)
    context.add_init_script(LOADED_AGAIN)
    yield context
    context.close()


@pytest.fixture
def page(visitor: "BrowserContext") -> Iterator["Page"]:
    """A new page of the browser.

    The test fails if the browser complained on its console, or asked another machine.
    """
    shown = visitor.new_page()
    complaints: list[str] = []
    elsewhere: list[str] = []

    def said(message: "ConsoleMessage") -> None:
        if message.type != "error" or _NETWORK_CHANGED in message.text:
            return
        if _PROBED not in message.location.get("url", ""):
            complaints.append(message.text)

    def asked(request: "Request") -> None:
        host = urlsplit(request.url).hostname
        if host not in ("127.0.0.1", None):
            elsewhere.append(request.url)

    shown.on("console", said)
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on("request", asked)
    yield shown
    shown.close()
    assert ([], []) == (elsewhere, complaints), f"{elsewhere} {complaints}"
