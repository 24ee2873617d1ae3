"""Relative links lead to files and headings that exist, and paths in code spans to files."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs.outside import OUTSIDE

ROOT = Path(__file__).parents[2]

PAGES = sorted([
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "deploy").glob("*/README.md"),
])  # fmt: skip
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
TOP = "lockstep|dashboard|grafana|analyzer|workloads|collector|tests|deploy|docs|examples|locks"
PATH = re.compile(rf"`((?:{TOP})/[\w./-]*)`")
"""A path of the tree in a code span; patterns (`<x>`, `*`) are none."""

ADDRESSES = {"docs/index.md", "docs/timed-waits.md"}
"""Pages that need no link: the first, and what verdicts name."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def anchors(page: Path) -> frozenset[str]:
    """Of the headings, as GitHub and mkdocs make them."""
    text = FENCE.sub("", page.read_text("utf-8"))
    return frozenset(
        re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())
        for heading in HEADING.findall(text)
    )


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Path and anchor of each relative link."""
    for target in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            yield path, anchor


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    dead = []
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(f"{path}#{anchor}")

    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_that_a_page_names_exist(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))

    named = PATH.findall(text)
    assert [
        one for one in named if not any((at / one).exists() for at in (ROOT, page.parent))
    ] == []


def test_every_page_is_linked_from_another() -> None:
    reached = {(page.parent / path).resolve() for page in PAGES for path, _ in links(page) if path}
    of_docs = {page for page in PAGES if (ROOT / "docs") in page.parents}

    alone = {name(page) for page in of_docs - reached}
    assert alone <= ADDRESSES


def test_the_site_has_every_page() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    shown = set(re.findall(r"([\w/-]+\.md)$", text, re.MULTILINE))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    outside = {page for page in OUTSIDE.values() if not page.startswith("runbooks/")}

    assert shown == pages - {"timed-waits.md"} | outside
