"""The way from a run to its verdict, stage by stage (docs/method/verdict.md draws it).

A stage is a pure function from a case to a case: it reads what the stages before it found, and adds
one thing. A verdict is a function of the run alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from lockstep.analyzer.align.common_writes import without_common_writes
from lockstep.analyzer.align.same_work import for_same_work
from lockstep.analyzer.causes.posterior import posterior
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
from lockstep.analyzer.verdict.case import Accused, Case, accuses, opened
from lockstep.analyzer.verdict.cost.fixes import bounds_what_if
from lockstep.analyzer.verdict.cost.loss import loss, with_loss
from lockstep.analyzer.verdict.culprits.link import link_culprit
from lockstep.analyzer.verdict.culprits.rank import culprit
from lockstep.analyzer.verdict.culprits.together import together
from lockstep.analyzer.verdict.culprits.uniform import full_networks, slower_structures
from lockstep.analyzer.verdict.elastic import of_last_launch
from lockstep.analyzer.verdict.rejected import rejected
from lockstep.analyzer.verdict.sentence import sentence
from lockstep.analyzer.verdict.status import provenance, why_unknown

Stage = Callable[[Case], Case]
WHOLE_RUN = ("structure", "change")
"""Kinds of findings that the whole run became slower."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A run with everything that was concluded about it.

    Attributes:
        run: As it is judged.
        whole: As it was read, where that is more: its last launch has fewer ranks.
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
    case = through(STAGES, opened(judged, gpu_hour_price=gpu_hour_price))
    whole = run if isinstance(run, Run) and judged is not run else None
    return Diagnosis(case.run, case.grid, case.findings, case.verdict, whole)


def through(stages: Sequence[Stage], case: Case) -> Case:
    """A case after some stages, in their order."""
    return reduce(lambda so_far, stage: stage(so_far), stages, case)


def comparable(case: Case) -> Case:
    """Without stuck sensors and what all ranks write; own times at the same work, by role.

    docs/method/trust.md, docs/method/case.md, docs/method/peers.md#roles.
    """
    grid = for_same_work(without_common_writes(drop_stuck_sensors(case.grid)))
    return replace(case, grid=with_roles(grid))


def operations(case: Case) -> Case:
    """Who is slow by the operations, and the run without them (docs/method/what-if.md)."""
    if case.trace is not None:
        return replace(case, seen=examine_trace(case.trace, case.grid))
    return replace(case, seen=examine_operations(case.run, case.grid))


def effects(case: Case) -> Case:
    """What is off in the windows (docs/method/peers.md, change.md, waits.md).

    Of operations alone the search for slow ranks is that of `operations`.
    """
    if case.trace is not None:
        return replace(case, findings=tuple(change(case.grid, STEP_TIMES)))
    found = [finding for detector in DETECTORS for finding in detector.detect(case.grid)]
    rest = without_slow(case.grid, [one for one in found if one.detector == "effects"])
    if rest is not None and not any(one.kind == "link" for one in found):
        found += [one for one in links(rest) if one.kind == "link"]
    return replace(case, findings=tuple(found))


def scopes(case: Case) -> Case:
    """Who is slow at a time once, by the observation that shows it best (docs/method/peers.md).

    With the suspects of the operations that the windows do not show.
    """
    grid, seen = case.grid, case.seen
    operations = trace_evidence.findings(seen, grid, case.findings)
    found = surely_slower(accepted(grid, (*case.findings, *operations)))
    by_nodes = shared_causes.without_shared_loading(grid, found)
    return replace(case, findings=shared_causes.without_shared_cooling(grid, by_nodes))


def causes(case: Case) -> Case:
    """The probability of each cause of each place that is accused (docs/method/causes.md).

    Where times cannot tell a slow node from a heavier stage, its symptoms decide as well. Of
    operations alone nothing tells of a cause.
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
    accused.sort(key=lambda one: (one.finding.kind != "hang", -one.finding.slowdown))
    return replace(case, findings=findings, evidences=evidences, accused=tuple(accused))


def culprits(case: Case) -> Case:
    """Who is named: ranks, links, whole nodes, leaves and racks (docs/method/verdict.md#places)."""
    grid, seen = case.grid, case.seen
    findings, slow = [one.finding for one in case.accused], case.accused_of("slow")
    named = [
        link_culprit(grid, one.finding, one.causes)
        if one.finding.kind == "link"
        else culprit(grid, one.finding, one.causes, slow, seen)
        for one in case.accused
    ]
    verdict = replace(
        case.verdict,
        culprits=together(grid, findings, named),
        hang=_hang(case.accused_of("hang")),
        alternatives=case.accused[0].causes.alternatives if case.accused else (),
    )
    return replace(case, verdict=verdict)


def costs(case: Case) -> Case:
    """What the culprits, or the whole run's slowdown, cost (docs/method/cost.md)."""
    grid, slow, links = case.grid, case.accused_of("slow"), case.accused_of("link")
    full = next((one for one in case.findings if one.details.get(FULL)), None)
    about = links[0] if links else full or case.first(WHOLE_RUN)
    blind = about is None and not slow and case.seen.why_unknown is not None
    bounds = None if blind else bill(grid, slow, about)
    bounds = trace_evidence.of_all_ranks(case.seen, bounds, grid)
    simulated = trace_evidence.cost(case.seen, grid, slow) if slow else None
    told = bounds if simulated is None else simulated
    lost = loss(grid, told, slow, about, case.accused_of("hang"))
    verdict = replace(
        case.verdict,
        slowdown=None if told is None else told.slowdown,
        slowdown_interval=None if told is None else told.interval,
    )
    return replace(case, bounds=bounds, verdict=with_loss(verdict, lost, case.gpu_hour_price))


def structures(case: Case) -> Case:
    """What a stage or all ranks share: nobody's fault (docs/method/causes.md)."""
    pairs = zip(case.findings, case.evidences, strict=True)
    why = next((posterior(told) for one, told in pairs if one.kind == "structure" and told), None)
    # A run that ended badly is not cleared because of what was slow for all its ranks before.
    cleared = not (_ended_badly(case) or case.seen.suspected)
    alike = slower_structures(case.findings, why) if cleared else ()
    by_operations = trace_evidence.structure(case.seen)
    heavier = () if by_operations else heavier_stages(case.findings)
    roles = standing_roles(case.findings)
    full = full_networks(case.findings) if cleared else ()
    told = (*alike, *full, *by_operations, *heavier, *roles, *slower_models(case.grid))
    return replace(case, verdict=replace(case.verdict, structure=told))


def what_if(case: Case) -> Case:
    """What mending each culprit gives back, simulated or bounded (docs/method/what-if.md)."""
    slow = case.accused_of("slow")
    bounds = bounds_what_if(case.grid, slow, case.bounds, case.accused_of("link"))
    told = trace_evidence.what_if(case.seen, case.grid, slow, bounds)
    return replace(case, verdict=replace(case.verdict, what_if=told))


def let_go(case: Case) -> Case:
    """Who was suspected and is no culprit, and why (docs/method/waits.md)."""
    grid, slow, hangs = case.grid, case.accused_of("slow"), case.accused_of("hang")
    named = [finding.rank for finding in (*slow, *hangs)]
    windows = rejected(grid, slow, hangs, case.precision)
    by_operations = trace_evidence.rejected(case.seen, grid, named)
    # Without culprit the operations know more of who nearly was one.
    first, second = (windows, by_operations) if named else (by_operations, windows)
    shared = shared_causes.let_go(case.findings, named)
    told: dict[int, Rejected] = {}
    for one in (*shared, *first, *second):
        told.setdefault(one.rank, one)
    return replace(case, verdict=replace(case.verdict, rejected=tuple(told.values())))


def status(case: Case) -> Case:
    """Healthy, degraded or unknown, and why not healthy (docs/method/verdict.md#status)."""
    named = bool(case.verdict.culprits) or any(
        one["kind"] in NO_NODES_FAULT for one in case.verdict.structure
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
    """Hardware that deviates, beside all this (docs/method/anomalies.md)."""
    return replace(case, verdict=with_hardware(case.verdict, case.run))


def words(case: Case) -> Case:
    """The sentence, if hardware alone has not said it (docs/method/verdict.md#verdict-to-words)."""
    if case.verdict.sentence:
        return case
    told = sentence(case.verdict, case.grid, case.why_unknown, case.precision)
    return replace(case, verdict=told)


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
"""Every stage, in the order in which one reads them."""


def _ended_badly(case: Case) -> str | None:
    """How a run ended that nobody explains; None where it ended well, or somebody is named."""
    return None if case.verdict.culprits else unexplained(case.grid)


def _hang(hangs: Sequence[Finding]) -> Mapping[str, object] | None:
    """The collective that is hung in; None also where a rank went and none was waited in."""
    if not hangs or hangs[0].details["group"] is None:
        return None
    details = hangs[0].details
    return {key: details[key] for key in ("group", "sequence", "op", "missing_ranks")}
