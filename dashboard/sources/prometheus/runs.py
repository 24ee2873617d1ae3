"""The runs of a span, told by their rank 0 and by `lockstep watch`: two series a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.findings.assessment import HEALTHY
from lockstep.analyzer.read.prometheus.promql import lasting, of_targets, series
from lockstep.analyzer.read.prometheus.questions import run_slowdown
from lockstep.analyzer.rules.alert_rules.training import AGAINST_BASELINE
from lockstep.collector.contract.metrics import (
    GPU_INFO,
    NODE_INFO,
    RANK_UP,
    RUN_ACTIVE,
    RUN_STATUS,
)
from lockstep.collector.contract.words import Cause
from lockstep.dashboard.shapes import FindingRow, RunRow, Severity, Span
from lockstep.dashboard.sources import notes
from lockstep.dashboard.sources.grid import MOST_POINTS, grid
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.directory import Member, sample
from lockstep.dashboard.sources.prometheus.folders import Kept

GOES_ON = 4.0
"""Scrapes without a run's rank 0 after which it is over."""
LEAST_SECONDS = 30.0
INFO_SECONDS = 900.0
"""Before the end of a run, in which its pages say what they are."""
MADE = {"emulated": "emulated nodes", "simulated": "simulated GPU telemetry"}
"""Label of an info series -> what it says where it is true; words as in the verdict."""
ENDS = frozenset((Cause.CRASH, Cause.XID, Cause.FREEZE))
"""Causes that end a run."""
REFINED = 12
"""Runs of a list of which both ends are looked up to the scrape: the newest."""


@dataclass(frozen=True, slots=True)
class RunOnGrid:
    """A run on a grid.

    Attributes:
        span: Around the points at which its rank 0 lived.
    """

    run: str
    span: Span


def seen(asking: Asking, span: Span, scrape: float, run: str = "") -> list[RunOnGrid]:
    """The runs of a span, newest first; their ends are as exact as the grid."""
    within = grid(span, scrape, MOST_POINTS)
    step = lasting(within.step)
    where = {"run": run} if run else {}
    names = f'__name__=~"{RANK_UP.name}|{RUN_ACTIVE.name}",rank=~"0|"'
    query = f"max by (run) (max_over_time({series('', names, **where)}[{step}])) > 0"
    found = []
    for one in asking.over(query, within):
        told = np.flatnonzero(np.isfinite(one.values))
        if told.size and one.labels.get("run"):
            first, last = within.times[told[0]] - within.step, within.times[told[-1]]
            found.append(RunOnGrid(one.labels["run"], Span(float(first), float(last))))
    return sorted(found, key=lambda one: (-one.span.start, one.run))


def refined(asking: Asking, one: RunOnGrid, scrape: float, step: float) -> RunOnGrid:
    """The same run with both ends looked at more finely."""
    for _ in range(2):
        if step <= 2 * scrape:
            break
        ends = []
        for at in (one.span.start, one.span.end - step):
            within = Span(at - step, at + 2 * step)
            fine = seen(asking, within, scrape, one.run)
            ends.append(fine[0] if fine else one)
            finer = grid(within, scrape, MOST_POINTS).step
        start = max(one.span.start, ends[0].span.start)
        end = min(one.span.end, max(start, ends[1].span.end))
        one = RunOnGrid(one.run, Span(start, end))
        step = finer
    return one


def row(
    asking: Asking, one: RunOnGrid, ranks: tuple[Member, ...], now: float, scrape: float,
    told: Mapping[str, object] | None, kept: Sequence[Kept] = (),
    of: frozenset[str] = frozenset(),
) -> RunRow:  # fmt: skip
    """A run for a list.

    Args:
        asking: The Prometheus.
        one: The run.
        ranks: Those that told who they are; none = not asked.
        now: Unix seconds.
        scrape: Seconds between two scrapes.
        told: Its verdict, if there is one.
        kept: Archives of its findings, newest first.
        of: Causes of its findings at its end: a rank that is gone says not why.
    """
    on = goes_on(one, now, scrape)
    state = "running" if on else "failed" if of & ENDS else "ended"
    state = "hung" if on and Cause.FREEZE in of else state
    told = told or {}
    slowdown, lost = told.get("slowdown"), told.get("lost_gpu_hours")
    culprits = told.get("culprits")
    known = told.get("provenance")
    words = [*map(str, known)] if isinstance(known, list) else []
    words += provenance(asking, ranks, one.span.end)
    return RunRow(
        run=one.run, state=state, span=one.span, workload=workload(one.run),
        nodes=len({member.node for member in ranks}),
        ranks=max([len(ranks), *(member.world for member in ranks)]), layout=layout(ranks),
        status=str(told["status"]) if told.get("status") else None,
        sentence=str(told["sentence"]) if told.get("sentence") else None,
        slowdown=float(slowdown) if isinstance(slowdown, int | float) else None,
        lost_gpu_hours=float(lost) if isinstance(lost, int | float) else None,
        folder=kept[0].name if kept else "",
        report=bool(kept) and (kept[0].folder / "report.html").exists(),
        culprits=len(culprits) if isinstance(culprits, list) else 0,
        provenance=tuple(dict.fromkeys(words)),
        tags=notes.read(kept[0].folder).tags if kept else (),
    )  # fmt: skip


def goes_on(one: RunOnGrid, now: float, scrape: float) -> bool:
    """Whether a run was seen lately."""
    return now - one.span.end <= max(LEAST_SECONDS, GOES_ON * scrape)


def provenance(asking: Asking, ranks: Sequence[Member], at: float) -> list[str]:
    """What of a run's hardware is emulated or simulated, as the pages of some ranks say."""
    if not ranks:
        return []
    pages = of_targets(one.target for one in sample(ranks))
    infos = series("", f'__name__=~"{NODE_INFO.name}|{GPU_INFO.name}",{pages}')
    query = f"group by (emulated, simulated) (last_over_time({infos}[{lasting(INFO_SECONDS)}]))"
    told = [labels for labels, _ in asking.instant(query, at)]
    return [word for name, word in MADE.items() if any(one.get(name) == "true" for one in told)]


def causes(found: Iterable[FindingRow], run: str) -> frozenset[str]:
    """Of a run's findings that page."""
    mine = (one for one in found if one.run == run and one.severity is Severity.CRITICAL)
    return frozenset(one.cause for one in mine)


def slowdowns(asking: Asking, at: float, run: str = "") -> Mapping[str, float]:
    """Of each run, what `watch` said last."""
    where = {"run": run} if run else {}
    rows = asking.instant(run_slowdown(**where), at)
    return {labels.get("run", ""): value for labels, value in rows}


def against_baselines(asking: Asking, at: float) -> Mapping[str, float]:
    """Of each run that has a baseline, its steps per second over those of it, as the alert asks."""
    return {labels.get("run", ""): value for labels, value in asking.instant(AGAINST_BASELINE, at)}


@dataclass(frozen=True, slots=True)
class RunStatus:
    """What `watch` says of a run: its status, and the word for why that is unknown."""

    status: str
    reason: str = ""


def statuses(asking: Asking, at: float, scrape: float, run: str = "") -> Mapping[str, RunStatus]:
    """Of each run, what `watch` said of it last; a run of which it says nothing now is not there.

    Args:
        asking: The Prometheus.
        at: Unix seconds.
        scrape: Seconds between two scrapes: what is older than some of them is not said now.
        run: Empty = of all.
    """
    where = {"run": run} if run else {}
    rows = asking.instant(f"timestamp({series(RUN_STATUS.name, **where)})", at)
    found: dict[str, tuple[float, RunStatus]] = {}
    for labels, when in rows:
        told, name = (
            RunStatus(labels.get("status", ""), labels.get("reason", "")),
            labels.get("run", ""),
        )
        before = found.get(name)
        # Of two watches that do not agree, the one that is not content is told.
        newer = before is None or when > before[0]
        if newer or (when == before[0] and told.status != HEALTHY):  # type: ignore[index]
            found[name] = when, told
    oldest = at - max(LEAST_SECONDS, GOES_ON * scrape)
    return {name: told for name, (when, told) in found.items() if when >= oldest}


def layout(ranks: tuple[Member, ...]) -> str:
    """As `dp=4 pp=1 tp=2`."""
    if not ranks:
        return ""
    sizes = {name: max(getattr(one, name) for one in ranks) + 1 for name in ("dp", "pp", "tp")}
    return " ".join(f"{name}={count}" for name, count in sizes.items())


def workload(run: str) -> str:
    """As far as the id says: local ids begin with it."""
    first = run.partition("-")[0]
    return first if first in ("gpt", "resnet", "logreg", "allreduce") else ""
