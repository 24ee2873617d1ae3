"""What every test may use: golden files and the option that renews them."""

import difflib
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

# A loaded machine is slow, not wrong: properties are judged by what holds, not by how fast.
hypothesis.settings.register_profile("lockstep", deadline=None)
hypothesis.settings.load_profile("lockstep")

GOLDEN = Path(__file__).parent / "golden"
SHOWN_LINES = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-goldens",
        action="store_true",
        help="write the golden files under tests/golden instead of comparing with them",
    )


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
