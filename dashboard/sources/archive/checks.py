"""What was looked at on a node: errors, throttling, links, clock, sources."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyzer.readers.archive.series import UP, Series
from analyzer.report.checks import CHECKS
from analyzer.report.checks import Check as Limit
from collector.contract import metrics
from collector.contract.metrics import Metric
from dashboard.shapes import Check, Severity, Span
from dashboard.sources.archive.health import answering

NEXT = {
    metrics.GPU_XID_ERRORS.name: "Look the XID up in its event, and do what its advice says.",
    metrics.GPU_ECC_ERRORS.name: "Reset the GPU between two runs; if they come again, replace it.",
    metrics.GPU_ROW_REMAP_PENDING.name: "Reset the GPU: rows of its memory wait for it.",
    metrics.GPU_ROW_REMAP_FAILED.name: "Replace the GPU.",
    metrics.GPU_PCIE_REPLAY.name: "Reseat the card, or look at its riser.",
    metrics.GPU_NVLINK_ERRORS.name: "Run the NVLink diagnostics; look at the cable or bridge.",
    metrics.IB_ERRORS.name: "Look at the port's cable and its switch.",
    metrics.NET_ERRORS.name: "Look at the cable and at the switch port.",
    metrics.OOM_KILLS.name: "Give the job more memory, or find the leak on the Node page.",
}
HEAT_STEP = "Look at fans, dust and inlet temperature; drain the node meanwhile."
POWER_STEP = "Look at the power limit and the supply of the node."
STATES: tuple[Metric, ...] = (
    metrics.NET_UP, metrics.GPU_NVLINK_UP, metrics.GPU_UP, metrics.CLOCK_SYNCHRONIZED,
    metrics.CLOCK_OFFSET, metrics.SOURCE_UP, metrics.SOURCE_AVAILABLE,
)  # fmt: skip
WANTED: tuple[Metric | str, ...] = (
    *dict.fromkeys(each.metric for each in CHECKS), *STATES, UP,
)  # fmt: skip
MOST_OFFSET = 0.05
"""Seconds of clock offset from which times of two nodes are no longer compared."""
CRITICAL = (metrics.GPU_ROW_REMAP_FAILED.name, metrics.GPU_ROW_REMAP_PENDING.name)


@dataclass(frozen=True, slots=True)
class _State:
    """A gauge that is 1 while all is well."""

    name: str
    metric: str
    severity: Severity
    bad: str
    next_step: str


_STATES = (
    _State("scrapes answered", UP, Severity.WARNING, "failed",
           "Look whether the collector runs on the node, and whether its port is reachable."),
    _State("network links up", metrics.NET_UP.name, Severity.WARNING, "down", "Look at the cable."),
    _State("NVLinks up", metrics.GPU_NVLINK_UP.name, Severity.CRITICAL, "down",
           "Reset the GPU; if it stays, look at the cable or bridge."),
    _State("GPUs answer", metrics.GPU_UP.name, Severity.CRITICAL, "do not answer",
           "Drain the node and reset the GPU."),
    _State("clock synchronised", metrics.CLOCK_SYNCHRONIZED.name, Severity.NOTE, "is not",
           "Start chrony or another time service; verdicts from windows need no clock."),
    _State("sources up", metrics.SOURCE_UP.name, Severity.NOTE, "down",
           "lockstep doctor on the node says what is missing."),
)  # fmt: skip


def checks(series: Sequence[Series], span: Span) -> tuple[Check, ...]:
    """The list for one node, what is bad first.

    Args:
        series: WANTED of the node.
        span: Over which counters are judged.
    """
    found = [_limit(each, series, span) for each in CHECKS]
    found += [_state(each, series) for each in _STATES]
    found.append(_clock(series))
    rank = [Severity.CRITICAL, Severity.WARNING, Severity.NOTE, Severity.OK, Severity.UNKNOWN]
    return tuple(sorted(found, key=lambda each: rank.index(each.severity)))


def _limit(limit: Limit, series: Sequence[Series], span: Span) -> Check:
    mine = [each for each in series
            if each.metric == limit.metric.name and limit.label in each.labels]  # fmt: skip
    if not any(np.isfinite(each.values).sum() > limit.counts for each in mine):
        return Check(limit.what, Severity.UNKNOWN, "told once" if mine else "not told")
    by_gpu: dict[str, float] = {}
    for each in mine:
        place = (
            f"GPU {each.gpu}" if each.gpu >= 0 else f"rank {each.rank}" if each.rank >= 0 else ""
        )
        grown = _grown(each) if limit.counts else float(np.nanmax(each.values, initial=0.0))
        by_gpu[place] = by_gpu.get(place, 0.0) + grown
    most = limit.limit * max(span.seconds, 0.0) if limit.share else limit.limit
    place, value = max(by_gpu.items(), key=lambda each: each[1])
    number = f"{value:.1f} s" if limit.unit == "seconds" else f"{value:.0f}"
    where = f" on {place}" if place and value > most else ""
    if value <= most:
        return Check(limit.what, Severity.OK, f"{number} in this range")
    hard = limit.metric.name in CRITICAL or 'type="uncorrected"' in limit.label
    step = HEAT_STEP if limit.label == "thermal" else POWER_STEP if limit.label == "power" else ""
    return Check(limit.what, Severity.CRITICAL if hard else Severity.WARNING,
                 f"{number}{where} in this range",
                 step or NEXT.get(limit.metric.name, "Compare with its peers."))  # fmt: skip


def _grown(series: Series) -> float:
    """Of a counter over the range; a reset counts from 0."""
    steps = np.diff(series.values)
    return float(np.where(steps >= 0, steps, series.values[1:]).sum()) if len(steps) else 0.0


def _state(state: _State, series: Sequence[Series]) -> Check:
    mine = [each for each in series if each.metric == state.metric and len(each.values)]
    if state.metric == metrics.SOURCE_UP.name:
        mine = answering(series)
    if not mine:
        return Check(state.name, Severity.UNKNOWN, "not told")
    if state.metric == UP:
        failed = int(sum((each.values < 1).sum() for each in mine))
        whole = sum(len(each.values) for each in mine)
        bad = [f"{failed} of {whole}"] if failed else []
    else:
        bad = [_where(each) for each in mine if each.values[-1] < 1]
    if not bad:
        return Check(state.name, Severity.OK, "all of them" if len(mine) > 1 else "yes")
    more = f" and {len(bad) - 4} more" if len(bad) > 4 else ""
    return Check(state.name, state.severity, f"{', '.join(bad[:4])}{more} {state.bad}".strip(),
                 state.next_step)  # fmt: skip


def _where(series: Series) -> str:
    words = [f"GPU {series.gpu}"] if series.gpu >= 0 else []
    return " ".join([*words, *series.label.values()])[:80] or "it"


def _clock(series: Sequence[Series]) -> Check:
    told = [float(np.abs(each.values).max()) for each in series
            if each.metric == metrics.CLOCK_OFFSET.name and len(each.values)]  # fmt: skip
    if not told:
        return Check("clock offset", Severity.UNKNOWN, "not told")
    bad = max(told) > MOST_OFFSET
    return Check("clock offset", Severity.WARNING if bad else Severity.OK,
                 f"at most {1e3 * max(told):.1f} ms",
                 "Times of this node cannot be compared with others'." if bad else "")  # fmt: skip
