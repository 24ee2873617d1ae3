"""Breaks every rule in several ways: `python -m tests.deploy` says what no test noticed.

Minutes long, so it is run by hand after a change of rules or cases; what constant rules would need
to survive is excluded by the shape of the cases in test_alerts.py.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.deploy.cases import CASES
from tests.deploy.cases.shape import Case
from tests.deploy.promtool import Rule, found, verdicts

_THRESHOLD = re.compile(r"(?<=[<>=] )(?P<bool>bool )?(?P<number>\d+(?:\.\d+)?)(?![\w.\]])")
CONSTANT = "Watchdog"
"""Always fires: there is nothing to break."""


def never(rule: Rule) -> Rule:
    """Never fires."""
    return rule | {"expr": "vector(0) > 1"}


def always(rule: Rule) -> Rule:
    """Fires also when it should not."""
    return rule | {"expr": f"({rule['expr']}) or on () vector(1)"}


def at_once(rule: Rule) -> Rule:
    """Does not wait."""
    return {name: value for name, value in rule.items() if name != "for"}


def no_longer(rule: Rule) -> Rule:
    """Ends with its expression."""
    return {name: value for name, value in rule.items() if name != "keep_firing_for"}


def moved(at: re.Match[str], value: float) -> Callable[[Rule], Rule]:
    """Another number in place of one that something is compared with."""

    def mutated(rule: Rule) -> Rule:
        number = f"{at['bool'] or ''}{value:g}"
        return rule | {"expr": rule["expr"][: at.start()] + number + rule["expr"][at.end() :]}

    return mutated


def mutations(case: Case) -> Iterator[tuple[str, Callable[[Rule], Rule]]]:
    """Ways to break the alert of a case, each in words."""
    alert = found(case)[1]
    yield "never fires", never
    yield "always fires", always
    if alert.wait:
        yield "does not wait", at_once
    if alert.keep:
        yield "ends with its expression", no_longer
    for at in _THRESHOLD.finditer(alert.expression):
        number = float(at["number"])
        words = f"{alert.expression[: at.end()].splitlines()[-1].strip()[-60:]} becomes"
        lower = number - 1 if number.is_integer() and number < 10 else number * 0.8
        for value in (number * 1.2 or 2.0, lower):
            yield f"{words} {value:g}", moved(at, value)


def main() -> int:
    """How many broken rules there are, and those that pass their tests all the same."""
    broken = [(case, *one) for case in CASES if case.alert != CONSTANT for one in mutations(case)]
    survivors = []
    # Rounds: each breaks at most one thing of each alert.
    while broken:
        taken: dict[str, tuple[Case, str, Callable[[Rule], Rule]]] = {}
        for one in broken:
            taken.setdefault(one[0].key, one)
        broken = [one for one in broken if taken[one[0].key] is not one]
        with tempfile.TemporaryDirectory() as folder:
            cases = [one[0] for one in taken.values()]
            ways = {key: one[2] for key, one in taken.items()}
            wrong = verdicts(Path(folder), cases, lambda case, ways=ways: ways[case.key])
        survivors += [f"{key}: {taken[key][1]}" for key, words in wrong.items() if not words]
        print(len(taken), "broken,", len(survivors), "unnoticed so far", flush=True)
    print("\n".join(survivors) or "every broken rule fails its tests")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
