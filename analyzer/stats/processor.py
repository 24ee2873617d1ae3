"""Whether a slow rank's excess time is on the processor or off it, whatever the cause."""

import numpy as np

from lockstep.analyzer.shapes.run import Basis, Culprit, Fact, Finding, FloatGrid, Grid
from lockstep.analyzer.stats.before_after import (
    QUEUED,
    contrast,
    has_gpu,
    share_of_excess,
    signal_before_after,
    time_before_after,
)
from lockstep.analyzer.stats.coverage import KNOWN_AT_LEAST
from lockstep.analyzer.stats.robust_stats import MOSTLY
from lockstep.analyzer.stats.significance import FLOOR
from lockstep.collector.contract import metrics

QUEUE = metrics.RANK_RUN_QUEUE.series()
OFF_QUERY = "own_seconds - cpu_seconds of steps.parquet by rank"
ON_QUERY = "cpu_seconds of steps.parquet by rank"


def cpu_time_evidence(grid: Grid, finding: Finding) -> tuple[Fact, ...]:
    """What the CPU time of the training thread says of the excess, where it is clear.

    A thread that sleeps, reads a file or waits for a lock, another thread or its GPU uses none.
    """
    used = time_before_after(grid, finding, "cpu")
    if used is None or not used.during > 0:  # a log reports no CPU time
        return ()
    busy = share_of_excess(grid, finding, "cpu")
    if busy is None:
        return ()
    if busy >= MOSTLY:
        text = (
            f"{min(busy, 1.0):.0%} of the excess is CPU time of its training thread: it does more"
        )
        return (Fact(True, text, ON_QUERY),)
    if 1.0 - busy < MOSTLY:
        return ()
    text = f"{1.0 - busy:.0%} of the excess is time off the processor: its training thread"
    return (Fact(True, f"{text} {_what(grid, finding)}", OFF_QUERY, Basis.OFF_PROCESSOR),)


def _what(grid: Grid, finding: Finding) -> str:
    """What keeps a thread off the processor, as far as it was reported."""
    gpu = ", perhaps for its GPU" if has_gpu(grid, finding.rank) else ""
    queued = signal_before_after(grid, finding, QUEUE)
    if queued is None:
        return f"slept or waited{gpu}, or was ready and had no processor"
    if queued.during >= QUEUED:
        return f"slept, waited{gpu}, or was ready and had none ({queued.during:.0%} of the time)"
    return f"slept or waited{gpu}"


def run_queue_seconds(grid: Grid) -> FloatGrid | None:
    """(W, R) seconds per step, at most own time without CPU time; None where not all report it."""
    rate = grid.signals.get(QUEUE)
    if rate is None:
        return None
    own = grid.time["own"]
    told = np.isfinite(own)
    known = np.isfinite(rate) & told
    if (known.sum(axis=0) < KNOWN_AT_LEAST * told.sum(axis=0)).any():
        return None
    off = np.maximum(own - np.nan_to_num(grid.time["cpu"]), 0.0)
    return np.minimum(rate * grid.time["wall"], off)


def share_in_run_queue(grid: Grid, finding: Finding) -> float | None:
    """What part of the excess own time is waiting for a processor; None where not known.

    Per step: a rank whose steps are longer by the waiting waits for hardly more of each second.
    Noise has no parts: an excess below the least that is reported says nothing.
    """
    waited = run_queue_seconds(grid)
    grew = None if waited is None else contrast(grid, finding, waited, np.mean)
    own = contrast(grid, finding, grid.time["own"], np.mean)
    if grew is None or own is None or own.risen < np.expm1(FLOOR) * (own.during - own.risen):
        return None
    return float(np.clip(grew.risen / own.risen, 0.0, 1.0))


def off_processor(culprit: Culprit) -> bool:
    """Whether that is where its excess is."""
    return any(fact.supports and fact.basis is Basis.OFF_PROCESSOR for fact in culprit.evidence)
