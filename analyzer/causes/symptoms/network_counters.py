"""What a node counts of its network, and which of it moved in a span of windows."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import starmap
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, log_ndtr, ndtri

from lockstep.analyzer.causes.symptoms.series import (
    ALIKE,
    SECONDS,
    Symptom,
    goes_with,
    near,
    scrape_seconds,
    series_of,
    tolerance,
    total,
    turning_point,
)
from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.analyzer.shapes.wording import milliseconds
from lockstep.analyzer.stats.changepoint import FALSE_ALARM
from lockstep.analyzer.stats.robust_stats import NOTHING, mean, mean_of, median_of, spread
from lockstep.analyzer.stats.significance import RECORDED
from lockstep.analyzer.stats.transfers import transfers
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import OTHER, PORT_ERRORS, XMIT_WAIT

BAD_LINK: tuple[str, ...] = tuple(
    each.name
    for each in (
        metrics.TCP_RETRANSMITTED, metrics.TCP_TIMEOUTS, metrics.NET_ERRORS, metrics.NET_DROPS,
        metrics.NET_CARRIER_CHANGES, metrics.NET_PHY_ERRORS, metrics.IB_ERRORS,
    )
)  # fmt: skip
"""Packets that did not arrive, and a cable or NIC that says why (docs/reference/verdict.md)."""
FULL_LINK: tuple[str, ...] = tuple(
    each.name for each in (metrics.NET_PAUSE, metrics.NET_PAUSE_SECONDS, metrics.IB_XMIT_WAIT)
)
"""Packets that were told to wait: congestion (the same)."""
ROUND_TRIP = metrics.TRAIN_ROUND_TRIP.name
"""Seconds until the other hosts acknowledge: no count, and no link of its own kind, but told where
nothing is lost and nothing counted, as of a lower rate or a longer way."""
REGISTERS: dict[str, frozenset[str]] = {
    metrics.IB_ERRORS.name: frozenset(PORT_ERRORS),
    metrics.IB_XMIT_WAIT.name: frozenset((XMIT_WAIT,)),
}
"""Of which registers a metric is made that stop at their maximum."""
OF_THE_LINK = frozenset(PORT_ERRORS).difference((
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_rcv_constraint_errors",
    "port_xmit_discards", "VL15_dropped",
))  # fmt: skip
"""Kinds of a port's errors that its link makes (InfiniBand architecture 16.1.3.5)."""
SPEEDS: tuple[str, ...] = (metrics.NET_SPEED.name, metrics.IB_RATE.name)
MOVED = 3.0
"""Times of before, and of the other nodes, from which a counter has moved: chosen, as healthy
emulated nodes under load once sent three times as much again as the others (measured)."""
LONGER_TRIP = 1.5
"""The same of a round trip: chosen, as of nine real runs with slow links no node had 1.3 times the
others' middle before, and the node behind the link had 1.9 to 17 times after (measured, of those
that matter by MOVED_PER_SECOND). Noise is what the score is for."""
MOVED_PER_SECOND: dict[str, float] = {
    # Healthy emulated nodes under load: 0.1 to 3.7 a second (measured).
    metrics.TCP_RETRANSMITTED.name: 10.0,
    # Each is a pause of 200 ms and more (TCP_RTO_MIN, RFC 6298 asks for a second): 2 % of the time.
    metrics.TCP_TIMEOUTS.name: 0.1,
    # A healthy link has none in days, and each stops it for seconds: 2 % of the time.
    metrics.NET_CARRIER_CHANGES.name: 0.01,
    # Chosen, as of a fabric that loses nothing each is sent again after a time-out.
    metrics.IB_ERRORS.name: 0.01,
    # Seconds, a percent of the time.
    metrics.NET_PAUSE_SECONDS.name: RECORDED,
    # Seconds. Healthy emulated nodes: 0.15 to 0.3 ms by the kernel's links, 0.8 to 2.4 by ours in
    # user space (measured); this keeps tenths of a millisecond out.
    ROUND_TRIP: 5e-4,
}
"""Below, what moved does not matter: chosen."""
UNITS: dict[str, float] = {metrics.NET_PAUSE_SECONDS.name: SECONDS.resolution, ROUND_TRIP: 4e-5}
"""Of what is told in seconds, how many are one; all others count events. Round trips of a
millisecond scatter by a fifth from one reading to the next, as 25 events do (measured)."""
SELDOM = 0.1
"""Counts a second, below which they are told by the hour: words only, chosen, as 0.0185 a second
says nobody anything."""
USUALLY_PER_SECOND = 1.0
"""The ratio decides; this only keeps single packets out."""
SLOWER = 0.9
"""Of the usual speed: chosen, as links lose a lane of four or half of their rate, never a tenth."""
BUSIER = 0.25
"""Share of the time more in which tasks lack a processor: chosen, below which a transfer, of which
the processor is a small part, is little longer."""
QUOTA = metrics.RANK_THROTTLED.series()


def counted(grid: Grid, metric: str) -> FloatGrid | None:
    """(W, R) what a node counts of a metric; of a port's errors those of its link alone.

    What a switch cannot route or a partition forbids is counted on links that are well. Kinds that
    have counted nothing yet are told as one: until a kind is told by its own name it is 0 where
    that one is told. Later it is missing where its register stands at its maximum. Of round trips,
    which each rank tells, it is the least; of SPEEDS that of the port which fell furthest.
    """
    if metric == ROUND_TRIP:
        return _least_of_node(grid, grid.signals.get(ROUND_TRIP))
    if metric in SPEEDS:
        return _of_slowed_port(grid, metric)
    if metric != metrics.IB_ERRORS.name:
        return total(grid, metric)
    told = [total(grid, metric, kind=kind) for kind in sorted(OF_THE_LINK)]
    there = np.array([cells for cells in told if cells is not None])
    quiet = total(grid, metric, kind=OTHER)
    if quiet is None and not there.size:
        return None
    shape = len(grid.start), len(grid.ranks)
    there = there.reshape(-1, *shape)
    known = np.isfinite(there)
    lost = (np.maximum.accumulate(known, axis=1) & ~known).any(axis=0)
    for kind in OF_THE_LINK:
        full = total(grid, metrics.IB_SATURATED.name, kind=kind)
        lost |= np.zeros(shape, dtype=bool) if full is None else np.nan_to_num(full) > 0
    some = known.any(axis=0) if quiet is None else known.any(axis=0) | np.isfinite(quiet)
    return np.where(some & ~lost, np.nan_to_num(there).sum(axis=0), np.nan)


def _least_of_node(grid: Grid, cells: FloatGrid | None) -> FloatGrid | None:
    """(W, R) the least of the node's ranks, for each of them."""
    if cells is None:
        return None
    nodes = np.array([info.node for info in grid.ranks])
    mine = [np.flatnonzero(nodes == node) for node in nodes]
    return np.column_stack([np.fmin.reduce(cells[:, each], axis=1) for each in mine])


def _of_slowed_port(grid: Grid, metric: str) -> FloatGrid | None:
    """(W, R) the speed of that port of each rank's node which is furthest below its own highest.

    A transfer over several ports ends with the slowest of them, and one of eight that has half of
    its speed lowers their sum by a sixteenth. Ports of less than half of the fastest one's speed
    are for other things, as management.
    """
    cells = _ports(grid, metric)
    if cells is None:
        return None
    highest = np.nanmax(np.where(np.isfinite(cells), cells, -np.inf), axis=1)
    shares = np.divide(mean(cells, 1), highest, where=highest > 0, out=np.ones_like(highest))
    used = highest >= highest.max(axis=0) / 2
    worst = np.where(used, np.nan_to_num(shares, nan=1.0), np.inf).argmin(axis=0)
    return np.asarray(np.take_along_axis(cells, worst[None, None, :], axis=0)[0])


def _slowest_port(grid: Grid, metric: str) -> FloatGrid | None:
    """(W, R) the least speed of the ports of each rank's node that are plugged in."""
    cells = _ports(grid, metric)
    return None if cells is None else np.fmin.reduce(np.where(cells > 0, cells, np.nan), axis=0)


def _ports(grid: Grid, metric: str) -> FloatGrid | None:
    """(P, W, R) the metric of each port of each rank's node; None where nobody tells it."""
    ports = [grid.signals[key] for key in series_of(grid, metric)]
    return np.array(ports) if ports else None


class Movement(NamedTuple):
    """A metric of one node that moved, as a symptom.

    `log_chance`: of any of all that was looked at moving as far by noise; a speed has none.
    """

    node: str
    symptom: Symptom
    log_chance: float


def movements(
    grid: Grid, during: NDArray[np.int64], before: NDArray[np.int64], wanted: Sequence[str],
    *, beyond_others: bool = True,
) -> tuple[Movement, ...]:  # fmt: skip
    """Counters that moved on some nodes and not on the others, and when.

    When is each counter's own: where its cumulative sum turns, in the windows up to the last of
    `during`. Where these come and go, or nothing was before them, it is what moves with them; and
    where it counts too seldom to show when by itself.
    A counter has moved that is several times what it was, and further than noise takes any of so
    many counters of so many nodes in any window (FALSE_ALARM): pauses and retransmissions come in
    bursts.

    Args:
        grid: The run's windows.
        during: Windows in which transfers take longer.
        before: Windows in which they do not.
        wanted: Metrics; of SPEEDS a fall counts, of the others a rise.
        beyond_others: Whether a node must stand out from the others too; without, what moved on
            all of them is found as well.
    """
    nodes = list(dict.fromkeys(info.node for info in grid.ranks))
    columns = [next(c for c, i in enumerate(grid.ranks) if i.node == node) for node in nodes]
    early = before[before < during[0]]
    own = bool(len(early)) and not ((before > during[0]) & (before < during[-1])).any()
    windows = np.concatenate([early, during])
    splits = _readings(grid, np.concatenate([before, during])) if own else 1.0
    # By the counts and by how often they begin; at their own time, and at that of the transfers.
    tries = log(4 * len(nodes) * len(wanted))
    longer, moved = transfers(grid), []
    for metric in wanted:
        cells = counted(grid, metric)
        if cells is None:
            continue
        cells = cells[:, columns]
        rising = cells[windows] * (-1 if metric in SPEEDS else 1)
        begins = turning_point(rising - mean(rising, 0))
        for column, node in enumerate(nodes):
            looks = [(*_as_read(grid, during, before), 1.0)]
            if own:
                looks.insert(0, (windows[begins[column] :], windows[: begins[column]], splits))
            for now, then, times in looks:
                levels = mean_of(cells[then, column]), mean_of(cells[now, column])
                if not _moved(metric, _times(metric), *levels):
                    continue
                if beyond_others and metric not in SPEEDS:
                    others = median_of(np.delete(mean(cells[now], 0), column))
                    if levels[1] < _times(metric) * others:
                        continue
                score = _score(grid, metric, cells, column, now, then, beyond_others=beyond_others)
                chance = tries + log(times) + float(log_ndtr(-score))
                if not chance <= log(FALSE_ALARM):  # NaN: what was before is not known
                    continue
                late = float(grid.start[now[0]] - grid.start[during[0]]) if own else float("nan")
                rho = goes_with(longer[windows], cells[windows, column])
                at_once = not abs(late) > tolerance(grid) or rho >= ALIKE
                close = near(grid, int(during[0]), int(during[-1]) + 1, late)
                text, query = _words_and_query(node, metric, *levels)
                moved.append(Movement(node, Symptom(True, text, query, late, at_once, close, rho),
                                      chance))  # fmt: skip
                break
    return tuple(moved)


def whose(grid: Grid, moved: Sequence[Movement]) -> tuple[str, ...]:
    """The nodes whose links the counters show: of several those that moved with the transfers.

    One that moved at another time is late, or another's: it counts where it is the only one, not
    far, and all nodes report.
    """
    nodes = tuple(dict.fromkeys(each.node for each in moved if each.symptom.explains))
    some = tuple(dict.fromkeys(each.node for each in moved))
    if nodes or len(some) != 1 or not any(each.symptom.near for each in moved):
        return nodes
    told = [total(grid, metric) for metric in (*BAD_LINK, *FULL_LINK)]
    there = [np.isfinite(cells).any(axis=0) for cells in told if cells is not None]
    return some if np.any(there, axis=0).all() else ()


def _moved(metric: str, times: float, before: float, now: float) -> bool:
    """Whether a node's level, if known at all, moved far enough to matter."""
    if metric in SPEEDS:
        return now < SLOWER * before
    return now >= max(matters(metric), times * before)


def _times(metric: str) -> float:
    """Of before, and of the other nodes, from which a metric has moved."""
    return LONGER_TRIP if metric == ROUND_TRIP else MOVED


def matters(metric: str) -> float:
    """A second, from where a counter matters at all."""
    return MOVED_PER_SECOND.get(metric, USUALLY_PER_SECOND)


def _words_and_query(node: str, metric: str, before: float, during: float) -> tuple[str, str]:
    """That in words, and the PromQL that shows it."""
    if metric == ROUND_TRIP:
        then, now = milliseconds(before), milliseconds(during)
        return f"round trips of {node} to the others take {now}, {then} before", metric
    selector = f'{metric}{{node="{node}"}}'
    if metric in SPEEDS:
        now, then = (f"{8e-9 * speed:.3g} Gb/s" for speed in (during, before))
        return f"a port of {node} runs at {now}, {then} before", selector
    name = metric.removeprefix("lockstep_").removesuffix("_total").replace("_", " ")
    query = f"sum(rate({selector}[30s]))"
    unit, times = ("an hour", 3600.0) if max(during, before) < SELDOM else ("a second", 1.0)
    return f"{name} of {node}: {times * during:.3g} {unit}, {times * before:.3g} before", query


def _score(
    grid: Grid, metric: str, cells: FloatGrid, column: int, during: NDArray[np.int64],
    before: NDArray[np.int64], *, beyond_others: bool,
) -> float:  # fmt: skip
    """How far a node's counts moved, in units of what the difference is off by.

    Of square roots, whose noise is alike at all rates: bursts weigh less, and a count is never
    surer than half an event (Anscombe, Biometrika 1948). The noise is that of the windows before,
    of which those between two scrapes are one, or the spread of what the other nodes' did.
    Rare events are judged by how often a reading has any after one without, however many. A speed
    has no noise.
    """
    if metric in SPEEDS:
        return float("inf")
    counts = np.sqrt(np.maximum(cells, 0.0) / UNITS.get(metric, 1.0))
    usual = mean(counts[before], 0)
    rises = mean(counts[during], 0) - usual
    each_reading = mean_of((counts[before, column] - usual[column]) ** 2)
    noise = each_reading * sum(1.0 / _readings(grid, each) for each in (during, before))
    seconds = min(float((grid.end - grid.start)[each].sum()) for each in (during, before))
    noise = float(np.sqrt(max(noise, 1.0 / (2.0**2 * max(seconds, NOTHING)))))
    others = np.delete(rises, column)
    others = others[np.isfinite(others)]
    common = 0.0
    if others.size and beyond_others:
        noise = max(noise, float(spread(others)))
        common = max(float(np.median(others)), 0.0)
    return max(float(rises[column] - common) / noise, _begins(grid, cells, column, during, before))


def _begins(
    grid: Grid, cells: FloatGrid, column: int, during: NDArray[np.int64], before: NDArray[np.int64]
) -> float:
    """How far it is beyond chance that a node begins to count in some windows so much more often.

    The exact test of two rates of rare events (Przyborowski and Wilenski, Biometrika 1940), as a
    deviation: of all events so many fall into so small a share of the readings. One that goes on
    counting is one event.
    """
    counts = np.nan_to_num(cells[:, column]) > 0
    begins = counts & ~np.roll(counts, 1)
    begins[0] = False
    now, then = (int(begins[each].sum()) for each in (during, before))
    known = np.isfinite(cells[before, column]).any()
    if not now or not known:
        return 0.0
    share = _readings(grid, during) / (_readings(grid, during) + _readings(grid, before))
    return float(-ndtri(betainc(now, then + 1, share)))


def _as_read(
    grid: Grid, during: NDArray[np.int64], before: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same windows, those before a scrape has read what happened among the first as well."""
    inside = np.zeros(len(grid.start), dtype=bool)
    inside[during] = True
    last = np.maximum.accumulate(np.where(inside, grid.end, -np.inf))
    late = np.flatnonzero(~inside & (grid.start - last < scrape_seconds(grid)))
    late = np.intersect1d(late, before)
    return np.union1d(during, late), np.setdiff1d(before, late)


def _readings(grid: Grid, windows: NDArray[np.int64]) -> float:
    """How many scrapes some windows hold: between two of them all are the same reading."""
    seconds = float((grid.end - grid.start)[windows].sum())
    return max(min(float(len(windows)), seconds / scrape_seconds(grid)), 1.0)


def held_back(grid: Grid, during: NDArray[np.int64], before: NDArray[np.int64]) -> int | None:
    """The rank that its CPU quota holds back for much more of the time: so it does its transfers.

    None where it holds no rank back, or without data.
    """
    cells = grid.signals.get(QUOTA)
    if cells is None:
        return None
    now, then = (np.minimum(mean(cells[span], 0), 1.0) for span in (during, before))
    more = np.nan_to_num(now - then)
    worst = int(np.argmax(more))
    return grid.ranks[worst].rank if more[worst] >= BUSIER else None


ALWAYS = (
    metrics.IB_ERRORS.name, metrics.NET_PHY_ERRORS.name, metrics.NET_PAUSE_SECONDS.name, ROUND_TRIP,
    metrics.IB_RATE.name,
)  # fmt: skip
"""What a link in use makes, or what is at its end, and the speed of a port that data goes by."""


def always_worse(grid: Grid) -> tuple[str, ...]:
    """In words, the links that are worse than all others' in the first and last third alike.

    Without a past their transfers cannot be compared with anything. By ALWAYS: drops and packets
    sent again may be those of any program of the node, and Ethernet ports are of any use. Of a
    node's speeds it is the least: a transfer over several ports ends with the slowest.
    """
    nodes = list(dict.fromkeys(info.node for info in grid.ranks))
    columns = [next(c for c, i in enumerate(grid.ranks) if i.node == node) for node in nodes]
    thirds = np.array_split(np.flatnonzero(~grid.masked), 3)
    texts = []
    for metric in ALWAYS:
        cells = _slowest_port(grid, metric) if metric in SPEEDS else counted(grid, metric)
        if cells is None or len(nodes) < 2 or not thirds[0].size:
            continue
        levels = np.array([mean(cells[third][:, columns], 0) for third in (thirds[0], thirds[-1])])
        for column, node in enumerate(nodes):
            mine, rest = levels[:, column], np.delete(levels, column, axis=1)
            others = [median_of(each) for each in rest]
            if all(starmap(partial(_moved, metric, MOVED), zip(others, mine, strict=True))):
                text, _ = _words_and_query(node, metric, others[0], mine[0])
                texts.append(f"{text.removesuffix(' before')} elsewhere")
    return tuple(texts)


def standing(grid: Grid, wanted: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Which of the metrics lack a register that stands at its maximum, and where.

    Nobody knows what such a register would count: that the metric did not move says nothing.

    Returns:
        By metric, a text for each kind of register, as `link_downed of node-3`.
    """
    texts_by_metric: dict[str, tuple[str, ...]] = {}
    for metric in wanted:
        texts = []
        for kind in sorted(REGISTERS.get(metric, ())):
            cells = total(grid, metrics.IB_SATURATED.name, kind=kind)
            if cells is not None:
                saturated = np.nan_to_num(cells).max(axis=0, initial=0.0) > 0
                nodes = dict.fromkeys(
                    info.node for info, here in zip(grid.ranks, saturated, strict=True) if here
                )
                texts += [f"{kind} of {', '.join(nodes)}"] if nodes else []
        if texts:
            texts_by_metric[metric] = tuple(texts)
    return texts_by_metric
