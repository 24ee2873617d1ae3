"""The Help page tells what the program does, not what it once did."""

import pandas as pd
import pytest

from lockstep.analyzer.report.sections.detection import THRESHOLDS
from lockstep.analyzer.report.sections.supporting import GLOSSARY
from lockstep.collector.contract.words import ExitCode
from lockstep.dashboard.shapes import Check, Health, Severity
from lockstep.dashboard.words import helping


def test_every_exit_code_is_told() -> None:
    codes = {value for name, value in vars(ExitCode).items() if name.isupper()}
    assert codes == {code for code, _ in helping.EXIT_CODES}


def test_words_and_limits_are_those_of_the_reports() -> None:
    assert list(GLOSSARY) == list(helping.glossary()["word"])
    assert [limit for _, limit, _ in THRESHOLDS] == list(helping.thresholds()["limit"])


# The sentence of Data health: what was not looked at is not well.

OK = Check("scrapes", Severity.OK, "All answer.")
LATE = Check("clock skew", Severity.WARNING, "node-1 is 3 s off.", "Start chrony on it.")
DEAD = Check("analyzer", Severity.CRITICAL, "It is down.", "Start lockstep watch.")
DARK = Check("gaps", Severity.UNKNOWN, "Nobody told.")


def health(*checks: Check) -> Health:
    return Health(checks, pd.DataFrame())


@pytest.mark.parametrize(
    ("checks", "expected", "severity"),
    [
        ((), "can be trusted is unknown", Severity.UNKNOWN),
        ((OK,), "The numbers can be trusted: the one check passed.", Severity.OK),
        ((OK, OK), "The numbers can be trusted: all 2 checks passed.", Severity.OK),
        ((OK, LATE), "The numbers can be trusted, except: clock skew.", Severity.WARNING),
        ((LATE, DEAD), "except: clock skew, analyzer.", Severity.CRITICAL),
        ((OK, DARK), "Unknown: gaps.", Severity.UNKNOWN),
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
