"""Whether a run is read whole, or what the recording rules single out of it."""

from dataclasses import dataclass

from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.discovery import LOOK_BACK
from lockstep.analyzer.read.prometheus.moments import moment
from lockstep.analyzer.rules.recording_rules import queries
from lockstep.analyzer.shapes.labels import number

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
    return Choice(False, "all ranks are read: the recording rules told nothing of this run")
