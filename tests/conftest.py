"""What every test may use: golden files, the option that renews them, and who yields to whom."""

import difflib
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# A loaded machine is slow, not wrong: properties are judged by what holds, not by how fast.
hypothesis.settings.register_profile("lockstep", deadline=None)
hypothesis.settings.load_profile("lockstep")

GOLDEN = Path(__file__).parent / "golden"
SHOWN_LINES = 60
YIELDING = 10
"""Niceness of a worker beside the timed tests: it has what they leave, or else a tenth."""
TOGETHER = ("tests/cluster/", "tests/dashboard/browser/")
"""Folders whose files share something large that one worker starts: a control plane, a browser."""
FIRST = pytest.StashKey[pytest.Item]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-goldens",
        action="store_true",
        help="write the golden files under tests/golden instead of comparing with them",
    )


@functools.cache
def is_timed(file: Path) -> bool:
    """Whether a test file judges how long something real takes."""
    return "pytest.mark.timed" in file.read_text()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Timed files come first: see `pytest_xdist_make_scheduler`."""
    items.sort(key=lambda item: not is_timed(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadfile, one worker has all timed files, so that no two of them run at once."""
    from xdist.scheduler import LoadFileScheduling

    class TimedFilesTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            if is_timed(config.rootpath / file):
                return "timed"
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    config.option.loadscopereorder = False
    return TimedFilesTogether(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A worker that does not begin with the timed files never has them, and yields to them."""
    if FIRST in item.config.stash:
        return
    item.config.stash[FIRST] = item
    beside = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1
    if beside and not is_timed(item.path):
        os.nice(YIELDING)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: text equals tests/golden/<name>, or the test shows the difference."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--renew-goldens"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            return
        if not path.exists():
            pytest.fail(f"{path} does not exist; renew it with --renew-goldens and review it")
        expected = path.read_bytes().decode()
        if expected != text:
            pytest.fail(_difference(name, expected, text), pytrace=False)

    return compare


def _difference(name: str, expected: str, actual: str) -> str:
    lines = list(
        difflib.unified_diff(
            expected.splitlines(), actual.splitlines(), f"golden/{name}", "now", lineterm=""
        )
    )
    hidden = len(lines) - SHOWN_LINES
    tail = [f"... and {hidden} more lines"] if hidden > 0 else []
    if not lines:
        lines = ["the two differ in line ends only"]
    return "\n".join(
        [
            f"{name} is not its golden file (meant? renew with --renew-goldens):",
            *lines[:SHOWN_LINES],
            *tail,
        ]
    )
