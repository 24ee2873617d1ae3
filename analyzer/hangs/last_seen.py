"""How ranks were last seen: gone, frozen, inside an operation, or with one under way."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.read.prometheus.load import VANISHED_SCRAPES
from lockstep.analyzer.shapes.labels import UP
from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.peer_groups import others_median
from lockstep.collector.contract import metrics

FROZEN_SECONDS = 3.0
"""A heartbeat (every second) older than this is a frozen process (contract TRAIN_HEARTBEAT_AGE)."""
BUSY = 0.5
"""Share of own time on the processor from which a process was not stopped for most of it."""
SCRAPE_SECONDS = 1.0
"""Between two scrapes of our recorder; of a rank that showed no sign of life it is assumed."""
READ_SECONDS = 1.0
"""How old a reading may be when it is scraped (lockstep.collector.config, fast_period)."""
MISSED_SCRAPES = 1.5
"""A page that was scraped last so much earlier than another one is silent."""
STALL_SECONDS = 3.0
STALL_STEPS = 10.0
"""A collective open for more than 3 s and 10 steps is stalled."""
STUCK_SECONDS = 30.0
"""As recording_rules.queries.STUCK_SECONDS: a checkpoint may take longer than ten steps."""
ALIVE = tuple(
    metric.name
    for metric in (metrics.TRAIN_HEARTBEAT_AGE, metrics.TRAIN_PROGRESS_AGE, metrics.TRAIN_STEPS)
)
"""What only a living rank shows (lockstep.collector.samples.ranks)."""


def dead(grid: Grid) -> NDArray[np.bool_]:
    """(R,) whose process was gone in the end."""
    down = grid.down_since
    return np.zeros(len(grid.ranks), dtype=bool) if down is None else np.isfinite(down)


def alive_until(grid: Grid) -> FloatGrid:
    """(R,) unix seconds of the last scrape that saw the rank alive; NaN = nobody knows."""
    seen = np.full(len(grid.ranks), np.nan)
    for key, values in grid.last.items():
        # The dead keep their sequences: of those that are not they are a sign of life.
        lives = ~dead(grid) if key.startswith(metrics.TRAIN_ENQUEUED.name) else key in ALIVE
        there = lives & np.isfinite(values)
        seen = np.fmax(seen, np.where(there, grid.last_time[key], np.nan))
    if grid.down_since is None:
        return seen
    assumed: FloatGrid = np.where(np.isfinite(seen), seen, grid.down_since - SCRAPE_SECONDS)
    return assumed


def silent(grid: Grid) -> NDArray[np.bool_]:
    """(R,) whose node has no page, or one that is not scraped any more while another one is."""
    until = grid.scraped_until
    newest = np.nanmax(until, initial=-np.inf)
    return ~(until >= newest - MISSED_SCRAPES * scrape_seconds(grid))


def scrape_seconds(grid: Grid) -> float:
    """Between two scrapes, at least those of our recorder."""
    return max(SCRAPE_SECONDS, float(np.nan_to_num(grid.scrape_seconds)))


def unseen_then(grid: Grid) -> NDArray[np.bool_]:
    """(R,) it is not known whether it lived when the first of the others was gone; it is not gone.

    As of a node that is lost with its collector. Its page may be older than its scrape, and clocks
    differ: of one that was silent within a scrape afterwards it is not known either.
    """
    gone = dead(grid)
    if grid.down_since is None or not gone.any():
        return np.zeros(len(grid.ranks), dtype=bool)
    doubt = np.where(silent(grid), scrape_seconds(grid) + READ_SECONDS, 0.0)
    unseen: NDArray[np.bool_] = ~gone & ~(alive_until(grid) >= np.nanmin(grid.down_since) + doubt)
    return unseen


def unanswered(grid: Grid) -> float:
    """Seconds from the last scrape that any node answered to the last one that was tried.

    0 where that is no more than a gap, no rank was there then, or scrapes are not recorded.
    """
    tried = grid.last_time.get(UP)
    there = np.isfinite(grid.scraped_until)
    if tried is None or not (there & ~dead(grid)).any():
        return 0.0
    dark = np.nanmax(tried, initial=-np.inf) - grid.scraped_until[there].max()
    return float(dark) if dark >= VANISHED_SCRAPES * scrape_seconds(grid) else 0.0


def out_of_sight(grid: Grid) -> NDArray[np.bool_]:
    """(R,) whose node fell silent while the run went on: what it said last is older than the end.

    Others have done more steps since than MISSED_SCRAPES and one hold, so it took part in them. By
    steps, because clocks differ. That it was not seen any more is missing telemetry, and no sign
    that it was gone.
    """
    steps, each = grid.last.get(metrics.TRAIN_STEPS.name), step_seconds(grid)
    if steps is None or not each > 0 or not np.isfinite(steps).any():
        return np.zeros(len(grid.ranks), dtype=bool)
    missed = (MISSED_SCRAPES + 1.0) * scrape_seconds(grid) / each + 1.0
    hidden: NDArray[np.bool_] = silent(grid) & (np.nanmax(steps) - steps > missed)
    return hidden


def died_first(grid: Grid) -> NDArray[np.bool_]:
    """(R,) the rank that was gone before any other could be; nobody where scrapes cannot tell.

    A process died between the last scrape that saw it alive and the first that did not, so one
    died before another for certain only if these spans do not overlap.
    """
    gone = dead(grid)
    nobody = np.zeros(len(grid.ranks), dtype=bool)
    if grid.down_since is None or not gone.any() or unseen_then(grid).any():
        return nobody
    earliest = float(np.nanmin(grid.down_since))
    maybe = ~(alive_until(grid) >= earliest)
    first: NDArray[np.bool_] = gone & maybe
    return first if first.sum() == 1 and not maybe.all() else nobody


def frozen(grid: Grid) -> NDArray[np.bool_]:
    """(R,) heartbeat old when the process was last seen, older than the peers' by as much."""
    age = grid.last.get(metrics.TRAIN_HEARTBEAT_AGE.name)
    if age is None or not np.isfinite(age).any():
        return np.zeros(len(grid.ranks), dtype=bool)
    stands: NDArray[np.bool_] = age - np.nanmin(age) >= FROZEN_SECONDS
    return stands


def heartbeat_stopped(grid: Grid) -> FloatGrid | None:
    """(W, R) seconds by which a rank's heartbeat is older than the others'; None = not known.

    From FROZEN_SECONDS on its process did not run while the others' did: whoever waits for a
    collective, a disk or a device has a heartbeat, as a helper thread beats it. A call that holds
    Python's interpreter stops it too; but that uses the processor, and a process that is stopped
    does not.
    """
    cells = grid.signals.get(metrics.TRAIN_HEARTBEAT_AGE.series())
    if cells is None:
        return None
    busy = grid.time["cpu"] > BUSY * grid.time["own"]
    older: FloatGrid = np.where(busy, 0.0, cells - others_median(cells, axis=1))
    return older


def under_way(grid: Grid) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """((R,) whose sequences are known, (R,) who began an operation that is not complete).

    That is no proof of waiting: a rank may send ahead and compute on.
    """
    known = np.zeros(len(grid.ranks), dtype=bool)
    begun = np.zeros(len(grid.ranks), dtype=bool)
    for key, enqueued in grid.last.items():
        if key.startswith(metrics.TRAIN_ENQUEUED.name + "{"):
            done = grid.last.get(key.replace("enqueued", "completed"))
            known |= np.isfinite(enqueued)
            if done is not None:
                begun |= enqueued > done
    return known, begun


def inside_operations(grid: Grid) -> Iterator[tuple[str, FloatGrid]]:
    """(series, (R,) seconds since when each rank is in the operation; NaN = not in that step)."""
    for key, age in grid.last.items():
        if key.startswith(metrics.TRAIN_OPEN_OP_AGE.name):
            yield key, np.where(_opened_since_last_step(grid, key), age, np.nan)


def longest_inside(grid: Grid) -> FloatGrid:
    """(R,) seconds of the oldest operation that each was last seen inside; 0 = in none."""
    ages = [age for _, age in inside_operations(grid)]
    oldest: FloatGrid = np.fmax.reduce([np.zeros(len(grid.ranks)), *ages])
    return oldest


def stood_still(grid: Grid) -> float:
    """Seconds for which no rank had begun or ended anything, by those seen alive in the end.

    0 where it is not known.
    """
    age = grid.last.get(metrics.TRAIN_PROGRESS_AGE.name)
    if age is None:
        return 0.0
    there = age[np.isfinite(age) & ~dead(grid) & ~silent(grid)]
    return float(there.min()) if there.size else 0.0


def stall_after(grid: Grid) -> float:
    """Seconds from which on an open collective is stalled."""
    return max(STALL_SECONDS, STALL_STEPS * step_seconds(grid))


def _opened_since_last_step(grid: Grid, key: str) -> NDArray[np.bool_]:
    """(R,) whose open operation opened after the last step began; an earlier one has ended."""
    ended = _last_step_ended(grid)
    opened = grid.last_time[key] - grid.last[key]
    later: NDArray[np.bool_] = opened >= ended - step_seconds(grid) - READ_SECONDS / 2
    return later


def _last_step_ended(grid: Grid) -> float:
    """Unix seconds, or earlier: a window of a scrape ends later than its last step.

    It begins between two steps of its own node, which other nodes are not scraped with; the last
    one before a stall may hold a single step as well.
    """
    if not len(grid.end):
        return -np.inf
    last = int(np.argmax(grid.end))
    held = grid.to_step - grid.from_step
    steps = int(held[last])
    wall = grid.time["wall"][last]
    each = float(np.median(wall[np.isfinite(wall)])) if np.isfinite(wall).any() else np.inf
    apart = float(np.nan_to_num(grid.scrape_seconds)) if (held > 1).any() else 0.0
    return float(min(grid.end[last], grid.start[last] + steps * each)) - apart


def step_seconds(grid: Grid) -> float:
    """Median seconds of a step; 0 where nobody knows."""
    wall = grid.time["wall"]
    there = wall[np.isfinite(wall)]
    return float(np.median(there)) if there.size else 0.0
