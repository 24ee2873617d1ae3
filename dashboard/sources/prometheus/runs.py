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
    runs = []
    for course in asking.over(query, within):
        moments = np.flatnonzero(np.isfinite(course.values))
        if moments.size and course.labels.get("run"):
            first, last = within.times[moments[0]] - within.step, within.times[moments[-1]]
            runs.append(RunOnGrid(course.labels["run"], Span(float(first), float(last))))
    return sorted(runs, key=lambda one: (-one.span.start, one.run))


def refined(asking: Asking, on_grid: RunOnGrid, scrape: float, step: float) -> RunOnGrid:
    """The same run with both ends looked at more finely."""
    for _ in range(2):
        if step <= 2 * scrape:
            break
        ends = []
        for at in (on_grid.span.start, on_grid.span.end - step):
            within = Span(at - step, at + 2 * step)
            fine = seen(asking, within, scrape, on_grid.run)
            ends.append(fine[0] if fine else on_grid)
            finer = grid(within, scrape, MOST_POINTS).step
        start = max(on_grid.span.start, ends[0].span.start)
        end = min(on_grid.span.end, max(start, ends[1].span.end))
        on_grid = RunOnGrid(on_grid.run, Span(start, end))
        step = finer
    return on_grid


def row(
    asking: Asking, on_grid: RunOnGrid, ranks: tuple[Member, ...], now: float, scrape: float,
    verdict: Mapping[str, object] | None, kept: Sequence[Kept] = (),
    of: frozenset[str] = frozenset(),
) -> RunRow:  # fmt: skip
    """A run for a list.

    Args:
        asking: The Prometheus.
        on_grid: The run.
        ranks: Those that told who they are; none = not asked.
        now: Unix seconds.
        scrape: Seconds between two scrapes.
        verdict: Its verdict, if there is one.
        kept: Archives of its findings, newest first.
        of: Causes of its findings at its end: a rank that is gone says not why.
    """
    on = goes_on(on_grid, now, scrape)
    state = "running" if on else "failed" if of & ENDS else "ended"
    state = "hung" if on and Cause.FREEZE in of else state
    verdict = verdict or {}
    slowdown, lost = verdict.get("slowdown"), verdict.get("lost_gpu_hours")
    culprits = verdict.get("culprits")
    known = verdict.get("provenance")
    words = [*map(str, known)] if isinstance(known, list) else []
    words += provenance(asking, ranks, on_grid.span.end)
    return RunRow(
        run=on_grid.run, state=state, span=on_grid.span, workload=workload(on_grid.run),
        nodes=len({member.node for member in ranks}),
        ranks=max([len(ranks), *(member.world for member in ranks)]), layout=layout(ranks),
        status=str(verdict["status"]) if verdict.get("status") else None,
        sentence=str(verdict["sentence"]) if verdict.get("sentence") else None,
        slowdown=float(slowdown) if isinstance(slowdown, int | float) else None,
        lost_gpu_hours=float(lost) if isinstance(lost, int | float) else None,
        folder=kept[0].name if kept else "",
        report=bool(kept) and (kept[0].folder / "report.html").exists(),
        culprits=len(culprits) if isinstance(culprits, list) else 0,
        provenance=tuple(dict.fromkeys(words)),
        tags=notes.read(kept[0].folder).tags if kept else (),
    )  # fmt: skip


def goes_on(on_grid: RunOnGrid, now: float, scrape: float) -> bool:
    """Whether a run was seen lately."""
    return now - on_grid.span.end <= max(LEAST_SECONDS, GOES_ON * scrape)


def provenance(asking: Asking, ranks: Sequence[Member], at: float) -> list[str]:
    """What of a run's hardware is emulated or simulated, as the pages of some ranks say."""
    if not ranks:
        return []
    pages = of_targets(member.target for member in sample(ranks))
    infos = series("", f'__name__=~"{NODE_INFO.name}|{GPU_INFO.name}",{pages}')
    query = f"group by (emulated, simulated) (last_over_time({infos}[{lasting(INFO_SECONDS)}]))"
    told = [labels for labels, _ in asking.instant(query, at)]
    return [word for name, word in MADE.items() if any(one.get(name) == "true" for one in told)]


def causes(findings: Iterable[FindingRow], run: str) -> frozenset[str]:
    """Of a run's findings that page."""
    mine = (
        finding
        for finding in findings
        if finding.run == run and finding.severity is Severity.CRITICAL
    )
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
    newest: dict[str, tuple[float, RunStatus]] = {}
    for labels, when in rows:
        told, name = (
            RunStatus(labels.get("status", ""), labels.get("reason", "")),
            labels.get("run", ""),
        )
        before = newest.get(name)
        # Of two watches that do not agree, the one that is not content is told.
        newer = before is None or when > before[0]
        if newer or (when == before[0] and told.status != HEALTHY):  # type: ignore[index]
            newest[name] = when, told
    oldest = at - max(LEAST_SECONDS, GOES_ON * scrape)
    return {name: told for name, (when, told) in newest.items() if when >= oldest}


def layout(ranks: tuple[Member, ...]) -> str:
    """As `dp=4 pp=1 tp=2`."""
    if not ranks:
        return ""
    sizes = {
        name: max(getattr(member, name) for member in ranks) + 1 for name in ("dp", "pp", "tp")
    }
    return " ".join(f"{name}={count}" for name, count in sizes.items())


def workload(run: str) -> str:
    """As far as the id says: local ids begin with it."""
    first = run.partition("-")[0]
    return first if first in ("gpt", "resnet", "logreg", "allreduce") else ""
