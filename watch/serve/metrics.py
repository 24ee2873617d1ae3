"""What the page says of runs, nodes and findings (contract.metrics.analyzer)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.findings.assessment import UNKNOWN, Assessment, Facts, assessed
from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.watch.judge.diagnoses import Judged
from lockstep.watch.judge.hardware import Inventory
from lockstep.watch.judge.memory import Memory
from lockstep.watch.judge.presence import RANKS, fresh_runs
from lockstep.watch.judge.runs import Progress
from lockstep.watch.look.members import Members
from lockstep.watch.look.panel import Speed, over_peers, slowest_of_nodes
from lockstep.watch.look.snapshot import Look
from lockstep.watch.settings import Settings, kind_of

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

SLOWEST = 256
"""Ranks of a run whose ratio is told: more are no straggler, and would be most of the page."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the last cycle knew.

    Attributes:
        own, clock: (R,) over the peers' median; NaN = not known now.
        slowdown: run -> as a fresh verdict that could tell has it.
        living: Runs of which a rank lives.
        fresh: Runs of which a page that was just scraped tells.
        ranks: run -> ranks whose own time is known.
        assessments: run -> what is known of it.
        looked: Nodes that answer, and of which nothing is missing that was told before.
        baselines: run -> steps per second that it is compared with, where they were given.
    """

    members: Members
    own: Floats
    clock: Floats
    speeds: Mapping[str, Speed] = field(default_factory=dict)
    slowdown: Mapping[str, float] = field(default_factory=dict)
    living: frozenset[str] = frozenset()
    baselines: Mapping[str, float] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    ranks: Mapping[str, int] = field(default_factory=dict)
    assessments: Mapping[str, Assessment] = field(default_factory=dict)
    looked: frozenset[str] = frozenset()


def known(
    seen: Look, memory: Memory, verdicts: Mapping[str, Judged], settings: Settings, *,
    own: Floats, speeds: Mapping[str, Speed], fresh: Bools, missing: Bools, clocks: Bools,
) -> Known:  # fmt: skip
    """What the page reports after a cycle.

    Args:
        seen: What Prometheus answered.
        memory: After this cycle.
        verdicts: The last diagnosis of each run, if it is fresh.
        settings: With the baselines.
        own: (R,) own time over the median of the peers.
        speeds: Of each run.
        fresh: (R,) whether the page of a rank was scraped just now.
        missing: (R,) whether a reading is missing that was there before.
        clocks: (R,) whether the clock of the rank's GPU is known now.
    """
    members = seen.members
    assessments = {
        run: assessed(_facts(run, seen, memory, verdicts, settings, fresh, missing))
        for run, columns in members.columns_of_run.items()
        if seen.living[columns].any()
    }
    return Known(
        members=members,
        own=own,
        clock=over_peers(np.where(clocks, seen.clock, np.nan), members),
        speeds=speeds,
        slowdown={
            run: judged.verdict.slowdown
            for run, judged in verdicts.items()
            if judged.verdict.slowdown is not None and judged.verdict.status != UNKNOWN
        },
        living=frozenset(assessments),
        baselines=_baselines(seen, settings.baselines),
        fresh=fresh_runs(seen, settings.interval),
        ranks={
            run: int((np.isfinite(seen.own) & fresh)[columns].sum())
            for run, columns in members.columns_of_run.items()
        },
        assessments=assessments,
        looked=_looked(seen, memory, missing, assessments),
    )


def _facts(
    run: str, seen: Look, memory: Memory, verdicts: Mapping[str, Judged], settings: Settings,
    fresh: Bools, missing: Bools,
) -> Facts:  # fmt: skip
    """What is known of a living run."""
    columns, course, now = seen.members.columns_of_run[run], memory.course, seen.now
    verdict = verdicts.get(run)
    nodes = set(seen.members.node[columns].tolist())
    since = now if memory.since is None else memory.since
    return Facts(
        heard=bool(fresh[columns].all()),
        world=max(len(columns), int(seen.members.world[columns].max())),
        up=int(seen.living[columns].sum()),
        stepping=int((seen.step_rate[columns] > 0).sum()),
        known=int((np.isfinite(seen.own) & fresh)[columns].sum()),
        untold=bool(missing[columns].any() or seen.blind),
        verdict=None if verdict is None else verdict.verdict.status,
        named=any(
            one.kind is not Kind.HARDWARE
            and (one.who.run == run or (not one.who.run and one.who.node in nodes))
            for one in course.open.values()
        ),
        unsure=any(who.run == run for who, _ in course.waiting),
        settled=now - since >= settings.pace.close,
        namesakes=run in seen.namesakes,
    )


def _looked(
    seen: Look, memory: Memory, missing: Bools, assessments: Mapping[str, Assessment]
) -> frozenset[str]:
    """Nodes that answer, where nothing is missing and no rank of which nothing is known."""
    members = seen.members
    known = [run for run, one in assessments.items() if one.status != UNKNOWN]
    judged = np.isin(members.run, known) & seen.living & ~missing
    lives = {node for node, words in memory.told.items() if RANKS in words}
    dark = lives - set(members.node[judged].tolist())
    dark |= set(members.node[missing | (seen.living & ~judged)].tolist())
    here = (node for node, when in memory.nodes.values() if when == seen.now)
    return frozenset(here) - dark


def _baselines(seen: Look, given: Mapping[tuple[str, int], float]) -> dict[str, float]:
    found = {}
    for run, columns in seen.members.columns_of_run.items():
        kind = kind_of(run, int(seen.members.world[columns].max()), given)
        if kind is not None:
            found[run] = given[kind]
    return found


def of_runs(known: Known, progress: Mapping[str, Progress]) -> Iterator[Sample]:
    """What is said of runs, their ranks and their GPUs."""
    members = known.members
    for run in members.runs:
        if run in known.living:
            yield m.RUN_ACTIVE(1, run)
        if (found := known.assessments.get(run)) is not None:
            yield m.RUN_STATUS(1, run, found.status, found.reason)
        if run not in known.fresh:
            continue
        yield m.RUN_KNOWN_RANKS(known.ranks.get(run, 0), run)
        if (slowdown := known.slowdown.get(run)) is not None:
            yield m.RUN_SLOWDOWN(slowdown, run)
        if (speed := known.speeds.get(run)) is not None:
            yield m.RUN_COVERAGE(speed.coverage, run)
        if (pace := progress.get(run)) is None:
            continue
        if pace.step_seconds is not None:
            yield m.RUN_STEP_MEDIAN(pace.step_seconds, run)
        stands = speed is None or speed.step_seconds is None
        if not stands and (ratio := pace.ratio(known.baselines.get(run))) is not None:
            yield m.RUN_BASELINE_RATIO(ratio, run)
    for run, columns in members.columns_of_run.items():
        own = known.own[columns]
        told = columns[np.isfinite(own)]
        for column in told[np.argsort(-known.own[told], kind="stable")][:SLOWEST].tolist():
            yield m.RANK_STRAGGLER(float(known.own[column]), run, str(members.rank[column]))
    for (run, node), worst in slowest_of_nodes(known.own, members).items():
        yield m.NODE_STRAGGLER(worst, run, node)
    for column in np.flatnonzero(np.isfinite(known.clock)).tolist():
        yield m.GPU_CLOCK_PEER_RATIO(
            float(known.clock[column]), str(members.run[column]), str(members.node[column]),
            str(members.gpu[column]), str(members.uuid[column]),
        )  # fmt: skip


def of_inventory(inventory: Inventory) -> Iterator[Sample]:
    """What should be there."""
    for names, (_, when) in inventory.nodes.items():
        yield m.NODE_EXPECTED(1, *names)
        yield m.NODE_SCRAPED(when, *names)
    for names, (most, _) in inventory.links.items():
        yield m.GPU_NVLINK_EXPECTED(most, *names)
    for names in inventory.ports:
        yield m.IB_PORT_EXPECTED(1, *names)


def of_findings(findings: Sequence[WatchFinding], nodes: Iterable[str]) -> Iterator[Sample]:
    """The open findings, and what they mean for the nodes.

    Of those of which nobody is to be told nothing is said: a rule would tell it.

    Args:
        findings: Open ones.
        nodes: Of which everything was looked at: without a finding they are healthy.
    """
    score = dict.fromkeys(nodes, 1.0)
    for finding in findings:
        if finding.quiet:
            continue
        labels = {**finding.labels, "kind": finding.kind}
        yield m.FINDING_ACTIVE(1, *(labels[name] for name in m.FINDING_ACTIVE.labels))
        node = finding.who.node
        if node is not None:
            weight = 1.0 if finding.tier is Tier.PAGE else 0.5
            # Whatever the cause: it is about the node if this is the place.
            place = finding.place_confidence
            sure = finding.confidence if place is None else place
            score[node] = score.get(node, 1.0) * (1.0 - weight * sure)
    for node, value in score.items():
        yield m.NODE_HEALTH(value, node)
