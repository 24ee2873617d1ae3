"""What each rank and each node is compared with: the ranks that do the same work at the same time.

Log own time of rank r in window w is m[w, g] + a[r] + effects + noise (docs/method/peers.md). What
a peer group has in common, m, is the median of the others; the natural level of a rank, a, is taken
off only where the others do other work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import column_medians
from lockstep.analyzer.stats.peer_groups import MAJORITY, other_parts_median, peer_groups

POLISHES = 2
"""Turns of medians after the fit, which is off by what few slow ranks drew it: of two ranks one
turn takes all of that, of more nearly all, and another one the rest. No threshold."""
SOLVED, ROUNDS = 1e-6, 100
"""Of the equations of levels: far below any noise; some tens are enough."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Some ranks and whom they are compared with.

    Attributes:
        columns: The ranks.
        peers: Those of the comparison.
        part: (P,) number of the part of each peer, where the ranks are among them: each is compared
            with those of the other parts. A rank is a part of its own, or all of a node is one.
        alike: Whether peers do the same work: their levels are comparable, not only their changes.
        majority: Whether they are enough to tell who of two changed; of two others the middle is
            between them.
    """

    columns: NDArray[np.int64]
    peers: NDArray[np.int64]
    part: NDArray[np.int64] | None
    alike: bool
    majority: bool

    def parts(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The ranks that are left out of their comparison together, and their peers."""
        if self.part is None:
            yield self.columns, self.peers
            return
        mine = np.isin(self.peers, self.columns)
        for one in dict.fromkeys(self.part[mine].tolist()):
            inside = self.part == one
            yield self.peers[inside & mine], self.peers[~inside]


def references(grid: Grid, *, of_nodes: bool) -> list[Reference]:
    """One of each set of ranks that are compared with the same others.

    Where too few do the same work, the ranks of all other groups stand in, by their changes: a
    stage has its own level, and no reason to become slower than the others.

    Args:
        grid: The run's windows.
        of_nodes: Compare with ranks of other nodes only.
    """
    _, nodes = np.unique([info.node for info in grid.ranks], return_inverse=True)
    groups = list(peer_groups(grid).values())
    every = np.concatenate(groups) if groups else np.empty(0, dtype=np.int64)
    found = []
    for columns in groups:
        parts = len(np.unique(nodes[columns])) if of_nodes else len(columns)
        if parts >= (2 if of_nodes else MAJORITY):
            peers = np.sort(columns)
            part = nodes[peers] if of_nodes else peers
            found.append(Reference(columns, peers, part, True, parts > MAJORITY))
            continue
        # Of two alike both hold the same difference; the rest of the run tells who moved.
        peers = np.sort(every[nodes[every] != nodes[columns[0]]] if of_nodes else every)
        others = len(np.unique(nodes[peers])) if of_nodes else len(peers) - 1
        if others >= 1:
            whole = None if of_nodes else peers
            found.append(Reference(columns, peers, whole, False, others >= MAJORITY))
    return found


def stage_references(grid: Grid) -> list[Reference]:
    """One of each pipeline stage: all ranks of the other stages, by their changes."""
    stages = np.array([info.pp for info in grid.ranks])
    groups = list(peer_groups(grid).values())
    every = np.concatenate(groups) if groups else np.empty(0, dtype=np.int64)
    found = []
    for stage in np.unique(stages[every]):
        mine, peers = every[stages[every] == stage], every[stages[every] != stage]
        if len(peers):
            others = len(np.unique(stages[peers]))
            found.append(Reference(mine, np.sort(peers), None, False, others >= MAJORITY))
    return found


def part_references(grid: Grid, nodes_of: Sequence[frozenset[str]]) -> list[Reference]:
    """One of each peer group in each part: the ranks of the group outside of it, or of all others.

    Args:
        grid: The run's windows.
        nodes_of: The nodes of each part, none of them in two.
    """
    names = np.array([info.node for info in grid.ranks])
    groups = list(peer_groups(grid).values())
    every = np.concatenate(groups) if groups else np.empty(0, dtype=np.int64)
    found = []
    for nodes in nodes_of:
        inside = np.isin(names, sorted(nodes))
        for columns in groups:
            mine, peers = columns[inside[columns]], columns[~inside[columns]]
            alike = bool(len(peers))
            if not alike:
                peers = every[~inside[every]]
            others = len(np.unique(names[peers]))
            if len(mine) and others:
                found.append(Reference(mine, np.sort(peers), None, alike, others >= MAJORITY))
    return found


def natural_levels(own: FloatGrid) -> FloatGrid:
    """(R,) the level of each rank's log own time (W, R), over what all have in common in a window.

    Where ranks reported different windows, their medians are of different times: of a run that
    became slower as a whole, who fell silent before would stand lower than who did not, for ever.
    So levels and what windows have in common are fitted to the cells that are known (least
    squares of a two-way layout), and what outliers do to that is taken off by medians in turns
    (median polish: Tukey, Exploratory Data Analysis, 1977, chapter 11; by itself it can stop far
    from the levels). Where all reported the same windows it is their medians. Of ranks that no
    chain of common windows joins, how their levels differ is not known; nobody compares them.
    """
    level, known = column_medians(own), np.isfinite(own)
    columns = np.flatnonzero(known.any(axis=0))
    if (known[:, columns].all(axis=1) == known.any(axis=1)).all():
        return level
    level[columns] = _two_way(own[:, columns], known[:, columns], level[columns])
    for _ in range(POLISHES):
        level = level + column_medians(own - level - _row_medians(own - level))
    return level


def levels_for(of: Sequence[Reference], own: FloatGrid) -> FloatGrid:
    """(R,) natural levels where somebody is compared with other work; else nobody needs them."""
    if all(reference.alike for reference in of):
        return np.zeros(own.shape[1])
    return natural_levels(own)


def _two_way(own: FloatGrid, known: NDArray[np.bool_], start: FloatGrid) -> FloatGrid:
    """(R,) levels a that make the sum of (own - a[r] - m[w])^2 over the known cells least.

    With m taken out these are linear equations in a alone; what they leave open stays as at the
    start.
    """
    # A fifth of a second, and needed only where ranks reported different windows.
    from scipy.sparse.linalg import LinearOperator, cg

    weight = known.astype(float)
    rows = np.maximum(weight.sum(axis=1), 1.0)
    rest = np.where(known, own - start, 0.0)

    def without_common(values: FloatGrid) -> FloatGrid:
        return np.asarray(weight.sum(axis=0) * values - weight.T @ (weight @ values / rows))

    wanted = rest.sum(axis=0) - weight.T @ (rest.sum(axis=1) / rows)
    equations = LinearOperator((len(start), len(start)), without_common, dtype=float)
    more, _ = cg(equations, wanted, rtol=SOLVED, atol=0.0, maxiter=ROUNDS)
    return np.asarray(start + more)


def residuals(own: FloatGrid, of: Sequence[Reference], level: FloatGrid | None = None) -> FloatGrid:
    """(W, R) log own time less what the peers have in common; NaN without peers.

    Args:
        own: (W, R) log own time, of windows or of blocks.
        of: Whom each is compared with.
        level: (R,) natural levels, for those that are compared with other work; None = by `own`.
    """
    rest = np.full_like(own, np.nan)
    if level is None:
        level = levels_for(of, own)
    for reference in of:
        mine = own if reference.alike else own - level
        theirs = mine[:, reference.peers]
        if reference.part is not None:
            columns = np.isin(reference.peers, reference.columns)
            less = theirs - other_parts_median(theirs, reference.part)
            rest[:, reference.peers[columns]] = less[:, columns]
        else:
            rest[:, reference.columns] = mine[:, reference.columns] - _row_medians(theirs)
    return rest


def _row_medians(cells: FloatGrid) -> FloatGrid:
    return column_medians(cells.T)[:, None]
