"""The windows of suspects and of some of their peers: the only raw samples that are read."""

from collections.abc import Sequence

from lockstep.analyzer.read.prometheus.access import RequestError
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.discovery import utc
from lockstep.analyzer.read.prometheus.frames import UNKNOWN_NODE, gaps, ranks_frame, samples_frame
from lockstep.analyzer.read.prometheus.ranges import fetch
from lockstep.analyzer.read.ranks import as_ranks_number, rank_infos
from lockstep.analyzer.rules.recording_rules import queries
from lockstep.analyzer.rules.recording_rules.signals import CLOCK, OWN, POWER, TEMPERATURE, WAIT
from lockstep.analyzer.rules.recording_rules.survey import MOST, STANDSTILL
from lockstep.analyzer.rules.recording_rules.suspects import Place, Survey, Suspect, suspect
from lockstep.analyzer.shapes.run import Run
from lockstep.analyzer.shapes.windows import from_samples

SUSPECT_NODES = 8
"""More nodes are not read for suspects; how many are left out is reported."""
STRATA = 4
"""More are not given peers of their own: the pages of these have ranks of others too."""
PEERS = 8
"""Of each stratum: the median of eight has 0.44 of one rank's standard error (sqrt(pi / 2 / 8)), so
that a comparison with it is a tenth less sure than one with all."""
ASKED = 4 * PEERS
"""Peers to choose from, so that they stand on different nodes."""
PEER_SECONDS = 900.0
"""Before the end, over which peers were nearest the median."""

CUT = {
    STANDSTILL: f"more than {MOST} ranks stopped at once; of the others nothing more was read",
    **{
        name: f"{MOST} ranks or more differ from their peers in {what}; only the worst were read"
        for name, what in (
            (OWN.name, "own time per step"),
            (WAIT.name, "how long they wait in collectives"),
            (TEMPERATURE.name, "GPU temperature"),
            (CLOCK.name, "SM clock"),
            (POWER.name, "GPU power"),
        )
    },
}
"""Why not every suspect was read, by `Survey.cut`."""


def read_suspects(
    connection: Connection, run: str, survey: Survey, start: float, end: float
) -> Run:
    """The run as far as it was read: every rank on the pages of the suspects and their peers.

    Args:
        connection: To the Prometheus.
        run: The run's id.
        survey: What the rules say of it.
        start: Unix seconds.
        end: Likewise.

    Raises:
        RequestError: None of these ranks has a page.
        SourceError: Prometheus does not answer.
    """
    chosen = worst_suspects(survey.suspects)
    ranks = [one.rank for one in chosen]
    ranks += peers_to_read(connection, strata_to_read(run, survey, chosen), survey, start, end)
    targets = _targets(connection, run, ranks, start, end)
    if not targets:
        raise RequestError(
            f"{connection.url} has nothing that ranks of run {run!r} reported themselves;"
            " it must be asked where the collectors' series are kept, beside the rules'"
        )
    fetched = fetch(connection, run, targets, start, end)
    missing = ["no operations: Prometheus has scrapes only", *coverage_notes(run, survey, chosen)]
    if fetched.start > start + 1.0:
        missing.append(
            f"too much for one analysis: read from {utc(fetched.start)} only;"
            " --until gives earlier parts"
        )
    samples = samples_frame(fetched.series)
    windows = from_samples(samples)
    if windows.empty:
        missing.append("no training series of this run with two scrapes")
    # Of all other ranks the survey reports: they are not silent, they were not asked.
    table = ranks_frame(fetched.series, [])
    table = table[table["node"] != UNKNOWN_NODE]
    infos = rank_infos(table, samples, None, missing)
    return Run(
        name=run,
        meta={},
        ranks=infos,
        windows=windows,
        samples=as_ranks_number(samples, infos),
        ops=None,
        missing=(*missing, *gaps(samples)),
    )


def worst_suspects(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The worst, all of each node, on at most SUSPECT_NODES nodes."""
    nodes: dict[str, None] = dict.fromkeys(one.node for one in suspects)
    kept = set(list(nodes)[:SUSPECT_NODES])
    return [one for one in suspects if one.node in kept]


def strata_to_read(run: str, survey: Survey, chosen: Sequence[Suspect]) -> list[Place]:
    """Those of the suspects, the worst's first; of a run without any, some spread over it.

    A stratum of every stage goes before a second one of the same: a node has the tensor-parallel
    ranks of one stage, so that the second's peers are on the same pages.
    """
    mine = list(dict.fromkeys(one.stratum for one in chosen))
    if mine:
        first = {pp: (name, pp, tp) for name, pp, tp in reversed(mine)}
        stages = [place for place in mine if first[place[1]] == place]
        return [*stages, *(place for place in mine if place not in stages)][:STRATA]
    every = sorted({place for levels in survey.levels.values() for place in levels})
    every = [place for place in every if place[0] == run]
    step = max(1, len(every) // STRATA)
    return every[::step][:STRATA]


def peers_to_read(
    connection: Connection,
    strata: list[Place],
    survey: Survey,
    start: float,
    end: float,
) -> list[int]:
    """PEERS ranks of each stratum that are no suspects, on as many nodes as can be."""
    if not strata:
        return []
    known = {one.rank for one in survey.suspects}
    wanted: dict[Place, list[Suspect]] = {place: [] for place in strata}
    for labels, _ in connection.instant(
        queries.peers(strata, min(end - start, PEER_SECONDS), ASKED), end
    ):
        one = suspect(labels, {})
        if one is not None and one.rank not in known and one.stratum in wanted:
            wanted[one.stratum].append(one)
    ranks: list[int] = []
    for some in wanted.values():
        first: dict[str, Suspect] = {}
        for one in some:
            first.setdefault(one.node, one)
        spread = [*first.values(), *(one for one in some if first[one.node] is not one)]
        ranks += [one.rank for one in spread[:PEERS]]
    return ranks


def _targets(
    connection: Connection, run: str, ranks: Sequence[int], start: float, end: float
) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    if ranks:
        query = queries.pages(run, sorted(set(ranks)), end - start)
        for labels, _ in connection.instant(query, end):
            found.setdefault(labels.get("job", ""), []).append(labels.get("instance", ""))
    return {job: tuple(sorted(instances)) for job, instances in sorted(found.items())}


def coverage_notes(run: str, survey: Survey, chosen: Sequence[Suspect]) -> list[str]:
    """What was not read, and what the rules say of it."""
    answered = survey.answered[run]
    few = f"those that the rules single out ({len(survey.suspects)})"
    words = [f"only {few} and some peers of {answered.expected} ranks were read"]
    silent = answered.expected - round(answered.known)
    if silent > 0:
        words.append(f"{silent} of {answered.expected} ranks reported nothing to the rules")
    left = len(survey.suspects) - len(chosen)
    if left > 0:
        words.append(f"{left} more suspects on other nodes were not read")
    unseen = survey.slowest_unseen(run)
    if unseen is not None:
        words.append(f"a rank less than {unseen:.2f}x as slow as its peers is no suspect")
    for _, signal in survey.cut:
        words.append(CUT[signal])
    return words
