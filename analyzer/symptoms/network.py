"""What a node counts of its network, and which of it moved in a span of windows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.changepoint import FALSE_ALARM
from analyzer.slowness.robust_stats import NOTHING, spread
from analyzer.symptoms.make import SECONDS
from analyzer.symptoms.series import scrape_seconds, spans, total
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics
from collector.contract.words import PORT_ERRORS, XMIT_WAIT

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
REGISTERS: dict[str, frozenset[str]] = {
    metrics.IB_ERRORS.name: frozenset(PORT_ERRORS),
    metrics.IB_XMIT_WAIT.name: frozenset((XMIT_WAIT,)),
}
"""Of which registers a metric is made that stop at their maximum."""
SPEEDS: tuple[str, ...] = (metrics.NET_SPEED.name, metrics.IB_RATE.name)
MOVED = 3.0
"""Times of before, and of the other nodes, from which a counter has moved."""
MOVED_PER_SECOND: dict[str, float] = {
    # Healthy emulated nodes under load: 0.1 to 3.7 a second, and once three times the others'.
    metrics.TCP_RETRANSMITTED.name: 10.0,
    metrics.TCP_TIMEOUTS.name: 0.1,
    metrics.NET_CARRIER_CHANGES.name: 0.05,
    metrics.NET_PAUSE_SECONDS.name: 0.01,
}
IN_SECONDS = frozenset({metrics.NET_PAUSE_SECONDS.name})
"""Counters of time; all others count events."""
USUALLY_PER_SECOND = 1.0
"""The ratio decides; this only keeps single packets out."""
SLOWER = 0.9
BUSIER = 0.25
MORE_BYTES = 1.5
"""Scrapes of a second over noisy steps put it at 0.9 to 1.2 while nothing changed (measured)."""
PRESSURE = metrics.PRESSURE.series(resource="cpu", scope="some")


@dataclass(frozen=True, slots=True)
class Movement:
    """A metric of one node that moved; `before` and `during` per second, or in its own unit.

    `log_chance` is that of any of all that was looked at moving as far by noise; a speed has none.
    """

    node: str
    metric: str
    before: float
    during: float
    log_chance: float = float("-inf")

    @property
    def text(self) -> str:
        """In words."""
        name = self.metric.removeprefix("lockstep_").removesuffix("_total").replace("_", " ")
        return f"{name} of {self.node}: {self.during:.3g} a second, {self.before:.3g} before"

    @property
    def query(self) -> str:
        """The PromQL that shows it."""
        selector = f'{self.metric}{{node="{self.node}"}}'
        return selector if self.metric in SPEEDS else f"sum(rate({selector}[30s]))"


def movements(
    grid: Grid, during: NDArray[np.int64], before: NDArray[np.int64], wanted: Sequence[str],
    *, beyond_others: bool = True,
) -> tuple[Movement, ...]:  # fmt: skip
    """Counters that moved on some nodes and not on the others.

    A counter has moved that is several times what it was, and further than noise takes any of so
    many counters of so many nodes (FALSE_ALARM): pauses and retransmissions come in bursts.

    Args:
        grid: The run's windows.
        during: Windows of the span.
        before: Windows outside.
        wanted: Metrics; of SPEEDS a fall counts, of the others a rise.
        beyond_others: Whether a node must stand out from the others too; without, what moved on
            all of them is found as well.
    """
    nodes = list(dict.fromkeys(info.node for info in grid.ranks))
    columns = [next(c for c, i in enumerate(grid.ranks) if i.node == node) for node in nodes]
    tries = log(len(nodes) * len(wanted))
    found = []
    for metric in wanted:
        cells = total(grid, metric)
        if cells is None:
            continue
        there = cells[:, columns]
        now, then = _means(there[during]), _means(there[before])
        scores = _scores(grid, metric, there, during, before, beyond_others=beyond_others)
        for place, node in enumerate(nodes):
            others = np.delete(now, place)
            others = others[np.isfinite(others)]
            typical = float(np.median(others)) if others.size and beyond_others else 0.0
            chance = tries + float(log_ndtr(-scores[place]))
            if _moved(metric, then[place], now[place], typical) and chance <= log(FALSE_ALARM):
                found.append(Movement(node, metric, float(then[place]), float(now[place]), chance))
    return tuple(found)


def _scores(
    grid: Grid, metric: str, cells: FloatGrid, during: NDArray[np.int64],
    before: NDArray[np.int64], *, beyond_others: bool,
) -> FloatGrid:  # fmt: skip
    """(N,) how far each node's counts moved, in units of what the difference is off by.

    Of square roots, whose noise is alike at all rates: bursts weigh less, and a count is never
    surer than half an event (Anscombe, Biometrika 1948). The noise is that of the windows before,
    of which those between two scrapes are one, or the spread of what the other nodes' did.
    A speed has no noise.
    """
    if metric in SPEEDS:
        return np.full(cells.shape[1], np.inf)
    counts = np.sqrt(np.maximum(cells, 0.0) / (SECONDS.resolution if metric in IN_SECONDS else 1.0))
    usual = _means(counts[before])
    rises = _means(counts[during]) - usual
    seconds = [float((grid.end - grid.start)[each].sum()) for each in (during, before)]
    readings = [
        max(min(float(len(each)), long / scrape_seconds(grid)), 1.0)
        for each, long in zip((during, before), seconds, strict=True)
    ]
    error = np.sqrt(_means((counts[before] - usual) ** 2) * sum(1.0 / each for each in readings))
    noise = np.fmax(error, 0.5 / np.sqrt(max(min(seconds), NOTHING)))
    common = np.zeros(len(rises))
    for place in range(len(rises)):
        others = np.delete(rises, place)
        others = others[np.isfinite(others)]
        if others.size and beyond_others:
            noise[place] = max(noise[place], float(spread(others)))
            common[place] = max(float(np.median(others)), 0.0)
    scores: FloatGrid = np.nan_to_num((rises - common) / noise)
    return scores


def longer_transfers(grid: Grid, finding: Finding) -> Symptom | None:
    """What a finding about a link is."""
    return Symptom(True, "", "")


def losses(grid: Grid, finding: Finding) -> Symptom | None:
    """A lower speed, errors, drops or packets sent again at one node; None where none is told."""
    text = "no node counts more retransmissions, drops or errors than the others"
    return _moving(grid, finding, (*SPEEDS, *BAD_LINK), BAD_LINK, text)


def pauses(grid: Grid, finding: Finding) -> Symptom | None:
    """Packets that were told to wait at one node; None where nobody tells."""
    return _moving(grid, finding, FULL_LINK, FULL_LINK, "no node was told to wait more than before")


def _moving(
    grid: Grid, finding: Finding, wanted: Sequence[str], known_by: Sequence[str], silent: str
) -> Symptom | None:
    during, before = (np.flatnonzero(each) for each in spans(grid, finding))
    found = movements(grid, during, before, wanted)
    if not found:
        stand = standing(grid, known_by)
        if not any(total(grid, each) is not None for each in known_by if each not in stand):
            return None
        unknown = "; ".join(each for texts in stand.values() for each in texts)
        text = f"{silent}; unknown, at their maximum: {unknown}" if stand else silent
        return Symptom(False, text, f"rate({metrics.TCP_RETRANSMITTED.name}[30s])")
    return Symptom(True, "; ".join(each.text for each in found), found[0].query)


def more_bytes(grid: Grid, finding: Finding) -> Symptom | None:
    """More bytes a step: a run that sends more than before has changed, not its links."""
    rate = total(grid, metrics.NET_BYTES.name, direction="transmit")
    if rate is None:
        return None
    now, then = (_mean((rate * grid.time["wall"])[span]) for span in spans(grid, finding))
    if not (then > 0 and now > 0):
        return None
    text = f"a node sends {now / 1e6:.2f} MB a step, {then / 1e6:.2f} MB before"
    query = f"rate({metrics.NET_BYTES.name}[30s])"
    return Symptom(now / then >= MORE_BYTES, text, query)


def busy_hosts(grid: Grid, finding: Finding) -> Symptom | None:
    """More of the time in which tasks of the hosts wait for a processor: transfers do as well."""
    pressure = grid.signals.get(PRESSURE)
    if pressure is None:
        return None
    now, then = (_mean(pressure[span]) for span in spans(grid, finding))
    if not np.isfinite(now - then):
        return None
    text = f"tasks of the hosts lack a processor {now:.0%} of the time, {then:.0%} before"
    return Symptom(now - then >= BUSIER, text, f"rate({PRESSURE}[30s])")


def _mean(cells: NDArray[np.float64]) -> float:
    there = cells[np.isfinite(cells)]
    return float(there.mean()) if there.size else float("nan")


def standing(grid: Grid, wanted: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Which of the metrics lack a register that stands at its maximum, and where.

    Nobody knows what such a register would count: that the metric did not move says nothing.

    Returns:
        By metric, a text for each kind of register, as `link_downed of node-3`.
    """
    found: dict[str, tuple[str, ...]] = {}
    for metric in wanted:
        texts = []
        for kind in sorted(REGISTERS.get(metric, ())):
            cells = total(grid, metrics.IB_SATURATED.name, kind=kind)
            if cells is not None:
                told = np.nan_to_num(cells).max(axis=0, initial=0.0) > 0
                nodes = dict.fromkeys(
                    info.node for info, here in zip(grid.ranks, told, strict=True) if here
                )
                texts += [f"{kind} of {', '.join(nodes)}"] if nodes else []
        if texts:
            found[metric] = tuple(texts)
    return found


def _moved(metric: str, before: float, now: float, others: float) -> bool:
    if not np.isfinite(before) or not np.isfinite(now):
        return False
    if metric in SPEEDS:
        return now < SLOWER * before
    least = MOVED_PER_SECOND.get(metric, USUALLY_PER_SECOND)
    return now >= max(least, MOVED * before, MOVED * others)


def _means(cells: NDArray[np.float64]) -> NDArray[np.float64]:
    """(nodes,) mean over windows that answered; NaN without one."""
    there = np.isfinite(cells)
    count = there.sum(axis=0)
    total_of = np.where(there, cells, 0.0).sum(axis=0)
    return np.where(count > 0, total_of / np.maximum(count, 1), np.nan)
