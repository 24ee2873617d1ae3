"""Transfers between nodes that take longer while every rank works as before: the network."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyzer.model.accepted import log_chance
from analyzer.model.precision import WINDOWS
from analyzer.model.spans import last_blocks, newest_spans
from analyzer.readers.places import places_of
from analyzer.run import Finding, FloatGrid, Grid
from analyzer.shared_part import NODE, Part, parts_of_nodes
from analyzer.slowness.changepoint import Blocks, Shift, blocks, clearest_spans, refine, sustained
from analyzer.slowness.group_transfers import FLOOR, OWN, grown, slow_groups
from analyzer.slowness.on_and_off import (
    EPISODES_AT_LEAST,
    ON_SIGMAS,
    blocks_of,
    on_and_off,
)
from analyzer.slowness.robust_stats import NOTHING, WITHIN
from analyzer.slowness.transfers import by_block, mean, median, transfers
from analyzer.symptoms.network import BAD_LINK, FULL_LINK, SPEEDS, movements, standing
from analyzer.symptoms.shared_link import listed, nodes_of, suspects

TIMES = 3.0
"""Three of four transfers take this many times the usual one, and half the floor. With a link fault
of 1.3 to 2.0 they took from 0.10 of a step; without, on two cores that up to twenty processes
wanted, at most 0.001, where medians alone once passed the floor (measured, 6 and 4 runs)."""
MEAN_FLOOR = 0.03
"""Of a usual step, with counters that moved; of what comes and goes by the mean."""
BY_GROUPS = "groups"
"""`details["by"]` of a link that nothing but slow and healthy groups tells of."""
COUNTERS = (*SPEEDS, *BAD_LINK, *FULL_LINK)


class Links:
    """Transfer = least collective seconds in the data-parallel group: the last to come only sends.

    Durations alone cannot tell which link of a ring is slow: all its ranks wait alike. So a link
    is accused where a node's own counters moved and the others' did not, or where the group has
    two nodes, between which there is one way, or a leaf or rack where all of its nodes' counters
    moved and nobody else's. Where several data-parallel groups run at once and some stay as they
    were, the part that all slow ones use and no healthy one is accused. Otherwise the finding says
    that it is the network and accuses nobody (docs/method/waits.md).

    Times alone must be far from usual, because a lack of processors lengthens transfers as well;
    with counters that moved they must be longer in most steps. With pipeline stages collectives
    hold bubbles, and only times with counters tell, or groups. A window in which a rank did not
    tell says nothing: all may wait for it.
    """

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """At most one finding: `link` accuses, `network` does not."""
        if len({info.node for info in grid.ranks}) < 2:
            return ()
        groups = blocks(grid)
        usual = median(grid.time["wall"][~grid.masked])
        transfer = transfers(grid)
        if not groups.members or not np.isfinite(usual):
            return ()
        for shape in (_spans, _again_and_again, _newest_spans):
            found = shape(grid, groups, transfer, usual)
            if found is not None:
                return (found,)
        return ()


def _spans(grid: Grid, groups: Blocks, transfer: FloatGrid, usual: float) -> Finding | None:
    """A span of the whole run."""
    by_groups: Finding | None = None
    for series in by_block(transfer, groups, usual):
        for shift in clearest_spans(series):
            if shift.score >= shift.critical:
                found, sure = _of_span(grid, groups, series, shift, transfer, usual)
                if sure:
                    return found
                by_groups = by_groups or found
    return by_groups


def _newest_spans(grid: Grid, groups: Blocks, transfer: FloatGrid, usual: float) -> Finding | None:
    """What began only just now, as of ranks: large and, at once, somebody's."""
    last = last_blocks(grid, np.concatenate(groups.members))
    for series in by_block(transfer, last, usual):
        for shift in newest_spans(series, last):
            if shift.effect >= FLOOR:
                found, sure = _of_span(grid, last, series, shift, transfer, usual)
                if found is not None and sure and found.kind == "link":
                    return found
    return None


def _of_span(
    grid: Grid, groups: Blocks, series: FloatGrid, shift: Shift, transfer: FloatGrid, usual: float
) -> tuple[Finding | None, bool]:
    """What a span is, and whether times or counters alone say so."""
    stages = len({info.pp for info in grid.ranks})
    inside = np.concatenate(groups.members[shift.first : shift.last])
    outside = np.setdiff1d(np.concatenate(groups.members), inside)
    now, then = median(transfer[inside]), median(transfer[outside])
    ended = shift.last < len(groups)
    steps = WINDOWS.transient_steps if ended else WINDOWS.steps
    if (
        now - then < MEAN_FLOOR * usual
        or (shift.last - shift.first) * groups.steps < steps
        or not sustained(series, shift)
    ):
        return None, False
    # In the only group the last to come waits for nobody. Of several each waits for what others do
    # before and beside it as well: for a rank whose own time grew, or nobody knows.
    several = len({(info.pp, info.tp) for info in grid.ranks}) > 1
    if several and grown(grid, inside, outside) >= OWN * (now - then):
        return None, False
    mostly = _in_most_steps(transfer[inside])
    large = now - then >= FLOOR * usual
    clear = large and stages == 1 and mostly >= max(FLOOR / 2 * usual, TIMES * then)
    longer = mostly >= (then + now) / 2
    moved = longer and bool(movements(grid, inside, outside, COUNTERS))
    if not (clear or moved or (large and longer and stages > 1)):
        return None, False
    found = _finding(grid, groups, shift, transfer, (then, now), inside, outside)
    if found.kind == "link" and (clear or moved):
        return found, True
    if stages == 1 and not clear:
        return None, False
    told = _by_groups(grid, found, inside, outside)
    return (told or found, True) if clear else (told, False)


def _again_and_again(
    grid: Grid, groups: Blocks, transfer: FloatGrid, usual: float
) -> Finding | None:
    """A link that is slow on and off, of which one node's counters tell; None without.

    Times alone would not do: whoever computes unevenly lets the others wait as well. Of one that is
    there from the first step on the counters must move with each turn: there is no time before.
    """
    usable = np.concatenate(groups.members)
    seen = on_and_off(transfer[usable] / usual, least=FLOOR / 2, most=1.0)
    if (
        seen is None
        or seen.mean < ON_SIGMAS * seen.error
        or seen.inside < MEAN_FLOOR
        or seen.episodes < EPISODES_AT_LEAST
    ):
        return None
    first = int(usable[seen.begin])
    last = None if seen.stop is None else int(usable[seen.stop - 1]) + 1
    score = seen.mean / seen.error
    shift = Shift(0, *blocks_of(groups, first, last), seen.inside, seen.error, score, ON_SIGMAS,
                  seen.inside)  # fmt: skip
    span = usable[seen.begin : seen.stop], usable[: seen.begin]
    # Counters that move with each turn are its own; by design, as of every n-th step, none move.
    for inside, outside in (span, (usable[seen.on], usable[~seen.on])):
        then, now = (mean(transfer[some]) for some in (outside, inside))
        # Else the others wait for a rank, or nobody knows.
        if now > then and grown(grid, inside, outside) < OWN * (now - then):
            edges = first, last
            found = _finding(grid, groups, shift, transfer, (then, now), inside, outside, edges)
            if found.details["node"] or found.details["part_nodes"]:
                return found
    return None


def _in_most_steps(cells: FloatGrid) -> float:
    """The lower quartile: a slow link slows every transfer, a lack of processors only some."""
    there = cells[np.isfinite(cells)]
    return float(np.quantile(there, 0.25)) if there.size else 0.0


def _finding(
    grid: Grid, groups: Blocks, shift: Shift, transfer: FloatGrid, seconds: tuple[float, float],
    inside: NDArray[np.int64], outside: NDArray[np.int64],
    edges: tuple[int, int | None] | None = None,
) -> Finding:  # fmt: skip
    then, now = seconds
    first, last = _edges(groups, shift, transfer, seconds) if edges is None else edges
    nodes = list(dict.fromkeys(info.node for info in grid.ranks))
    moved = movements(grid, inside, outside, COUNTERS)
    named = list(dict.fromkeys(each.node for each in moved))
    node = named[0] if len(named) == 1 else None
    parts = parts_of_nodes(named, nodes, places_of(grid.meta))
    part = " and ".join(map(str, parts)) or None
    two = len(nodes) == 2
    wall = median(grid.time["wall"][inside])
    slowdown = wall / max(wall - (now - then), NOTHING)
    margin = WITHIN * shift.error / max(shift.effect, NOTHING) * (slowdown - 1.0)
    step = int(grid.from_step[first])
    text = (
        f"transfers between {_listed(nodes)} take {now * 1e3:.1f} ms a step from step {step},"
        f" {then * 1e3:.1f} ms before; the last rank to come waits as long: it is the network"
    )
    if part is not None:
        text += f"; {_listed(named)} count trouble, all of {part} and nobody else: it is theirs"
    elif not two and node is None:
        text += f", and {_whose(grid, inside, outside, len(nodes))}"
    details: dict[str, Any] = {
        "critical_score": shift.critical,
        "nodes": nodes,
        "node": node,
        "link": part if part else f"{nodes[0]} -- {nodes[1]}" if two else node,
        "part_nodes": named if part else [],
        "transfer_seconds": now,
        "transfer_seconds_before": then,
    }
    found = Finding(
        detector="links",
        kind="link" if two or node is not None or part is not None else "network",
        rank=None,
        first=first,
        last=last,
        slowdown=slowdown,
        interval=(max(slowdown - margin, 1.0), slowdown + margin),
        score=shift.score,
        share={},
        text=text,
        details=details,
    )
    if two or not named:
        return found
    # Whose link it is nobody knows better than that its counters moved and did not by chance.
    theirs = max(min(each.log_chance for each in moved if each.node == name) for name in named)
    sure = max(log_chance(found, len(grid.ranks)), theirs)
    return replace(found, details={**details, "log_chance": sure})


def _by_groups(
    grid: Grid, found: Finding, inside: NDArray[np.int64], outside: NDArray[np.int64]
) -> Finding | None:
    """The finding with the part that only slow groups use, or those it may be; None without."""
    groups = slow_groups(grid, inside, outside)
    parts = () if groups is None else suspects(grid, groups)
    if groups is None or not parts:
        return None
    count, step = len(groups.slow) + len(groups.healthy), int(grid.from_step[found.first])
    text = (
        f"transfers of {len(groups.slow)} of {count} data-parallel groups take"
        f" {groups.seconds * 1e3:.1f} ms a step longer from step {step}, the others' do not and"
        f" no rank's own time grew: it is the network; {listed(parts)} alone is in"
        " all slow groups and in no healthy one"
    )
    if len(parts) > 1:
        return replace(found, kind="network", text=f"{text}, and nobody knows which")
    (part,) = parts
    is_node = part in {Part(NODE, info.node) for info in grid.ranks}
    details = {
        "node": part.name if is_node else None,
        "link": str(part),
        "part_nodes": list(nodes_of(grid, part)),
        "by": BY_GROUPS,
    }
    return replace(found, kind="link", text=text, details={**found.details, **details})


def _whose(grid: Grid, inside: NDArray[np.int64], outside: NDArray[np.int64], nodes: int) -> str:
    """Why no link is accused: the fabric is full, or nobody counts what would tell.

    Many nodes that wait and no link with errors are congestion (docs/method/causes.md).
    """
    bad, full = (
        {each.node for each in movements(grid, inside, outside, wanted, beyond_others=False)}
        for wanted in ((*SPEEDS, *BAD_LINK), FULL_LINK)
    )
    if 2 * len(full) >= nodes and not bad and not standing(grid, BAD_LINK):
        return (
            f"packets wait on {len(full)} of {nodes} nodes while no link counts errors: the fabric"
            " is full, not one link bad"
        )
    stand = "; ".join(text for texts in standing(grid, COUNTERS).values() for text in texts)
    unknown = f" (at their maximum, and so unknown: {stand})" if stand else ""
    return f"no node counts what would tell whose link it is{unknown}"


def _edges(
    groups: Blocks, shift: Shift, transfer: FloatGrid, levels: tuple[float, float]
) -> tuple[int, int | None]:
    """First window and the one after the last (None = to the end), from blocks to windows."""
    first = groups.first(shift.first)
    usable = np.concatenate(groups.members)
    begin, _ = refine(transfer[usable], *levels)
    fine = int(usable[min(begin, len(usable) - 1)])
    # Beyond two blocks it is another span that single steps happen to fit better.
    near = abs(fine - first) <= 2 * groups.steps
    last = None if shift.last == len(groups) else groups.stop(shift.last)
    return fine if near and shift.first > 0 else first, last


def _listed(nodes: Sequence[str]) -> str:
    return " and ".join(nodes) if len(nodes) < 3 else f"{len(nodes)} nodes"
