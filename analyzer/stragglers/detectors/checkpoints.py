"""Ranks that write checkpoints longer than those who write with them.

Steps with a checkpoint are slow by design and left out of every other comparison: the writes are
an observation of their own, in which the search of the windows looks for the same scopes and
shapes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.common_writes import LONGEST, WRITER, WRITTEN, often
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid, RankInfo
from lockstep.analyzer.stats.changepoint import (
    BLOCKS_AT_LEAST,
    clearest_spans,
    column_medians,
    sustained,
)
from lockstep.analyzer.stats.peer_groups import MAJORITY, others_median, peer_groups
from lockstep.analyzer.stats.robust_stats import NOTHING, median_of
from lockstep.analyzer.stats.significance import RECORDED, TENTH_MORE, WAKES
from lockstep.analyzer.stats.transfers import WAITED
from lockstep.analyzer.stragglers.model.effects import effects
from lockstep.analyzer.stragglers.model.precision import SHARED_WINDOWS, WRITES
from lockstep.collector.contract.words import Phase

QUERY = "checkpoint_seconds of steps.parquet by rank"


def checkpoints(grid: Grid) -> Sequence[Finding]:
    """One finding of kind `slow` for each rank that takes longer, always or from some write on.

    The first replica may write more by design, what all replicas have in common: of its ranks only
    what one takes beyond the others of them counts.
    """
    writes = _writes(grid)
    seconds = _of_writers(grid, writes)
    several = often(grid, np.nan_to_num(grid.time[Phase.CHECKPOINT]))
    precision = SHARED_WINDOWS if several else WRITES
    if len(writes) < precision.steps or np.isfinite(seconds).any(axis=0).sum() < MAJORITY:
        return []
    writes_grid, middle = _compared(grid, writes, seconds)
    return list(_costly(grid, effects(writes_grid, precision), writes, seconds, middle))


def unlike_writers(grid: Grid) -> str | None:
    """That all wait for the writes of one rank, and how long; None where it is little.

    Whoever writes longer since the start may do so by the design of its stage; and the first
    replica often does, so of that it must be as much as what counts as a change of a run.
    """
    writes = _writes(grid)
    seconds = _of_writers(grid, writes)
    writers = np.isfinite(seconds).any(axis=0)
    if len(writes) < WRITES.steps or writers.sum() < MAJORITY:
        return None
    middle = column_medians(seconds.T)
    total = float(np.nansum(column_medians(grid.time["wall"].T) * (grid.to_step - grid.from_step)))
    over = np.nansum(seconds - middle[:, None], axis=0)
    ratio = column_medians(seconds / middle[:, None])
    least = [TENTH_MORE if info.dp == 0 else RECORDED for info in grid.ranks]
    judged = writers & (over >= np.array(least) * total)
    longer = np.where(judged & (np.log(np.where(judged, ratio, 1.0)) >= WRITES.floor), over, 0.0)
    if not longer.any():
        return None
    last = int(longer.argmax())
    who = grid.ranks[last]
    return (
        f"rank {who.rank} ({who.node}) writes checkpoints {ratio[last]:.2f}x as long as the others,"
        f" which is {over[last] / total:.0%} of the run; whether by design is unknown"
    )


def _of_writers(grid: Grid, writes: Sequence[NDArray[np.int64]]) -> FloatGrid:
    """(n, R) seconds of each write; NaN of ranks that do not write, or seldom."""
    seconds = np.array([_seconds(grid, windows) for windows in writes])
    seconds = seconds.reshape(len(writes), len(grid.ranks))
    most = np.where(np.isfinite(seconds), seconds, 0.0).max(axis=1, initial=0.0)[:, None]
    seconds = np.where(seconds >= WRITER * np.maximum(most, NOTHING), seconds, np.nan)
    seconds[:, np.isfinite(seconds).sum(axis=0) < WRITES.steps] = np.nan
    return seconds


def _compared(
    grid: Grid, writes: Sequence[NDArray[np.int64]], seconds: FloatGrid
) -> tuple[Grid, FloatGrid]:
    """The writes as windows, with those alike as peers; (n, R) the middle of each one's peers.

    Too few of them are compared by how they change, as of any own time.
    """
    writes_grid = _as_windows(grid, writes, seconds)
    writes_grid = replace(writes_grid, ranks=_who_write_alike(writes_grid))
    middle = np.repeat(column_medians(seconds.T)[:, None], seconds.shape[1], axis=1)
    for writers in peer_groups(writes_grid).values():
        if len(writers) >= MAJORITY:
            middle[:, writers] = column_medians(seconds[:, writers].T)[:, None]
    own = seconds / np.exp(_by_design(grid, np.log(seconds / middle)))
    return replace(writes_grid, time={**writes_grid.time, "own": own}), middle


def _who_write_alike(grid: Grid) -> tuple[RankInfo, ...]:
    """The ranks, with one place for all whose strata write alike, whatever these compute.

    By the fastest of each stratum: what it writes takes no longer. So two writers of a stage, of
    which one is slow, are judged by those of the others. The place is nobody else's: a stratum that
    writes unlike all others keeps its own.
    """
    own = column_medians(grid.time["own"])
    fastest = {
        place: float(np.nanmin(own[columns])) for place, columns in peer_groups(grid).items()
    }
    alike = set[int]()
    for place, columns in peer_groups(grid).items():
        others = [least for other, least in fastest.items() if other != place]
        middle = median_of(np.array(others or [fastest[place]]))
        if abs(np.log(fastest[place] / middle)) < WRITES.floor:
            alike.update(columns.tolist())
    nobodys = 1 + max(info.pp for info in grid.ranks)
    return tuple(
        replace(info, pp=nobodys, tp=0) if column in alike else info
        for column, info in enumerate(grid.ranks)
    )


def longer_writes(grid: Grid) -> str | None:
    """That checkpoints came to take longer, and by how much of the run; None where that is little.

    Of the slowest writer of each, for whom all others wait, whoever that is: more is written, the
    storage is slow, or a node that alone writes.
    """
    writes = _writes(grid)
    if len(writes) < 2 * BLOCKS_AT_LEAST:
        return None
    each = np.array([[np.nanmax(_seconds(grid, windows), initial=0.0)] for windows in writes])
    levels = np.log(np.where(each > 0, each, np.nan))
    steps = grid.to_step - grid.from_step
    total = float(np.nansum(column_medians(grid.time["wall"].T) * steps))
    least = int(WRITES.steps)
    for shift in clearest_spans(
        levels, shortest=least, baseline=1, noise=WRITES.noise, pooled=WRITES.pooled
    ):
        inside = np.zeros(len(writes), dtype=bool)
        inside[shift.first : shift.last] = True
        now, then = median_of(each[inside]), median_of(each[~inside])
        lost = float((each[inside] - then).sum())
        became = shift.first > 0 and shift.score >= shift.critical and sustained(levels, shift)
        if became and shift.effect >= WRITES.floor and lost >= WAKES * total:
            first = int(grid.from_step[writes[shift.first][0]])
            over = shift.last < len(writes)
            until = f" to {int(grid.to_step[writes[shift.last - 1][-1]])}" if over else ""
            return (
                f"checkpoints took {now:.1f} s from step {first}{until}, {then:.1f} s else,"
                f" {lost / total:.0%} of the run more, and no rank explains it"
            )
    return None


def _as_windows(grid: Grid, writes: Sequence[NDArray[np.int64]], seconds: FloatGrid) -> Grid:
    """The run with a window for each write; nothing but its seconds is known of one."""
    first, last = ([int(windows[place]) for windows in writes] for place in (0, -1))
    number, unknown = np.arange(len(writes)), np.full_like(seconds, np.nan)
    return replace(
        grid,
        from_step=number,
        to_step=number + 1,
        start=grid.start[first],
        end=grid.end[last],
        time=dict.fromkeys(grid.time, unknown) | {"own": seconds, "wall": seconds},
        signals={},
        masked=np.zeros(len(writes), dtype=bool),
    )


def _by_design(grid: Grid, over: FloatGrid) -> FloatGrid:
    """(n, R) how much longer the other ranks of the first replica write; NaN where it has none."""
    first = np.array([info.dp == 0 for info in grid.ranks])
    design = np.zeros_like(over)
    design[:, first] = others_median(over[:, first], axis=1)
    return design


def _writes(grid: Grid) -> list[NDArray[np.int64]]:
    """The windows of each checkpoint: neighbours in which anybody writes.

    What a rank writes in most windows is none, nor what is little beside the usual write: half of
    all that is written is in windows of as much and more. Unless its share of them was told by how
    own time goes with it: a row of windows that is longer than a write can be holds several.
    """
    steps = (grid.to_step - grid.from_step)[:, None]
    in_checkpoint = np.nan_to_num(grid.time[Phase.CHECKPOINT]) * steps
    usual = 0.0 if often(grid, in_checkpoint) else column_medians(in_checkpoint)
    longest = (in_checkpoint - usual).max(axis=1, initial=0.0)
    ordered = np.sort(longest)[::-1]
    written = np.cumsum(ordered)
    if not len(written) or not written[-1] > 0:
        return []
    usual = ordered[np.searchsorted(written, written[-1] / 2)]
    windows = np.flatnonzero(longest >= WRITER * usual)
    rows = np.split(windows, np.flatnonzero(np.diff(windows) > 1) + 1)
    return [
        part for row in rows for part in np.array_split(row, max(math.ceil(len(row) / LONGEST), 1))
    ]


def _seconds(grid: Grid, windows: NDArray[np.int64]) -> FloatGrid:
    """(R,) that each rank wrote; NaN of one that reported nothing."""
    steps = (grid.to_step - grid.from_step)[windows, None]
    seconds: FloatGrid = grid.time.get(WRITTEN, grid.time[Phase.CHECKPOINT])[windows]
    written = np.nansum(seconds * steps, axis=0)
    return np.where(np.isfinite(seconds).any(axis=0), written, np.nan)


def _costly(
    grid: Grid, findings: Sequence[Finding], writes: Sequence[NDArray[np.int64]],
    seconds: FloatGrid, middle: FloatGrid,
) -> Iterator[Finding]:  # fmt: skip
    """Those that cost enough, as findings about the run's windows.

    The slowdown is that of all its steps: between checkpoints it is as fast as the others.
    """
    steps = grid.to_step - grid.from_step
    total = float(np.nansum(column_medians(grid.time["wall"].T) * steps))
    column_of = {info.rank: column for column, info in enumerate(grid.ranks)}
    for finding in findings:
        if finding.kind != "slow" or finding.rank is None:
            continue
        during, column = slice(finding.first, finding.last), column_of[finding.rank]
        (low, high), ratio = finding.interval, finding.slowdown
        beside = np.fmin(middle[during, column], seconds[during, column] / ratio)
        longer = float(np.nansum(seconds[during, column] - beside))
        if not RECORDED * total <= longer < total:
            continue
        cost, usual = longer / (total - longer), float(np.nanmean(beside))
        share = [(bound - 1.0) / (ratio - 1.0) for bound in (low, high)]
        text = (
            f"rank {finding.rank} took {ratio * usual:.1f} s to write each of"
            f" {len(writes[during])} checkpoints, the others {usual:.1f} s: {ratio:.2f}x"
            f" ({low:.2f} to {high:.2f})"
        )
        kept = ("place_confidence", "log_chance", "critical_score", "node", "part", "from_start")
        details = {name: finding.details[name] for name in kept if name in finding.details}
        yield replace(
            finding,
            detector="checkpoints",
            first=int(writes[finding.first][0]),
            last=None if finding.last is None else int(writes[finding.last - 1][-1]) + 1,
            slowdown=1.0 + cost,
            interval=(1.0 + max(share[0], 0.0) * cost, 1.0 + share[1] * cost),
            share={Phase.CHECKPOINT: 1.0},
            text=text,
            details={
                **details,
                "query": QUERY,
                WAITED: longer,
            },
        )
