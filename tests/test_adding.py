"""What docs/contributing says of adding a thing is done, in a copy of the tree, as it is said."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "contributing").glob("adding-a-*.md"))
PARTS = (
    "lockstep", "dashboard", "grafana", "analyzer", "workloads", "collector", "watch", "bench",
    "evaluation", "tests", "deploy", "docs", "examples",
    "locks", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "README.md",
    "constraints.txt", "mkdocs.yml", "pyproject.toml",
)  # fmt: skip
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
NEW_FILES_AT_MOST = {"source": 3, "shape": 2, "cause": 2, "page": 2}
"""With its test."""


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """(language, file, text) of every block of a page, in its order."""
    return FENCE.findall(page.read_text("utf-8"))


def kind_of(page: Path) -> str:
    return page.stem.rpartition("-")[2]


def patched(text: str, diff: str) -> str:
    """A file with the hunks of a block, each between lines that stand in it once."""
    for hunk in re.split(r"^@@\n", diff, flags=re.M):
        lines = hunk.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The tree without what was built in it, but for bytecode: it is as old as its sources."""
    ignored = shutil.ignore_patterns(".*", "*.so")
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignored)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_there_is_a_page_for_each_kind() -> None:
    assert sorted(NEW_FILES_AT_MOST) == [kind_of(page) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=kind_of)
def test_a_thing_is_few_files(page: Path) -> None:
    new = [path for language, path, _ in blocks(page) if language == "python"]

    assert len(new) <= NEW_FILES_AT_MOST[kind_of(page)]
    assert 1 == sum(path.startswith("tests/") for path in new)
    assert not [path for path in new if (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=kind_of)
def test_what_a_page_changes_stands_in_the_tree_as_it_says(page: Path) -> None:
    for language, path, text in blocks(page):
        if language == "diff":
            assert patched(before := (ROOT / path).read_text("utf-8"), text) != before


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=kind_of)
def test_what_a_page_adds_passes_the_checks_that_it_names(page: Path, copy: Path) -> None:
    for language, path, text in blocks(page):
        if language == "python":
            (copy / path).write_text(text, "utf-8")
        elif language == "diff":
            (copy / path).write_text(patched((copy / path).read_text("utf-8"), text), "utf-8")

    programs = Path(sys.executable).parent
    # What is imported is the copy, and not the tree that is installed here.
    environment = os.environ | {"PYTHONPATH": str(copy)}
    commands = [text for language, _, text in blocks(page) if language == "sh"]
    for line in "".join(commands).splitlines():
        program, *words = shlex.split(line)
        if program.endswith("/pytest"):
            # A folder of its own: it would tidy up, at its end, what others have in the common one.
            own = copy.with_name(f"{copy.name}-tests")
            words += ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"--basetemp={own}"]
        done = subprocess.run(
            [programs / Path(program).name, *words],
            cwd=copy, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert 0 == done.returncode, f"{line}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
