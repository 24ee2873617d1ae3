"""How often a culprit was one before: over past verdicts, with an interval and beside its peers.

As far as verdicts have them these are the features by which Meta finds lemon nodes (arXiv
2410.21680, section IV): runs that it held back stand for jobs that exclude a node, XID or memory
errors, and runs of one node or of several that it stopped. Tickets and a scheduler's records are
not ours.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from scipy.special import bdtrc, ndtri

from lockstep.analyzer.read.verdicts import Past, PastCulprit, PastRun
from lockstep.analyzer.shapes.run import Culprit, Verdict
from lockstep.collector.contract.words import Cause

DAYS = 30.0
"""docs/method/cost.md."""
SIMULATED = "SIM-"
"""Such a uuid belongs to no part."""
MOST_OFTEN = 0.05
"""One-sided chance of so many in the runs if it were like its peers, below which that is said."""
TELLS_XID = (Cause.XID, Cause.ECC, Cause.NVLINK)
"""Causes that the driver's XIDs are about."""


def recurrence(
    verdict: Verdict, past: Past, *, ended: float, emulated: bool
) -> tuple[Mapping[str, object], ...]:
    """For each culprit with a node: how often it was a culprit in the 30 days before.

    Emulated nodes are called node-0, node-1, ... on every machine: they are counted among emulated
    runs only, and the text says that it may be another machine.

    Args:
        verdict: Of this run, which is not counted.
        past: Other runs.
        ended: Unix seconds of the end of this run.
        emulated: Whether its nodes are emulated.

    Returns:
        `node, gpu, uuid, by, culprit_runs, runs, share, interval, peers_share, features, causes,
        emulated, text` each; `by` is gpu where the part is known by its uuid, else node. Empty
        without a past run in which the node or GPU took part.
    """
    runs = [
        run for run in past.runs
        if run.emulated == emulated and 0 <= ended - run.ended <= DAYS * 86400
    ]  # fmt: skip
    rows = []
    seen: set[tuple[str, str]] = set()
    for culprit in verdict.culprits:
        for by, name in _identities(culprit):
            mine = [run for run in runs if name in (run.uuids if by == "gpu" else run.nodes)]
            if mine and (by, name) not in seen:
                seen.add((by, name))
                rows.append(_row(culprit, by, name, mine, emulated=emulated))
    return tuple(rows)


def _identities(culprit: Culprit) -> list[tuple[str, str]]:
    real = culprit.uuid is not None and not culprit.uuid.startswith(SIMULATED)
    gpu = [("gpu", culprit.uuid)] if real and culprit.uuid is not None else []
    return [*gpu, *([("node", culprit.node)] if culprit.node is not None else [])]


def _row(
    culprit: Culprit, by: str, name: str, runs: Sequence[PastRun], *, emulated: bool
) -> dict[str, object]:
    times = [[c for c in run.culprits if _matches(c, by, name)] for run in runs]
    count = sum(bool(named) for named in times)
    interval = _wilson(count, len(runs))
    peers, of = _peers(by, name, runs)
    text = (
        f"{'GPU ' if by == 'gpu' else ''}{name} was a culprit in {count} of the {len(runs)} runs"
        f" that it took part in during the {DAYS:.0f} days before ({count / len(runs):.0%}, 95 %"
        f" interval {interval[0]:.0%} to {interval[1]:.0%})"
    )
    if of:
        text += f"; its peers in {peers / of:.0%}"
    if of and count and _more_than_by_chance(count, len(runs), peers, of):
        text += ", so it is no accident: have it examined"
    if emulated:
        text += "; emulated nodes have the same names on every machine: it may be another one"
    return {
        "node": culprit.node,
        "gpu": culprit.gpu if by == "gpu" else None,
        "uuid": name if by == "gpu" else None,
        "by": by,
        "culprit_runs": count,
        "runs": len(runs),
        "share": count / len(runs),
        "interval": interval,
        "peers_share": peers / of if of else None,
        "days": DAYS,
        "features": _features(runs, times),
        "causes": dict(Counter(c.cause for named in times for c in named).most_common()),
        "emulated": emulated,
        "text": text,
    }


def _matches(culprit: PastCulprit, by: str, name: str) -> bool:
    return name == (culprit.uuid if by == "gpu" else culprit.node)


def _peers(by: str, name: str, runs: Sequence[PastRun]) -> tuple[int, int]:
    """(times that a peer was a culprit, times that one took part) in the same runs."""
    named = sum(
        len({part for part in ((c.uuid if by == "gpu" else c.node) for c in run.culprits)
             if part not in (None, name)})
        for run in runs
    )  # fmt: skip
    took_part = sum(len((run.uuids if by == "gpu" else run.nodes) - {name}) for run in runs)
    return named, took_part


def _more_than_by_chance(count: int, runs: int, peers: int, of: int) -> bool:
    # A peer that was never named is not known to be perfect: Laplace's rule of succession.
    usual = min((peers + 1) / (of + 2), 1.0)
    return bool(count and bdtrc(count - 1, runs, usual) < MOST_OFTEN)


def _wilson(count: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927); scipy.stats has it, and loads for a second."""
    z = float(ndtri(0.975))
    middle = (count + z * z / 2) / (of + z * z)
    half = z / (of + z * z) * (count * (of - count) / of + z * z / 4) ** 0.5
    # Exact at both ends, where rounding would leave the share outside.
    return (middle - half if count else 0.0), (middle + half if count < of else 1.0)


def _features(
    runs: Sequence[PastRun], times: Sequence[Sequence[PastCulprit]]
) -> dict[str, float | None]:
    """Those of Meta's seven that verdicts have, by their names."""
    stopped = [any(c.stopped for c in named) for named in times]
    single = [len(run.nodes) == 1 for run in runs]
    alone = sum(alone_there and bad for alone_there, bad in zip(single, stopped, strict=True))
    return {
        "xid_cnt": sum(any(c.cause in TELLS_XID for c in named) for named in times),
        "multi_node_node_fails": sum(stopped) - alone,
        "single_node_node_fails": alone,
        "single_node_node_failure_rate": alone / sum(single) if any(single) else None,
    }
