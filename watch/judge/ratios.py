"""How each rank does beside its peers in the last minutes, for the page.

Not the test: a ratio has noise, and says nothing about what is normal for a rank.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.stragglers import peers
from lockstep.watch.judge.members import Members

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Speed:
    """A run in the last minutes; None = not known.

    Attributes:
        step_seconds: Wall time of a step, median over ranks.
        coverage: Share of its ranks that told of steps, 0 to 1.
    """

    step_seconds: float | None
    coverage: float


def over_peers(values: Floats, members: Members) -> Floats:
    """(R,) value over that of the peers, as `lockstep.analyzer.stragglers.peers.over_peers`."""
    _, code = np.unique(members.stratum, return_inverse=True)
    return peers.over_peers(values, code.astype(np.int64))


def speed(step_rate: Floats, members: Members) -> dict[str, Speed]:
    """The Speed of each run, from (R,) steps per second; 0 or NaN = no step was told."""
    found = {}
    for run, columns in members.columns_of_run.items():
        rates = step_rate[columns]
        moving = rates[np.isfinite(rates) & (rates > 0)]
        world = max(len(columns), int(members.world[columns].max(initial=0)))
        seconds = 1.0 / float(np.median(moving)) if moving.size else None
        found[run] = Speed(seconds, min(1.0, moving.size / world))
    return found


def slowest_of_nodes(ratio: Floats, members: Members) -> dict[tuple[str, str], float]:
    """(run, node) -> the ratio of the node's slowest rank; nodes without any are left out."""
    found: dict[tuple[str, str], float] = {}
    rows = zip(members.run.tolist(), members.node.tolist(), ratio.tolist(), strict=True)
    for run, node, value in rows:
        if value == value and value > found.get((run, node), 0.0):
            found[run, node] = value
    return found
