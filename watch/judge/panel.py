"""What all ranks told at the last checks, as arrays, and as what the sequential test takes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hardware.sequential_test.telemetry import (
    MONITORED_METRICS,
    MonitoredMetric,
    TelemetryArrays,
)
from lockstep.analyzer.read.prometheus.answers import Series
from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.shapes.waits import own_each
from lockstep.watch.judge.members import Members

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


def _put(found: Floats, one: Series, times: Floats, columns: list[int]) -> None:
    rows = np.searchsorted(times, one.times / 1000 - 0.0005)
    inside = rows < len(times)
    inside[inside] = np.abs(times[rows[inside]] - one.times[inside] / 1000) < 0.001
    for column in columns:
        found[rows[inside], column] = one.values[inside]
