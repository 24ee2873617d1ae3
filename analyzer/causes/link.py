"""A link between nodes carries less than it did."""

import numpy as np
from numpy.typing import NDArray

from analyzer.cause_spec import Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, FloatGrid, Grid
from analyzer.symptoms.network import BAD_LINK, SPEEDS, is_known, movements
from analyzer.symptoms.series import spans, total
from collector.contract import metrics
from collector.contract.words import Cause

BUSIER = 0.25
"""More of the time in which tasks of the host wait for a processor: the transfers do as well."""
MORE_BYTES = 1.5
"""Scrapes of a second over noisy steps put it at 0.9 to 1.2 while nothing changed (measured)."""
PRESSURE = metrics.PRESSURE.series(resource="cpu", scope="some")


def evidence(grid: Grid, finding: Finding) -> Evidence:
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
    pressure = grid.signals.get(PRESSURE)
    if pressure is not None:
        now, then = (_mean(pressure[span]) for span in (during, before))
        if now - then >= BUSIER:
            text = f"tasks of the hosts lack a processor {now:.0%} of the time, {then:.0%} before"
            facts.append(Fact(False, text, f"rate({PRESSURE}[30s])"))
            odds -= 3.0
    return Evidence(Cause.LINK, odds, tuple(facts), tuple(missing))


def _bytes(
    grid: Grid, during: NDArray[np.int64], before: NDArray[np.int64], facts: list[Fact]
) -> float:
    """Bytes a step; a run that sends more than before has changed, not its links."""
    rate = total(grid, metrics.NET_BYTES.name, direction="transmit")
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


SPEC = CauseSpec(
    cause=Cause.LINK,
    evidence=evidence,
    must_see="Transfer time up; retransmissions, errors or a lower speed of one node's link.",
    must_not_see=(
        "More bytes a step, hosts that lack processors, or a rank whose own time grew (then the"
        " finding is about that rank)."
    ),
    words="the link carries less than it did",
    node_words="its link carries less than it did",
    advice=(
        Action("verify", "Look for drops, errors and a lower speed on the node's links.",
               "ssh {node} 'ip -s link; ibstat'"),
        Action("verify", "Measure the links between the nodes.",
               "lockstep run allreduce --nodes 8 --probe"),
        Action("mitigate", "Take the node or the link out of service; have cable and optics"
               " checked."),
    ),
    runbook="LockstepIbLinkDown",
    of_network=True,
    explains=("network",),
)  # fmt: skip
