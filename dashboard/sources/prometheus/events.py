"""What happened: XIDs, throttling, links, memory errors, checkpoints, restarts, gone ranks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lockstep.analyzer.read.prometheus.promql import lasting, of_targets, series
from lockstep.analyzer.shapes.labels import Target, number
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import Event, FindingRow, Severity
from lockstep.dashboard.sources.check_table import severity_of
from lockstep.dashboard.sources.grid import Grid
from lockstep.dashboard.sources.prometheus.asking import Asking, Course
from lockstep.dashboard.sources.prometheus.directory import Directory

MOST_EVENTS = 500
"""The newest."""
LEAST_SECONDS = 10.0
"""Of a look: what counters did in less is not asked."""
THROTTLED = 1.0
"""Seconds under a reason in a step of the grid from which on it is told, however long the step."""
REASONS = {"hw_thermal": Severity.WARNING, "sw_thermal": Severity.WARNING,
           "hw_slowdown": Severity.WARNING, "hw_power_brake": Severity.WARNING}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Told:
    """A query whose values above 0 are an event, and what it is then called."""

    query: str
    kind: str
    severity: Callable[[Mapping[str, str]], Severity]
    text: Callable[[Mapping[str, str]], str]


def of_hardware(
    asking: Asking, known: Directory, targets: Sequence[Target], grid: Grid, run: str,
    scrape: float,
) -> Iterator[Event]:  # fmt: skip
    """Of some pages; `run` is told with each."""
    if not targets:
        return
    pages = of_targets(targets)
    exact = list(_xids(asking, known, pages, grid, run))
    yield from exact
    dated = {(one.node, one.gpu, one.text) for one in exact}
    by = "job, instance, gpu"
    reasons = f'{pages},reason=~"{"|".join(REASONS)}"'
    ecc = series(m.GPU_ECC_ERRORS.name, pages, type="uncorrected", counter="volatile")
    # increase() needs two scrapes.
    back = lasting(max(grid.step, LEAST_SECONDS, 2.5 * scrape))
    for told in (
        _Told(
            f"sum by ({by}, xid, severity)"
            f" (increase({series(m.GPU_XID_ERRORS.name, pages)}[{back}])) > 0.5",
            "xid", severity_of, _xid,
        ),
        _Told(
            f"sum by ({by}, reason) (increase({series(m.GPU_CLOCK_EVENT_SECONDS.name, reasons)}"
            f"[{back}])) > {THROTTLED:g}",
            "throttle", _warning, lambda labels: f"throttled: {labels.get('reason', '')}",
        ),
        _Told(f"sum by ({by}) (increase({ecc}[{back}])) > 0", "ecc", lambda _: Severity.CRITICAL,
              lambda _: "uncorrected memory error"),
        _Told(
            f"sum by (job, instance, device) (increase({series(m.NET_CARRIER_CHANGES.name, pages)}"
            f"[{back}])) > 0.5",
            "link", _warning, _link,
        ),
    ):  # fmt: skip
        for course in asking.over(told.query, grid):
            if (
                known.name(course.labels),
                number(course.labels, "gpu"),
                told.text(course.labels),
            ) in dated:
                continue
            for first, last in stretches(course):
                yield Event(
                    float(grid.times[first]) - grid.step, float(grid.times[last]), told.kind,
                    told.severity(course.labels), told.text(course.labels), run,
                    known.name(course.labels), number(course.labels, "gpu"),
                )  # fmt: skip


def of_run(asking: Asking, run: str, grid: Grid, scrape: float) -> Iterator[Event]:
    """Of its rank 0, which does what all do: checkpoints, evaluations, restarts; and gone ranks."""
    rate = lasting(max(grid.step, 2.5 * scrape))
    for phase in ("checkpoint", "eval"):
        counter = series(m.TRAIN_PHASE.name, run=run, rank="0", phase=phase)
        for course in asking.over(f"increase({counter}[{rate}]) > 0.001", grid):
            for first, last in stretches(course):
                begin, end = float(grid.times[first]) - grid.step, float(grid.times[last])
                yield Event(begin, end, phase, Severity.OK, phase, run, rank=0)
    steps = series(m.TRAIN_STEPS.name, run=run, rank="0")
    for course in asking.over(f"resets({steps}[{rate}]) > 0", grid):
        for first, _ in stretches(course):
            at = float(grid.times[first]) - grid.step
            yield Event(at, None, "restart", Severity.WARNING, "the run was restarted", run)
    up = series(m.RANK_UP.name, run=run)
    # Of a run that is over every rank is gone: that is no event of one of them.
    gone = f"topk(8, {up} == 0 and on (run) {up} == 1)"
    for labels, _ in asking.instant(gone, grid.end):
        rank = number(labels, "rank")
        yield Event(grid.end, None, "gone", Severity.CRITICAL, f"rank {rank} is gone", run,
                    rank=rank)  # fmt: skip


def of_findings(findings: Sequence[FindingRow]) -> Iterator[Event]:
    """When they opened and closed."""
    for finding in findings:
        mine = finding.run, finding.node, finding.gpu, finding.rank, finding.finding
        yield Event(
            finding.since,
            None,
            "finding",
            finding.severity,
            f"finding opened: {finding.cause}",
            *mine,
        )
        if finding.until is not None:
            text = f"finding closed: {finding.cause}"
            yield Event(finding.until, None, "finding", Severity.NOTE, text, *mine)


def stretches(course: Course) -> Iterator[tuple[int, int]]:
    """First and last place of each stretch in which something was told."""
    known = np.concatenate([[0], np.isfinite(course.values).astype(np.int8), [0]])
    for first, last in np.flatnonzero(np.diff(known)).reshape(-1, 2):
        yield int(first), int(last) - 1


def _xid(labels: Mapping[str, str]) -> str:
    return f"XID {labels.get('xid', '')}"


def _warning(_: Mapping[str, str]) -> Severity:
    return Severity.WARNING


def _link(labels: Mapping[str, str]) -> str:
    return f"link {labels.get('device', '')} came or went"


def _xids(asking: Asking, known: Directory, pages: str, grid: Grid, run: str) -> Iterator[Event]:
    """Their own moments: the value of the series is when the last one was."""
    name = series(m.GPU_XID_LAST.name, pages) if pages else m.GPU_XID_LAST.name
    query = (
        f"max by (job, instance, gpu, xid, severity) (max_over_time({name}[{lasting(grid.step)}]))"
        f" > {grid.start - grid.step:.0f}"
    )
    for course in asking.over(query, grid):
        for at in np.unique(course.values[np.isfinite(course.values)]).tolist():
            yield Event(at, None, "xid", severity_of(course.labels), _xid(course.labels), run,
                        known.name(course.labels), number(course.labels, "gpu"))  # fmt: skip


def of_all(asking: Asking, known: Directory, grid: Grid) -> Iterator[Event]:
    """Of the whole fleet: XIDs only, whose series are there where one has happened."""
    yield from _xids(asking, known, "", grid, "")
