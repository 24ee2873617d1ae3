"""The pictures of the pages (docs/images), out of the archive of a run; needs Chromium.

lockstep run gpt --nodes 4 --fault thermal:node=2,factor=1.5 --out DIR
lockstep analyze DIR && lockstep report DIR
python -m tests.docs.pictures DIR
"""

import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from lockstep.collector.contract.archive import REPORT_STEM, RUN_FILE
from tests.dashboard.browser.serving import running, settled

FOLDER = Path(__file__).parents[2] / "docs" / "images"
SHOWN = {"run": ("Run", 1180), "straggler": ("Straggler", 1180)}
"""Page -> its title, and so many pixels of its height are worth showing."""
WIDTH = 1400
HEAD = 56
"""Pixels of a page's head, which is empty."""
PATIENCE = 300.0
"""Seconds until a page is drawn: a busy machine makes the same picture."""
REPORT = {"width": 1100, "height": 1340}
NAMED = """([path, name]) => document.querySelectorAll('[data-testid="stText"]').forEach(
    text => { text.textContent = text.textContent.replace(path, name); })"""
"""In the place of a folder of whoever made the picture: its name."""


def main(archive: Path, folder: Path = FOLDER) -> None:
    """Writes `report.png`, and `dashboard-<page>.png` for each page."""
    archive = archive.resolve()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    folder.mkdir(parents=True, exist_ok=True)
    with (
        running({"kind": "archive", "path": archive}, {}) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        _report(browser, archive, folder)
        for name in SHOWN:
            _page(browser, address, name, archive, folder)
        browser.close()


def _report(browser: Browser, archive: Path, folder: Path) -> None:
    page = browser.new_page(viewport=REPORT, color_scheme="light")  # type: ignore[arg-type]
    page.goto((archive / f"{REPORT_STEM}.html").as_uri())
    page.screenshot(path=folder / "report.png")
    page.close()


def _page(browser: Browser, address: str, name: str, archive: Path, folder: Path) -> None:
    title, height = SHOWN[name]
    run = json.loads((archive / RUN_FILE).read_text())["run"]
    viewport = {"width": WIDTH, "height": height}
    page: Page = browser.new_page(viewport=viewport, color_scheme="light")  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE * 1000)
    page.goto(f"{address}/{name}?run={run}")
    settled(page, title)
    page.evaluate(NAMED, [str(archive), archive.name])
    clip = {"x": 0, "y": HEAD, "width": WIDTH, "height": height - HEAD}
    page.screenshot(path=folder / f"dashboard-{name}.png", clip=clip)  # type: ignore[arg-type]
    page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
