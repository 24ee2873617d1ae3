"""Periodic pauses: garbage collection, and steps that are long for all at regular distances."""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.operations.structure.facts import Facts, Structure
from lockstep.analyzer.operations.whatif.kinds import GC
from lockstep.analyzer.operations.whatif.simulate import simulate
from lockstep.analyzer.operations.whatif.work import split_durations
from lockstep.analyzer.shapes.operations import Flags, Floats, Ints
from lockstep.analyzer.stats.changepoint import SAME_ABOVE
from lockstep.analyzer.stats.significance import TOLD
from lockstep.analyzer.stats.temporal_shape import LEAST_TURNS

LEAST = 0.002
"""Seconds of collecting in a worker's step from which it counts, chosen."""
LONG = 1.2
"""Times the middle step from which a step counts as long, chosen."""


def find(facts: Facts) -> Sequence[Structure]:
    """Both kinds."""
    return (*_collections(facts), *_beat(facts))


def _collections(facts: Facts) -> Sequence[Structure]:
    rows = np.flatnonzero(facts.trace.of(GC))
    if not len(rows):
        return ()
    seconds = facts.own[rows]
    due = seconds >= LEAST
    if not due.any():
        return ()
    changed = facts.own.copy()
    changed[rows] = 0.0
    share = facts.share_of(changed)
    of_step = float(seconds.max(axis=(0, 1)).mean() / facts.trace.end.max(axis=(0, 1)).mean())
    if (of_step if share is None else share) < TOLD:
        return ()
    workers = float(due.any(axis=2).mean())
    text = (
        f"garbage collection stops a worker for {np.median(seconds[due]):.2f} s in"
        f" {due.mean():.0%} of its steps ({workers:.0%} of the workers, each in its own step)"
    )
    return (Structure("periodic", share, f"{text}: collect on all at once"),)


def _beat(facts: Facts) -> Sequence[Structure]:
    trace = facts.trace
    wall = _wall(facts)
    if wall is None:
        return ()
    long = wall > LONG * np.median(wall)
    period = _period(trace.steps, long)
    if period is None:
        return ()
    more = float((wall[long] - np.median(wall)).sum() / wall.sum())
    text = (
        f"every {period} steps all ranks take {np.median(wall[long]) / np.median(wall):.1f}x as"
        " long, as for a checkpoint or an evaluation"
    )
    return (Structure("periodic", more, text),)


def _wall(facts: Facts) -> Floats | None:
    """(S,) seconds of the steps without what slow workers cost; None where nobody can tell.

    What no operation shows, as a checkpoint between steps, is in the steps alone: the simulated
    cost is taken off them.
    """
    trace = facts.trace
    wall: Floats = trace.end.max(axis=(0, 1)) if trace.observed is None else trace.observed
    if not facts.slow.any():
        return wall
    if facts.graph is None:
        return None
    was = split_durations(trace, facts.graph).own
    without: Floats = wall - simulate(facts.graph, was) + simulate(facts.graph, facts.own)
    return without


def _period(steps: Ints, long: Flags) -> int | None:
    """The beat of the long steps; None where there is none."""
    when = steps[long]
    if len(when) < LEAST_TURNS:
        return None
    period = int(np.gcd.reduce(np.diff(when)))
    if period < 2:
        return None
    beat = (steps - when[0]) % period == 0
    return period if long[beat].mean() >= SAME_ABOVE else None
