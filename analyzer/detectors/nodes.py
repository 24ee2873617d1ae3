"""Own time of all ranks of a node together: what slows a node a little slows each of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import (
    MEDIAN_EFFICIENCY,
    Blocks,
    Shift,
    block_means,
    blocks,
    clearest_spans,
    column_medians,
    critical_t,
    sustained,
    whole_run_spans,
)
from analyzer.slowness.peer_groups import MAJORITY, peer_groups
from analyzer.slowness.self_comparison import OWN_SHARE, own_change
from analyzer.slowness.significance import (
    STEPS_AT_LEAST,
    TRANSIENT_FLOOR,
    log_ratio,
    long_enough,
    slow_finding,
    span_edges,
)
from collector.contract.robust import MAD_TO_SIGMA

FLOOR = float(np.log(1.03))
"""The smallest slowdown of a node recorded: it is shared by several ranks, and a page needs 2 to
3 % of the step in any case (docs/method/peers.md)."""
SHARED = 0.5
"""Share of the node's excess that a rank must show for itself ..."""
MOST = 0.75
"""... as so many of the node's ranks must; of two ranks that is both."""
APART = float(np.log(1.08))
"""The smallest excess of a node from the first step on: by that much single parts differ on average
(SC22, arXiv 2208.11035 v3), the middle of a node's parts by less."""
AT_ALL = 0.25
"""Share of it that every rank must show: one without any has another node's pace."""

Members = dict[str, NDArray[np.int64]]


class Nodes:
    """The host term of docs/method/peers.md: y = work + stage + role + node + worker + noise.

    A rank's residual is its log own time minus the median of its stratum on other nodes, which
    takes work, stage and role out; the node term is the median of the residuals of its ranks, which
    a few slow ranks do not move (Tukey's median polish). Ranks without peers elsewhere, as where a
    node is a whole stage, are compared with those of all other strata, and only in how they change:
    a node that always was slower may be a heavy stage. Of two nodes that begin to differ, their
    ranks' own past decides; one that always was slower must be so beyond what the parts of one node
    differ.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """A finding of kind `slow` for each rank of a node whose ranks are slow alike.

        They are about the node, `details["node"]`, and alone they accuse no rank.
        """
        groups = blocks(grid)
        own = np.log(block_means(grid.time["own"], groups))
        peers, lone = _peers(grid)
        members = _members(grid, own, peers)
        if len(members) < 2:
            return ()
        rest = np.full_like(own, np.nan)
        level = column_medians(own)
        for column, others in peers.items():
            # Of strata that work differently only the change is comparable.
            normal = level if column in lone else np.zeros_like(level)
            mine = own[:, column] - normal[column]
            rest[:, column] = mine - column_medians((own - normal)[:, others].T)
        names = list(members)
        terms = np.column_stack([column_medians(rest[:, members[name]].T) for name in names])
        past = np.column_stack([column_medians(own[:, members[name]].T) for name in names])
        enough = len(members) >= MAJORITY
        alone = [bool(lone.intersection(members[name].tolist())) for name in names]
        found: dict[str, Shift] = {}
        for shift in clearest_spans(terms):
            compared = enough and not alone[shift.column]
            moved = compared or own_change(past, shift, shift.column) >= OWN_SHARE * shift.effect
            if alone[shift.column] and not _alone_moved(past, shift):
                continue
            if moved and _became(groups, terms, shift, compared):
                found[names[shift.column]] = shift
        spread = _spread(rest, [members[name] for name in names])
        for shift in whole_run_spans(terms):
            heavy = alone[shift.column]
            if not heavy and _always(groups, terms, shift, spread[shift.column]):
                found.setdefault(names[shift.column], shift)
        return [
            finding
            for name, shift in found.items()
            for finding in _findings(grid, groups, rest, shift, members[name], peers, name)
        ]


def _peers(grid: Grid) -> tuple[dict[int, NDArray[np.int64]], frozenset[int]]:
    """(column -> the columns of its stratum on other nodes, those that have none there).

    These have the ranks of all other strata: a node that is a whole stage.
    """
    nodes = np.array([info.node for info in grid.ranks])
    strata = list(peer_groups(grid).values())
    every = np.concatenate(strata) if strata else np.empty(0, dtype=np.int64)
    found, lone = {}, set()
    for columns in strata:
        for column in columns.tolist():
            others = columns[nodes[columns] != nodes[column]]
            if not len(others):
                lone.add(column)
                others = every[nodes[every] != nodes[column]]
            if len(others):
                found[column] = others
    return found, frozenset(lone)


def _members(grid: Grid, own: FloatGrid, peers: dict[int, NDArray[np.int64]]) -> Members:
    """Node -> its ranks that told steps, for nodes of two and more that all have peers."""
    told: dict[str, list[int]] = {}
    for column, info in enumerate(grid.ranks):
        if np.isfinite(own[:, column]).any():
            told.setdefault(info.node, []).append(column)
    return {
        node: np.array(columns)
        for node, columns in told.items()
        if len(columns) >= 2 and all(column in peers for column in columns)
    }


def _alone_moved(past: FloatGrid, shift: Shift) -> bool:
    """Whether the other nodes stayed as they were: else all work more, each by its own factor."""
    inside = np.zeros(len(past), dtype=bool)
    inside[shift.first : shift.last] = True
    moves = column_medians(past[inside]) - column_medians(past[~inside])
    return bool((np.abs(np.delete(moves, shift.column)) <= AT_ALL * shift.effect).all())


def _became(groups: Blocks, terms: FloatGrid, shift: Shift, enough: bool) -> bool:
    ended = shift.last < len(groups)
    steps = (shift.last - shift.first) * groups.steps
    return (
        shift.score >= shift.critical
        and shift.effect >= (TRANSIENT_FLOOR if ended else FLOOR)
        and long_enough(steps, len(groups) * groups.steps, ended=ended)
        and (not enough or shift.inside >= shift.effect / 2)
        and sustained(terms, shift)
    )


def _spread(rest: FloatGrid, nodes: list[NDArray[np.int64]]) -> list[float]:
    """Of each node the term that parts which differ at random reach with a chance of FALSE_ALARM.

    How parts differ is seen inside the nodes: the middle of n of them is off by a median's standard
    error.
    """
    levels = [column_medians(rest[:, columns]) for columns in nodes]
    apart = np.concatenate([each - np.nanmedian(each) for each in levels])
    sigma = MAD_TO_SIGMA * float(np.nanmedian(np.abs(apart)))
    asked = critical_t(len(apart), 1, len(nodes))
    return [
        asked * MEDIAN_EFFICIENCY * sigma * float(np.sqrt(1 / n + 1 / (len(apart) - n)))
        for n in map(len, levels)
    ]


def _always(groups: Blocks, terms: FloatGrid, shift: Shift, spread: float) -> bool:
    return (
        shift.score >= shift.critical
        and shift.effect >= max(APART, spread)
        and len(groups) * groups.steps >= STEPS_AT_LEAST
        and sustained(terms, shift)
    )


def _findings(
    grid: Grid, groups: Blocks, rest: FloatGrid, shift: Shift, columns: NDArray[np.int64],
    peers: dict[int, NDArray[np.int64]], node: str,
) -> Iterator[Finding]:  # fmt: skip
    """One a rank, if the ranks share the excess; their span is the node's."""
    inside = np.zeros(len(rest), dtype=bool)
    inside[shift.first : shift.last] = True
    level = column_medians(rest[inside][:, columns])
    effects = level - (0.0 if inside.all() else column_medians(rest[~inside][:, columns]))
    if not (
        np.mean(effects >= SHARED * shift.effect) >= MOST
        and (effects >= AT_ALL * shift.effect).all()
    ):
        return
    windows = np.concatenate(groups.members)
    ratios = np.column_stack([log_ratio(grid, windows, c, peers[c]) for c in columns.tolist()])
    edges = span_edges(groups, shift, column_medians(ratios.T))
    for column, effect, high in zip(
        columns.tolist(), effects.tolist(), level.tolist(), strict=True
    ):
        mine = replace(shift, column=column, effect=effect, inside=high)
        finding = slow_finding(grid, groups, mine, peers[column], "nodes", edges)
        yield replace(finding, details={**finding.details, "node": node})
