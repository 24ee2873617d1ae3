"""What the page says of runs, nodes and findings (contract.metrics.analyzer)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.findings.assessment import Assessment
from lockstep.analyzer.findings.finding import Tier, WatchFinding
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.watch.judge.inventory import Inventory
from lockstep.watch.judge.members import Members
from lockstep.watch.judge.progress import Progress
from lockstep.watch.judge.ratios import Speed, slowest_of_nodes

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
