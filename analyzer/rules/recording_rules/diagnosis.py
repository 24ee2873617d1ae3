"""The verdict of a run of which only the outliers and some of their peers are read."""

import dataclasses
from collections.abc import Mapping

from lockstep.analyzer.read.places import META_KEY, Places, merged
from lockstep.analyzer.read.prometheus.access import RequestError, access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.discovery import find
from lockstep.analyzer.read.prometheus.kubernetes import (
    LABELS,
    NodeLabels,
    labels_of,
    places,
    teams_query,
)
from lockstep.analyzer.rules.recording_rules.narrow import narrow
from lockstep.analyzer.rules.recording_rules.rules import RANKS
from lockstep.analyzer.rules.recording_rules.survey import require_rules, survey_span
from lockstep.analyzer.rules.recording_rules.whole import of_whole_run
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.analyzer.verdict.pipeline import diagnose as diagnose_run


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
        read = narrow(connection, run, found, extent.start, extent.end)
        where = merged(places(connection, extent.end, node_labels), known or {})
        whose = connection.instant(teams_query(extent.end - extent.start, run), extent.end)
    read = dataclasses.replace(read, meta={**read.meta, **labels_of(whose, run)})
    if where:
        read = dataclasses.replace(read, meta={**read.meta, META_KEY: where})
    diagnosis = diagnose_run(read, gpu_hour_price=gpu_hour_price)
    verdict = of_whole_run(diagnosis, found.answered[run])
    return dataclasses.replace(diagnosis, verdict=verdict)
