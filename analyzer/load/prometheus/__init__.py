"""A run as a Prometheus recorded it, as the same Run that an archive without steps gives."""

from collections.abc import Mapping

from analyzer.load.prometheus.access import PASSWORD, TOKEN, USER, access
from analyzer.load.prometheus.connection import Connection
from analyzer.load.prometheus.discovery import find
from analyzer.load.prometheus.errors import RequestError, SourceError, TooMuchError
from analyzer.load.prometheus.frames import ranks_frame, samples_frame
from analyzer.load.prometheus.gaps import gaps
from analyzer.load.prometheus.moments import utc
from analyzer.load.prometheus.ranges import fetch
from analyzer.load.topology import rank_infos
from analyzer.load.windows import from_samples
from analyzer.run import Run

__all__ = ["PASSWORD", "TOKEN", "USER", "RequestError", "SourceError", "TooMuchError", "load"]


def load(
    url: str,
    run: str,
    since: str | None = None,
    until: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """The run with this id, or its part between two moments.

    Ranks that should exist and never told are there, with nothing known of them. A run without
    training series has no windows.

    Args:
        url: Of the Prometheus, or of what speaks its HTTP API, version 1.
        run: The label `run` of its series.
        since: A moment as `moments.moment` reads it; None = where the run begins.
        until: Likewise; None = where it ends.
        environment: Holds the credentials (access.TOKEN, USER, PASSWORD); None = the process'.

    Raises:
        RequestError: No address, no such run, no such moment.
        SourceError: Prometheus cannot be reached, or does not answer as one.
    """
    if not run:
        raise RequestError("--run is empty; give the id of a run")
    with Connection(access(url, environment)) as connection:
        found = find(connection, run, since, until)
        fetched = fetch(connection, run, found.targets, found.start, found.end)
    missing = ["no operations: Prometheus has scrapes only"]
    if fetched.start > found.start + 1.0:
        missing.append(
            f"too much for one analysis: read from {utc(fetched.start)} only;"
            " --until gives earlier parts"
        )
    samples = samples_frame(fetched.series)
    windows = from_samples(samples)
    if windows.empty:
        missing.append("no training series of this run with two scrapes")
    return Run(
        name=run,
        meta={},
        ranks=rank_infos(ranks_frame(fetched.series, missing), samples, None, missing),
        windows=windows,
        samples=samples,
        ops=None,
        missing=(*missing, *gaps(samples)),
    )
