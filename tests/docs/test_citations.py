"""The code points to texts that a reader has: pages of docs/ that exist, and nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PARTS

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "lockstep", *PARTS, "examples", "deploy",
    "docs", "tests",
)  # fmt: skip
KINDS = (".py", ".md", ".yaml", ".yml", ".toml", ".sh")
NOT_IN_THE_TREE = re.compile(r"\bDESIGN\b(?:\.md|[\s,]+\d)|\b[Rr]eference[\s,]+\d|\breview\.md")
PAGE = re.compile(r"(?<![\w/.-])docs/[\w./-]+\.md\b")


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in KINDS and file != Path(__file__):
                yield file
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in files()}


def test_nothing_is_cited_that_is_not_in_the_tree(texts: dict[str, str]) -> None:
    cited = {name: NOT_IN_THE_TREE.findall(text) for name, text in texts.items()}

    assert {name: found for name, found in cited.items() if found} == {}


def test_pages_that_the_code_points_to_exist(texts: dict[str, str]) -> None:
    # Links between pages are relative: test_links. After a host it is a page of somebody else.
    pages = {
        (name, page)
        for name, text in texts.items()
        if not name.startswith("docs/")
        for page in PAGE.findall(text)
    }

    assert {(name, page) for name, page in pages if not (ROOT / page).exists()} == set()
