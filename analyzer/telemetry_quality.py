"""Telemetry that cannot be true: a source that never moves, and metrics that contradict each other.

What never moves is left out, so that causes say it is not known. What contradicts itself stays, and
no cause that rests on it is the word.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Evidence, Fact, Finding, FloatGrid, Grid
from analyzer.slowness.before_after import gpu_words, query, signal_before_after
from analyzer.symptoms.idle import BUSY, IDLE
from analyzer.symptoms.series import SCRAPE_SECONDS
from collector.contract import metrics
from collector.contract.words import Cause

SOURCE = "lockstep_gpu_"
POWER = metrics.GPU_POWER.series()
UTILIZATION = metrics.GPU_UTILIZATION.series()
LIMIT = metrics.GPU_POWER_LIMIT.series(kind="enforced")
SCRAPES = 10
"""Power of a GPU at work differs at every scrape (NVML tells milliwatts); the same value as often
as this is a value that nobody reads any more."""
MOVES = 3
"""Different values from which a peer's power moves."""
PEERS_DRAW = 2.0
"""Times as much, at least: where all draw little, the work is light."""
RESTS_ON_GPU = (Cause.THERMAL, Cause.POWER, Cause.SLOW_GPU)
"""Causes argued by clocks, power and throttling; counters of errors are read from elsewhere."""
AT_MOST = 0.5
"""Log odds of a cause that rests on metrics of which one lies: below "unknown" (1.0), so that it is
an alternative and not the word."""


def drop_stuck_sensors(grid: Grid) -> Grid:
    """The Grid without the GPU telemetry that stands still where the peers' moves.

    Power decides, as the one gauge that always moves on a GPU at work; all that the same source
    tells of that GPU goes with it, and `missing` says so.
    """
    stuck = _stuck(grid)
    if not stuck.any():
        return grid
    signals = {
        key: np.where(stuck[None, :], np.nan, cells) if key.startswith(SOURCE) else cells
        for key, cells in grid.signals.items()
    }
    # What never answers is no key.
    signals = {key: cells for key, cells in signals.items() if np.isfinite(cells).any()}
    ranks = ", ".join(str(grid.ranks[column].rank) for column in np.flatnonzero(stuck))
    words = (
        f"GPU telemetry of rank {ranks}: it never moves while the peers' does, so it is not used"
    )
    return replace(grid, signals=signals, missing=(*grid.missing, words))


def doubted(grid: Grid, finding: Finding, evidences: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The evidence, less sure where the GPU's metrics contradict each other.

    A GPU that has kernels running most of the time does not draw idle power. It may while it waits
    inside a collective, whose kernel polls: of a hang nothing is doubted.
    """
    words = contradiction(grid, finding)
    if words is None:
        return tuple(evidences)
    fact = Fact(False, words, query(grid, finding, UTILIZATION))
    return tuple(
        replace(each, log_odds=min(each.log_odds, AT_MOST), facts=(*each.facts, fact))
        if each.cause in RESTS_ON_GPU
        else each
        for each in evidences
    )


def contradiction(grid: Grid, finding: Finding) -> str | None:
    """How the metrics of the finding's GPU contradict each other, in words; None = they do not."""
    if finding.kind != "slow":
        return None
    busy, drawn, limit = (
        signal_before_after(grid, finding, key) for key in (UTILIZATION, POWER, LIMIT)
    )
    if busy is None or drawn is None or limit is None:
        return None
    idle = drawn.during <= IDLE * limit.during and not drawn.during * PEERS_DRAW > drawn.peers
    if busy.during < BUSY or not idle:
        return None
    return (
        f"{gpu_words(grid, finding.rank)} tells {busy.during:.0%} utilisation and"
        f" {drawn.during:.0f} W of {limit.during:.0f} W, as if idle: one of the two is wrong"
    )


def _stuck(grid: Grid) -> NDArray[np.bool_]:
    """(R,) whether a rank's GPU told one power all along while most peers' moved."""
    power = grid.signals.get(POWER)
    none = np.zeros(len(grid.ranks), dtype=bool)
    if power is None or len(grid.start) < SCRAPES:
        return none
    scrape = grid.scrape_seconds if np.isfinite(grid.scrape_seconds) else SCRAPE_SECONDS
    different = _different(power)
    told = np.where(np.isfinite(power), grid.start[:, None], np.nan)
    first = np.where(np.isfinite(told), told, np.inf).min(axis=0)
    last = np.where(np.isfinite(told), told, -np.inf).max(axis=0)
    one_value: NDArray[np.bool_] = (different == 1) & (last - first >= SCRAPES * scrape)
    moving = different >= MOVES
    # Where most stand still it is how this fleet tells power, and no fault of one.
    if moving.sum() < 2 or 2 * moving.sum() < (different > 0).sum():
        return none
    return one_value


def _different(cells: FloatGrid) -> NDArray[np.int64]:
    """(R,) number of different values that a rank's series took."""
    ordered = np.sort(cells, axis=0)  # NaN last
    steps = np.diff(ordered, axis=0) > 0
    different: NDArray[np.int64] = steps.sum(axis=0) + np.isfinite(cells).any(axis=0)
    return different
