"""Reads the recording rules: who differs from their peers, in O(anomalies + groups) bytes."""

import math

from lockstep.analyzer.read.prometheus.access import RequestError
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.discovery import LOOK_BACK
from lockstep.analyzer.rules.recording_rules import queries
from lockstep.analyzer.rules.recording_rules.rules import recorded_series
from lockstep.analyzer.rules.recording_rules.signals import OWN, SIGNALS
from lockstep.analyzer.rules.recording_rules.suspects import (
    Answered,
    Found,
    Survey,
    Suspect,
    add,
    answered_by_run,
    levels_of,
    suspect,
    tell_slowdowns,
    worst_first,
)

LIMIT = 3.0
"""|z|; docs/method/recording-rules.md. With a floor of 1 % and a spread of 2 %, noise passes it 3
times in a million, and a rank that is 10 % slow does pass."""
MOST = 64
"""Suspects a run and signal: more deviate by design, not by a fault each."""
EVERY = 1 << 24
"""More ranks than any run has."""
STANDSTILL = "standstill"
"""Stands in `Survey.cut` as a signal does, for ranks that stopped."""
PIECE = 900.0
"""Seconds that one query looks over: 100,000 ranks have 6 million samples of a signal in them, and
Prometheus bears 50 million (`--query.max-samples`)."""
SHORTEST = 60.0
"""Seconds: the window of a signal."""
MOST_PIECES = 96
"""A day; pieces of longer spans are longer."""
NAMES = '{__name__=~"lockstep:.+"}'


def survey(
    connection: Connection,
    run: str | None,
    time: float,
    seconds: float = PIECE,
    limit: float = LIMIT,
) -> Survey:
    """Suspects, levels and coverage of one run, or of all, in some seconds before a moment.

    Args:
        connection: To the Prometheus.
        run: The run's id; None = every run.
        time: Unix seconds.
        seconds: How far back.
        limit: |z| of a suspect.

    Raises:
        SourceError: Prometheus does not answer.
    """
    levels = levels_of(connection.instant(queries.levels(run, seconds), time))
    answered = answered_by_run(
        connection.instant(queries.known_ranks(run, seconds), time),
        connection.instant(queries.expected(run, seconds), time),
    )
    found: Found = {}
    cut: list[tuple[str, str]] = []
    for signal in SIGNALS:
        counts: dict[str, int] = {}
        query = queries.outliers(signal, run, seconds, limit, MOST)
        for labels, z in connection.instant(query, time):
            name = labels.get("run", "")
            counts[name] = counts.get(name, 0) + 1
            if math.isfinite(z):
                add(found, suspect(labels, {signal.name: z}))
        cut += [(name, signal.name) for name, count in counts.items() if count >= MOST]
    for name, ranks in _slow(found).items():
        query = queries.slowdowns(name, ranks, seconds)
        tell_slowdowns(found, name, connection.instant(query, time))
    stopped, more = _stopped(connection, run, time, seconds, answered)
    for one in stopped:
        add(found, one)
    return Survey(worst_first(found), levels, answered, limit, (*cut, *more))


def survey_span(connection: Connection, run: str, start: float, end: float) -> Survey:
    """A survey of a whole span in pieces: who deviates in any of them.

    Levels are those of the last piece that has any; as many ranks are known as in all pieces but a
    few (queries.SHARE).

    Raises:
        RequestError: The rules recorded nothing of the run in the span.
        SourceError: Prometheus does not answer.
    """
    count = min(MOST_PIECES, max(1, math.ceil((end - start) / PIECE)))
    seconds = max(SHORTEST, (end - start) / count)
    ends = [end - index * seconds for index in reversed(range(count))]
    pieces = [survey(connection, run, each, seconds) for each in ends]
    told = [piece for piece in pieces if run in piece.answered and piece.answered[run].known > 0]
    if not told:
        raise RequestError(
            f"the rules of {connection.url} know own time of no rank of run {run!r} then;"
            " they need two scrapes a minute, and ranks whose waits are timed"
            " (docs/ml/timed-waits.md); --no-push-down reads all ranks"
        )
    found: Found = {}
    for piece in pieces:
        for one in piece.suspects:
            add(found, one)
    each = [piece.answered[run] for piece in pieces if run in piece.answered]
    most = sorted(one.known for one in each)[int(queries.SHARE * len(each))]
    return Survey(
        suspects=worst_first(found),
        levels=told[-1].levels,
        answered={run: Answered(most, max(one.expected for one in each))},
        limit=LIMIT,
        cut=tuple(sorted({pair for piece in pieces for pair in piece.cut})),
    )


def require_rules(connection: Connection) -> None:
    """Makes sure that the rules without which nothing is known have recorded anything.

    Raises:
        RequestError: They were not; the message says which and how to get them.
        SourceError: Prometheus does not answer.
    """
    now = connection.now()
    there = set(connection.labels("__name__", NAMES, now - LOOK_BACK, now))
    needed = (":rank:", f":{OWN.name}:")
    every = [name for name in recorded_series() if any(part in name for part in needed)]
    missing = [name for name in every if name not in there]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise RequestError(
            f"{connection.url} has no {missing[0]}{more}; give it the recording rules that"
            " `lockstep rules` prints, and a run since then"
        )


def _slow(suspects: Found) -> dict[str, list[int]]:
    """Suspects by own time: run -> ranks."""
    ranks: dict[str, list[int]] = {}
    for one in suspects.values():
        if OWN.name in one.z:
            ranks.setdefault(one.run, []).append(one.rank)
    return ranks


def _stopped(
    connection: Connection,
    run: str | None,
    time: float,
    seconds: float,
    answered: dict[str, Answered],
) -> tuple[list[Suspect], list[tuple[str, str]]]:
    """Ranks that stopped while most go on, MOST a run, and where there are more.

    When most have stopped, the run ended or all wait.
    """
    by_run: dict[str, list[Suspect]] = {}
    for labels, _ in connection.instant(queries.stopped(run, seconds, MOST), time):
        one = suspect(labels, {}, stopped=True)
        if one is not None:
            by_run.setdefault(one.run, []).append(one)
    counts = {name: float(len(some)) for name, some in by_run.items()}
    if max(counts.values(), default=0.0) >= MOST:
        query = f"count by (run) ({queries.stopped(run, seconds, EVERY)})"
        told = {labels.get("run", ""): count for labels, count in connection.instant(query, time)}
        counts = {name: told.get(name, count) for name, count in counts.items()}
    going = [
        name
        for name, count in counts.items()
        if name in answered and 2 * count < answered[name].expected
    ]
    cut = [(name, STANDSTILL) for name in going if counts[name] > MOST]
    return [one for name in going for one in by_run[name]], cut
