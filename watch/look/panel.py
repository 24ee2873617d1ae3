"""Readings of all ranks at the last checks, as arrays: for the sequential test and the ratios."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.alarms import Alarm
from lockstep.analyzer.hardware.sequential_test.false_alarms import Budget
from lockstep.analyzer.hardware.sequential_test.monitor import watch
from lockstep.analyzer.hardware.sequential_test.state import State
from lockstep.analyzer.hardware.sequential_test.telemetry import (
    MONITORED_METRICS,
    MonitoredMetric,
    TelemetryArrays,
)
from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.shapes.waits import own_each
from lockstep.analyzer.stragglers import peers
from lockstep.watch.look.members import Members

LOG = logging.getLogger(__name__)
Floats = NDArray[np.float64]

OWN, STEPS, KNOWN = "own", "steps", "known steps"
CLOCK, TEMPERATURE, POWER = "clock", "temperature", "power"
TOLD_AS: Mapping[str, str] = {
    metric.name: word
    for metric, word in zip(MONITORED_METRICS, (OWN, CLOCK, TEMPERATURE, POWER), strict=True)
}
"""Metric of the sequential test -> the panel's word for it."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Values by (check, rank).

    Attributes:
        times: (T,) unix seconds of the checks, rising.
        members: Of the columns.
        told: OWN, STEPS and KNOWN, counters, of the rank; CLOCK, TEMPERATURE and POWER, of its GPU:
            (T, R), NaN = nothing was told.
    """

    times: Floats
    members: Members
    told: Mapping[str, Floats]


def of_ranks(series: Iterable[Series], times: Floats, members: Members) -> Floats:
    """(T, R) of series with the labels `run` and `rank`."""
    found = np.full((len(times), len(members)), np.nan)
    for one in series:
        rank = number(one.labels, "rank")
        if rank is None:
            continue
        column = members.column.get((one.labels.get("run", ""), rank))
        if column is not None:
            _put(found, one, times, [column])
    return found


def of_gpus(series: Iterable[Series], times: Floats, members: Members) -> Floats:
    """(T, R) of series with the label `uuid`."""
    found = np.full((len(times), len(members)), np.nan)
    for one in series:
        columns = members.columns_of_uuid.get(one.labels.get("uuid", ""))
        if columns:
            _put(found, one, times, columns)
    return found


def fleet(panel: Panel, metrics: Sequence[MonitoredMetric] = MONITORED_METRICS) -> TelemetryArrays:
    """The panel for the sequential test; the first check only gives counters their start.

    A stream belongs to a rank of a run: another run on the same GPU has other peers, and learns
    anew what is normal.
    """
    members = panel.members
    values = np.full((len(panel.times) - 1, len(metrics), len(members)), np.nan, dtype=np.float32)
    for row, metric in enumerate(metrics):
        own = panel.told[TOLD_AS[metric.name]]
        if metric.per is None:
            values[:, row] = own[1:]
            continue
        values[:, row] = own_each(own, panel.told[STEPS], panel.told[KNOWN])
    return TelemetryArrays(
        times=panel.times[1:],
        metrics=tuple(metrics),
        values=values,
        node=members.node,
        uuid=stream_names(members),
        gpu=members.gpu,
        stratum=members.stratum,
    )


def stream_names(members: Members) -> NDArray[np.str_]:
    """What stands for a rank in the fleet's state in place of a uuid."""
    pairs = zip(members.run.tolist(), members.rank.tolist(), strict=True)
    return np.array([f"{run!r} rank {rank}" for run, rank in pairs], dtype=np.str_)


def _put(values: Floats, series: Series, times: Floats, columns: list[int]) -> None:
    rows = np.searchsorted(times, series.times / 1000 - 0.0005)
    inside = rows < len(times)
    inside[inside] = np.abs(times[rows[inside]] - series.times[inside] / 1000) < 0.001
    for column in columns:
        values[rows[inside], column] = series.values[inside]


# Ratios over peers in the last minutes, for the page. They are not the sequential test: a ratio has
# noise, and says nothing about what is normal for a rank.


@dataclass(frozen=True, slots=True)
class Speed:
    """A run in the last minutes; None = not known.

    Attributes:
        step_seconds: Wall time of a step, median over ranks.
        coverage: Share of its ranks that told of steps, 0 to 1.
    """

    step_seconds: float | None
    coverage: float


def over_peers(values: Floats, members: Members) -> Floats:
    """(R,) value over that of the peers, as `lockstep.analyzer.stragglers.peers.over_peers`."""
    _, code = np.unique(members.stratum, return_inverse=True)
    return peers.over_peers(values, code.astype(np.int64))


def speed(step_rate: Floats, members: Members) -> dict[str, Speed]:
    """The Speed of each run, from (R,) steps per second; 0 or NaN = no step was told."""
    found = {}
    for run, columns in members.columns_of_run.items():
        rates = step_rate[columns]
        moving = rates[np.isfinite(rates) & (rates > 0)]
        world = max(len(columns), int(members.world[columns].max(initial=0)))
        seconds = 1.0 / float(np.median(moving)) if moving.size else None
        found[run] = Speed(seconds, min(1.0, moving.size / world))
    return found


def slowest_of_nodes(ratio: Floats, members: Members) -> dict[tuple[str, str], float]:
    """(run, node) -> the ratio of the node's slowest rank; nodes without any are left out."""
    found: dict[tuple[str, str], float] = {}
    rows = zip(members.run.tolist(), members.node.tolist(), ratio.tolist(), strict=True)
    for run, node, value in rows:
        if value == value and value > found.get((run, node), 0.0):
            found[run, node] = value
    return found


FORGET_SECONDS = 3600.0
"""A rank that is not told of for an hour is of a run that ended: the next one has other peers."""


def kept(state: State, now: float) -> State:
    """Without the ranks of runs that ended."""
    recent = state.seen > now - FORGET_SECONDS
    if recent.all():
        return state
    places = np.flatnonzero(recent)
    return replace(
        state,
        node=state.node[places],
        uuid=state.uuid[places],
        gpu=state.gpu[places],
        stratum=state.stratum[places],
        seen=state.seen[places],
        streams=state.streams.taken(np.arange(len(state.metrics)), places),
    )


def rewound(state: State, now: float) -> State:
    """For a clock that was put back: nothing later than now has been judged."""
    return replace(state, until=min(state.until, now), seen=np.minimum(state.seen, now))


def tested(
    panel: Panel, state: State, now: float, interval: float, budget: Callable[[int], Budget]
) -> tuple[tuple[Alarm, ...], State]:
    """What the sequential test reports of a panel, and its state afterwards.

    Args:
        panel: The checks since the last one that was judged.
        state: As it was remembered.
        now: Unix seconds.
        interval: Seconds between two checks.
        budget: Of false alarms, by the number of streams of a node.
    """
    state = kept(state, now)
    if state.until > now + 2 * interval:
        LOG.warning(
            "Prometheus' clock was put back by %.0f s; what was judged then is judged again",
            state.until - now,
        )
        state = rewound(state, now)
    members = panel.members
    if not len(members):
        return (), replace(state, until=max(state.until, now))
    of_node = np.unique(members.node, return_counts=True)[1].max()
    arrays = fleet(panel)
    passed = watch(arrays, state, budget(int(of_node) * len(arrays.metrics)))
    return passed.alarms, passed.state
