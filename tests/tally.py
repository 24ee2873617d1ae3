"""Sums what runs of pytest found, in its own words: `python -m tests.tally A.xml B.xml`.

`--few` prints nothing: its exit code is 0 where so few failed that it may be chance. Each `--again
C.xml` is a second try of some of those: who passes it is named, and is counted as passed.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

_FAILED = ("failure", "error")
FEW = 5
"""Tests of some ten thousand that may fail together by chance."""


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
    """Of a file of `--junitxml`; an error around a test is a failure of it, and no second one.

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
    told = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    skipped = int(suite.attrib["skipped"])
    passed = int(suite.attrib["tests"]) - told - skipped
    # A test that failed, and then could not clean up, stands there twice.
    cases = [one for one in suite.iter("testcase") for part in one if part.tag in _FAILED]
    failed = told - len(cases) + len({_name(one) for one in cases})
    return Tally(passed, failed, skipped, float(suite.attrib["time"]))


def _name(case: ElementTree.Element) -> str:
    return f"{case.attrib['classname']}.{case.attrib['name']}"


def passed(text: str) -> list[str]:
    """Names of the tests of such a file that passed.

    Raises ValueError: it is no such file.
    """
    try:
        cases = list(ElementTree.fromstring(text).iter("testcase"))
        return [_name(one) for one in cases if not len(one)]
    except (ElementTree.ParseError, KeyError) as error:
        raise ValueError(f"no results of pytest: {error}") from error


def main(words: Sequence[str]) -> int:
    """Prints the sum; 1 if a test failed, or if a part left no results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--again", type=Path, action="append", default=[])
    asked = parser.parse_args(words)
    total, told = Tally(), []
    for path in asked.results:
        try:
            total += tally(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            told.append(f"{path}: {error}\n")
    if asked.few:
        total = sum((_second(path)[0] for path in asked.again), total)
        return 0 if not told and 1 <= total.failed <= FEW else 1
    sys.stdout.writelines(told)
    for path in asked.again:
        change, lines = _second(path)
        total += change
        sys.stdout.writelines(lines)
    sys.stdout.write(f"{total}\n")
    return 1 if told or total.failed else 0


def _second(path: Path) -> tuple[Tally, list[str]]:
    """What a second try changes, and a line for each test; nothing where it left no results."""
    try:
        text = path.read_text("utf-8")
        names, seconds = passed(text), tally(text).seconds
    except (OSError, ValueError) as error:
        return Tally(), [f"{path}: {error}\n"]
    lines = [f"failed by chance, passed alone: {name}\n" for name in names]
    return Tally(len(names), -len(names), 0, seconds), lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
