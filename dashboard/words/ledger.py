"""Where the time went, in one sentence; what nobody recorded is no gain."""

from collections.abc import Sequence

from lockstep.analyzer.ledger.words import percent
from lockstep.dashboard.shapes import LedgerRow, Severity
from lockstep.dashboard.words.said import Said

MUCH = 0.9
"""Useful share from which on nothing needs to be done."""
KNOWN = 0.1
"""Share that is unknown from which on nobody can say how much was useful."""
UNKNOWN = "unknown"


def headline(rows: Sequence[LedgerRow], run: str) -> Said:
    """Of one run its own sentence; of several, how much of all was useful and the largest loss."""
    told = [row for row in rows if row.rank_seconds > 0]
    if not told:
        which = f"of run {run}" if run else "of any run here"
        return Said(
            f"Nothing is known of where the time {which} went.", Severity.UNKNOWN,
            "lockstep ledger DIR",
        )  # fmt: skip
    whole = sum(row.rank_seconds for row in told)
    useful = sum(row.useful for row in told) / whole
    missing = sum(row.buckets.get(UNKNOWN, 0.0) for row in told) / whole
    if len(told) == 1:
        text = told[0].sentence
        words = f"{text[:1].upper()}{text[1:]}"
    else:
        losses: dict[str, float] = {}
        for row in told:
            for name, seconds in row.losses.items():
                losses[name] = losses.get(name, 0.0) + seconds
        who = max(losses, key=lambda name: losses[name], default="")
        lost = losses.get(who, 0.0)
        loss = f"the largest loss is {who}, {percent(lost / whole)}" if lost else "nothing was lost"
        words = f"{percent(useful)} of the time of {len(told)} runs was useful; {loss}."
    if missing >= KNOWN:
        return Said(f"{words} Of {percent(missing)} nobody knows where it went.", Severity.UNKNOWN)
    return Said(words, Severity.OK if useful >= MUCH else Severity.NOTE)
