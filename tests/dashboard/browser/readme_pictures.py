"""The pictures of the README, out of the archive of a run.

lockstep run gpt --nodes 4 --fault thermal:node=2,factor=1.5 --out DIR
lockstep analyze DIR
LOCKSTEP_SCREENSHOTS=docs python -m tests.dashboard.browser.readme_pictures DIR
"""

import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from collector.contract.archive import RUN_FILE
from tests.dashboard.browser.serving import SCREENSHOTS, running, settled

SHOWN = {"run": ("Run", 1180), "straggler": ("Straggler", 1180)}
"""Page -> its title, and so many pixels of its height are worth showing."""
WIDTH = 1400
NAMED = """([path, name]) => document.querySelectorAll('[data-testid="stText"]').forEach(
    text => { text.textContent = text.textContent.replace(path, name); })"""
"""In the place of a folder of whoever made the picture: its name."""


def main(archive: Path, folder: Path) -> None:
    """Writes `dashboard-<page>.png` for each page."""
    run = json.loads((archive / RUN_FILE).read_text())["run"]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with (
        running({"kind": "archive", "path": archive.resolve()}, {}) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        for name, (title, height) in SHOWN.items():
            page = browser.new_page(
                viewport={"width": WIDTH, "height": height}, color_scheme="light"
            )
            page.goto(f"{address}/{name}?run={run}")
            settled(page, title)
            page.evaluate(NAMED, [str(archive.resolve()), archive.name])
            _written(page, folder / f"dashboard-{name}.png")
            page.close()
        browser.close()


def _written(page: Page, file: Path) -> None:
    # The head of the page, which is empty, is left out.
    size = page.viewport_size
    assert size is not None
    clip = {"x": 0, "y": 56, "width": size["width"], "height": size["height"] - 56}
    page.screenshot(path=file, clip=clip)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(SCREENSHOTS or "docs"))
