"""The list of runs as a table and a sentence; where their time went, in a sentence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from lockstep.analyzer.ledger.words import percent
from lockstep.dashboard.address import Location, link, utc
from lockstep.dashboard.shapes import LedgerRow, RunRow, Severity
from lockstep.dashboard.words.said import Said

NOT_ANALYZED = "not analyzed"
STATES = ("running", "ended", "failed", "hung", "stopped", "unknown")
STATUSES = ("healthy", "degraded", "unknown", NOT_ANALYZED)
ORDERS: Mapping[str, Callable[[RunRow], tuple[float, str]]] = {
    "newest first": lambda row: (-row.span.start, row.run),
    "oldest first": lambda row: (row.span.start, row.run),
    "slowest first": lambda row: (-(row.slowdown or 0.0), row.run),
    "most GPU-hours lost first": lambda row: (-(row.lost_gpu_hours or 0.0), row.run),
    "longest first": lambda row: (-row.span.seconds, row.run),
    "by name": lambda row: (0.0, row.run),
}
LONGEST_NAME = 100
COLUMNS = {
    "slowdown": "slowdown (×)",
    "lost": "lost (GPU-h)",
    "duration": "duration (s)",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What of the list is asked for; empty = everything.

    Attributes:
        text: In the name, the workload, the layout, the command, the verdict, the folder or a tag;
            case is no matter.
        state: One of STATES.
        status: One of STATUSES.
        order: A key of ORDERS; unknown ones are the first.
    """

    text: str = ""
    state: str = ""
    status: str = ""
    order: str = ""


def wished(rows: Sequence[RunRow], wish: Wish) -> list[RunRow]:
    """Those that are asked for, in the order that is."""
    text = wish.text.casefold()
    matching = [
        row
        for row in rows
        if (not wish.state or row.state == wish.state)
        and (not wish.status or status(row) == wish.status)
        and (not text or text in _words(row))
    ]
    order = ORDERS.get(wish.order) or ORDERS[next(iter(ORDERS))]
    return sorted(matching, key=order)


def status(row: RunRow) -> str:
    """Of its verdict, in a word."""
    return row.status or NOT_ANALYZED


def frame(rows: Sequence[RunRow], location: Location) -> pd.DataFrame:
    """One row a run, with links to its page and its report."""
    return pd.DataFrame({
        "open": [link("run", Location(run=row.run, refresh=location.refresh)) for row in rows],
        "report": [
            link("run", Location(run=row.run, refresh=location.refresh), view="report")
            if row.report
            else None
            for row in rows
        ],
        "run": [_cut(row.run) for row in rows],
        "tags": [" ".join(row.tags) for row in rows],
        "state": [row.state for row in rows],
        "verdict": [status(row) for row in rows],
        COLUMNS["slowdown"]: _numbers([row.slowdown for row in rows], 2),
        COLUMNS["lost"]: _numbers([row.lost_gpu_hours for row in rows], 4),
        "culprits": [row.culprits for row in rows],
        "start": [utc(row.span.start) if row.span.start > 0 else "" for row in rows],
        COLUMNS["duration"]: [round(max(0.0, row.span.seconds), 1) for row in rows],
        "workload": [_cut(row.workload) for row in rows],
        "command": [_cut(_program(row.command)) for row in rows],
        "ranks": [_size(row) for row in rows],
        "provenance": [", ".join(row.provenance) for row in rows],
    })  # fmt: skip


def sentence(every: Sequence[RunRow], rows: Sequence[RunRow]) -> tuple[str, Severity]:
    """What ran and how it ended; plain text."""
    if not every:
        return "No run is known here.", Severity.NOTE
    if not rows:
        return f"None of {_counted(len(every))} matches the filter.", Severity.NOTE
    states = {state: sum(row.state == state for row in rows) for state in STATES}
    ends = [f"{count:,} {state}" for state, count in states.items() if count]
    if len(ends) == 1:
        ends = [("" if len(rows) == 1 else "all ") + ends[0].partition(" ")[2]]
    slow = sum(row.status == "degraded" for row in rows)
    unread = sum(row.status is None for row in rows)
    unsure = sum(row.status not in (None, "healthy", "degraded") for row in rows)
    broken = sum(row.state in ("failed", "hung") for row in rows)
    parts = [f"{_counted(len(rows))}: {', '.join(ends)}"]
    parts += [f"{slow:,} held back"] if slow else []
    parts += [f"{unread:,} not analyzed"] if unread else []
    parts += [f"{unsure:,} could not be judged"] if unsure else []
    lost = sum(row.lost_gpu_hours or 0.0 for row in rows)
    text = "; ".join(parts)
    text += f"; {hours(lost)} lost in all" if lost > 0 else ""
    bad, unknown = slow or broken, unread or unsure or states["unknown"]
    severity = Severity.WARNING if bad else Severity.UNKNOWN if unknown else Severity.OK
    return f"{text}.", severity


def hours(gpu_hours: float) -> str:
    """GPU time in the unit that keeps it readable."""
    if gpu_hours >= 1.0:
        return f"{gpu_hours:,.1f} GPU-h"
    if gpu_hours * 60.0 >= 1.0:
        return f"{gpu_hours * 60.0:.1f} GPU-min"
    return f"{gpu_hours * 3600.0:.1f} GPU-s"


def _words(row: RunRow) -> str:
    words = row.workload, row.layout, row.command, row.sentence or "", row.folder
    parts = (row.run, *words, *row.tags)
    return " ".join(parts).casefold()


def _program(command: str) -> str:
    """A command of the user's own without what stands before it; another as it is."""
    return command.partition(" -- ")[2] or command


def _size(row: RunRow) -> str:
    return (
        f"{row.ranks} on {row.nodes} node{'' if row.nodes == 1 else 's'}"
        if row.nodes and row.ranks
        else ""
    )


def _numbers(values: Sequence[float | None], digits: int) -> pd.Series:
    return pd.Series(
        [None if value is None else round(value, digits) for value in values], dtype="Float64"
    )


def _counted(number: int) -> str:
    return f"{number:,} run{'' if number == 1 else 's'}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


MUCH = 0.9
"""Useful share from which on nothing needs to be done."""
KNOWN = 0.1
"""Share that is unknown from which on nobody can say how much was useful."""
UNKNOWN = "unknown"


def headline(rows: Sequence[LedgerRow], run: str) -> Said:
    """Of one run its own sentence; of several, how much of all was useful and the largest loss."""
    counted = [row for row in rows if row.rank_seconds > 0]
    if not counted:
        which = f"of run {run}" if run else "of any run here"
        return Said(
            f"Where the time {which} went is unknown.", Severity.UNKNOWN,
            "lockstep ledger DIR",
        )  # fmt: skip
    whole = sum(row.rank_seconds for row in counted)
    useful = sum(row.useful for row in counted) / whole
    missing = sum(row.buckets.get(UNKNOWN, 0.0) for row in counted) / whole
    if len(counted) == 1:
        text = counted[0].sentence
        words = f"{text[:1].upper()}{text[1:]}"
    else:
        losses: dict[str, float] = {}
        for row in counted:
            for name, seconds in row.losses.items():
                losses[name] = losses.get(name, 0.0) + seconds
        who = max(losses, key=lambda name: losses[name], default="")
        lost = losses.get(who, 0.0)
        loss = f"the largest loss is {who}, {percent(lost / whole)}" if lost else "nothing was lost"
        words = f"{percent(useful)} of the time of {len(counted)} runs was useful; {loss}."
    if missing >= KNOWN:
        words += f" Where {percent(missing)} went is unknown."
        return Said(words, Severity.UNKNOWN)
    return Said(words, Severity.OK if useful >= MUCH else Severity.NOTE)
