"""`python -m tests.freeze record|compare [--wording] [--quick] [CASE ...]`.

`compare` exits 1 where an input, or anything exact, is not what was recorded; words alone never do.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from tests.freeze.cases import CASES, Case
from tests.freeze.comparison import FOLDER, answered, differences, record, recorded
from tests.tiers import Tier


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.freeze", description=__doc__)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("cases", nargs="*", metavar="CASE", help="these alone")
    parser.add_argument("--quick", action="store_true", help="those of `make test` alone")
    parser.add_argument("--wording", action="store_true", help="show other words, too")
    asked = parser.parse_intermixed_args()
    known = {case.name: case for case in CASES}
    if unknown := [name for name in asked.cases if name not in known]:
        parser.error(f"no such case: {', '.join(unknown)}")
    cases = [known[name] for name in asked.cases] or [
        case for case in CASES if case.tier is Tier.QUICK or not asked.quick
    ]
    if asked.action == "record":
        return _record(cases)
    return _compare(cases, wording=asked.wording)


def _record(cases: Sequence[Case]) -> int:
    for case in cases:
        record(case, answered(case))
        _say(f"{case.name}: recorded")
    names = {case.name for case in CASES}
    for path in FOLDER.iterdir():
        if path.stem not in names:
            path.unlink()
    return 0


def _compare(cases: Sequence[Case], *, wording: bool) -> int:
    moved = reworded = 0
    for case in cases:
        found = differences(recorded(case), answered(case))
        moved += bool(found.inputs or found.exact)
        reworded += bool(found.wording)
        _tell(_described(case, found.inputs, found.exact))
        if wording:
            _tell(
                f"{case.name}: {line}" if line[:1] not in "+-" else line for line in found.wording
            )
    _say(f"{len(cases)} cases: {moved} differ, {reworded} have other words")
    return int(moved > 0)


def _described(case: Case, inputs: Sequence[str], exact: Sequence[str]) -> Iterator[str]:
    yield from (f"{case.name}: THE INPUT CHANGED: {line}" for line in inputs)
    yield from (f"{case.name}: {line}" for line in exact)


def _tell(lines: Iterator[str]) -> None:
    for line in lines:
        _say(line)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
