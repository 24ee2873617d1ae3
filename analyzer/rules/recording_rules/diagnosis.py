"""The verdict of a run of which only outliers and some of their peers are read.

Whether a run is read whole is decided here (LARGE), and how the verdict of a part of its ranks
becomes one about the run.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.analyzer.read.places import META_KEY, Places, merged
from lockstep.analyzer.read.prometheus.access import RequestError, access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.discovery import LOOK_BACK, find, moment
from lockstep.analyzer.read.prometheus.kubernetes import (
    LABELS,
    NodeLabels,
    labels_of,
    places,
    teams_query,
)
from lockstep.analyzer.rules.recording_rules import queries
from lockstep.analyzer.rules.recording_rules.rules import RANKS
from lockstep.analyzer.rules.recording_rules.survey import require_rules, survey_span
from lockstep.analyzer.rules.recording_rules.suspect_windows import read_suspects
from lockstep.analyzer.rules.recording_rules.suspects import Answered
from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.shapes.run import NO_NODES_FAULT, Verdict
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.analyzer.verdict.pipeline import diagnose as diagnose_run
from lockstep.analyzer.verdict.sentence import sentence

LARGE = 256
"""Ranks from which the rules are used: 512 take half a minute and 1.5 GB as a whole
(docs/scores.md)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which way a run is read.

    Attributes:
        push_down: By the recording rules.
        why: In words.
    """

    push_down: bool
    why: str


def choose(connection: Connection, run: str, since: str | None, until: str | None) -> Choice:
    """By the size of the run and whether the rules counted its ranks.

    Raises:
        RequestError: No such moment.
        SourceError: Prometheus does not answer.
    """
    now = connection.now()
    end = now if until is None else moment(until, now, "--until")
    start = end - LOOK_BACK if since is None else moment(since, now, "--since")
    seconds = max(1.0, end - start)
    counted = connection.instant(queries.expected(run, seconds), end)
    ranks = max((number(labels, "world_size") or 0 for labels, _ in counted), default=0)
    if ranks > LARGE:
        known = connection.instant(queries.known_ranks(run, seconds), end)
        if not any(count > 0 for _, count in known):
            return Choice(False, f"{ranks} ranks: all are read, as the rules know no own time")
        return Choice(True, f"{ranks} ranks: those that the recording rules single out are read")
    if ranks:
        return Choice(False, f"{ranks} ranks: all are read")
    return Choice(False, "all ranks are read: the recording rules have nothing of this run")


def diagnose_outliers(
    url: str,
    run: str,
    since: str | None = None,
    until: str | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    gpu_hour_price: float | None = None,
    known: Places | None = None,
    node_labels: NodeLabels = LABELS,
) -> Diagnosis:
    """As attribute.diagnose of a full read, with the coverage and the cost of the whole run.

    Args:
        url: Of a Prometheus with the recording rules, or of what speaks its HTTP API.
        run: The label `run` of its series.
        since: A moment as `moments.moment` reads it; None = where the run begins.
        until: Likewise; None = where it ends.
        environment: Holds the credentials; None = the process'.
        gpu_hour_price: Money per GPU-hour.
        known: Where nodes stand, before what Kubernetes says of them.
        node_labels: Kubernetes labels that say where nodes stand (node_labels.places).

    Raises:
        RequestError: No address, no rules, no such run, no such moment.
        SourceError: Prometheus cannot be reached, or does not answer as one.
    """
    if not run:
        raise RequestError("--run is empty; give the id of a run")
    with Connection(access(url, environment)) as connection:
        require_rules(connection)
        extent = find(connection, run, since, until, RANKS)
        found = survey_span(connection, run, extent.start, extent.end)
        read = read_suspects(connection, run, found, extent.start, extent.end)
        where = merged(places(connection, extent.end, node_labels), known or {})
        whose = connection.instant(teams_query(extent.end - extent.start, run), extent.end)
    read = dataclasses.replace(read, meta={**read.meta, **labels_of(whose, run)})
    if where:
        read = dataclasses.replace(read, meta={**read.meta, META_KEY: where})
    diagnosis = diagnose_run(read, gpu_hour_price=gpu_hour_price)
    verdict = of_whole_run(diagnosis, found.answered[run])
    return dataclasses.replace(diagnosis, verdict=verdict)


PER_DAY = ("gpu_hours", "interval", "money", "money_interval")
"""What of `Verdict.lost_per_day` grows with the number of ranks."""


def of_whole_run(diagnosis: Diagnosis, answered: Answered) -> Verdict:
    """All ranks wait for the slowest, so each loses what each of those that were read loses.

    With one rank of which own time is not known nobody is cleared: it may hold back all the others.

    Args:
        diagnosis: Of the ranks that were read.
        answered: How many of all ranks the rules know.
    """
    verdict, grid = diagnosis.verdict, diagnosis.grid
    factor = answered.expected / len(grid.ranks) if grid.ranks else 1.0
    scaled = dataclasses.replace(
        verdict,
        coverage=verdict.coverage * answered.coverage,
        lost_gpu_hours=_times(verdict.lost_gpu_hours, factor),
        lost_gpu_hours_interval=_each(verdict.lost_gpu_hours_interval, factor),
        lost_money=_times(verdict.lost_money, factor),
        lost_money_interval=_each(verdict.lost_money_interval, factor),
        lost_per_day=_per_day(verdict.lost_per_day, factor),
    )
    if verdict.status == "unknown":
        return scaled
    silent = answered.expected - round(answered.known)
    if silent <= 0 or verdict.culprits:
        return sentence(scaled, grid, None)
    why = (
        f"the own time of {silent} of {answered.expected} ranks is unknown to Prometheus' rules, at"
        " least in part: they were not scraped, or their waits were not timed"
        " (docs/ml/timed-waits.md)"
    )
    structure = tuple(one for one in verdict.structure if one["kind"] not in NO_NODES_FAULT)
    return sentence(dataclasses.replace(scaled, status="unknown", structure=structure), grid, why)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _each(interval: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    return None if interval is None else (interval[0] * factor, interval[1] * factor)


def _per_day(lost: Mapping[str, Any] | None, factor: float) -> Mapping[str, Any] | None:
    if lost is None:
        return None
    scaled = dict(lost)
    for name in PER_DAY:
        value = lost.get(name)
        if isinstance(value, (tuple, list)):
            scaled[name] = tuple(one * factor for one in value)
        elif value is not None:
            scaled[name] = value * factor
    return scaled
