"""A fleet, a node or a GPU in one sentence, and a node as tables."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.dashboard.address import Location, link, utc
from lockstep.dashboard.palette import severity_word
from lockstep.dashboard.shapes import Check, FindingRow, FleetSnapshot, NodeFacts, Severity, Span
from lockstep.dashboard.words.said import BADNESS, Said

NAMED_AT_MOST = 3
OF_RANKS = ("slowdown", "wait")
"""Metrics of the map that a run tells: an idle GPU has none."""
HOLDS_BACK = 1.1
"""Own time over peers from which a rank holds its run back: as figures.deviation has it."""


def moment(shown: FleetSnapshot) -> str:
    """Of which run and moment a map is: `run gpt-1 at 2026-11-20 10:00:00 UTC`; for captions.

    Args:
        shown: Of a recorded source; of a live one it is now, of whatever runs there.
    """
    runs = sorted({str(run) for run in shown.runs} - {""})
    which = f"run {runs[0]} at " if len(runs) == 1 else f"{len(runs):,} runs at " if runs else ""
    return f"{which}{utc(shown.at)}"


def fleet(
    shown: FleetSnapshot, away: NDArray[np.bool_], worst: str, run: str = "", *, live: bool = True
) -> Said:
    """Where it is slow, hot, idle or broken.

    Args:
        shown: The values.
        away: (G,) who is far from the peers (figures.deviation).
        worst: The worst place with its value, as `node-3, GPU 1, rank 7: 1.52×`; empty = none.
        run: Id of the run that the fleet was narrowed to; empty = none.
        live: Whether it is how things are now; else the run and the moment are told.
    """
    things = "GPUs" if (shown.gpus >= 0).any() else "ranks"
    known = int(np.isfinite(shown.values).sum())
    scope = f" of run {run}" if run else ""
    scope = scope if live else f" of {moment(shown)}"
    title = shown.metric.title
    silent = _silent(shown.silent)
    if not known:
        nobody = f"No place{scope} reported its {title.lower()} at this time."
        return Said(f"{nobody}{silent}{_how(shown)}", Severity.UNKNOWN)
    count = int(away.sum())
    unknown = _untold(shown)
    are = "is" if unknown == 1 else "are"
    dark = f" {unknown:,} more {are} unknown.{_how(shown)}" if unknown else ""
    if idle := _idle(shown) if not run else 0:
        dark += f" {idle:,} more {'is' if idle == 1 else 'are'} idle."
    if not count:
        said = f"{title}: none of the {known:,} {things}{scope} is far from its peers"
        if shown.metric.higher is not None:
            said += f"; the worst is {worst}"
        level = Severity.WARNING if silent else Severity.UNKNOWN if unknown else Severity.OK
        return Said(f"{said}.{dark}{silent}", level)
    are = f"1 of {known:,} {things}{scope} is" if count == 1 else (
        f"{count:,} of {known:,} {things}{scope} are"
    )  # fmt: skip
    said = f"{title}: {are} far from the peers; the worst is {worst}."
    level = Severity.NOTE if shown.metric.higher is None and not silent else Severity.WARNING
    return Said(f"{said}{dark}{silent}", level)


def _how(shown: FleetSnapshot) -> str:
    """What would make it known."""
    if shown.metric.key not in OF_RANKS:
        return " lockstep doctor on a node says which source of its collector is missing."
    return " It is known for ranks whose collectives are all timed: lockstep.recorder() does that."


def _untold(shown: FleetSnapshot) -> int:
    """Places that should tell this metric and do not: of ranks those of runs, else all GPUs."""
    should = shown.runs != "" if shown.metric.key in OF_RANKS else shown.gpus >= 0
    return int((should & ~np.isfinite(shown.values)).sum())


def _idle(shown: FleetSnapshot) -> int:
    """GPUs on which no run is, of nodes that answer: counted as on the first page."""
    if shown.metric.key not in OF_RANKS:
        return 0
    nobody = (shown.runs == "") & ~np.isfinite(shown.values)
    return int((nobody & ~np.isin(shown.nodes, list(shown.silent))).sum())


def node(facts: NodeFacts, findings: Sequence[FindingRow]) -> Said:
    """What is wrong with a node: an open finding, else the worse of its checks and ended ones."""
    spoken = finding(findings)
    bad = [check for check in facts.checks if _is_bad(check)]
    worst = max((BADNESS.index(check.severity) for check in bad), default=0)
    is_open = any(finding.open for finding in findings)
    if spoken is not None and (is_open or BADNESS.index(spoken.severity) >= worst):
        return spoken
    dark = [check.name for check in facts.checks if check.severity is Severity.UNKNOWN]
    if bad:
        sentences = "; ".join(f"{check.name}: {check.text}" for check in bad[:NAMED_AT_MOST])
        more = f"; and {len(bad) - NAMED_AT_MOST} more" if len(bad) > NAMED_AT_MOST else ""
        return Said(f"{facts.node}: {sentences.rstrip('.')}{more}.", BADNESS[worst])
    if not facts.checks or len(dark) == len(facts.checks):
        return Said(f"{facts.node} was not checked, so its state is unknown.", Severity.UNKNOWN)
    unknown = f" Unknown: {', '.join(dark[:NAMED_AT_MOST])}." if dark else ""
    good = sum(check.severity is Severity.OK for check in facts.checks)
    notes = [check for check in facts.checks if check.severity is Severity.NOTE]
    noted = "; ".join(f"{check.name}: {check.text.rstrip('.')}" for check in notes[:NAMED_AT_MOST])
    more = f"; and {len(notes) - NAMED_AT_MOST} more" if len(notes) > NAMED_AT_MOST else ""
    return Said(
        f"Nothing wrong was found in the checks of {facts.node}: {good} of"
        f" {len(facts.checks)} checks are ok."
        f"{f' To note: {noted}{more}.' if notes else ''}{unknown}",
        Severity.UNKNOWN if dark else Severity.NOTE if notes else Severity.OK,
    )


def gpu(name: str, findings: Sequence[FindingRow], slowdown: float | None, events: int) -> Said:
    """What one GPU or rank did.

    Args:
        name: As `node-3, GPU 1, rank 7`.
        findings: About it.
        slowdown: Own time over that of its peers; None = not known.
        events: How many there were.
    """
    spoken = finding(findings)
    if spoken is not None:
        return spoken
    happened = f"{events} events" if events != 1 else "1 event"
    if slowdown is None:
        return Said(
            f"No finding is about {name}, with {happened} in this range; its own time was not"
            " reported.",
            Severity.UNKNOWN,
        )
    took = f"{name} took {slowdown:.2f}× the own time of its peers"
    level = Severity.WARNING if slowdown >= HOLDS_BACK else Severity.OK
    return Said(f"{took}; no finding is about it, with {happened} in this range.", level)


def finding(findings: Sequence[FindingRow]) -> Said | None:
    """The sentence of the worst finding, open ones first."""
    if not findings:
        return None
    worst = max(findings, key=lambda one: (one.open, BADNESS.index(one.severity), one.since))
    sentence = worst.sentence or f"{worst.cause} on {worst.node}."
    return Said(sentence if worst.open else f"Ended: {sentence}", worst.severity)


def _is_bad(check: Check) -> bool:
    return check.severity in (Severity.WARNING, Severity.CRITICAL)


def _silent(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:NAMED_AT_MOST])
    more = f" and {len(names) - NAMED_AT_MOST:,} more" if len(names) > NAMED_AT_MOST else ""
    verb = "does" if len(names) == 1 else "do"
    return f" {shown}{more} {verb} not answer."


# A node as tables: who it is, what was looked at, its GPUs; and how to take it out of service.

GPU_LINK = "GPU page"
DRAIN_WORDS = (
    "Before you take a node out: new pods go elsewhere after the first command, running ones stay."
    " The second one ends them; a run restarts from its last checkpoint. Nothing here runs either."
)


def checks(checks: Sequence[Check]) -> pd.DataFrame:
    """Each check, the worst first."""
    ordered = sorted(checks, key=lambda check: -BADNESS.index(check.severity))
    return pd.DataFrame(
        [
            (severity_word(check.severity), check.name, check.text, check.next_step)
            for check in ordered
        ],
        columns=["state", "check", "what it says", "next step"],
    )


def facts(facts: Mapping[str, str]) -> pd.DataFrame:
    """Name and value of everything that is known of it."""
    return pd.DataFrame(list(facts.items()), columns=["fact", "value"], dtype="str")


def gpus(facts: NodeFacts, location: Location) -> pd.DataFrame:
    """Its GPUs or, where there are none, its ranks, each with a link to its page."""
    frame = facts.gpus.copy()
    links = []
    for row in frame.to_dict("records"):
        gpu, rank, run = (_whole(row.get("gpu")), _whole(row.get("rank")), row.get("run"))
        there = gpu_place(location, facts.node, gpu, rank, run if isinstance(run, str) else "")
        links.append(link("node", there) if gpu is not None or rank is not None else "")
    frame[GPU_LINK] = links
    return frame


def gpu_place(
    location: Location, node: str, gpu: int | None, rank: int | None, run: str
) -> Location:
    """Where a GPU is, with the range of a place; -1 is no GPU and no rank.

    Args:
        location: From where the reader comes.
        node, gpu, rank: Whom the page is about.
        run: That is there; empty = that of the place.
    """
    return replace(
        location, node=node, run=run or location.run, gpu=_whole(gpu), rank=_whole(rank), metric="",
        axis="",
    )  # fmt: skip


def gpu_places(facts: NodeFacts) -> list[tuple[int | None, int | None, str]]:
    """GPU, rank and run of every place that has one of the first two."""
    rows = [
        (_whole(row.get("gpu")), _whole(row.get("rank")), str(row.get("run") or ""))
        for row in facts.gpus.to_dict("records")
    ]
    return [row for row in rows if row[0] is not None or row[1] is not None]


def drain(node: str) -> str:
    """The commands that take a node out of service, for people to copy."""
    name = shlex.quote(node)
    return f"kubectl cordon {name}\nkubectl drain {name} --ignore-daemonsets --delete-emptydir-data"


def grafana(base: str, node: str, span: Span) -> str:
    """The address of Grafana's page of a node; empty = there is no Grafana.

    Args:
        base: As people know Grafana, `https://host`, or as alerts are given it, `https://host/d`.
        node: Its name.
        span: The range.
    """
    if not base:
        return ""
    words = {
        "var-node": node,
        "from": int(span.start * 1000),
        "to": int(span.end * 1000),
    }
    return f"{base.rstrip('/').removesuffix('/d')}/d/lockstep-node?{urlencode(words)}"


def _whole(value: object) -> int | None:
    """A number from 0, or nothing."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return None
    return number if number >= 0 else None
