"""Every page as Chromium shows it: readable, named, within its window, nothing wasted on top."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from lockstep.collector.contract.archive import RUN_FILE
from lockstep.dashboard.context import Page as Shown
from lockstep.dashboard.pages.registry import MOVED, PAGES
from tests.chromium import LOADED_AGAIN, LONG_MS
from tests.dashboard.browser.serving import pictured, settled

pytestmark = [
    pytest.mark.browser,
    pytest.mark.distributed,
    pytest.mark.timeout(1200),
]
DESK, TELEPHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
SERIOUS = ("serious", "critical")
TOP = 60
"""Pixels above the title of a page at most; a telephone has its button for the menu there."""
LOOKED = """() => {
    const main = document.querySelector('[data-testid="stMain"]');
    const grids = [...document.querySelectorAll('[data-testid="data-grid-canvas"]')];
    return {
        top: document.querySelector('h1').getBoundingClientRect().top,
        wide: main.scrollWidth - main.clientWidth,
        nameless: grids.filter(grid => !grid.closest('[role="region"][aria-label]')).length,
    };
}"""
LOOKS = [
    pytest.param((DESK, "light"), id="desk-light"),
    pytest.param((TELEPHONE, "dark"), id="telephone-dark"),
    pytest.param((DESK, "dark"), id="desk-dark", marks=pytest.mark.sweep),
    pytest.param((TELEPHONE, "light"), id="telephone-light", marks=pytest.mark.sweep),
]


@pytest.fixture(params=LOOKS)
def look(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    size, theme = request.param
    # The dashboard lets no script run that is not its own, that of axe as well.
    with browser.new_context(viewport=size, color_scheme=theme, bypass_csp=True) as seen:
        seen.set_default_timeout(LONG_MS)
        seen.add_init_script(LOADED_AGAIN)
        yield seen.new_page()


@pytest.mark.sweep(sample=1)
def test_every_page_is_readable_named_and_within_its_window(
    look: Page, address: str, archive: Path
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    run = json.loads((archive / RUN_FILE).read_text())["run"]
    wrong = []
    views = [(page, view) for key, view in MOVED.values() for page in PAGES if page.key == key]
    for each, view in [*((page, "") for page in PAGES), *views]:
        whom = "&gpu=0&rank=1" if (each, view) in views else ""
        look.goto(f"{address}/{path(each)}?run={run}&node=node-1{whom}&view={view}&a={run}")
        settled(look, each.title)
        found = Axe().run(look).response["violations"]
        wrong += [(each.key, one["id"], one["help"], one["nodes"][0]["html"][:200])
                  for one in found if one["impact"] in SERIOUS]  # fmt: skip
        seen = look.evaluate(LOOKED)
        told = (seen["top"] <= TOP, seen["wide"] <= 0, seen["nameless"] == 0)
        wrong += [] if all(told) else [(each.key, str(seen))]
        wrong += [] if f"{each.title} · Lockstep" in look.title() else [(each.key, look.title())]
    assert [] == wrong


def path(each: Shown) -> str:
    """The first page has no path."""
    return "" if each.key == "now" else each.key


@pytest.mark.sweep(sample=2)
def test_who_since_when_how_much_and_what_to_do_need_no_scrolling(
    look: Page, address: str, archive: Path
) -> None:
    run = json.loads((archive / RUN_FILE).read_text())["run"]
    look.goto(f"{address}/?run={run}")  # other files start newer ones there
    settled(look, "Now")
    pictured(look, "now")
    low = look.viewport_size["height"]  # type: ignore[index]
    for words in ("node-1", "Since", "Do first", "Evidence"):
        box = look.get_by_test_id("stMain").get_by_text(words).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= low, words
