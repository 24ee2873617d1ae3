"""Whether the numbers can be trusted, in a sentence and a table."""

import pandas as pd

from lockstep.dashboard.palette import severity_word
from lockstep.dashboard.shapes import Check, Health, Severity

_WORST = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN, Severity.NOTE, Severity.OK)
MOST_NAMED = 3


def sentence(health: Health) -> tuple[str, Severity]:
    """The answer, and how bad it is; nothing looked at is unknown, not well."""
    if not health.checks:
        return (
            "Nothing was checked: nobody knows whether to trust the numbers.",
            Severity.UNKNOWN,
        )
    bad = [check for check in health.checks if check.severity in _WORST[:2]]
    dark = [check for check in health.checks if check.severity is Severity.UNKNOWN]
    if bad:
        worst = min((check.severity for check in bad), key=_WORST.index)
        unknown = f" Not known is: {_named(dark)}." if dark else ""
        return f"The numbers can be trusted, except: {_named(bad)}.{unknown}", worst
    if dark:
        return (
            f"Nothing is wrong in what was checked, but not known is: {_named(dark)}.",
            Severity.UNKNOWN,
        )
    noted = any(check.severity is Severity.NOTE for check in health.checks)
    return (
        f"The numbers can be trusted: {_count(len(health.checks))} passed.",
        Severity.NOTE if noted else Severity.OK,
    )


def checks(health: Health) -> pd.DataFrame:
    """Each check: what, how it is, what it says, what to do."""
    return pd.DataFrame(
        [
            (check.name, severity_word(check.severity), check.text, check.next_step)
            for check in health.checks
        ],
        columns=["check", "state", "what it says", "next step"],
    )


def _named(some: list[Check]) -> str:
    # A check's text is a sentence of its own, so only its name goes in here.
    names = [check.name for check in some[:MOST_NAMED]]
    left = len(some) - len(names)
    return ", ".join(names) + (f" and {left} more" if left else "")


def _count(number: int) -> str:
    return "the one check" if number == 1 else f"all {number} checks"
