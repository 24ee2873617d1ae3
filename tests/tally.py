"""Sums what runs of pytest found, in its own words: `python -m tests.tally A.xml B.xml`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tests, and in how many seconds."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped,
            self.seconds + other.seconds,
        )  # fmt: skip

    def __str__(self) -> str:
        found = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        return f"== {found} in {self.seconds:.2f}s =="


def tally(text: str) -> Tally:
    """Of a file of `--junitxml`; an error around a test is a failure of it.

    Raises ValueError: it is no such file.
    """
    try:
        root = ElementTree.fromstring(text)
        suites = [root] if root.tag == "testsuite" else list(root.iter("testsuite"))
        if not suites:
            raise ValueError("no test suite in it")
        return sum(map(_suite, suites), Tally())
    except (ElementTree.ParseError, KeyError) as error:
        raise ValueError(f"no results of pytest: {error}") from error


def _suite(suite: ElementTree.Element) -> Tally:
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    skipped = int(suite.attrib["skipped"])
    passed = int(suite.attrib["tests"]) - failed - skipped
    return Tally(passed, failed, skipped, float(suite.attrib["time"]))


def main(words: Sequence[str]) -> int:
    """Prints the sum; 1 if a test failed, or if a part left no results."""
    total, silent = Tally(), 0
    for path in map(Path, words):
        try:
            total += tally(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            sys.stdout.write(f"{path}: {error}\n")
            silent += 1
    sys.stdout.write(f"{total}\n")
    return 1 if silent or total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
