"""What the loop, the interpreter and the kernel report of a rank: phases, processors, its end."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lockstep.analyzer.causes.symptoms.series import (
    PERCENT,
    Level,
    Sensor,
    Symptom,
    level,
    of_time,
    scrape_seconds,
    spans,
    symptom,
)
from lockstep.analyzer.hangs.last_seen import FROZEN_SECONDS, heartbeat_stopped
from lockstep.analyzer.hangs.run_end import WENT_QUERY
from lockstep.analyzer.shapes.run import Basis, Finding, Grid
from lockstep.analyzer.stats.before_after import (
    COMPUTE_PHASES,
    column_of,
    compute_share,
    has_gpu,
    query,
    share_of_excess,
)
from lockstep.analyzer.stats.processor import QUEUE, share_in_run_queue
from lockstep.analyzer.stats.robust_stats import MOSTLY, NOTHING, WITHIN, median_of
from lockstep.analyzer.stats.temporal_shape import stretches
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Phase

PARTLY = 0.35
"""Share of the excess that is a part of it; MOSTLY is where the cause is. Chosen: of two causes at
once each has about half, of three a third."""
SHARES = "phase shares of the finding"
"""The query of these facts."""


def excess_in(phases: Sequence[str], words: str) -> Callable[[Grid, Finding], Symptom | None]:
    """The symptom that the excess is in these phases; `words` say where."""

    def measured(grid: Grid, finding: Finding) -> Symptom | None:
        if not finding.share or (_unnamed(phases) and compute_share(grid, finding) is None):
            return None
        share = sum(finding.share.get(phase, 0.0) for phase in phases)
        return of_excess(share, f"{share:.0%} of the excess is {words}", SHARES, Basis.PHASES)

    return measured


def of_excess(share: float, text: str, query: str, basis: Basis) -> Symptom:
    """The symptom that a share of the excess is."""
    return Symptom(share >= PARTLY, text, query, grave=share >= MOSTLY, basis=basis)


def _unnamed(phases: Sequence[str]) -> bool:
    """Phases that a program which names none seems to have all or nothing of."""
    return any(phase in (*COMPUTE_PHASES, Phase.OTHER) for phase in phases)


compute = excess_in(COMPUTE_PHASES, "in forward, backward and optimizer")
data = excess_in((Phase.DATA,), "in the data phase")
gradients = excess_in((Phase.GRAD_SYNC,), "where gradients leave the GPU")
checkpoint = excess_in((Phase.CHECKPOINT,), "in the checkpoint phase")
other = excess_in((Phase.OTHER,), "in no named phase of the step")


RATIO = Sensor(PERCENT)
"""Natural logarithm of CPU seconds a step."""
COLLECTING = 0.1
"""Share of the excess inside the collector: what is collected was made just before, which takes
about as long (measured: 0.6 of a storm is collection)."""
QUOTA = metrics.RANK_THROTTLED.series()
PRESSURE = metrics.PRESSURE.series(resource="cpu", scope="some")


def processor(grid: Grid, finding: Finding) -> Symptom | None:
    """The rank lacks a processor; None without data.

    By its quota (cgroup cpu.stat), or because another process has it (/proc/PID/schedstat): for
    more of the time, or for most of the excess of each step.
    """
    measured = (
        quota(grid, finding),
        of_time(grid, finding, QUEUE, "it was ready to run and had no processor"),
        _queued(grid, finding),
    )
    symptoms = (symptom for symptom in measured if symptom)
    return max(
        symptoms, key=lambda symptom: (symptom.explains, symptom.seen, symptom.grave), default=None
    )


def quota(grid: Grid, finding: Finding) -> Symptom | None:
    """Its CPU quota holds the rank back."""
    return of_time(grid, finding, QUOTA, "its CPU quota held the rank back")


def _queued(grid: Grid, finding: Finding) -> Symptom | None:
    share = share_in_run_queue(grid, finding)
    if share is None:
        return None
    text = f"in {share:.0%} of the excess it was ready to run and had no processor"
    return of_excess(share, text, query(grid, finding, QUEUE), Basis.TELEMETRY)


def pressure(grid: Grid, finding: Finding) -> Symptom | None:
    """Tasks of the node wait for a processor (PSI), more than before and than elsewhere."""
    return of_time(grid, finding, PRESSURE, "tasks of its node lack a processor")


def cpu_time(grid: Grid, finding: Finding) -> Symptom | None:
    """The training thread uses more CPU time a step than before and than the peers'."""
    used = grid.time["cpu"]
    cells = np.log(np.where(used > 0, used, np.nan))  # a log tells no CPU time
    where = "" if has_gpu(grid, finding.rank) else "; the CPU is the device here"

    def words(reading: Level) -> str:
        ratio = np.exp(reading.during - reading.usual(RATIO))
        return f"its training thread used {ratio:.2f}x the CPU time per step{where}"

    used_more = symptom(grid, finding, cells, RATIO, words, "cpu_seconds of steps.parquet")
    return None if used_more is None else replace(used_more, basis=Basis.STEPS)


def collector(grid: Grid, finding: Finding) -> Symptom | None:
    """Part of the excess is inside Python's garbage collector, timed by its callbacks."""
    share = share_of_excess(grid, finding, "gc")
    if share is None:
        return None
    text = f"{share:.0%} of the excess is in Python's garbage collector"
    return Symptom(share >= COLLECTING, text, "operations gc of ops.parquet by rank",
                   grave=share >= PARTLY, basis=Basis.COLLECTOR)  # fmt: skip


def cpu_bound(grid: Grid, finding: Finding) -> Symptom | None:
    """The excess is CPU time of the training thread: it does more, and does not wait."""
    used = level(grid, finding, grid.time["cpu"])
    share = share_of_excess(grid, finding, "cpu")
    if used is None or not used.during > 0 or share is None:  # a log tells no CPU time
        return None
    text = f"{min(share, 1.0):.0%} of the excess is CPU time of the training thread"
    return of_excess(share, text, "cpu_seconds of steps.parquet", Basis.STEPS)


def stands_still(grid: Grid, finding: Finding) -> Symptom | None:
    """Its heartbeat stopped for a while and came back: the process was there and did not run.

    Seen where scrapes saw it older than the others' in a window that took the rank longer; in full
    where most of the excess is in such windows and, as far as they show less than the heartbeat's
    age, in those beside them: most of what scrapes so far apart would have seen of pauses as long.
    None where no scrape of the slow windows answered, or none was likely to see a pause.
    """
    older, column = heartbeat_stopped(grid), column_of(grid, finding.rank)
    shown_by = query(grid, finding, metrics.TRAIN_HEARTBEAT_AGE.name)
    if older is None or column is None:
        return None
    during, before = spans(grid, finding)
    own = grid.time["own"][:, column]
    steps = grid.to_step - grid.from_step
    usual = median_of(own[before] if np.isfinite(own[before]).any() else grid.time["own"][during])
    # With its sign, or the noise of all other windows would be an excess as well.
    excess = np.where(during, np.nan_to_num(own - usual), 0.0) * steps
    known = during & np.isfinite(older[:, column])
    if not known.any() or not excess[known].sum() > 0:
        return None
    still = known & (older[:, column] >= FROZEN_SECONDS)
    rest = np.where(known & ~still, excess, 0.0)
    for first, stop in stretches(still):
        lacking = float(older[first:stop, column].max() - excess[first:stop].sum())
        for beside in _touching(grid, first, stop):
            taken = max(min(rest[beside], lacking), 0.0)
            rest[beside] -= taken
            lacking -= taken
    total = float(excess[known].sum())
    share = float(np.clip(1.0 - rest.sum() / total, 0.0, 1.0))
    pauses = excess[known & (excess >= FROZEN_SECONDS)]
    met = np.minimum((pauses - FROZEN_SECONDS) / scrape_seconds(grid), 1.0)
    if not still.any():
        # Pauses that no scrape is likely to meet are not known.
        if pauses.sum() >= MOSTLY * total and met.sum() < 1.0:
            return None
        return of_excess(0.0, "its heartbeat went on", shown_by, Basis.TELEMETRY)
    longest, could = float(older[still, column].max()), float((pauses * met).sum()) / total
    text = (
        f"its heartbeat stopped for {longest:.0f} s while its process was there and the others'"
        f" went on, with {share:.0%} of the excess in and beside such windows"
    )
    # Fewer than pauses so long would have shown are of something else.
    expected = float(met.sum())
    if could < MOSTLY and still.sum() + WITHIN * np.sqrt(expected) >= expected:
        text += f"; scrapes so far apart see {could:.0%} of pauses as long, and saw as many"
        of_all = min(share / max(could, NOTHING), 1.0) * float(pauses.sum()) / total
        share = max(share, min(of_all, 1.0))
    return of_excess(share, text, shown_by, Basis.TELEMETRY)


def _touching(grid: Grid, first: int, stop: int) -> Iterator[int]:
    """The windows before and after some, where no time is between: a scrape may part a pause."""
    if first > 0 and grid.start[first] - grid.end[first - 1] < FROZEN_SECONDS:
        yield first - 1
    if stop < len(grid.start) and grid.start[stop] - grid.end[stop - 1] < FROZEN_SECONDS:
        yield stop


def gone(grid: Grid, finding: Finding) -> Symptom | None:
    """Its process is gone, or has raised an exception that ended its work."""
    so = finding.details.get("state") in ("dead", "raised")
    if so and (went := str(finding.details.get("went") or "")):
        return Symptom(True, went, WENT_QUERY, basis=Basis.OUTCOME)
    text = "its process is gone" if so else "its process was there"
    return Symptom(so, text, query(grid, finding, metrics.RANK_UP.name))


def frozen(grid: Grid, finding: Finding) -> Symptom | None:
    """Its heartbeat stopped while its process was there."""
    so = finding.details.get("state") == "frozen"
    text = (
        "its heartbeat stopped while its process was there"
        if so
        else "no stopped heartbeat was seen"
    )
    return Symptom(so, text, query(grid, finding, metrics.TRAIN_HEARTBEAT_AGE.name))
