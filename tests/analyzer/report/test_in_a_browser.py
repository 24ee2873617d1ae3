"""A report as Chromium shows it: the chart is on the first screen, and everybody can read it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lockstep.analyzer.report.document import document
from lockstep.analyzer.verdict.pipeline import Diagnosis

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

pytestmark = pytest.mark.browser

DESK, TELEPHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
SERIOUS = ("serious", "critical")
SMALLEST_LETTERS = 11.0
"""Pixels."""
CHART = """() => {
  const shown = [...document.querySelectorAll("figure svg")].find(e => e.getClientRects().length);
  const box = shown.getBoundingClientRect();
  const letters = [...shown.querySelectorAll("text")].map(
    e => parseFloat(getComputedStyle(e).fontSize) * box.width / shown.viewBox.baseVal.width);
  return {bottom: box.bottom, right: box.right, smallest: Math.min(...letters),
          wide: document.documentElement.scrollWidth};
}"""
Shown = Callable[[dict[str, int], str], Any]


@pytest.fixture(params=["straggler", "healthy", "hang", "empty"])
def diagnosis(request: pytest.FixtureRequest) -> Diagnosis:
    made = request.getfixturevalue(request.param)
    return made() if request.param == "straggler" else made


def context(browser: "Browser", size: dict[str, int], theme: str) -> "BrowserContext":
    # The report forbids all scripts, that of axe as well.
    return browser.new_context(viewport=size, color_scheme=theme, bypass_csp=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [DESK, TELEPHONE], ids=["desk", "telephone"])
def test_the_first_chart_is_on_the_first_screen(
    browser: "Browser", straggler: Callable[..., Diagnosis], page: Callable[[dict[str, Any]], str],
    size: dict[str, int], tmp_path: Path,
) -> None:  # fmt: skip
    path = tmp_path / "report.html"
    path.write_text(page(document(straggler())), "utf-8")
    with context(browser, size, "light") as seen:
        shown = seen.new_page()
        shown.goto(path.as_uri())
        chart = shown.evaluate(CHART)

    assert chart["bottom"] <= 900
    assert chart["right"] <= size["width"]
    assert chart["wide"] == size["width"]
    assert chart["smallest"] >= SMALLEST_LETTERS


@pytest.mark.sweep
@pytest.mark.parametrize("size", [DESK, TELEPHONE], ids=["desk", "telephone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    browser: "Browser", diagnosis: Diagnosis, page: Callable[[dict[str, Any]], str],
    size: dict[str, int], theme: str, tmp_path: Path,
) -> None:  # fmt: skip
    from axe_playwright_python.sync_playwright import Axe

    path = tmp_path / "report.html"
    path.write_text(page(document(diagnosis)), "utf-8")
    with context(browser, size, theme) as seen:
        shown = seen.new_page()
        shown.goto(path.as_uri())
        found = Axe().run(shown).response["violations"]

    assert [] == [(each["id"], each["help"]) for each in found if each["impact"] in SERIOUS]
