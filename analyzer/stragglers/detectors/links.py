"""Transfers between nodes that take longer while every rank works as before: the network."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lockstep.analyzer.causes.symptoms.network_counters import (
    BAD_LINK,
    FULL_LINK,
    ROUND_TRIP,
    SPEEDS,
    Movement,
    counted,
    held_back,
    matters,
    movements,
    standing,
    whose,
)
from lockstep.analyzer.causes.symptoms.series import tolerance
from lockstep.analyzer.causes.symptoms.shared_link import listed, nodes_of, suspects
from lockstep.analyzer.read.places import places_of
from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.shapes.wording import ENDS, milliseconds
from lockstep.analyzer.stats.changepoint import (
    BLOCKS_AT_LEAST,
    FALSE_ALARM,
    NOISE_FLOOR,
    Blocks,
    Shift,
    autocorrelation_factor,
    blocks,
    clearest_spans,
    critical_t,
    sustained,
)
from lockstep.analyzer.stats.robust_stats import NOTHING, WITHIN, mean_of, median_of, shows
from lockstep.analyzer.stats.shared_part import DRAINED, NODE, Part, parts_of_nodes
from lockstep.analyzer.stats.significance import WAKES_BY_BOUND, span_edges
from lockstep.analyzer.stats.temporal_shape import (
    EPISODES_AT_LEAST,
    LEAST_TURNS,
    OnAndOff,
    blocks_of,
    on_and_off,
)
from lockstep.analyzer.stats.transfers import (
    FLOOR,
    by_block,
    grown,
    in_most,
    of_those_who_told,
    slow_groups,
    transfers,
)
from lockstep.analyzer.stragglers.confidence import log_chance
from lockstep.analyzer.stragglers.model.precision import WINDOWS
from lockstep.analyzer.stragglers.model.ramps import LEVEL_SHARE, fitted
from lockstep.analyzer.stragglers.model.spans import last_blocks, newest_spans
from lockstep.collector.contract.metrics import NODE_INFO

TIMES = 3.0
"""Three of four transfers take this many times the usual one, and half the floor. With a link fault
of 1.3 to 2.0 they took from 0.10 of a step; without, on two cores that up to twenty processes
wanted, at most 0.001, where medians alone once passed the floor (measured, 6 and 4 runs)."""
MEAN_FLOOR = WAKES_BY_BOUND
"""Of a usual step, with counters that moved; of what comes and goes by the mean."""
FULL = "waiting_nodes"
"""`details` of a finding that accuses nobody: on how many nodes packets wait, while no link counts
errors; 0 where that is less than half."""
BY_GROUPS = "groups"
"""`details["by"]` of a link that only slow and healthy groups show."""
COUNTERS = (*SPEEDS, *BAD_LINK, *FULL_LINK, ROUND_TRIP)


def links(grid: Grid) -> Sequence[Finding]:
    """Findings of kind `link`, which accuse, or one of kind `network`, which does not.

    Transfer = least collective seconds in the data-parallel group: the last to come only sends.
    Durations alone cannot tell which link of a ring is slow: all its ranks wait alike. So a link
    is accused where a node's own counters moved with the transfers and the others' did not, or
    where the group has two nodes, between which there is one way, or a leaf or rack where all of
    its nodes' counters moved and nobody else's. Where several data-parallel groups run at once and
    some stay as they were, the part that all slow ones use and no healthy one is accused. Otherwise
    the finding says that it is the network and accuses nobody (docs/method/waits.md).

    Times alone must be far from usual, because a lack of processors lengthens transfers as well,
    and accuse nobody where a rank's CPU quota holds it back; with counters that moved they must be
    longer in most steps. With pipeline stages collectives hold bubbles, and only times with
    counters tell, or groups. A window in which a rank did not report says nothing: all may wait for
    it.

    Beside the clearest link another one is accused of what transfers take longer at another time.
    """
    findings: list[Finding] = []
    while (finding := _clearest(grid)) is not None and (finding.kind == "link" or not findings):
        if not any(_nodes_of(finding) & _nodes_of(other) for other in findings):
            findings.append(finding)
        grid = replace(grid, masked=grid.masked | finding.inside(grid))
        if finding.kind != "link":
            break
    return findings


def _nodes_of(finding: Finding) -> set[str]:
    """The nodes whose links a finding is about."""
    node = finding.details["node"]
    return set(finding.details["part_nodes"] or ([node] if node else finding.details["nodes"]))


def _clearest(grid: Grid) -> Finding | None:
    """The finding that says most, of all times at which transfers take longer; None without."""
    groups = blocks(grid)
    usual = median_of(grid.time["wall"][~grid.masked])
    if len({info.node for info in grid.ranks}) < 2 or not groups.members or not usual > 0:
        return None
    transfer = transfers(grid)
    candidates = (
        *_spans(grid, groups, transfer, usual),
        *_again_and_again(grid, groups, transfer, usual),
        *_with_a_counter(grid, groups, usual),
        *_ramp(grid, groups, transfer, usual),
    )
    findings = [
        finding
        for longer in candidates
        if (finding := _judged(grid, longer, transfer, usual)) is not None
    ]
    if one_host(grid):
        findings = [_of_one_host(finding) for finding in findings]
    # Who tells whose it is explains more than who only tells that it is the network; and what
    # transfers tell by themselves more than what they tell at a time that a counter knows.
    return min(
        findings,
        key=lambda finding: (
            finding.kind != "link",
            finding.score < finding.details["critical_score"],
        ),
        default=None,
    )


def one_host(grid: Grid) -> bool:
    """Whether all nodes are one host, so that no link is between them.

    As run.json says of emulated nodes without an emulated network, or as they tell the same boot:
    of an emulated network each node has a boot of its own in no page, and run.json says so.
    """
    if grid.meta.get("emulated_network") is True:
        return False
    if grid.meta.get("emulated_nodes") is True:
        return True
    boots: dict[int, str] = {}
    for series, values in grid.last.items():
        name, _, words = series.partition("{")
        if name == NODE_INFO.name:
            boot = parsed(words).get("boot_id", "")
            boots |= dict.fromkeys(np.flatnonzero(np.isfinite(values)).tolist(), boot)
    return (
        len(boots) == len(grid.ranks) and "" not in boots.values() and len({*boots.values()}) == 1
    )


def _of_one_host(finding: Finding) -> Finding:
    """The finding without a link: what exchanges of one host wait for are its processors."""
    text = (
        f"exchanges take {milliseconds(finding.details['transfer_seconds'])} a step,"
        f" {milliseconds(finding.details['transfer_seconds_before'])} in the other steps; all nodes"
        " of the run are one host, without a link between them: its processors or memory are short"
    )
    return replace(finding, kind="network", text=text, details={**finding.details, FULL: 0})


class _Longer(NamedTuple):
    """Windows in which transfers take longer.

    `groups`, `shift`: the blocks that were looked at, and the span in them. `inside`, `outside`:
    windows with longer transfers, and without; `seconds` a step there, outside first. `edges`: its
    first window and the one after the last (None = to the end). `lasts`: whether it is long in most
    of its windows, and not again and again. `by`: where a node's counter tells when, the columns of
    those whose transfers these are.
    """

    groups: Blocks
    shift: Shift
    inside: NDArray[np.int64]
    outside: NDArray[np.int64]
    seconds: tuple[float, float]
    edges: tuple[int, int | None]
    lasts: bool
    by: NDArray[np.int64] | None = None


def _spans(grid: Grid, groups: Blocks, transfer: FloatGrid, usual: float) -> Iterator[_Longer]:
    """Spans of the whole run; then what began only just now, as of ranks, where that is large."""
    last = last_blocks(grid, np.concatenate(groups.members))
    for some, series in product((groups, last), (0, 1)):
        cells = by_block(transfer, some, usual)[series]
        spans = clearest_spans(cells) if some is groups else newest_spans(cells, last)
        for shift in spans:
            small = some is last and shift.effect < FLOOR
            # At a time that a counter knows; whether one does is judged there.
            if small or shift.score < critical_t(len(some), 1, 1) or not sustained(cells, shift):
                continue
            inside = np.concatenate(some.members[shift.first : shift.last])
            outside = np.setdiff1d(np.concatenate(some.members), inside)
            seconds = median_of(transfer[outside]), median_of(transfer[inside])
            edges = span_edges(some, shift, transfer[np.concatenate(some.members)] / usual)
            yield _Longer(some, shift, inside, outside, seconds, edges, lasts=True)


def _ramp(grid: Grid, groups: Blocks, transfer: FloatGrid, usual: float) -> Iterator[_Longer]:
    """What grows, of which no span has a level.

    Its size is that of its middle, from where on transfers take longer for certain.
    """
    _, means = by_block(transfer, groups, usual)
    flat = slice(0, max(len(groups) // LEVEL_SHARE, 2))
    if np.isfinite(means).sum() < 2 * LEVEL_SHARE:
        return
    for shift, climbs, _ in fitted(means[:, 0], 0.0, flat, NOISE_FLOOR):
        asked = critical_t(len(groups), 1, len(groups))
        if climbs and shift.score >= asked:
            grows = np.concatenate(groups.members[shift.first :])
            high = np.concatenate(groups.members[(shift.first + shift.last) // 2 :])
            outside = np.setdiff1d(np.concatenate(groups.members), grows)
            seconds = median_of(transfer[outside]), median_of(transfer[grows])
            edges, told = (groups.first(shift.first), None), replace(shift, critical=asked)
            yield _Longer(groups, told, high, outside, seconds, edges, lasts=True)


def _again_and_again(
    grid: Grid, groups: Blocks, transfer: FloatGrid, usual: float
) -> Iterator[_Longer]:
    """A span in which they take longer on and off; then the windows in which they do.

    What chance can do is what the windows outside show: bubbles of a pipeline are long now and
    then. Of one that is there from the first step on there are none, and counters must move with
    each turn; by design, as of every n-th step, none move. Where ranks fell silent, when they take
    longer is told by the others, and by how much by the windows in which all reported.
    """
    usable = np.concatenate(groups.members)
    bound, _ = of_those_who_told(grid, _end(groups))
    seen = on_and_off(bound[usable] / usual, least=FLOOR / 2, most=1.0)
    if seen is None or seen.episodes < EPISODES_AT_LEAST:
        return
    span = _span_of(seen)
    shares = np.minimum(bound[usable], usual) / usual
    score, asked = _by_chance(shares[span], shares[~span])
    edges, blocks_in = _edges(groups, seen)
    shift = Shift(0, *blocks_in, seen.inside, seen.error, score, asked, seen.inside)
    for on in (span, seen.on):
        inside, outside = usable[on], usable[~on]
        seconds = mean_of(transfer[outside]), mean_of(transfer[inside])
        yield _Longer(groups, shift, inside, outside, seconds, edges, lasts=False)


def _with_a_counter(grid: Grid, groups: Blocks, usual: float) -> Iterator[_Longer]:
    """The windows in which a link counter of a node is high, of the clearest, and those between.

    Where the counter says when, transfers need not stand out of their noise one by one. Nor must
    all ranks tell: whoever fell silent may be the one that the others wait for, but not in step
    with the link of another node.
    """
    usable = np.concatenate(groups.members)
    bound, there = of_those_who_told(grid, _end(groups))
    shares = np.minimum(bound[usable], usual) / usual
    counters = [(metric, cells) for metric in (*BAD_LINK, *FULL_LINK)
                if (cells := counted(grid, metric)) is not None]  # fmt: skip
    firsts = {info.node: column for column, info in reversed(list(enumerate(grid.ranks)))}
    best: _Longer | None = None
    for (metric, cells), column in product(counters, firsts.values()):
        series, least = cells[usable, column], matters(metric)
        if not (series >= least).any():
            continue
        seen = on_and_off(series, least=least, most=np.inf)
        if seen is None or seen.episodes < LEAST_TURNS:
            continue
        span = _span_of(seen)
        on, off = span & seen.on, span & ~seen.on
        score, asked = _by_chance(shares[on], shares[off], len(counters) * len(firsts))
        if score >= max(asked, 0.0 if best is None else best.shift.score):
            inside, outside = usable[on], usable[off]
            seconds = mean_of(bound[outside]), mean_of(bound[inside])
            rise, (edges, blocks_in) = (seconds[1] - seconds[0]) / usual, _edges(groups, seen)
            shift = Shift(0, *blocks_in, rise, rise / score, score, asked, seconds[1] / usual)
            best = _Longer(groups, shift, inside, outside, seconds, edges, lasts=False, by=there)
    if best is not None:
        yield best


def _end(groups: Blocks) -> NDArray[np.int64]:
    """The last windows, in which nobody who tells at all is missing by chance."""
    return np.concatenate(groups.members[-BLOCKS_AT_LEAST:])


def _span_of(seen: OnAndOff) -> NDArray[np.bool_]:
    """(n,) whether a value lies where most of the gain is."""
    span = np.zeros(len(seen.on), dtype=bool)
    span[seen.begin : seen.stop] = True
    return span


def _edges(groups: Blocks, seen: OnAndOff) -> tuple[tuple[int, int | None], tuple[int, int]]:
    """The same as windows, None = to the end, and as blocks."""
    usable = np.concatenate(groups.members)
    edges = int(usable[seen.begin]), None if seen.stop is None else int(usable[seen.stop - 1]) + 1
    return edges, blocks_of(groups, *edges)


def _by_chance(now: FloatGrid, then: FloatGrid, tests: float = 0.0) -> tuple[float, float]:
    """The score of the difference of two means by the noise of `then`, and the one to exceed.

    Student's, by Bonferroni over `tests`, or all spans of so many windows.
    """
    then, now = (some[np.isfinite(some)] for some in (then, now))
    tests = tests or (len(then) + len(now)) ** 2 / 2
    asked = -float(stdtrit(max(len(then) - 1, 1), FALSE_ALARM / tests))
    if min(len(then), len(now)) < 2:
        return 0.0, asked
    noise = float(then.std(ddof=1)) * autocorrelation_factor(then - then.mean())
    error = noise * float(np.sqrt(1 / len(now) + 1 / len(then)))
    return float(now.mean() - then.mean()) / max(error, NOTHING), asked


def _judged(grid: Grid, one: _Longer, transfer: FloatGrid, usual: float) -> Finding | None:
    """What it is, if times are far from usual or counters moved with them."""
    (then, now), shift = one.seconds, one.shift
    steps = WINDOWS.steps if one.edges[1] is None else WINDOWS.transient_steps
    # In the only group the last to come waits for nobody. Of several each waits for what others do
    # before and beside it as well: for a rank whose own time grew, or nobody knows. In a window of
    # many steps even the only group's last is not always the same.
    several = len({(info.pp, info.tp) for info in grid.ranks}) > 1 or not one.lasts
    if (
        not now - then >= MEAN_FLOOR * usual
        or (shift.last - shift.first) * one.groups.steps < steps
        or (several and shows(grown(grid, one.inside, one.outside, one.by), now - then))
    ):
        return None
    mostly = in_most(transfer[one.inside])
    longer = mostly >= (then + now) / 2
    staged = len({info.pp for info in grid.ranks}) > 1
    large = one.lasts and now - then >= FLOOR * usual
    certain = shift.score >= shift.critical
    clear = certain and large and not staged and mostly >= max(FLOOR / 2 * usual, TIMES * then)
    moved = movements(grid, one.inside, one.outside, COUNTERS)
    named = whose(grid, moved)
    finding = _finding(grid, one, moved, named)
    # Counters that moved at another time tell whose it is, and not that it is anything.
    sure = certain or any(movement.symptom.explains for movement in moved)
    explained = longer and bool(moved) if one.lasts else bool(named)
    held = held_back(grid, one.inside, one.outside)
    if finding.kind == "link" and ((clear and held is None) or (sure and explained)):
        return finding
    if held is None and finding.details[FULL] and certain and (longer or not one.lasts):
        return finding
    if held is not None:
        finding = replace(
            finding, kind="network",
            text=f"{finding.text}; but its CPU quota holds rank {held} back, and so its transfers",
            details={**finding.details, FULL: 0},
        )  # fmt: skip
    if not (clear or (certain and large and longer and staged)):
        return None
    return _by_groups(grid, finding, one.inside, one.outside) or (finding if clear else None)


def _finding(
    grid: Grid, longer: _Longer, moved: Sequence[Movement], named: Sequence[str]
) -> Finding:
    (then, now), (first, last), shift = longer.seconds, longer.edges, longer.shift
    nodes = list(dict.fromkeys(info.node for info in grid.ranks))
    node = named[0] if len(named) == 1 else None
    parts = parts_of_nodes(list(named), nodes, places_of(grid.meta))
    part = " and ".join(map(str, parts)) or None
    # Of more than half nobody knows that it is not all.
    several = 2 <= len(named) <= len(nodes) / 2 and _nowhere(grid) and _at_once(grid, moved, named)
    two, full = len(nodes) == 2, 0
    usable = np.concatenate(longer.groups.members)
    span = usable[(usable >= first) & (usable < (len(grid.start) if last is None else last))]
    some = 1.0 if longer.lasts else min(len(longer.inside) / max(len(span), 1), 1.0)
    wall = (
        median_of(grid.time["wall"][longer.inside])
        if longer.lasts
        else mean_of(grid.time["wall"][span])
    )
    slowdown = wall / max(wall - some * (now - then), NOTHING)
    margin = WITHIN * shift.error / max(shift.effect, NOTHING) * (slowdown - 1.0)
    step = int(grid.from_step[first])
    how, usually = "a step", "before" if longer.outside.min(initial=first) < first else "afterwards"
    if some < 1.0:
        how, usually = f"in {some:.0%} of the steps", "else"
    text = (
        f"transfers between {_listed(nodes)} take {milliseconds(now)} {how} from step {step},"
        f" {milliseconds(then)} {usually}; the last rank to come waits as long: it is the network"
    )
    if part is not None:
        text += f"; only {_listed(named)} count trouble, all of {part}: it is theirs"
    elif several:
        part = ENDS.join(named)
        text += (
            f"; only {_listed(named)} count trouble, since the same time; what they share is"
            " unknown"
        )
    elif not two and node is None:
        full = _full(grid, longer.inside, longer.outside, len(nodes))
        text += f", and {_why_nobody(grid, full, len(nodes))}"
    details: dict[str, Any] = {
        "critical_score": shift.critical,
        "nodes": nodes,
        "node": node,
        "link": part if part else ENDS.join(nodes) if two else node,
        "scope": "rack" if parts else "link",
        "part_nodes": list(named) if part else [],
        "in_turns": some < 1.0,
        FULL: full,
        "transfer_seconds": now,
        "transfer_seconds_before": then,
    }
    finding = Finding(
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
    if not named:
        return finding
    # Whose link it is nobody knows better than that its counters moved and did not by chance; nor,
    # where they did at another time, than that there is anything at all.
    sure = max(
        min(movement.log_chance for movement in moved if movement.node == name) for name in named
    )
    if longer.by is not None or not any(movement.symptom.explains for movement in moved):
        sure = max(sure, log_chance(finding, len(grid.ranks)))
    return replace(finding, details={**details, "log_chance": sure})


def _nowhere(grid: Grid) -> bool:
    """Whether it is not known where nodes stand: else who shares nothing has its own trouble."""
    return not any(set(places) & set(DRAINED) for places in places_of(grid.meta).values())


def _at_once(grid: Grid, moved: Sequence[Movement], nodes: Sequence[str]) -> bool:
    """Whether the counters of all these nodes began to move together, as by what they share."""
    began = np.array([movement.symptom.began for movement in moved if movement.node in nodes])
    return bool(np.isfinite(began).all() and np.ptp(began) <= tolerance(grid))


def _by_groups(
    grid: Grid, finding: Finding, inside: NDArray[np.int64], outside: NDArray[np.int64]
) -> Finding | None:
    """The finding with the part that only slow groups use, or those it may be; None without."""
    groups = slow_groups(grid, inside, outside)
    parts = () if groups is None else suspects(grid, groups)
    if groups is None or not parts:
        return None
    count, step = len(groups.slow) + len(groups.healthy), int(grid.from_step[finding.first])
    text = (
        f"transfers of {len(groups.slow)} of {count} data-parallel groups take"
        f" {milliseconds(groups.seconds)} a step longer from step {step}, the others' do not and"
        f" no rank's own time grew: it is the network; {listed(parts)} alone is in"
        " all slow groups and in no healthy one"
    )
    if len(parts) > 1:
        return replace(finding, kind="network", text=f"{text}, and which is unknown")
    (part,) = parts
    is_node = part in {Part(NODE, info.node) for info in grid.ranks}
    details = {
        "node": part.name if is_node else None,
        "link": str(part),
        "scope": "rack" if nodes_of(grid, part) else "link",
        "part_nodes": list(nodes_of(grid, part)),
        "by": BY_GROUPS,
    }
    return replace(finding, kind="link", text=text, details={**finding.details, **details})


def _full(grid: Grid, inside: NDArray[np.int64], outside: NDArray[np.int64], nodes: int) -> int:
    """On how many nodes packets wait since then; 0 where those are few, or a link counts errors.

    Many nodes that wait and no link with errors are congestion (docs/method/causes.md).
    """
    bad, full = (
        {
            movement.node
            for movement in movements(grid, inside, outside, wanted, beyond_others=False)
        }
        for wanted in ((*SPEEDS, *BAD_LINK), FULL_LINK)
    )
    many = 2 * len(full) >= nodes and not bad and not standing(grid, BAD_LINK)
    return len(full) if many else 0


def _why_nobody(grid: Grid, full: int, nodes: int) -> str:
    """Why no link is accused: the fabric is full, or nobody counts what would tell."""
    if full:
        return (
            f"packets wait on {full} of {nodes} nodes while no link counts errors: the fabric"
            " is full, not one link bad"
        )
    stand = "; ".join(text for texts in standing(grid, COUNTERS).values() for text in texts)
    unknown = f" (at their maximum, and so unknown: {stand})" if stand else ""
    return f"no node counts what would show whose link it is{unknown}"


def _listed(nodes: Sequence[str]) -> str:
    return " and ".join(nodes) if len(nodes) <= 2 else f"{len(nodes)} nodes"
