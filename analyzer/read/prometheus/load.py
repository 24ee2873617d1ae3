"""A run as a Prometheus recorded it, as the same Run that an archive without steps gives."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lockstep.analyzer.read.places import META_KEY
from lockstep.analyzer.read.prometheus.access import (
    RequestError,
    access,
)
from lockstep.analyzer.read.prometheus.discovery import find, utc
from lockstep.analyzer.read.prometheus.frames import UNKNOWN_NODE, gaps, ranks_frame, samples_frame
from lockstep.analyzer.read.prometheus.kubernetes import (
    LABELS,
    NodeLabels,
    labels_of,
    places,
    teams_query,
)
from lockstep.analyzer.read.prometheus.ranges import MOST_SAMPLES, fetch
from lockstep.analyzer.read.ranks import as_ranks_number, rank_infos
from lockstep.analyzer.shapes.run import Run
from lockstep.analyzer.shapes.windows import from_samples
from lockstep.collector.contract.metrics import RANK_UP

if TYPE_CHECKING:
    from lockstep.analyzer.read.prometheus.connection import Connection

VANISHED_KEY = "vanished"
"""In `Run.meta`: the series ended while ranks were there, so nobody says how the run ended."""
VANISHED_SCRAPES = 5.0
"""Of the run's own: more than a gap (windows.MAX_GAP), in the pages of all of its ranks at once."""
VANISHED_SECONDS = 300.0
"""Of a run that was scraped just once: so long Prometheus itself holds on to a series' last sample
(its look-back)."""


def load_prometheus(
    url: str,
    run: str,
    since: str | None = None,
    until: str | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    node_labels: NodeLabels = LABELS,
) -> Run:
    """The run with this id, or its part between two moments.

    Ranks that should exist and never reported are there, with nothing known of them. A run without
    training series has no windows.

    Args:
        url: Of the Prometheus, or of what speaks its HTTP API, version 1.
        run: The label `run` of its series.
        since: A moment as `discovery.moment` reads it; None = where the run begins.
        until: Likewise; None = where it ends.
        environment: Holds the credentials (access.TOKEN, USER, PASSWORD); None = the process'.
        node_labels: Kubernetes labels that say where nodes stand (kubernetes.places).

    Raises:
        RequestError: No address, no such run, no such moment.
        SourceError: Prometheus cannot be reached, or does not answer as one.
    """
    if not run:
        raise RequestError("--run is empty; give the id of a run")
    # Here, for who only wants the words of PromQL, as a report does, needs no requests.
    from lockstep.analyzer.read.prometheus.connection import Connection

    with Connection(access(url, environment)) as connection:
        found = find(connection, run, since, until)
        whole = read_targets(connection, run, found.targets, found.start, found.end)
        where = places(connection, found.end, node_labels)
        whose = connection.instant(teams_query(found.end - found.start, run), found.end)
    meta = {
        **whole.meta,
        **labels_of(whose, run),
        **({META_KEY: where} if where else {}),
    }
    if _vanished(whole, found.until):
        meta |= {VANISHED_KEY: True}
    return dataclasses.replace(whole, meta=meta)


def _vanished(run: Run, until: float) -> bool:
    """Whether the run's series ended long before the moment asked for, and no rank had gone."""
    up = run.samples[run.samples["metric"] == RANK_UP.name].sort_values("time")
    if up.empty:
        return False
    between = float(up.groupby("rank")["time"].diff().median())
    longest = VANISHED_SCRAPES * between if between > 0 else VANISHED_SECONDS
    if until - float(up["time"].iloc[-1]) < longest:
        return False
    return bool((up.groupby("rank")["value"].last() > 0).any())


def read_targets(
    connection: "Connection",
    run: str,
    targets: Mapping[str, Sequence[str]],
    start: float,
    end: float,
    most: int = MOST_SAMPLES,
    *,
    part: bool = False,
) -> Run:
    """The run as some targets' pages reported it.

    Args:
        connection: To the Prometheus.
        run: The run's id.
        targets: job -> instances.
        start: Unix seconds.
        end: Likewise.
        most: Samples to read at most: of more, the last.
        part: The targets are some of the run's: other ranks are not silent, they were not asked.

    Raises:
        SourceError: Prometheus does not answer.
    """
    fetched = fetch(connection, run, targets, start, end, most)
    missing = ["no operations: Prometheus has scrapes only"]
    if fetched.start > start + 1.0:
        missing.append(
            f"too much for one analysis: read from {utc(fetched.start)} only;"
            " --until gives earlier parts"
        )
    samples = samples_frame(fetched.series)
    windows = from_samples(samples)
    if windows.empty:
        missing.append("no training series of this run with two scrapes")
    table = ranks_frame(fetched.series, [] if part else missing)
    if part:
        table = table[table["node"] != UNKNOWN_NODE]
    ranks = rank_infos(table, samples, None, missing)
    return Run(
        name=run,
        meta={},
        ranks=ranks,
        windows=windows,
        samples=as_ranks_number(samples, ranks),
        ops=None,
        missing=(*missing, *gaps(samples)),
    )
