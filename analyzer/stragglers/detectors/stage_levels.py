"""Nodes that hold whole pipeline stages for themselves and always were slower than the others.

Nobody else does the same work, so times alone cannot tell a heavier stage from a slow node. Such a
finding accuses nobody by itself: what the hardware says decides (analyzer.stragglers.imbalance).
Where that is silent, the run is not called healthy.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.stats.changepoint import MEDIAN_EFFICIENCY, column_medians
from lockstep.analyzer.stats.peer_groups import columns_by, peer_groups
from lockstep.analyzer.stats.robust_stats import interval_95, median_of
from lockstep.analyzer.stats.significance import PARTS_AT_MOST, STEPS_AT_LEAST, phase_shares
from lockstep.analyzer.stragglers.confidence import HEAVY
from lockstep.collector.contract.robust import MAD_TO_SIGMA

BY_TIMES = 0.21
"""Probability, before the hardware is asked, that its node is slow and the stage not heavier by
design: 9 of 42 such nodes of simulated fleets (`python -m tests.benchmarks stage_prior`)."""
PARTS = 3


def stage_levels(grid: Grid) -> Sequence[Finding]:
    """A finding of kind `heavy` for each rank of such a node, which `details["node"]` names.

    By the log of the middle own time of its ranks over the middle of the other nodes', from what
    identical parts cannot differ by. It must be so
    in the first, the middle and the last third of the run.
    """
    nodes, usable = columns_by(grid, lambda info: info.node), np.flatnonzero(~grid.masked)
    # Of each stage all ranks are on one node.
    alone = len({(i.pp, i.node) for i in grid.ranks}) == len({i.pp for i in grid.ranks})
    steps = int((grid.to_step - grid.from_step)[usable].sum())
    if not alone or len(nodes) < 2 or steps < STEPS_AT_LEAST or len(usable) < PARTS:
        return ()
    if all(len(columns) == 1 for columns in peer_groups(grid).values()):
        return ()  # then nobody knows of any rank (lockstep.analyzer.verdict.status)
    own = np.log(grid.time["own"][usable])
    middle = {node: column_medians(own[:, columns].T) for node, columns in nodes.items()}
    findings: list[Finding] = []
    for node, columns in nodes.items():
        others = [other for other in nodes if other != node]
        over = middle[node] - column_medians(np.array([middle[other] for other in others]))
        parts = [median_of(part) for part in np.array_split(over, PARTS)]
        level = median_of(over)
        if level >= PARTS_AT_MOST and min(parts) >= level / 2:
            peers = np.concatenate([nodes[other] for other in others])
            error = MEDIAN_EFFICIENCY * MAD_TO_SIGMA * median_of(np.abs(over - level))
            error /= float(np.sqrt(len(over)))
            findings += (
                as_heavier(grid, node, column, peers, level, error) for column in columns.tolist()
            )
    return findings


def as_heavier(
    grid: Grid, node: str, column: int, peers: NDArray[np.int64], over: float, error: float
) -> Finding:
    """The finding of one rank of a node.

    Args:
        grid: The run's windows.
        node: The node.
        column: The rank.
        peers: Those of the other nodes.
        over: Log own time of the node over theirs.
        error: Its standard error.
    """
    usable = np.flatnonzero(~grid.masked)
    info = grid.ranks[column]
    low, ratio, high = interval_95(over, error)
    mine = median_of(grid.time["own"][usable, column])
    stages = sorted({info.pp for info in grid.ranks if info.node == node})
    names = f"stage{'s' if len(stages) > 1 else ''} {', '.join(map(str, stages))}"
    return Finding(
        detector="stage_levels",
        kind=HEAVY,
        rank=info.rank,
        first=int(usable[0]),
        last=None,
        slowdown=ratio,
        interval=(low, high),
        score=float("nan"),
        share=phase_shares(grid, column, peers, usable, usable, throughout=True),
        text=(
            f"{node} takes {ratio:.2f}x the own time of the other nodes from the start; it alone"
            f" holds {names}, and times do not distinguish a heavier stage from a slow node"
        ),
        details={
            "node": node,
            "place_confidence": BY_TIMES,
            "log_chance": 0.0,
            "peers": [grid.ranks[other].rank for other in peers.tolist()],
            "from_start": True,
            "shape": "constant",
            "own_seconds": mine,
            "own_seconds_before": None,
            "peer_seconds": mine / ratio,
            "critical_score": None,
        },
    )
