"""All Findings and Evidence -> the Verdict: culprits, causes, confidence, and who was let go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyzer.align import align
from analyzer.anomalies.add import with_hardware
from analyzer.cause_weights import weigh_causes
from analyzer.common_writes import without_common_writes
from analyzer.cost.loss import loss, with_loss
from analyzer.cost.step_time import Cost, cost, of_change
from analyzer.culprits.link import link_culprit, modest
from analyzer.culprits.node import whole_nodes
from analyzer.culprits.rack import by_place
from analyzer.culprits.rank import culprit
from analyzer.culprits.slow_nodes import pooled, settled
from analyzer.culprits.uniform import uniform_structures
from analyzer.detectors import DETECTORS
from analyzer.from_operations import Look, examine_operations, trace_evidence
from analyzer.posterior import Posterior, posterior
from analyzer.rejected import rejected
from analyzer.run import Evidence, Finding, Grid, Rejected, Run, Verdict
from analyzer.same_work import for_same_work
from analyzer.sentence import sentence
from analyzer.slowness.before_after import column_of, gpu_words
from analyzer.slowness.changepoint import blocks, column_medians
from analyzer.slowness.coverage import unseen_words
from analyzer.slowness.ended import unexplained
from analyzer.slowness.minimum_detectable_effect import smallest_noticed
from analyzer.slowness.peer_groups import peer_groups
from analyzer.slowness.processor import cpu_time_evidence
from analyzer.slowness.significance import NATURAL_SPREAD
from analyzer.telemetry_quality import drop_stuck_sensors

BLOCKS_AT_LEAST = 6
"""Three before and three after a change are the fewest that a shift is found in."""
COVERAGE_AT_LEAST = 0.5
NOTICED_AT_MOST = 1.5
"""A run in which only slower ranks than this would have been noticed is not called healthy."""
NOTHING_SEEN = Look()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A run with everything that was concluded about it."""

    run: Run
    grid: Grid
    findings: tuple[Finding, ...]
    verdict: Verdict


def diagnose(run: Run, *, gpu_hour_price: float | None = None) -> Diagnosis:
    """Run -> Grid -> Findings -> Evidence -> Verdict.

    Args:
        run: The run.
        gpu_hour_price: Money per GPU-hour, for `Verdict.lost_money`.
    """
    grid = for_same_work(without_common_writes(drop_stuck_sensors(align(run))))
    seen = examine_operations(run, grid)
    found = tuple(finding for detector in DETECTORS for finding in detector.detect(grid))
    findings = settled(grid, found)
    findings = modest(settled(grid, (*findings, *trace_evidence.findings(seen, grid, findings))))
    evidences = tuple(
        tuple(weigh_causes(grid, finding))
        if accuses(finding) or finding.kind == "structure"
        else ()
        for finding in findings
    )
    evidences = pooled(findings, evidences)
    verdict = attribute(grid, findings, evidences, seen, gpu_hour_price=gpu_hour_price)
    verdict = with_hardware(verdict, run)
    return Diagnosis(run, grid, findings, verdict)


def accuses(finding: Finding) -> bool:
    """Whether a finding names a culprit; the others confirm or describe."""
    return finding.kind in ("slow", "hang", "link")


def attribute(
    grid: Grid,
    findings: Sequence[Finding],
    evidences: Sequence[Sequence[Evidence]],
    seen: Look = NOTHING_SEEN,
    *,
    gpu_hour_price: float | None = None,
) -> Verdict:
    """The verdict.

    Args:
        grid: The run's windows.
        findings: What was found.
        evidences: `evidences[i]` is about `findings[i]`; empty where that neither accuses nor is
            about all ranks alike.
        seen: What the operations say.
        gpu_hour_price: Money per GPU-hour, for `Verdict.lost_money`.
    """
    accused = [
        (finding, _doubted(finding, posterior(evidence, cpu_time_evidence(grid, finding))))
        for finding, evidence in zip(findings, evidences, strict=True)
        if accuses(finding)
    ]
    accused.sort(key=lambda pair: (pair[0].kind != "hang", -pair[0].slowdown))
    slow = [finding for finding, _ in accused if finding.kind == "slow"]
    hangs = [finding for finding, _ in accused if finding.kind == "hang"]
    whole = next((f for f in findings if f.kind in ("structure", "change")), None)
    links = [finding for finding, _ in accused if finding.kind == "link"]
    culprits = tuple(
        link_culprit(grid, *pair)
        if pair[0].kind == "link"
        else culprit(grid, *pair, findings, slow, seen)
        for pair in accused
    )
    culprits = by_place(grid, whole_nodes([finding for finding, _ in accused], culprits))
    about = links[0] if links else whole
    bounds = _bill(grid, slow, about)
    bill = trace_evidence.cost(seen, grid, slow) if slow else None
    bill = bounds if bill is None else bill
    lost = loss(grid, bill, slow, about, hangs)
    # A run that ended badly is not cleared because all its ranks were slow alike before.
    end = None if culprits else unexplained(grid)
    uniform = whole is not None and whole.kind == "structure" and end is None
    network = next((f for f in findings if f.kind == "network"), None)
    why_unknown = None if culprits or uniform else end or _unknown(grid, network or whole)
    verdict = Verdict(
        run=grid.run,
        status="degraded" if culprits or uniform else "unknown" if why_unknown else "healthy",
        sentence="",
        slowdown=bill.slowdown if bill else None,
        slowdown_interval=bill.interval if bill else None,
        lost_gpu_hours=None,
        coverage=grid.coverage,
        culprits=culprits,
        hang=_hang(hangs),
        structure=(
            *(() if end else uniform_structures(findings, _why_all(findings, evidences))),
            *trace_evidence.structure(seen),
        ),
        what_if=trace_evidence.what_if(seen, grid, slow, _what_if(grid, slow, bounds)),
        rejected=_let_go(grid, slow, hangs, seen),
        alternatives=accused[0][1].alternatives if accused else (),
        missing=(*grid.missing, *seen.missing),
        provenance=_provenance(grid),
    )
    return sentence(with_loss(verdict, lost, gpu_hour_price), grid, why_unknown)


def _let_go(
    grid: Grid, slow: Sequence[Finding], hangs: Sequence[Finding], seen: Look
) -> tuple[Rejected, ...]:
    """By the windows, and by the operations who else."""
    named = [finding.rank for finding in (*slow, *hangs)]
    windows, operations = rejected(grid, slow, hangs), trace_evidence.rejected(seen, grid, named)
    # Without culprit the operations know more of who nearly was one.
    first, second = (windows, operations) if named else (operations, windows)
    told = {one.rank for one in first}
    return (*first, *(one for one in second if one.rank not in told))


def _bill(grid: Grid, slow: Sequence[Finding], whole: Finding | None) -> Cost | None:
    if slow:
        return cost(grid, slow)
    if whole is not None:
        return of_change(grid, whole)
    if (~grid.masked).any() and np.isfinite(grid.time["wall"]).any():
        return Cost(1.0, (1.0, 1.0), 0.0)
    return None


def _unknown(grid: Grid, whole: Finding | None) -> str | None:
    """Why a run without culprit that ended well cannot be called healthy; None = it can."""
    told = int(np.isfinite(grid.time["wall"]).any(axis=0).sum())
    if told < 2:
        return f"{told} of {len(grid.ranks)} ranks told step times; a comparison needs two"
    if len(blocks(grid, "wall")) < BLOCKS_AT_LEAST:
        return f"{int((~grid.masked).sum())} steps after warm-up are too few to compare ranks"
    if (dark := unseen_words(grid)) is not None:
        return dark if whole is None else f"{whole.text}; {dark}"
    if grid.coverage < COVERAGE_AT_LEAST:
        return f"only {grid.coverage:.0%} of the expected step times are there"
    if (apart := _nobody_knows(grid)) is not None:
        return apart
    if whole is not None:
        return whole.text
    noticed = smallest_noticed(grid)
    if noticed is not None and noticed > NOTICED_AT_MOST:
        return (
            f"with {len(blocks(grid))} groups of steps this noisy, only a rank slower by"
            f" {noticed:.2f}x or more would have been noticed"
        )
    return None


def _doubted(finding: Finding, causes: Posterior) -> Posterior:
    """Less certain where a hang cannot tell who of several began it."""
    certainty = float(finding.details.get("certainty", 1.0)) if finding.kind == "hang" else 1.0
    return replace(causes, probability=causes.probability * certainty)


def _hang(hangs: Sequence[Finding]) -> Mapping[str, object] | None:
    """The collective that is hung in; None also where a rank went and none was waited in."""
    if not hangs or hangs[0].details["group"] is None:
        return None
    details = hangs[0].details
    return {key: details[key] for key in ("group", "sequence", "op", "missing_ranks")}


def _nobody_knows(grid: Grid) -> str | None:
    """Why the ranks' own past, which shows no change, is not enough."""
    groups = peer_groups(grid)
    if all(len(columns) == 1 for columns in groups.values()):
        return (
            "no rank became slower, but each is the only one of its stage, where one that always"
            " was slow looks like a heavy stage"
        )
    own = column_medians(np.log(grid.time["own"][~grid.masked]))
    for columns in groups.values():
        if len(columns) == 2 and abs(np.diff(own[columns])[0]) >= NATURAL_SPREAD:
            fast, slow = columns[np.argsort(own[columns])]
            ratio = np.exp(own[slow] - own[fast])
            return (
                f"rank {grid.ranks[slow].rank} takes {ratio:.2f}x the own time of its only peer,"
                f" rank {grid.ranks[fast].rank}, from the start, and nobody knows which is normal"
            )
    return None


def _why_all(
    findings: Sequence[Finding], evidences: Sequence[Sequence[Evidence]]
) -> Posterior | None:
    """What the causes say of a slowdown of all ranks alike; None without one."""
    pairs = zip(findings, evidences, strict=True)
    return next((posterior(told) for one, told in pairs if one.kind == "structure" and told), None)


def _what_if(grid: Grid, slow: Sequence[Finding], bill: Cost | None) -> Mapping[str, object]:
    if not slow or bill is None:
        return {"method": "none"}
    by_node: dict[str, list[Finding]] = {}
    for finding in slow:
        column = column_of(grid, finding.rank)
        assert column is not None
        by_node.setdefault(grid.ranks[column].node, []).append(finding)
    fixes = []
    for node, mine in by_node.items():
        fix = cost(grid, mine)
        if fix is not None:
            low, high = fix.gain_interval
            fixes.append({"remove": node, "gain": fix.gain, "interval": [low, high],
                          "by": "bound", "over": "the steps while it was slow"})  # fmt: skip
    return {"method": "bounds", "S": bill.slowdown, "fixes": fixes}


def _provenance(grid: Grid) -> tuple[str, ...]:
    words = []
    if grid.meta.get("emulated_devices"):
        words.append("emulated devices")
    if any(gpu_words(grid, info.rank) == "the simulated GPU" for info in grid.ranks):
        words.append("simulated GPU telemetry")
    return tuple(words)
