"""Who can be slow: a rank, all of a node, a leaf, a rack or a stage; its own time over others'."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.common_writes import PAUSES
from lockstep.analyzer.read.places import places_of
from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.stats.changepoint import Blocks, block_means, blocks, column_medians
from lockstep.analyzer.stats.peer_groups import peer_groups
from lockstep.analyzer.stats.shared_part import DRAINED, Part
from lockstep.analyzer.stragglers.model.precision import WINDOWS, Precision
from lockstep.analyzer.stragglers.model.reference import (
    Reference,
    levels_for,
    natural_levels,
    part_references,
    references,
    residuals,
    stage_references,
)
from lockstep.collector.contract.words import Phase


@dataclass(frozen=True, slots=True)
class Scope:
    """A possible culprit.

    Attributes:
        node: The node, or None.
        stage: The pipeline stage, over several nodes, or None.
        columns: Its ranks.
        peers: The ranks that it is compared with.
        alike: Whether these do the same work.
        majority: Whether they are enough to tell who of two changed.
        part: The leaf or rack, or None.
    """

    node: str | None
    stage: int | None
    columns: NDArray[np.int64]
    peers: NDArray[np.int64]
    alike: bool
    majority: bool
    part: Part | None = None

    @property
    def is_rank(self) -> bool:
        """Whether it is one rank for itself."""
        return self.node is None and self.stage is None and self.part is None


@dataclass(frozen=True, slots=True)
class View:
    """A table in blocks of windows.

    Attributes:
        groups: The blocks.
        own: (B, S) log of the mean own time of the scopes.
        ranks: (B, R) of each rank over its peers'.
        rest: (B, S) the same of the scopes.
    """

    groups: Blocks
    own: FloatGrid
    ranks: FloatGrid
    rest: FloatGrid


@dataclass(frozen=True)
class Table:
    """Scopes of one kind beside each other, S of them.

    Attributes:
        grid: The run's windows.
        precision: What these can show.
        scopes: Who.
        of: Whom their ranks are compared with.
        level: (R,) the natural level of each rank's log own time, by its windows: blocks of what
            comes and goes have another middle; 0 where all are compared with their like.
        usable: (n,) windows that count.
        ranks: (n, R) log own time of each rank over its peers', in these windows.
        rest: (n, S) the same of each scope: the middle of its ranks'.
        whole: All of it in blocks.
    """

    grid: Grid
    precision: Precision
    scopes: tuple[Scope, ...]
    of: tuple[Reference, ...]
    level: FloatGrid
    usable: NDArray[np.int64]
    ranks: FloatGrid
    rest: FloatGrid
    whole: View

    @property
    def peers(self) -> int:
        """How many scopes of its kind the one with the fewest is compared with."""
        nodes = {column: info.node for column, info in enumerate(self.grid.ranks)}
        if self.scopes[0].is_rank:
            return min(len(scope.peers) for scope in self.scopes)
        return min(len({nodes[c] for c in scope.peers.tolist()}) for scope in self.scopes)

    def same_work(self, scope: Scope) -> bool:
        """Whether it and its peers are of one peer group, if too few to be a ruler."""
        everybody = np.concatenate([scope.columns, scope.peers])
        groups = peer_groups(self.grid).values()
        return any(np.isin(everybody, columns).all() for columns in groups)

    def floor(self, scope: Scope) -> float:
        """The smallest log slowdown of a scope that is worth a word."""
        return self.precision.floor if scope.is_rank else self.precision.node_floor

    def view(self, groups: Blocks) -> View:
        """In some blocks of the windows."""
        if groups is self.whole.groups:
            return self.whole
        return _view(self.grid, self.scopes, self.of, groups, self.level)

    def levels_without(self, scope: Scope) -> FloatGrid:
        """(R,) levels of the others, compared with nobody of the scope; NaN without peers alike."""
        own = np.log(block_means(self.grid.time["own"], self.whole.groups))
        own[:, scope.columns] = np.nan
        alike = [reference for reference in self.of if reference.alike]
        return column_medians(residuals(own, alike))

    @cached_property
    def without_writes(self) -> tuple[FloatGrid, FloatGrid, FloatGrid]:
        """(n, R) log own time and (n, R) its residuals, both without levels; (n, S) of the scopes.

        Without windows with checkpoints: scrapes cut them into different windows, and who writes
        for all is slow again and again by design.
        """
        own, written = (self.grid.time[name][self.usable] for name in ("own", Phase.CHECKPOINT))
        with np.errstate(invalid="ignore"):
            own = np.log(np.where(written >= PAUSES * own, np.nan, own))
        own = own - natural_levels(own)
        ranks = residuals(own, self.of, np.zeros(own.shape[1]))
        return own, ranks, middles(ranks, self.scopes)


def tables(grid: Grid, precision: Precision = WINDOWS) -> tuple[Table, ...]:
    """The ranks; the nodes of two ranks and more; leaves, racks and stages of two nodes and more.

    Args:
        grid: The run's windows.
        precision: What these can show.
    """
    usable = np.flatnonzero(~grid.masked & np.isfinite(grid.time["own"]).any(axis=1))
    own = np.log(grid.time["own"][usable])
    there = np.asarray(np.isfinite(own).any(axis=0))
    found, groups = [], blocks(grid, least=precision.block_steps)
    ranks_of, nodes_of = references(grid, of_nodes=False), references(grid, of_nodes=True)
    stages_of = stage_references(grid)
    kinds = (
        (ranks_of, _ranks(ranks_of)),
        (nodes_of, _nodes(grid, nodes_of, there)),
        *(_parts(grid, kind, there) for kind in DRAINED),
        (stages_of, _stages(grid, stages_of)),
    )
    for of, some in kinds:
        if some and len(usable):
            level = levels_for(of, own)
            ranks = residuals(own, of, level)
            whole = _view(grid, some, of, groups, level)
            found.append(
                Table(grid, precision, some, tuple(of), level, usable, ranks, middles(ranks, some),
                      whole)
            )  # fmt: skip
    return tuple(found)


def _view(
    grid: Grid, some: Sequence[Scope], of: Sequence[Reference], groups: Blocks, level: FloatGrid
) -> View:
    own = np.log(block_means(grid.time["own"], groups))
    ranks = residuals(own, of, level)
    return View(groups, middles(own, some), ranks, middles(ranks, some))


def _ranks(of: Sequence[Reference]) -> tuple[Scope, ...]:
    return tuple(
        Scope(
            None,
            None,
            np.array([column]),
            reference.peers[reference.peers != column],
            reference.alike,
            reference.majority,
        )
        for reference in of
        for column in reference.columns.tolist()
    )


def _nodes(grid: Grid, of: Sequence[Reference], there: NDArray[np.bool_]) -> tuple[Scope, ...]:
    """Nodes of which every rank that told steps has somebody to be compared with."""
    count_of: dict[str, int] = {}
    for column in np.flatnonzero(there).tolist():
        node = grid.ranks[column].node
        count_of[node] = count_of.get(node, 0) + 1
    mine: dict[str, list[tuple[Reference, NDArray[np.int64], NDArray[np.int64]]]] = {}
    for reference in of:
        for columns, peers in reference.parts():
            node = grid.ranks[int(columns[0])].node
            mine.setdefault(node, []).append((reference, columns, peers))
    scopes = []
    for node, parts in mine.items():
        every = np.concatenate([columns for _, columns, _ in parts])
        if len(every) >= 2 and len(every) == count_of.get(node):
            whom = np.unique(np.concatenate([peers for _, _, peers in parts]))
            scopes.append(
                Scope(node, None, every, whom, all(reference.alike for reference, _, _ in parts),
                      all(reference.majority for reference, _, _ in parts))
            )  # fmt: skip
    return tuple(scopes) if len(scopes) > 1 else ()


def _parts(
    grid: Grid, kind: str, there: NDArray[np.bool_]
) -> tuple[list[Reference], tuple[Scope, ...]]:
    """Leaves or racks of two nodes and more in the run, with two and more elsewhere.

    Of a part some of whose nodes are not seen it is not known whether all of it is slow.
    """
    seen_nodes = {grid.ranks[column].node for column in np.flatnonzero(there).tolist()}
    everybody = {info.node for info in grid.ranks}
    standing: dict[str, set[str]] = {}
    for node, places in places_of(grid.meta).items():
        if node in everybody and kind in places:
            standing.setdefault(places[kind], set()).add(node)
    parts = {
        name: frozenset(nodes)
        for name, nodes in standing.items()
        if nodes <= seen_nodes and len(nodes) >= 2 and len(seen_nodes - nodes) >= 2
    }
    of = part_references(grid, list(parts.values()))
    scopes = []
    for name, nodes in parts.items():
        mine = [
            reference for reference in of if grid.ranks[int(reference.columns[0])].node in nodes
        ]
        columns = [reference.columns for reference in mine]
        ranks = sum(info.node in nodes for info in grid.ranks)
        # A part without a peer elsewhere cannot be distinguished from the stages that it holds.
        if any(reference.alike for reference in mine) and len(np.concatenate(columns)) == ranks:
            scopes.append(
                Scope(
                    None, None, np.concatenate(columns),
                    np.unique(np.concatenate([reference.peers for reference in mine])),
                    all(reference.alike for reference in mine),
                    all(reference.majority for reference in mine),
                    Part(kind, name),
                )
            )  # fmt: skip
    kept = {int(column) for scope in scopes for column in scope.columns}
    return [reference for reference in of if int(reference.columns[0]) in kept], tuple(scopes)


def _stages(grid: Grid, of: Sequence[Reference]) -> tuple[Scope, ...]:
    """Stages of several nodes: one on a single node cannot be distinguished from it."""
    return tuple(
        Scope(None, grid.ranks[int(reference.columns[0])].pp, reference.columns, reference.peers,
              reference.alike, reference.majority)
        for reference in of
        if len({grid.ranks[column].node for column in reference.columns.tolist()}) > 1
    )  # fmt: skip


def middles(ranks: FloatGrid, some: Sequence[Scope]) -> FloatGrid:
    """(n, S) the middle of the ranks (n, R) of each scope."""
    return np.column_stack(
        [
            ranks[:, scope.columns[0]]
            if len(scope.columns) == 1
            else column_medians(ranks[:, scope.columns].T)
            for scope in some
        ]
    )
