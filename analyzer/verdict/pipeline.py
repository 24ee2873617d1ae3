"""From a run to its verdict, stage by stage (docs/method/verdict.md draws it).

A stage is a pure function from a case to a case. It reads what earlier stages found and adds one
thing: the verdict is a function of the run alone. The finding of `lockstep watch` and past runs, if
an archive has any, change the verdict afterwards, in `lockstep.diagnose.archive_stages`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lockstep.analyzer.align.common_writes import without_common_writes
from lockstep.analyzer.align.same_work import for_same_work
from lockstep.analyzer.causes.cause_weights import posterior
from lockstep.analyzer.causes.telemetry_quality import drop_stuck_sensors
from lockstep.analyzer.hangs.run_end import unexplained
from lockstep.analyzer.hardware.anomalies.uninstrumented import with_hardware
from lockstep.analyzer.operations import trace_evidence
from lockstep.analyzer.operations.examine import examine_operations, examine_trace
from lockstep.analyzer.operations.structure import slower_models
from lockstep.analyzer.shapes.operations import Trace
from lockstep.analyzer.shapes.run import (
    NO_NODES_FAULT,
    Evidence,
    Finding,
    Grid,
    Rejected,
    Run,
    Verdict,
)
from lockstep.analyzer.stats.processor import cpu_time_evidence
from lockstep.analyzer.stragglers import shared_causes
from lockstep.analyzer.stragglers.confidence import UNPLACED, accepted, surely_slower
from lockstep.analyzer.stragglers.detectors.change import change
from lockstep.analyzer.stragglers.detectors.links import FULL, links
from lockstep.analyzer.stragglers.imbalance import (
    heavier_or_slow,
    heavier_stages,
    placed,
    standing_roles,
)
from lockstep.analyzer.stragglers.model.adjusted_time import without_slow
from lockstep.analyzer.stragglers.model.precision import STEP_TIMES
from lockstep.analyzer.stragglers.model.roles import with_roles
from lockstep.analyzer.stragglers.registry import DETECTORS
from lockstep.analyzer.stragglers.step_time import bill
from lockstep.analyzer.verdict.case import Accused, Case, accuses, of_last_launch, opened
from lockstep.analyzer.verdict.cost import bounds_what_if, loss, with_loss
from lockstep.analyzer.verdict.culprits import (
    culprit,
    full_networks,
    link_culprit,
    slower_structures,
    together,
)
from lockstep.analyzer.verdict.rejected import rejected
from lockstep.analyzer.verdict.sentence import sentence
from lockstep.analyzer.verdict.status import provenance, why_unknown

Stage = Callable[[Case], Case]
WHOLE_RUN = ("structure", "change")
"""Kinds of findings that the whole run became slower, whoever may be why."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A run and all conclusions about it.

    Attributes:
        run: The run as it is judged.
        grid: Its windows.
        findings: What is off in them.
        verdict: Who holds the run back, and why.
        whole: The run as it was read, where its last launch has fewer ranks; else None.
    """

    run: Run
    grid: Grid
    findings: tuple[Finding, ...]
    verdict: Verdict
    whole: Run | None = None


def diagnose(run: Run | Trace, *, gpu_hour_price: float | None = None) -> Diagnosis:
    """The diagnosis of a run: its case, through all stages.

    Args:
        run: The run, or a trace of operations that are all there is of one.
        gpu_hour_price: Money per GPU-hour, for `Verdict.lost_money`.
    """
    judged = of_last_launch(run) if isinstance(run, Run) else run
    case = opened(judged, gpu_hour_price=gpu_hour_price)
    for stage in STAGES:
        case = stage(case)
    whole = run if isinstance(run, Run) and judged is not run else None
    return Diagnosis(case.run, case.grid, case.findings, case.verdict, whole)


def through(stages: Sequence[Stage], case: Case) -> Case:
    """A case after some stages, in their order."""
    for stage in stages:
        case = stage(case)
    return case


def comparable(case: Case) -> Case:
    """Make ranks comparable: no stuck sensors, no common writes, own times at the same work, roles.

    docs/method/trust.md, docs/method/case.md, docs/method/peers.md#roles.
    """
    grid = for_same_work(without_common_writes(drop_stuck_sensors(case.grid)))
    return replace(case, grid=with_roles(grid))


def operations(case: Case) -> Case:
    """Find slow workers by operations, and simulate the run without (docs/method/what-if.md)."""
    if case.trace is not None:
        return replace(case, seen=examine_trace(case.trace, case.grid))
    return replace(case, seen=examine_operations(case.run, case.grid))


def effects(case: Case) -> Case:
    """Find what is off in the windows (docs/method/peers.md, change.md, waits.md).

    Where there are operations alone, `operations` has found the slow ranks.
    """
    if case.trace is not None:
        return replace(case, findings=tuple(change(case.grid, STEP_TIMES)))
    findings = [finding for detector in DETECTORS for finding in detector.detect(case.grid)]
    rest = without_slow(
        case.grid, [finding for finding in findings if finding.detector == "effects"]
    )
    if rest is not None and not any(finding.kind == "link" for finding in findings):
        findings += [finding for finding in links(rest) if finding.kind == "link"]
    return replace(case, findings=tuple(findings))


def scopes(case: Case) -> Case:
    """Keep one finding a place and time, the one that shows it best (docs/method/peers.md).

    Suspects by operations that the windows do not show are added.
    """
    grid, seen = case.grid, case.seen
    operations = trace_evidence.findings(seen, grid, case.findings)
    slower = surely_slower(accepted(grid, (*case.findings, *operations)))
    by_nodes = shared_causes.without_shared_loading(grid, slower)
    return replace(case, findings=shared_causes.without_shared_cooling(grid, by_nodes))


def causes(case: Case) -> Case:
    """Weigh the causes of each finding that accuses (docs/method/causes.md).

    Where times cannot tell a slow node from a heavier stage, symptoms decide as well. Operations
    alone say nothing about causes.
    """
    grid, findings = case.grid, case.findings
    evidences: tuple[tuple[Evidence, ...], ...] = ((),) * len(findings)
    if case.trace is None:
        findings, evidences = placed(grid, findings)
    accused = [
        Accused(finding, posterior(evidence, cpu_time_evidence(grid, finding)))
        for finding, evidence in zip(findings, evidences, strict=True)
        if accuses(finding)
    ]
    accused.sort(key=lambda suspect: (suspect.finding.kind != "hang", -suspect.finding.slowdown))
    return replace(case, findings=findings, evidences=evidences, accused=tuple(accused))


def culprits(case: Case) -> Case:
    """Name ranks, links, whole nodes, leaves and racks (docs/method/verdict.md#places)."""
    grid, seen = case.grid, case.seen
    findings, slow = [accused.finding for accused in case.accused], case.accused_of("slow")
    named = [
        link_culprit(grid, accused.finding, accused.causes)
        if accused.finding.kind == "link"
        else culprit(grid, accused.finding, accused.causes, slow, seen)
        for accused in case.accused
    ]
    verdict = replace(
        case.verdict,
        culprits=together(grid, findings, named),
        hang=_hang(case.accused_of("hang")),
        alternatives=case.accused[0].causes.alternatives if case.accused else (),
    )
    return replace(case, verdict=verdict)


def costs(case: Case) -> Case:
    """Bill the culprits, or the slowdown of the whole run (docs/method/cost.md)."""
    grid, slow, links = case.grid, case.accused_of("slow"), case.accused_of("link")
    full = next((finding for finding in case.findings if finding.details.get(FULL)), None)
    about = links[0] if links else full or case.first(WHOLE_RUN)
    blind = about is None and not slow and case.seen.why_unknown is not None
    bounds = None if blind else bill(grid, slow, about)
    bounds = trace_evidence.of_all_ranks(case.seen, bounds, grid)
    simulated = trace_evidence.cost(case.seen, grid, slow) if slow else None
    bill_of_slow = bounds if simulated is None else simulated
    lost = loss(grid, bill_of_slow, slow, about, case.accused_of("hang"))
    verdict = replace(
        case.verdict,
        slowdown=None if bill_of_slow is None else bill_of_slow.slowdown,
        slowdown_interval=None if bill_of_slow is None else bill_of_slow.interval,
    )
    return replace(case, bounds=bounds, verdict=with_loss(verdict, lost, case.gpu_hour_price))


def structures(case: Case) -> Case:
    """List what a stage or all ranks share, which is nobody's fault (docs/method/causes.md)."""
    pairs = zip(case.findings, case.evidences, strict=True)
    why = next(
        (posterior(seen) for finding, seen in pairs if finding.kind == "structure" and seen),
        None,
    )
    # A run that ended badly is not cleared because of what was slow for all its ranks before.
    cleared = not (_ended_badly(case) or case.seen.suspected)
    alike = slower_structures(case.findings, why) if cleared else ()
    by_operations = trace_evidence.structure(case.seen)
    heavier = () if by_operations else heavier_stages(case.findings)
    roles = standing_roles(case.findings)
    full = full_networks(case.findings) if cleared else ()
    shared = (*alike, *full, *by_operations, *heavier, *roles, *slower_models(case.grid))
    return replace(case, verdict=replace(case.verdict, structure=shared))


def what_if(case: Case) -> Case:
    """Add what a repair of each culprit gives back (docs/method/what-if.md)."""
    slow = case.accused_of("slow")
    bounds = bounds_what_if(case.grid, slow, case.bounds, case.accused_of("link"))
    fixes = trace_evidence.what_if(case.seen, case.grid, slow, bounds)
    return replace(case, verdict=replace(case.verdict, what_if=fixes))


def let_go(case: Case) -> Case:
    """List who was suspected and is no culprit, and why (docs/method/waits.md)."""
    grid, slow, hangs = case.grid, case.accused_of("slow"), case.accused_of("hang")
    named = [finding.rank for finding in (*slow, *hangs)]
    windows = rejected(grid, slow, hangs, case.precision)
    by_operations = trace_evidence.rejected(case.seen, grid, named)
    # Without a culprit, operations know better who nearly was one.
    first, second = (windows, by_operations) if named else (by_operations, windows)
    shared = shared_causes.let_go(case.findings, named)
    by_rank: dict[int, Rejected] = {}
    for suspect in (*shared, *first, *second):
        by_rank.setdefault(suspect.rank, suspect)
    return replace(case, verdict=replace(case.verdict, rejected=tuple(by_rank.values())))


def status(case: Case) -> Case:
    """Decide between healthy, degraded and unknown (docs/method/verdict.md#status)."""
    named = bool(case.verdict.culprits) or any(
        structure["kind"] in NO_NODES_FAULT for structure in case.verdict.structure
    )
    longer = (
        case.first(("network", UNPLACED)) or case.first(WHOLE_RUN) or heavier_or_slow(case.findings)
    )
    nothing = _ended_badly(case) or case.seen.why_unknown
    why = None if named else nothing or why_unknown(case.grid, longer, case.precision)
    verdict = replace(
        case.verdict,
        status="degraded" if named else "unknown" if why else "healthy",
        coverage=case.grid.coverage,
        missing=(*case.grid.missing, *case.seen.missing),
        provenance=provenance(case.grid),
    )
    return replace(case, why_unknown=why, verdict=verdict)


def hardware(case: Case) -> Case:
    """Add hardware that deviates from its peers (docs/method/anomalies.md)."""
    return replace(case, verdict=with_hardware(case.verdict, case.run))


def words(case: Case) -> Case:
    """Write the sentence, unless hardware did (docs/method/verdict.md#verdict-to-words)."""
    if case.verdict.sentence:
        return case
    verdict = sentence(case.verdict, case.grid, case.why_unknown, case.precision)
    return replace(case, verdict=verdict)


STAGES: tuple[Stage, ...] = (
    comparable,
    operations,
    effects,
    scopes,
    causes,
    culprits,
    costs,
    structures,
    what_if,
    let_go,
    status,
    hardware,
    words,
)
"""Every stage of a run, in order."""


def _ended_badly(case: Case) -> str | None:
    """The bad end of a run that nobody explains; None where it ended well or somebody is named."""
    return None if case.verdict.culprits else unexplained(case.grid)


def _hang(hangs: Sequence[Finding]) -> Mapping[str, object] | None:
    """The collective in which ranks hang; None also where a rank went and nobody waited."""
    if not hangs or hangs[0].details["group"] is None:
        return None
    details = hangs[0].details
    return {key: details[key] for key in ("group", "sequence", "op", "missing_ranks")}
