"""The suspects that were let go, each with the reason."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, FloatGrid, Grid, Rejected
from analyzer.strata import MAJORITY, strata

SUSPICIOUS = 1.03
"""Own time over the peers' from which a rank without finding is worth a word."""
AT_MOST = 8
"""Victims named, the most affected first; all ranks wait for a slow one."""


def rejected(grid: Grid, slow: Sequence[Finding], hangs: Sequence[Finding]) -> tuple[Rejected, ...]:
    """Ranks with elevated step, waiting or own time that are no culprits."""
    named = {finding.rank for finding in (*slow, *hangs)}
    if slow:
        return _victims(grid, slow[0], named)
    if hangs:
        waiting = hangs[0].details["waiting_ranks"]
        op = hangs[0].details["op"] or "collective"
        missing = ", ".join(map(str, hangs[0].details["missing_ranks"]))
        why = f"waits in {op} for rank {missing}, which never arrived"
        return tuple(Rejected(rank, why) for rank in waiting[:AT_MOST])
    return _nearly(grid)


def _victims(grid: Grid, culprit: Finding, named: set[int | None]) -> tuple[Rejected, ...]:
    windows = np.arange(len(grid.start))
    stop = len(windows) if culprit.last is None else culprit.last
    during = ~grid.masked & (windows >= culprit.first) & (windows < stop)
    columns = [c for c, info in enumerate(grid.ranks) if info.rank not in named]
    own, collective = grid.time["own"][during], grid.time["collective"][during]
    found: list[tuple[float, Rejected]] = []
    for column in columns:
        others = [other for other in columns if other != column]
        waited = _median(collective[:, column])
        if np.isnan(waited):
            continue
        ratio = _median(own[:, column]) / _median(own[:, others]) if others else np.nan
        alike = f"; its own time is {ratio:.2f}x its peers'" if np.isfinite(ratio) else ""
        why = f"waits {waited * 1e3:.1f} ms per step for rank {culprit.rank}{alike}"
        found.append((waited, Rejected(grid.ranks[column].rank, why)))
    found.sort(key=lambda pair: -pair[0])
    return tuple(each for _, each in found[:AT_MOST])


def _nearly(grid: Grid) -> tuple[Rejected, ...]:
    """In a run without culprit: ranks whose own time is visibly above their peers'."""
    own = grid.time["own"][~grid.masked]
    found = []
    for stratum in strata(grid).values():
        for column in stratum.tolist():
            peers = [other for other in stratum.tolist() if other != column]
            ratio = _median(own[:, column]) / _median(own[:, peers]) if peers else np.nan
            if ratio >= SUSPICIOUS:
                found.append((ratio, Rejected(grid.ranks[column].rank, _why(ratio, len(peers)))))
    found.sort(key=lambda pair: -pair[0])
    return tuple(each for _, each in found[:AT_MOST])


def _why(ratio: float, peers: int) -> str:
    if peers + 1 < MAJORITY:
        return (
            f"its own time is {ratio:.2f}x its only peer's, has not changed, and nobody knows which"
            " of the two is normal"
        )
    return (
        f"its own time is {ratio:.2f}x its peers', within the noise of this run or the spread of"
        " healthy parts"
    )


def _median(cells: FloatGrid | NDArray[np.float64]) -> float:
    there = cells[np.isfinite(cells)]
    return float(np.median(there)) if there.size else float("nan")
