"""A link between nodes carries less than it did."""

import numpy as np
from numpy.typing import NDArray

from analyzer.run import Evidence, Fact, Finding, FloatGrid, Grid
from analyzer.symptoms.network import BAD_LINK, SPEEDS, is_known, movements
from analyzer.symptoms.series import spans, total
from collector.contract import metrics
from collector.contract.words import Cause

BUSIER = 0.25
"""More of the time in which tasks of the host wait for a processor: the transfers do as well."""
MORE_BYTES = 1.5
"""Scrapes of a second over noisy steps put it at 0.9 to 1.2 while nothing changed (measured)."""
PRESSURE = 'resource="cpu",scope="some"'


class Link:
    """Must see: transfer time up; retransmissions, errors or a lower speed of one node's link.

    Must not see: more bytes a step, hosts that lack processors, or a rank whose own time grew (then
    the finding is about that rank). Reference 7, L6.
    """

    def weigh(self, grid: Grid, finding: Finding) -> Evidence:
        """Fair by the transfers alone, strong with counters of the node."""
        if finding.kind != "link":
            return Evidence(Cause.LINK, -8.0)
        facts: list[Fact] = []
        missing: list[str] = []
        odds = 2.0
        during, before = (np.flatnonzero(each) for each in spans(grid, finding))
        moved = movements(grid, during, before, (*SPEEDS, *BAD_LINK))
        facts += [Fact(True, each.text, each.query) for each in moved]
        if moved:
            odds += 4.0
        elif is_known(grid, BAD_LINK):
            text = "no node counts more retransmissions, drops or errors than the others"
            facts.append(Fact(False, text, f"rate({metrics.TCP_RETRANSMITTED.name}[30s])"))
        else:
            missing.append("network counters of the nodes")
        odds += _bytes(grid, during, before, facts)
        pressure = total(grid, metrics.PRESSURE.name, PRESSURE)
        if pressure is not None:
            now, then = (_mean(pressure[span]) for span in (during, before))
            if now - then >= BUSIER:
                text = (
                    f"tasks of the hosts lack a processor {now:.0%} of the time, {then:.0%} before"
                )
                query = f"rate({metrics.PRESSURE.name}{{{PRESSURE}}}[30s])"
                facts.append(Fact(False, text, query))
                odds -= 3.0
        return Evidence(Cause.LINK, odds, tuple(facts), tuple(missing))


def _bytes(
    grid: Grid, during: NDArray[np.int64], before: NDArray[np.int64], facts: list[Fact]
) -> float:
    """Bytes a step; a run that sends more than before has changed, not its links."""
    rate = total(grid, metrics.NET_BYTES.name, 'direction="transmit"')
    if rate is None:
        return 0.0
    a_step = rate * grid.time["wall"]
    now, then = (_mean(a_step[span]) for span in (during, before))
    if not (then > 0 and now > 0):
        return 0.0
    more = now / then >= MORE_BYTES
    text = f"a node sends {now / 1e6:.2f} MB a step, {then / 1e6:.2f} MB before"
    facts.append(Fact(not more, text, f"rate({metrics.NET_BYTES.name}[30s])"))
    return -4.0 if more else 1.0


def _mean(cells: FloatGrid) -> float:
    there = cells[np.isfinite(cells)]
    return float(there.mean()) if there.size else float("nan")
