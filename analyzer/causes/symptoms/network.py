"""Symptoms of a link: losses, pauses, longer round trips; and of what is no fault of a link."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lockstep.analyzer.causes.symptoms.network_counters import (
    BAD_LINK,
    BUSIER,
    FULL_LINK,
    ROUND_TRIP,
    SPEEDS,
    movements,
    standing,
)
from lockstep.analyzer.causes.symptoms.series import (
    Symptom,
    spans,
    total,
)
from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.shapes.wording import megabytes
from lockstep.analyzer.stats.robust_stats import mean_of
from lockstep.analyzer.stats.transfers import transfers
from lockstep.collector.contract import metrics

MORE_BYTES = 1.5
"""Scrapes of a second over noisy steps put it at 0.9 to 1.2 while nothing changed (measured)."""

PRESSURE = metrics.PRESSURE.series(resource="cpu", scope="some")


def longer_transfers(grid: Grid, finding: Finding) -> Symptom | None:
    """What a finding about a link is."""
    return Symptom(True, "", "")


def losses(grid: Grid, finding: Finding) -> Symptom | None:
    """A lower speed, errors, drops or packets sent again at one node; None without data."""
    text = "no node counts more retransmissions, drops or errors than the others"
    return _moving(grid, finding, (*SPEEDS, *BAD_LINK), BAD_LINK, text)


def pauses(grid: Grid, finding: Finding) -> Symptom | None:
    """Packets that were told to wait at one node; None without data."""
    return _moving(grid, finding, FULL_LINK, FULL_LINK, "no node was paused more than before")


def round_trips(grid: Grid, finding: Finding) -> Symptom | None:
    """Longer round trips of one node over TCP; None without data."""
    return _moving(grid, finding, (ROUND_TRIP,), (ROUND_TRIP,), "no node's round trips are longer")


def _moving(
    grid: Grid, finding: Finding, wanted: Sequence[str], known_by: Sequence[str], silent: str
) -> Symptom | None:
    inside = finding.inside(grid)
    if finding.details.get("in_turns"):
        now, then = (finding.details[f"transfer_seconds{each}"] for each in ("", "_before"))
        inside &= transfers(grid) >= (now + then) / 2
    during, before = (np.flatnonzero(each & ~grid.masked) for each in (inside, ~inside))
    if not during.size:
        return None
    mine = finding.details.get("part_nodes") or [finding.details.get("node")]
    moved = movements(grid, during, before, wanted)
    moved = tuple(each for each in moved if each.node in mine or mine == [None])
    if not moved:
        stand = standing(grid, known_by)
        if not any(total(grid, each) is not None for each in known_by if each not in stand):
            return None
        unknown = "; ".join(each for texts in stand.values() for each in texts)
        text = f"{silent}; unknown, at their maximum: {unknown}" if stand else silent
        return Symptom(False, text, f"rate({metrics.TCP_RETRANSMITTED.name}[30s])")
    first = min((each.symptom for each in moved), key=lambda each: not each.explains)
    text = "; ".join(each.symptom.text for each in moved)
    return replace(first, text=text)


def more_bytes(grid: Grid, finding: Finding) -> Symptom | None:
    """More bytes a step: a run that sends more than before has changed, not its links."""
    rate = total(grid, metrics.NET_BYTES.name, direction="transmit")
    if rate is None:
        return None
    now, then = (mean_of((rate * grid.time["wall"])[span]) for span in spans(grid, finding))
    if not (then > 0 and now > 0):
        return None
    text = f"a node sends {megabytes(now)} a step, {megabytes(then)} before"
    query = f"rate({metrics.NET_BYTES.name}[30s])"
    return Symptom(now / then >= MORE_BYTES, text, query)


def busy_hosts(grid: Grid, finding: Finding) -> Symptom | None:
    """More of the time in which tasks of the hosts wait for a processor: transfers do as well."""
    pressure = grid.signals.get(PRESSURE)
    if pressure is None:
        return None
    now, then = (mean_of(pressure[span]) for span in spans(grid, finding))
    if not np.isfinite(now - then):
        return None
    text = f"tasks of the hosts lack a processor {now:.0%} of the time, {then:.0%} before"
    return Symptom(now - then >= BUSIER, text, f"rate({PRESSURE}[30s])")
