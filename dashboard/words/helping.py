"""Data health in a sentence and a table; the tables of Words and limits."""

import pandas as pd

from lockstep.analyzer.report.sections.supporting import GLOSSARY
from lockstep.dashboard.palette import severity_word
from lockstep.dashboard.shapes import Check, Health, Severity

_WORST = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN, Severity.NOTE, Severity.OK)
MOST_NAMED = 3


def sentence(health: Health) -> tuple[str, Severity]:
    """The answer, and how bad it is; nothing looked at is unknown, not well."""
    if not health.checks:
        return (
            "Nothing was checked: whether the numbers can be trusted is unknown.",
            Severity.UNKNOWN,
        )
    bad = [check for check in health.checks if check.severity in _WORST[:2]]
    dark = [check for check in health.checks if check.severity is Severity.UNKNOWN]
    if bad:
        worst = min((check.severity for check in bad), key=_WORST.index)
        unknown = f" Unknown: {_named(dark)}." if dark else ""
        return f"The numbers can be trusted, except: {_named(bad)}.{unknown}", worst
    if dark:
        return (
            f"Nothing is wrong in what was checked. Unknown: {_named(dark)}.",
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


FORMULAS: tuple[tuple[str, str], ...] = (
    ("own time", "step time minus the time in collectives of all groups"),
    ("slowdown of a rank", "its own time over the median own time of the ranks of its stage"),
    ("slowdown of a run", "its step time over the step time without the culprits"),
    ("lost GPU-hours", "sum over steps of (step time - ideal step time) x GPUs / 3600"),
    ("share waited", "time in collectives over step time"),
    ("busbw", "bytes / time x factor: all-reduce 2(n-1)/n, all-gather 1-1/n (nccl-tests)"),
    ("MFU", "model FLOP/s over the devices' peak FLOP/s (PaLM, arXiv 2204.02311, appendix B)"),
    ("gain without a node", "step time over that with its ranks at their peers' pace, minus 1"),
)  # fmt: skip

EXIT_CODES: tuple[tuple[int, str], ...] = (
    (0, "healthy, or done"),
    (1, "a warning"),
    (2, "a culprit, or a regression, was named"),
    (3, "unknown, or too little data"),
    (64, "usage"),
    (65, "bad input file"),
    (69, "source unreachable, or something is not installed"),
    (70, "internal"),
    (130, "interrupted"),
)
"""SOURCE: lockstep.collector.contract.words.ExitCode."""

KEYS: tuple[tuple[str, str], ...] = (
    ("Tab, Enter", "from link to link, and open it"),
    ("arrows in a table", "from cell to cell; Ctrl+F searches the table"),
    ("a link in a table", "opens in a new tab; links outside of tables stay in this one"),
    ("r", "load the numbers anew"),
    ("drag in a chart", "zoom; a double click shows everything again"),
    ("Alt+Left", "back to where you were: every view has its address"),
)


def glossary() -> pd.DataFrame:
    """The words and what they mean, as in the reports."""
    return pd.DataFrame(list(GLOSSARY.items()), columns=["word", "meaning"])


def formulas() -> pd.DataFrame:
    """What is computed how."""
    return pd.DataFrame(list(FORMULAS), columns=["number", "formula"])


def thresholds() -> pd.DataFrame:
    """The limits in force, from the analyzer itself."""
    # Here, because it brings the whole analyzer, and most readers never open this page.
    from lockstep.analyzer.report.sections.detection import THRESHOLDS

    return pd.DataFrame(list(THRESHOLDS), columns=["judged", "limit", "source"])


def exit_codes() -> pd.DataFrame:
    """What the commands say when they end."""
    return pd.DataFrame(list(EXIT_CODES), columns=["exit code", "meaning"])


def keys() -> pd.DataFrame:
    """What the keyboard and the mouse do."""
    return pd.DataFrame(list(KEYS), columns=["key", "does"])
