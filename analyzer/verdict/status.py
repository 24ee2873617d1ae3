"""Whether a run is healthy, degraded or unknown, and why it cannot be called healthy."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtrc

from lockstep.analyzer.align.common_writes import BY_DESIGN
from lockstep.analyzer.causes.symptoms.network_counters import always_worse
from lockstep.analyzer.hangs.last_seen import STALL_SECONDS, STALL_STEPS
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.shapes.waits import waited
from lockstep.analyzer.shapes.wording import listed
from lockstep.analyzer.stats.before_after import gpu_words
from lockstep.analyzer.stats.changepoint import BLOCKS_AT_LEAST, FALSE_ALARM, blocks, column_medians
from lockstep.analyzer.stats.coverage import COVERAGE_AT_LEAST, unseen_words
from lockstep.analyzer.stats.peer_groups import peer_groups
from lockstep.analyzer.stats.robust_stats import MOSTLY, NOTHING, median_of, shows
from lockstep.analyzer.stats.significance import (
    NATURAL_SPREAD,
    STEPS_AT_LEAST,
    TENTH,
    TENTH_MORE,
    WAKES,
)
from lockstep.analyzer.stats.temporal_shape import on_and_off, stretches
from lockstep.analyzer.stats.transfers import transfers
from lockstep.analyzer.stragglers.detectors.change import per_work
from lockstep.analyzer.stragglers.detectors.checkpoints import longer_writes, unlike_writers
from lockstep.analyzer.stragglers.model.minimum_detectable_effect import smallest_noticed
from lockstep.analyzer.stragglers.model.precision import WINDOWS, Precision

NOTICED_AT_MOST = 1.5
"""A run in which only slower ranks than this would have been noticed is not called healthy."""


def why_unknown(
    grid: Grid, unexplained: Finding | None, precision: Precision = WINDOWS
) -> str | None:
    """Why a run without culprit that ended well cannot be called healthy; None = it can.

    Args:
        grid: The run's windows.
        unexplained: Steps take longer, and nobody is named for it.
        precision: What the windows can show.
    """
    timed = int(np.isfinite(grid.time["wall"]).any(axis=0).sum())
    if timed < 2:
        return f"{timed} of {len(grid.ranks)} ranks reported step times; a comparison needs two"
    if len(blocks(grid, "wall", precision.block_steps)) < 2 * BLOCKS_AT_LEAST:
        return f"{int((~grid.masked).sum())} steps after warm-up are too few to compare ranks"
    if (dark := unseen_words(grid)) is not None:
        return dark if unexplained is None else f"{unexplained.text}; {dark}"
    if grid.coverage < COVERAGE_AT_LEAST:
        return f"only {grid.coverage:.0%} of the expected step times are there"
    if (apart := _nobody_knows(grid)) is not None:
        return apart
    if unexplained is not None:
        return unexplained.text
    longer = (
        _stands_still(grid)
        or _longer_in_turns(grid, precision)
        or longer_writes(grid)
        or unlike_writers(grid)
        or _worse_links(grid)
    )
    if longer is not None:
        return longer
    noticed = smallest_noticed(grid, precision)
    if noticed is not None and noticed > NOTICED_AT_MOST:
        groups = len(blocks(grid, least=precision.block_steps))
        return (
            f"with {groups} groups of steps this noisy, only a rank slower by"
            f" {noticed:.2f}x or more would have been noticed"
        )
    return None


def _worse_links(grid: Grid) -> str | None:
    """Why a run is not healthy of which a link always was worse than the others.

    Only where transfers are a large part of a step. With pipeline stages that is not known, since
    transfers hold bubbles.
    """
    if len({info.pp for info in grid.ranks}) > 1:
        return None
    share = median_of((transfers(grid) / column_medians(grid.time["wall"].T))[~grid.masked])
    if not share >= TENTH_MORE or not (worse := always_worse(grid)):
        return None
    return (
        f"{listed(worse)}, from the first step on; transfers are {share:.0%} of a step; what they"
        " would take without that is unknown"
    )


def _stands_still(grid: Grid) -> str | None:
    """Why a run that stands still for much of its time is not healthy, whoever began it.

    A step may take twice the usual one; what is beyond that, and in no phase that is slow by
    design, is a pause. Together they must be as much as what counts as a change of a run; those
    that are as long as a stalled collective, as what wakes somebody, where they are no tail of
    what all ranks have.
    """
    design = sum(np.nan_to_num(grid.time[phase]) for phase in BY_DESIGN)
    steps = (grid.to_step - grid.from_step).astype(float)
    wall = column_medians((grid.time["wall"] - design).T)
    known = ~grid.masked & np.isfinite(wall)
    if not known.any():
        return None
    usual = float(np.median(wall[known]))
    beyond = np.maximum(wall[known] - 2 * usual, 0.0)
    over, run = beyond * steps[known], float((wall[known] * steps[known]).sum())
    own = column_medians(grid.time["own"].T)[known]
    waits = waited(wall[known], np.where(np.isfinite(own), own, median_of(own)))
    waits = np.where(np.isfinite(waits), waits, wall[known])
    stalls = (waits - np.median(waits)) * steps[known]
    stalls = np.where(stalls >= max(STALL_SECONDS, STALL_STEPS * usual), stalls, 0.0)
    if over.sum() < TENTH_MORE * run:
        over = stalls
        if over.sum() < max(WAKES * run, NOTHING) or _tail_of_noise(grid, known, over):
            return None
    share = float(over.sum()) / run
    words = (
        f"steps stood still for {over.sum():.1f} s, {share:.0%} of the run, and no rank explains it"
    )
    longest = int(over.argmax())
    own = np.nan_to_num(grid.time["own"][known])[longest]
    if own.max() < MOSTLY * over[longest] / steps[known][longest]:
        return words  # it is in nobody's own time
    who = grid.ranks[int(own.argmax())]
    return f"{words}; in the longest pause rank {who.rank} ({who.node}) was away the longest"


def _tail_of_noise(grid: Grid, windows: NDArray[np.bool_], stalls: FloatGrid) -> bool:
    """Whether the other ranks' shorter stalls let so many as long ones be expected.

    Hosts and services have heavy tails: a run in which all ranks are now and then away for a while
    has some that are away for long, by Hill's estimator of a Pareto tail beyond twice the usual
    time (Annals of Statistics 1975). Who stalls longest says nothing of the tail itself, and a run
    that has hardly any shorter stalls has none: such a stall stays unknown.

    Args:
        grid: The run's windows.
        windows: (W,) which count, n of them.
        stalls: (n,) seconds that each stood still, 0 = it did not.
    """
    own = grid.time["own"][windows]
    usual = column_medians(own)
    steps = (grid.to_step - grid.from_step)[windows].astype(float)
    away = np.nan_to_num((own - usual) * steps[:, None])
    stood = stalls > 0
    who = away[stood].argmax(axis=1)
    mine = away[stood, who]
    if not all(shows(longer, stall) for longer, stall in zip(mine, stalls[stood], strict=True)):
        return False  # it is in nobody's own time
    times = np.log(np.nan_to_num(own / usual, nan=1.0)) - np.log(2)
    others = np.delete(times, who, axis=1)
    tail = others[others > 0]
    if len(tail) < STEPS_AT_LEAST:
        return False
    shortest = float(times[stood, who].min())
    expected = len(tail) * times.shape[1] / others.shape[1] * np.exp(-shortest / tail.mean())
    return bool(pdtrc(len(mine) - 1, expected) >= FALSE_ALARM)


def _longer_in_turns(grid: Grid, precision: Precision) -> str | None:
    """Why a run whose steps are longer for a while, and again, is not healthy, whoever's they are.

    As much of it as counts as a change of a run, in turns of as many steps as a slowdown has at
    least: single long steps are work of many lengths. Longer than usual, and at the same work.
    """
    design = sum(np.nan_to_num(grid.time[phase]) for phase in BY_DESIGN)
    bare = replace(grid, time={**grid.time, "wall": grid.time["wall"] - design})
    walls = [column_medians(some.time["wall"].T) for some in (bare, per_work(bare))]
    known = np.flatnonzero(~grid.masked & (np.nan_to_num(np.min(walls, axis=0)) > 0))
    both = [on_and_off(np.log(wall[known]), least=TENTH, most=np.inf) for wall in walls]
    if any(levels is None for levels in both):
        return None
    gain = np.min([levels.gain for levels in both if levels], axis=0)
    on = np.all([levels.on for levels in both if levels], axis=0)
    seconds, steps = walls[0][known], (grid.to_step - grid.from_step)[known].astype(float)
    turns = [slice(*turn) for turn in stretches(on)]
    lasting = [turn for turn in turns if steps[turn].sum() >= precision.steps]
    over = -np.expm1(-gain) * seconds * steps
    share = sum(float(over[turn].sum()) for turn in lasting) / float((seconds * steps).sum())
    if share < TENTH_MORE:
        return None
    high = median_of(np.concatenate([gain[turn] for turn in lasting])) - median_of(gain[~on])
    first = int(grid.from_step[known[lasting[0].start]])
    return (
        f"steps took {np.exp(high):.2f}x the usual time from step {first},"
        f" {'again and again' if len(lasting) > 1 else 'for a while'}, {share:.0%} of the run, and"
        " no rank explains it"
    )


def provenance(grid: Grid) -> tuple[str, ...]:
    """What was emulated or simulated, in words."""
    words = []
    if grid.meta.get("emulated_devices"):
        words.append("emulated devices")
    if any(gpu_words(grid, info.rank) == "the simulated GPU" for info in grid.ranks):
        words.append("simulated GPU telemetry")
    return tuple(words)


def _nobody_knows(grid: Grid) -> str | None:
    """Why the ranks' own past, which shows no change, is not enough."""
    groups = peer_groups(grid)
    if all(len(columns) == 1 for columns in groups.values()):
        return (
            "no rank became slower, but each is the only one of its stage or role: a rank that was"
            " always slow looks like a heavy stage"
        )
    own = column_medians(np.log(grid.time["own"][~grid.masked]))
    for columns in groups.values():
        if (sides := _two_sides(grid, own, columns)) is not None:
            slow, fast = sides
            ratio = np.exp(median_of(own[slow]) - median_of(own[fast]))
            verb, whose = ("takes", "its only peer") if len(slow) == 1 else ("take", "their peers")
            return (
                f"{_ranks(grid, slow)} {verb} {ratio:.2f}x the own time of {whose},"
                f" {_ranks(grid, fast)}, from the start, and which is normal is unknown"
            )
    return None


def _two_sides(
    grid: Grid, own: FloatGrid, columns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The slow and the fast ranks of a peer group, where either side may be the normal one.

    They are further apart than healthy parts are; the slow are half or more, too many to stand out,
    and on no more nodes than the fast: one node that is slow is as likely as one that is fast.
    Where both are on one node, they are counted themselves.

    Args:
        grid: The run's windows.
        own: (R,) the log of own time.
        columns: Of the group.
    """
    known = columns[np.isfinite(own[columns])]
    ordered = known[np.argsort(own[known])]
    gaps = np.diff(own[ordered])
    if not gaps.size or gaps.max() < NATURAL_SPREAD:
        return None
    at = int(gaps.argmax()) + 1
    fast, slow = ordered[:at], ordered[at:]
    nodes = [{grid.ranks[column].node for column in side.tolist()} for side in (fast, slow)]
    sides = (fast, slow) if nodes[0] & nodes[1] else nodes
    return (slow, fast) if len(slow) >= len(fast) and len(sides[1]) <= len(sides[0]) else None


def _ranks(grid: Grid, columns: NDArray[np.int64]) -> str:
    numbers = sorted(grid.ranks[column].rank for column in columns.tolist())
    return f"rank{'s' if len(numbers) > 1 else ''} {listed(numbers)}"
