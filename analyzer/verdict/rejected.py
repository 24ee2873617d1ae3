"""The suspects that were let go, each with the reason."""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.operations.structure import LONGER
from lockstep.analyzer.shapes.run import Finding, Grid, Rejected
from lockstep.analyzer.shapes.wording import NAMED, milliseconds
from lockstep.analyzer.stats.coverage import unseen_ranks
from lockstep.analyzer.stats.peer_groups import MAJORITY, peer_groups
from lockstep.analyzer.stats.robust_stats import median_of
from lockstep.analyzer.stats.significance import RECORDED
from lockstep.analyzer.stragglers.model.precision import WINDOWS, Precision


def rejected(
    grid: Grid, slow: Sequence[Finding], hangs: Sequence[Finding], precision: Precision = WINDOWS
) -> tuple[Rejected, ...]:
    """Ranks with elevated step, waiting or own time that are no culprits, the worst first."""
    if slow:
        return _victims(grid, slow, {finding.rank for finding in (*slow, *hangs)})
    if hangs:
        return _held_up(hangs)
    return _nearly(grid, precision)


def _held_up(hangs: Sequence[Finding]) -> tuple[Rejected, ...]:
    """Who is missing only because it waits for a culprit, and who waits for those missing."""
    details = hangs[0].details
    if details["group"] is None:
        return ()
    named = [finding.rank for finding in hangs]
    op, group = details["op"] or "collective", details["group"]
    culprits, missing = _join(named), _join(details["missing_ranks"])
    therefore = (
        f"waits for rank {culprits}, and is missing from {op} number {details['sequence']} of group"
        f" {group} therefore"
    )
    victims = [rank for rank in details["missing_ranks"] if rank not in named]
    waits = f"waits in {op} for rank {missing}, which never arrived"
    waiting = [rank for rank in details["waiting_ranks"] if rank not in named]
    reasons = [*((rank, therefore) for rank in victims), *((rank, waits) for rank in waiting)]
    return tuple(Rejected(rank, why) for rank, why in reasons[:NAMED])


def _join(ranks: Sequence[int | None]) -> str:
    return ", ".join(map(str, ranks))


def _victims(grid: Grid, slow: Sequence[Finding], named: set[int | None]) -> tuple[Rejected, ...]:
    """Who waits longer while the first culprit is slow than in the steps without any."""
    first = slow[0]
    during = ~grid.masked & first.inside(grid)
    outside = ~grid.masked & ~np.any([finding.inside(grid) for finding in slow], axis=0)
    own, collective, wall = (grid.time[name] for name in ("own", "collective", "wall"))
    victims: list[tuple[float, Rejected]] = []
    for stratum in peer_groups(grid).values():
        mine = [c for c in stratum.tolist() if grid.ranks[c].rank not in named]
        for column in mine:
            peers = [other for other in mine if other != column]
            waited = median_of(collective[during, column])
            before = median_of(collective[outside, column])
            more = waited - before if np.isfinite(before) else waited
            if not more >= RECORDED * median_of(wall[during, column]):
                continue
            ratio = median_of(own[during, column]) / median_of(own[np.ix_(during, peers)])
            alike = f"; its own time is {ratio:.2f}x its peers'" if np.isfinite(ratio) else ""
            why = (
                f"waits {milliseconds(more)} more per step for rank {first.rank}{alike}"
                if np.isfinite(before)
                else f"waits {milliseconds(more)} per step, for rank {first.rank} or by design: no"
                f" step without it is seen{alike}"
            )
            victims.append((more, Rejected(grid.ranks[column].rank, why)))
    victims.sort(key=lambda pair: -pair[0])
    return tuple(victim for _, victim in victims[:NAMED])


def _nearly(grid: Grid, precision: Precision) -> tuple[Rejected, ...]:
    """In a run without culprit: ranks whose own time is visibly above their peers'."""
    own, least = grid.time["own"][~grid.masked], min(LONGER, np.expm1(precision.floor))
    if unseen_ranks(grid):
        # Within what is usual is nobody whose peers are not all known.
        return ()
    suspects = []
    for stratum in peer_groups(grid).values():
        for column in stratum.tolist():
            peers = [other for other in stratum.tolist() if other != column]
            ratio = median_of(own[:, column]) / median_of(own[:, peers]) if peers else np.nan
            if ratio >= 1.0 + least:
                suspects.append((ratio, Rejected(grid.ranks[column].rank, _why(ratio, len(peers)))))
    suspects.sort(key=lambda pair: -pair[0])
    return tuple(suspect for _, suspect in suspects[:NAMED])


def _why(ratio: float, peers: int) -> str:
    if peers + 1 < MAJORITY:
        return (
            f"its own time is {ratio:.2f}x its only peer's, has not clearly changed, and which"
            " of the two is normal is unknown"
        )
    return (
        f"its own time is {ratio:.2f}x its peers', within the noise of this run or the spread of"
        " healthy parts"
    )
