"""The verdict of a run of which only outliers and some of their peers are read.

Whether a run is read whole is decided here (LARGE).
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

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
from lockstep.analyzer.rules.recording_rules.whole_run import of_whole_run
from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.analyzer.verdict.pipeline import diagnose as diagnose_run

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
