"""A real dashboard in a process of its own, and a real Chromium that looks at it."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    sync_playwright,
)

from tests.dashboard.browser.serving import ROOT, running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LONG_MS = 180_000
"""For one step, on a machine where others work as well."""
RUN_SECONDS = 500
"""For a run that takes some ten seconds alone: how long it takes is not what is tested."""
_PROBED = "/_stcore/"
"""On a deep link Streamlit's browser side first looks for its server below the page's path; the
404 of that look is the only complaint that is none."""
SIZE = {"width": 1400, "height": 1000}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    # A test before, cut short inside asyncio.run, may have left its loop as the one that runs here;
    # no loop runs below a fixture that is no coroutine.
    asyncio.events._set_running_loop(None)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]  # root needs the one, CI the other
        shown = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield shown
        shown.close()


@pytest.fixture(scope="session")
def address(browser: Browser, archive: Path) -> Iterator[str]:
    """Of the one dashboard of all tests that start no run: over the folder of the archive."""
    with running({"kind": "folder", "path": archive.parent}, {}) as where:
        yield where


@pytest.fixture(scope="session")
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """Whoever looks: one for all tests, for what a browser keeps of Streamlit takes long to get."""
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    context.set_default_timeout(LONG_MS)
    yield context
    context.close()


@pytest.fixture
def page(visitor: BrowserContext) -> Iterator[Page]:
    """A new page of the browser.

    The test fails if the browser complained on its console, or asked another machine.
    """
    shown = visitor.new_page()
    complaints: list[str] = []
    elsewhere: list[str] = []

    def said(message: ConsoleMessage) -> None:
        if message.type == "error" and _PROBED not in message.location.get("url", ""):
            complaints.append(message.text)

    def asked(request: Request) -> None:
        host = urlsplit(request.url).hostname
        if host not in ("127.0.0.1", None):
            elsewhere.append(request.url)

    shown.on("console", said)
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on("request", asked)
    yield shown
    shown.close()
    assert ([], []) == (elsewhere, complaints)


@pytest.fixture(scope="session")
def archive(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a real run of two ranks, rank 1 (node-1, GPU 0) too hot from step 15 on.

    It asks for the browser first: without one nothing needs to be run.
    """
    folder = tmp_path_factory.mktemp("real") / "runs" / "gpt"
    words = "run gpt --nodes 2 --ranks-per-node 1 --model tiny --steps 60 --seed 3"
    fault = "thermal:rank=1,factor=1.6,from=15"
    _lockstep(*words.split(), "--fault", fault, "--out", str(folder))
    _lockstep("analyze", str(folder))
    return folder


def _lockstep(*words: str) -> None:
    """Runs a command; analyze says by its status whom it named, and on a busy machine nobody."""
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", *words], cwd=ROOT, capture_output=True, text=True,
        timeout=RUN_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1, 2, 3):
        pytest.fail(f"lockstep {words[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
