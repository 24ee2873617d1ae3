"""Ranks and nodes that are slow again and again, at no regular distance and never for long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import poisson

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import (
    FALSE_ALARM,
    Blocks,
    Shift,
    blocks,
    column_medians,
)
from analyzer.slowness.on_and_off import (
    EPISODES_AT_LEAST,
    USUAL,
    WINDOWS_AT_LEAST,
    OnAndOff,
    blocks_of,
    on_and_off,
)
from analyzer.slowness.peer_groups import MAJORITY, peer_groups
from analyzer.slowness.significance import PARTS_AT_MOST, log_ratio, slow_finding
from collector.contract.robust import MAD_TO_SIGMA
from collector.contract.words import Phase

FLOOR = float(np.log(1.03))
"""The smallest mean excess: as of a node, what is felt is the mean."""
CAP = float(np.log(2.5))
"""A window counts for at most so much: one pause of a minute is no row of bursts."""
ON_AT_LEAST = float(np.log(1.08))
"""Parts differ by as much on average (SC22, arXiv 2208.11035 v3)."""
FIRST_TURNS = 1.0
"""Longest distances of two bursts from the run's start to the first, up to which it may be the
design of the run, as a rank that writes logs; such a rank must be slower than parts differ."""
COMMON = 0.25
"""Share of the excess by which the peers may be slow in the same windows: more is work of all, of
which this rank has another share."""
SHARED, MOST, AT_ALL = 0.5, 0.75, 0.25
"""As in the detector nodes: share of a node's excess that so many of its ranks, and that all of
them, must show for themselves."""
TAILS = 5.0
"""Degrees of freedom at most: the noise of machines has heavier tails than a Gaussian."""
LUCK = 1.5
"""Times as many windows as the others have, that one may have by its place."""
Peers = dict[int, NDArray[np.int64]]
Edges = tuple[int, int | None]
"""First window, and the one after the last; None = to the end."""


@dataclass(frozen=True, slots=True)
class Series:
    """Who is looked at: log own time over what is usual for it, window by window.

    Attributes:
        node: Of which it is, or None of a rank.
        columns: Its ranks.
        ratio: (n,) of the unmasked windows.
        common: (n,) log of what its peers' windows have in common, in the same unit.
    """

    node: str | None
    columns: tuple[int, ...]
    ratio: FloatGrid
    common: FloatGrid


class Bursts:
    """The mean excess, and how many windows stand out, against everybody else's.

    What chance can do is what the others show: stalls that all have now and then accuse nobody.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """A finding of kind `slow` for each rank, or for each rank of a node."""
        usable = np.flatnonzero(~grid.masked & np.isfinite(grid.time["own"]).any(axis=1))
        if len(usable) < WINDOWS_AT_LEAST:
            return ()
        peers = _peers(grid)
        rest, common = _rest(grid, usable, peers)
        ranks = [Series(None, (c,), rest[:, c], common[:, c]) for c in peers]
        of_node: dict[str, list[int]] = {}
        for column in peers:
            of_node.setdefault(grid.ranks[column].node, []).append(column)
        nodes = [
            Series(node, tuple(columns), *(column_medians(x[:, columns].T) for x in (rest, common)))
            for node, columns in of_node.items()
            if len(columns) >= 2
        ]
        groups = blocks(grid)
        found = [
            one for one in _standing_out(groups, usable, nodes) if _is_shared(rest, usable, *one)
        ]
        of_nodes = {column for series, *_ in found for column in series.columns}
        found += [
            one
            for one in _standing_out(groups, usable, ranks)
            if not of_nodes.intersection(one[0].columns)
        ]
        return [
            finding
            for series, shift, edges in found
            for finding in _findings(grid, groups, usable, rest, series, shift, edges, peers)
        ]


def _peers(grid: Grid) -> Peers:
    """Column -> whose windows are like its own: its stratum on other nodes, or all of these."""
    nodes = np.array([info.node for info in grid.ranks])
    groups = list(peer_groups(grid).values())
    every = np.concatenate(groups) if groups else np.empty(0, dtype=np.int64)
    found: Peers = {}
    for columns in groups:
        for column in columns.tolist():
            some = columns[nodes[columns] != nodes[column]]
            if len(some) < MAJORITY:
                some = every[nodes[every] != nodes[column]]
            if len(some) < MAJORITY:
                some = columns[columns != column]
            if len(some) >= MAJORITY - 1:
                found[column] = some
    return found


def _rest(grid: Grid, usable: NDArray[np.int64], peers: Peers) -> tuple[FloatGrid, FloatGrid]:
    """(n, R) log own time without each rank's level and what its peers' windows have in common.

    And (n, R) that. Without checkpoints: scrapes cut them into different windows, and who writes
    for all is slow again and again by design.
    """
    written = np.nan_to_num(grid.time[Phase.CHECKPOINT])
    seconds = (grid.time["own"] - written)[usable]
    own = np.log(np.where(seconds > 0, seconds, np.nan))
    level = own - column_medians(own)
    rest, common = np.full_like(own, np.nan), np.full_like(own, np.nan)
    known: dict[bytes, FloatGrid] = {}
    for column, others in peers.items():
        key = others.tobytes()
        if key not in known:
            known[key] = column_medians(level[:, others].T)
        common[:, column] = known[key]
        rest[:, column] = level[:, column] - known[key]
    return rest, common


def _standing_out(
    groups: Blocks, usable: NDArray[np.int64], some: Sequence[Series]
) -> Iterator[tuple[Series, Shift, Edges]]:
    told: list[tuple[Series, OnAndOff]] = []
    for series in some:
        seen = on_and_off(series.ratio, least=ON_AT_LEAST, most=CAP)
        if seen is not None:
            told.append((series, seen))
    if len(told) < 2:
        return
    means = np.array([seen.mean for _, seen in told])
    counts = np.array([int(seen.on.sum()) for _, seen in told])
    for place, (series, seen) in enumerate(told):
        others = np.delete(means, place)
        usual = float(np.median(others))
        spread = MAD_TO_SIGMA * float(np.median(np.abs(others - usual)))
        error = float(np.hypot(spread, seen.error))
        score = (seen.mean - max(usual, 0.0)) / error
        # Welch and Satterthwaite: a spread that few others tell is hardly known.
        freedom = error**4 / (
            spread**4 / max(len(others) - 1, 1) + seen.error**4 / max(len(usable) / 4, 1)
        )
        asked = float(-stdtrit(min(freedom, TAILS), FALSE_ALARM / len(told)))
        usually = LUCK * float(np.median(np.delete(counts, place))) + 1.0
        chance = float(poisson.sf(counts[place] - 1, usually)) * len(told)
        if (
            score >= asked
            and chance <= FALSE_ALARM
            and seen.inside >= (FLOOR if seen.begin > FIRST_TURNS * seen.apart else PARTS_AT_MOST)
            and seen.episodes >= EPISODES_AT_LEAST
            and _rise(series.common, seen.on) <= COMMON * _rise(seen.gain, seen.on)
        ):
            first = int(usable[seen.begin])
            last = None if seen.stop is None else int(usable[seen.stop - 1]) + 1
            yield (
                series,
                Shift(series.columns[0], *blocks_of(groups, first, last), seen.inside, error,
                      score, asked, seen.inside),
                (first, last),
            )  # fmt: skip


def _rise(cells: FloatGrid, on: NDArray[np.bool_]) -> float:
    """How much higher it is in the high windows, by means."""
    told = np.nan_to_num(cells)
    return float(told[on].mean() - told[~on].mean()) if on.any() and not on.all() else 0.0


def _excess(rest: FloatGrid, usable: NDArray[np.int64], column: int, edges: Edges) -> float:
    """Mean excess of a rank between the edges over the rest of its windows."""
    first, last = edges
    inside = (usable >= first) & (usable < (np.inf if last is None else last))
    mine = np.clip(np.nan_to_num(rest[:, column]), -CAP, CAP)
    return float(mine[inside].mean() - (mine[~inside].mean() if not inside.all() else 0.0))


def _is_shared(
    rest: FloatGrid, usable: NDArray[np.int64], series: Series, shift: Shift, edges: Edges
) -> bool:
    """Whether the ranks of a node are slow alike."""
    mine = np.array([_excess(rest, usable, column, edges) for column in series.columns])
    enough = np.mean(mine >= SHARED * shift.effect) >= MOST
    return bool(enough and (mine >= AT_ALL * shift.effect).all())


def _findings(
    grid: Grid, groups: Blocks, usable: NDArray[np.int64], rest: FloatGrid, series: Series,
    shift: Shift, edges: Edges, peers: Peers,
) -> Iterator[Finding]:  # fmt: skip
    windows = np.concatenate(groups.members)
    for column in series.columns:
        own = _excess(rest, usable, column, edges)
        effect = shift.effect if series.node is None else own
        # Peers of other strata have another level.
        usual = np.nanquantile(log_ratio(grid, windows, column, peers[column]), USUAL)
        mine = replace(shift, column=column, effect=effect, inside=float(usual) + effect)
        finding = slow_finding(grid, groups, mine, peers[column], "bursts", edges)
        of_node = {} if series.node is None else {"node": series.node}
        yield replace(finding, details={**finding.details, **of_node})
