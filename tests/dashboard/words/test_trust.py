"""The sentence of Data health: what was not looked at is not well."""

import pandas as pd
import pytest

from lockstep.dashboard.shapes import Check, Health, Severity
from lockstep.dashboard.words import helping

OK = Check("scrapes", Severity.OK, "All answer.")
LATE = Check("clock skew", Severity.WARNING, "node-1 is 3 s off.", "Start chrony on it.")
DEAD = Check("analyzer", Severity.CRITICAL, "It is down.", "Start lockstep watch.")
DARK = Check("gaps", Severity.UNKNOWN, "Nobody told.")


def health(*checks: Check) -> Health:
    return Health(checks, pd.DataFrame())


@pytest.mark.parametrize(
    ("checks", "expected", "severity"),
    [
        ((), "nobody knows whether to trust", Severity.UNKNOWN),
        ((OK,), "The numbers can be trusted: the one check passed.", Severity.OK),
        ((OK, OK), "The numbers can be trusted: all 2 checks passed.", Severity.OK),
        ((OK, LATE), "The numbers can be trusted, except: clock skew.", Severity.WARNING),
        ((LATE, DEAD), "except: clock skew, analyzer.", Severity.CRITICAL),
        ((OK, DARK), "not known is: gaps.", Severity.UNKNOWN),
        ((LATE,) * 5, "and 2 more.", Severity.WARNING),
    ],
)
def test_the_sentence_names_what_is_wrong(
    checks: tuple[Check, ...], expected: str, severity: Severity
) -> None:
    text, found = helping.sentence(health(*checks))
    assert expected in text
    assert severity is found


def test_every_check_says_what_to_do() -> None:
    (row,) = helping.checks(health(LATE)).to_dict("records")
    assert {
        "check": "clock skew", "state": "▲ warning", "what it says": "node-1 is 3 s off.",
        "next step": "Start chrony on it.",
    } == row  # fmt: skip
