"""A finding with its causes -> a named culprit, and whether it wakes somebody.

Those of one node, leaf or rack become one culprit; what all ranks share is structure, and nobody's.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from lockstep.analyzer.causes.cause_weights import Posterior
from lockstep.analyzer.operations.examine import DETECTOR, Look, Placed
from lockstep.analyzer.shapes.run import (
    FULL_NETWORK,
    OBSERVED,
    STAGE_SLOWDOWN,
    UNIFORM,
    Basis,
    Culprit,
    Fact,
    Finding,
    Grid,
)
from lockstep.analyzer.shapes.wording import NAMED, utc
from lockstep.analyzer.stats.before_after import column_of
from lockstep.analyzer.stats.shared_part import Part
from lockstep.analyzer.stats.significance import TRANSIENT_SHARE, WAKES, WAKES_BY_BOUND
from lockstep.analyzer.stats.transfers import waited_for
from lockstep.analyzer.stragglers.confidence import CERTAIN, PAGE_SLOWDOWN, place_confidence
from lockstep.analyzer.stragglers.detectors.links import FULL
from lockstep.analyzer.stragglers.imbalance import node_of
from lockstep.analyzer.stragglers.step_time import cost
from lockstep.collector.contract.words import Cause


def culprit(
    grid: Grid,
    finding: Finding,
    causes: Posterior,
    slow: Sequence[Finding],
    seen: Look,
) -> Culprit:
    """The culprit of a finding that accuses.

    Args:
        grid: The run's windows.
        finding: Who, when and how slow.
        causes: Why.
        slow: The findings of all slow ranks.
        seen: What the operations say.
    """
    column = column_of(grid, finding.rank)
    assert column is not None
    info = grid.ranks[column]
    hang = finding.kind == "hang"
    suspect = seen.of(grid, finding)
    facts = (
        _of_finding(finding),
        *waited_for(grid, finding),
        *_operation_facts(suspect, finding),
        *causes.facts,
    )
    if hang:
        from_step, since = _stopped(grid, column)
    else:
        from_step, since = int(grid.from_step[finding.first]), float(grid.start[finding.first])
    end = None if finding.last is None else int(grid.to_step[finding.last - 1])
    if seen.alone and suspect is not None:
        end = suspect.worker.to_step  # traced steps may lie apart
    unended = bool(finding.details.get("unended"))
    page = hang or _wakes(grid, finding, slow, seen)
    return Culprit(
        scope="rank",
        rank=info.rank,
        node=None if seen.alone else info.node,
        gpu=info.gpu,
        uuid=info.uuid,
        dp=info.dp,
        pp=info.pp,
        tp=None if seen.folded else info.tp,
        link=None,
        from_step=from_step,
        to_step=None if unended else end,
        since=utc(since) if np.isfinite(since) else None,
        slowdown=None if hang else finding.slowdown,
        slowdown_interval=None if hang else finding.interval,
        cause=causes.cause,
        confidence=min(causes.probability, CERTAIN),
        tier="page" if page else "record",
        evidence=facts,
        place_confidence=place_confidence(finding, grid),
        known_to_step=end if unended else None,
    )


HANG_QUERY = "lockstep_train_enqueued_sequence - lockstep_train_completed_sequence"
FINDING_QUERIES: Mapping[str, str] = {
    "slow": "own_seconds of steps.parquet by rank",
    "hang": HANG_QUERY,
}
"""By the kind of the finding."""


def _of_finding(finding: Finding) -> Fact:
    """The first fact about a rank: what was found, and by what."""
    details = finding.details
    return Fact(
        True,
        finding.text,
        str(details.get("query", FINDING_QUERIES[finding.kind])),
        Basis(details.get("basis", Basis.STEPS)),
        str(details.get("waits", "")),
    )


def _operation_facts(suspect: Placed | None, finding: Finding) -> tuple[Fact, ...]:
    """What operations say about a rank: who waits for it, what it costs; the finding is told."""
    if suspect is None:
        return ()
    facts = suspect.worker.facts
    return facts[1:] if finding.detector == DETECTOR else facts


def _wakes(grid: Grid, finding: Finding, slow: Sequence[Finding], seen: Look) -> bool:
    """By the bounds of the windows, and by the simulation where it knows the suspect.

    Operations that cannot say which of two workers is normal wake nobody; windows that can, do.
    """
    suspect = seen.of(grid, finding)
    if suspect is None or suspect.worker.fix is None or not seen.simulated:
        return _pages(grid, finding, slow)
    if finding.detector == DETECTOR or suspect.worker.wakes:
        return suspect.worker.wakes
    inside = float(suspect.finding.inside(grid)[~grid.masked].mean())
    return _pages(grid, finding, slow) and suspect.worker.fix["gain"] >= WAKES * inside


def _pages(grid: Grid, finding: Finding, slow: Sequence[Finding]) -> bool:
    """Slow enough, and the run gains enough: by mending it, or all, as two can hide each other.

    What is over, and was little of the run, wakes nobody: there is no node to drain.
    """
    seconds = grid.end - grid.start
    over = finding.last is not None and not finding.details.get("unended")
    if over and seconds[finding.first : finding.last].sum() < TRANSIENT_SHARE * seconds.sum():
        return False
    bills = [cost(grid, [finding]), cost(grid, slow)]
    effect = max((bill.slowdown - 1.0 for bill in bills if bill is not None), default=0.0)
    return finding.slowdown >= PAGE_SLOWDOWN and effect >= WAKES_BY_BOUND


def _stopped(grid: Grid, column: int) -> tuple[int | None, float]:
    """(first step that the rank did not complete, when the last one ended)."""
    done = np.flatnonzero(np.isfinite(grid.time["wall"][:, column]))
    if not done.size:
        return None, float("nan")
    return int(grid.to_step[done[-1]]), float(grid.end[done[-1]])


def link_culprit(grid: Grid, finding: Finding, causes: Posterior) -> Culprit:
    """The culprit of a finding of kind `link`: the node whose link it is, or the two nodes.

    Or the leaf or rack that all troubled nodes share: scope `rack`, its name in `link`; the names
    of the nodes where their leaf is not known.
    """
    return Culprit(
        scope=finding.details["scope"],
        rank=None,
        node=finding.details["node"],
        gpu=None,
        uuid=None,
        dp=None,
        pp=None,
        tp=None,
        link=finding.details["link"],
        from_step=int(grid.from_step[finding.first]),
        to_step=None if finding.last is None else int(grid.to_step[finding.last - 1]),
        since=utc(float(grid.start[finding.first])),
        slowdown=finding.slowdown,
        slowdown_interval=finding.interval,
        cause=causes.cause,
        confidence=min(causes.probability, CERTAIN),
        tier="page" if finding.slowdown >= PAGE_SLOWDOWN else "record",
        evidence=(
            Fact(True, finding.text, "wall_seconds - own_seconds of steps.parquet, least by step"),
            *causes.facts,
        ),
        place_confidence=place_confidence(finding, grid),
    )


PLACE = re.compile(r'(rank|gpu|uuid|node)="[^"]*"')
NODE_QUERY = "own_seconds of steps.parquet by rank, median by node"


def together(
    grid: Grid, findings: Sequence[Finding], culprits: Sequence[Culprit]
) -> tuple[Culprit, ...]:
    """The culprits, those of one node, leaf or rack as one, in place of their first.

    A power brake of a supply, hot air or a bad leaf slows every node behind it
    (docs/method/causes.md); draining one of them mends nothing. Whether it is the rank, the node or
    the part, the search has decided (lockstep.analyzer.stragglers.model.effects).

    Args:
        grid: The run's windows.
        findings: `findings[i]` accuses `culprits[i]`.
        culprits: Ranks and links.
    """
    by_part: dict[object, dict[object, list[Culprit]]] = {}
    for position, (finding, culprit) in enumerate(zip(findings, culprits, strict=True)):
        node, part = node_of(finding), finding.details.get("part")
        where = (node, finding.kind) if node is not None else position
        nodes = by_part.setdefault(part or where, {})
        nodes.setdefault(where, []).append(culprit)
    everybody = len({info.node for info in grid.ranks})
    named = []
    for part, nodes in by_part.items():
        some = [_node(grid, ranks) if len(ranks) > 1 else ranks[0] for ranks in nodes.values()]
        named.append(_part(some, part, everybody) if isinstance(part, Part) else some[0])
    return tuple(named)


def _node(grid: Grid, ranks: Sequence[Culprit]) -> Culprit:
    every = sum(info.node == ranks[0].node for info in grid.ranks)
    facts = merged_facts({int(rank.rank or 0): rank.evidence for rank in ranks})
    return replace(
        _middle(ranks),
        scope="node",
        evidence=(_node_fact(ranks, every), *facts),
        of_ranks=None if ranks[0].slowdown is None else (len(ranks), every),
    )


def _part(alike: Sequence[Culprit], part: Part, everybody: int) -> Culprit:
    worst = max(alike, key=lambda culprit: culprit.slowdown or 0.0)
    slow = sorted({str(culprit.node) for culprit in alike})
    names = ", ".join(slow[:NAMED]) + (", ..." if len(slow) > NAMED else "")
    text = (
        f"{names} are slow in the same steps: all {len(slow)} nodes of {part} in this run, and none"
        f" of the other {everybody - len(slow)}"
    )
    firsts = (culprit.evidence[0] for culprit in alike if culprit.evidence)
    evidence = (Fact(True, text, "topology.toml"), *firsts, *worst.evidence[1:])
    return replace(_middle(alike), scope="rack", node=None, link=str(part), evidence=evidence)


def _middle(alike: Sequence[Culprit]) -> Culprit:
    """Their middle in slowdown and cause, the earliest in time."""
    first = min(
        alike, key=lambda culprit: culprit.from_step if culprit.from_step is not None else 0
    )
    slowdowns = [culprit.slowdown for culprit in alike if culprit.slowdown is not None]
    bounds = [
        culprit.slowdown_interval for culprit in alike if culprit.slowdown_interval is not None
    ]
    ends, known = (
        [step for step in steps if step is not None]
        for steps in (
            [culprit.to_step for culprit in alike],
            [culprit.known_to_step for culprit in alike],
        )
    )
    interval = None
    if bounds:
        low, high = np.median(np.array(bounds), axis=0)
        interval = (float(low), float(high))
    return replace(
        first,
        rank=None, gpu=None, uuid=None, dp=None, pp=None, tp=None,
        to_step=max(ends) if len(ends) == len(alike) else None,
        known_to_step=max(known) if len(known) == len(alike) else None,
        slowdown=float(np.median(slowdowns)) if slowdowns else None,
        slowdown_interval=interval,
        confidence=float(np.median([culprit.confidence for culprit in alike])),
        # That it is all of them is as sure as that it is any of them.
        place_confidence=max(culprit.place_confidence or 0.0 for culprit in alike),
        tier="page" if any(culprit.tier == "page" for culprit in alike) else "record",
    )  # fmt: skip


def merged_facts(facts: Mapping[int, Sequence[Fact]]) -> tuple[Fact, ...]:
    """The facts of several ranks, each kind once: the first rank's, and who else shows it.

    Facts are of a kind when they answer the same query but for the rank, on the same side. That
    the run waits for another rank of the node speaks not against the node.
    """
    late = any(
        fact.supports and fact.basis is Basis.LATENESS for mine in facts.values() for fact in mine
    )
    kinds: dict[tuple[str, bool, int], list[tuple[int, Fact]]] = {}
    for rank, mine in facts.items():
        seen: dict[tuple[str, bool], int] = {}
        for fact in mine:
            if late and fact.basis is Basis.LATENESS and not fact.supports:
                continue
            key = (PLACE.sub(r"\1", fact.query), fact.supports)
            seen[key] = seen.get(key, 0) + 1
            kinds.setdefault((*key, seen[key]), []).append((rank, fact))
    return tuple(_merged(alike) for alike in kinds.values())


def _merged(alike: Sequence[tuple[int, Fact]]) -> Fact:
    rank, fact = alike[0]
    others = [other for other, _ in alike[1:]]
    if others and all(fact_of.text == fact.text for _, fact_of in alike):
        return replace(fact, text=f"{_ranks([rank, *others])}: {fact.text}")
    text = fact.text if fact.text.startswith(f"rank {rank} ") else f"rank {rank}: {fact.text}"
    return replace(fact, text=f"{text}; alike on {_ranks(others)}" if others else text)


def _node_fact(ranks: Sequence[Culprit], of: int) -> Fact:
    """What makes it the node's, which has `of` ranks: who, and how slow each."""
    node, names = ranks[0].node, sorted(int(rank.rank or 0) for rank in ranks)
    if ranks[0].slowdown is None:
        text = f"{_ranks(names)}, all the ranks of {node} in this run, stopped alike"
        return Fact(True, text, HANG_QUERY)
    last_begin = max(rank.from_step or 0 for rank in ranks)
    in_turn = any(rank.to_step is not None and rank.to_step <= last_begin for rank in ranks)
    shown = sorted(ranks, key=lambda rank: int(rank.rank or 0))[:NAMED]
    slowdowns = ", ".join(
        f"rank {rank.rank} {rank.slowdown:.2f}x from step {rank.from_step}"
        + (f" to {rank.to_step}" if in_turn and rank.to_step is not None else "")
        for rank in shown
    )
    more = f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else ""
    who = f"all {len(ranks)}" if len(ranks) >= of else f"{len(ranks)} of {of}"
    how = "in turn" if in_turn else "in the same steps"
    return Fact(True, f"{who} ranks of {node} are slow {how}: {slowdowns}{more}", NODE_QUERY)


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) > NAMED:
        return f"{len(ranks)} ranks of the node"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def slower_structures(
    findings: Sequence[Finding], why: Posterior | None
) -> tuple[Mapping[str, object], ...]:
    """Structures of docs/reference/verdict.md of the findings that all of them slowed alike.

    Args:
        findings: Of the run; those of another kind than `structure` are no business here.
        why: What the causes say of the first one; None = they were not asked. Where it names one,
            the structure gets `cause`, `confidence` and `evidence`.
    """
    structures: list[Mapping[str, object]] = []
    for finding in findings:
        if finding.kind != "structure":
            continue
        stage = finding.details.get("stage")
        structure: dict[str, object] = {
            "kind": finding.details.get("kind", UNIFORM if stage is None else STAGE_SLOWDOWN),
            "share": 1.0 - 1.0 / finding.slowdown,
            "text": finding.text,
        }
        if why is not None and why.cause != Cause.UNKNOWN and not structures:
            texts = [fact.text for fact in why.facts if fact.supports]
            observed = str(finding.details.get(OBSERVED, finding.text))
            structure["text"] = "; ".join([observed, *texts[:2]])
            structure |= {"cause": why.cause, "confidence": why.probability}
            structure["evidence"] = [
                {"for": fact.supports, "text": fact.text, "query": fact.query} for fact in why.facts
            ]
        structures.append(structure)
    return tuple(structures)


def full_networks(findings: Sequence[Finding]) -> tuple[Mapping[str, object], ...]:
    """That packets of most nodes wait for the network since transfers take longer."""
    return tuple(
        {
            "kind": FULL_NETWORK,
            "share": 1.0 - 1.0 / finding.slowdown,
            "text": finding.text,
            "cause": Cause.CONGESTION,
        }
        for finding in findings
        if finding.kind == "network" and finding.details.get(FULL)
    )
