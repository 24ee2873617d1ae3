"""Each place that is accused: a rank, a node or a leaf, told about once by what all its ranks show.

Times alone cannot tell a slow node from a heavier stage that it alone holds (`HEAVY`). Their odds
and what is shown there decide together; it is named if it is likelier than not,

`P / (1 - P) = odds by its times * R`, `R = P(what is shown | slow) / P(what is shown | well)`

whatever the cause of the slowness (`Weights.log_ratio`). So it is with a rank of a foreign program
that differs since the start. Its load may differ, and with it heat, power and the wait for a
processor: R is at most 1 there unless hardware deviates as more work does not make it (`FAULTY`),
and at least 1 where its work is proven to be the same: then what is well does not clear it.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import expit, logit

from lockstep.analyzer.align.common_writes import BY_DESIGN
from lockstep.analyzer.causes.cause_spec import AGAINST
from lockstep.analyzer.causes.cause_weights import PRIOR, slow_or_well, weigh_causes
from lockstep.analyzer.causes.symptoms.host import quota
from lockstep.analyzer.causes.symptoms.series import Symptom
from lockstep.analyzer.causes.symptoms.table import KINDS, measured
from lockstep.analyzer.shapes.run import Evidence, Finding, Grid
from lockstep.analyzer.shapes.wording import NAMED
from lockstep.analyzer.stats.robust_stats import MOSTLY
from lockstep.analyzer.stats.significance import STEPS_AT_LEAST
from lockstep.analyzer.stragglers.confidence import HEAVY, LIKELIER
from lockstep.analyzer.stragglers.model.roles import AGAIN, BY_CLOCK, OF_ROLES, ROLE, SAME_WORK

MOST = 2.0
"""Times the others' work that a stage is given by design at the most: chosen, as whoever lays out a
pipeline would move layers to the others long before."""
DESIGN, ROLES = "stage-imbalance", "role-imbalance"
FAULTY = (
    "thermal throttling", "lower clock", "memory errors", "PCIe trouble", "NVLink trouble",
    "XID", "XID of memory", "XID of PCIe", "XID of NVLink",
)  # fmt: skip
"""Symptoms of hardware that is slow, whatever its work is."""
NOT_BY_CLOCK = ("idle GPU", "power throttling", "power at its cap", "contradiction")
"""Symptoms with which a lower clock may come from the work, or from numbers that are wrong."""
SLOW_CLOCK = -PRIOR[AGAINST]["strong"]
"""Log of R where a busy GPU's clock is below its peers' by more than parts differ: as physics
expects. The fitted weight is of any difference that can be measured, as healthy GPUs have too."""


def node_of(finding: Finding) -> str | None:
    """The node that a rank's finding is about; None where it is about the rank."""
    return finding.details.get("node") if finding.kind in ("slow", "hang", HEAVY) else None


def placed(
    grid: Grid, findings: Sequence[Finding]
) -> tuple[tuple[Finding, ...], tuple[tuple[Evidence, ...], ...]]:
    """The findings, and of each what is said of every cause at its place; empty without causes.

    Those of a node that likelier is slow than its stage heavier are of kind `slow` then, and those
    of a leaf or rack its nodes' where causes of their own are likelier.
    """
    weighed_findings = list(findings)
    evidences: list[tuple[Evidence, ...]] = [()] * len(findings)
    groups: dict[Hashable, list[int]] = {}
    for index, finding in enumerate(findings):
        if finding.kind in (*KINDS, HEAVY):
            where = finding.details.get("part") or node_of(finding) or index
            groups.setdefault((where, finding.kind), []).append(index)
    for places in groups.values():
        mine = [findings[index] for index in places]
        heavy = mine[0].kind == HEAVY
        if heavy:
            mine = [replace(finding, kind="slow") for finding in mine]
        weighed = weigh_causes(grid, mine)
        if "part" in mine[0].details:
            mine, weighed = _whole_or_nodes(grid, mine, weighed)
        if heavy:
            ratio = slow_or_well(grid, mine)
            if _of_role(mine[0]):
                ratio = _of_standing(grid, mine, ratio)
            mine = [_decided(finding, ratio) for finding in mine]
        for index, one, evidence in zip(places, mine, weighed, strict=True):
            weighed_findings[index], evidences[index] = one, evidence
    return tuple(weighed_findings), tuple(evidences)


def _whole_or_nodes(
    grid: Grid, part: list[Finding], weighed: list[tuple[Evidence, ...]]
) -> tuple[list[Finding], list[tuple[Evidence, ...]]]:
    """A leaf or rack as one place or as its nodes, whichever makes the symptoms likelier.

    What slows all of a leaf is one thing, two that happen to be slow at once are two: the log odds
    of the likeliest cause of all nodes together against the sum of each node's own likeliest. Each
    node but the first costs the choice among all causes.
    """
    node_of = {info.rank: info.node for info in grid.ranks}
    nodes: dict[str, list[int]] = {}
    for index, finding in enumerate(part):
        nodes.setdefault(node_of[finding.rank or 0], []).append(index)
    by_node = {node: weigh_causes(grid, [part[i] for i in mine]) for node, mine in nodes.items()}
    own = sum(_best(each[0]) for each in by_node.values())
    choice = float(np.log(len(weighed[0]) + 1))
    if own - (len(nodes) - 1) * choice <= len(nodes) * _best(weighed[0]):
        return part, weighed
    apart = [
        replace(finding, details={k: v for k, v in finding.details.items() if k != "part"})
        for finding in part
    ]
    each = {index: by_node[n][i] for n, mine in nodes.items() for i, index in enumerate(mine)}
    return apart, [each[index] for index in range(len(part))]


def _best(evidences: Sequence[Evidence]) -> float:
    """Log odds of the likeliest cause; those of "unknown" are 0."""
    return max((0.0, *(evidence.log_odds for evidence in evidences)))


def _of_role(finding: Finding) -> bool:
    """Whether it is about who differs since the start in a foreign program."""
    return ROLE in finding.details


def _of_standing(grid: Grid, mine: Sequence[Finding], ratio: float) -> float:
    """The log of R of a place that differs since the start, as far as that can be determined.

    Without a fault of the hardware it is not slow, with one it is not cleared by what else is
    well, nor where its work is proven to be the same, and a busy GPU with a lower clock is slow. Of
    a run that was not seen from its first steps nobody knows that it is by design.
    """
    symptoms = [measured(grid, finding) for finding in mine]
    pairs = list(zip(mine, symptoms, strict=True))
    if not any(_faulty(grid, *pair) for pair in pairs):
        ratio = min(ratio, 0.0)
    if any(_slow_clock(*pair) for pair in pairs):
        ratio = max(ratio, SLOW_CLOCK)
    if all(finding.details.get(SAME_WORK) for finding in mine):
        ratio = max(ratio, 0.0)
    late = len(grid.from_step) > 0 and int(grid.from_step.min()) >= STEPS_AT_LEAST
    doubtful = late or any(_doubtful(grid, *pair) for pair in pairs)
    return max(ratio, float(np.log(LIKELIER))) if doubtful else ratio


def _faulty(grid: Grid, finding: Finding, symptoms: Mapping[str, Symptom]) -> bool:
    """Whether hardware deviates beyond any doubt; of a GPU with less to do a clock says nothing."""
    held = quota(grid, finding)
    shown = [symptoms[name] for name in FAULTY if name in symptoms] + ([held] if held else [])
    if _seen(symptoms, "idle GPU"):
        shown = [symptom for symptom in shown if symptom is not symptoms.get("lower clock")]
    return any(symptom.explains and symptom.grave for symptom in shown)


def _slow_clock(finding: Finding, symptoms: Mapping[str, Symptom]) -> bool:
    """Whether its GPU is known to be as busy as its peers, and to have a lower clock than parts do.

    Nobody can say so where its utilisation is not known.
    """
    clock = symptoms.get("lower clock")
    if not finding.details.get(BY_CLOCK) or clock is None or "idle GPU" not in symptoms:
        return False
    return (
        clock.explains and clock.grave and not any(_seen(symptoms, name) for name in NOT_BY_CLOCK)
    )


def _doubtful(grid: Grid, finding: Finding, symptoms: Mapping[str, Symptom]) -> bool:
    """Whether something says that hardware is slow, whatever else says that it is well."""
    lower = bool(finding.details.get(BY_CLOCK)) and not _seen(symptoms, "idle GPU")
    return lower or _faulty(grid, finding, symptoms)


def _seen(symptoms: Mapping[str, Symptom], name: str) -> bool:
    return name in symptoms and symptoms[name].seen


def _decided(finding: Finding, ratio: float) -> Finding:
    place = float(expit(logit(float(finding.details["place_confidence"])) + ratio))
    return replace(
        finding,
        kind="slow" if place > LIKELIER else HEAVY,
        details={**finding.details, "log_ratio": ratio, "place_confidence": place},
    )


def heavier_stages(findings: Sequence[Finding]) -> tuple[Mapping[str, object], ...]:
    """Structures of docs/reference/verdict.md: a heavier stage of a node that surely is well."""
    firsts = {
        finding.details["node"]: finding
        for finding in findings
        if finding.kind == HEAVY and not _of_role(finding)
    }
    return tuple(
        {
            "kind": DESIGN,
            "share": None,
            "text": f"{finding.text}; nothing says that the node is slow",
        }
        for finding in firsts.values()
        if _by_design(finding)
    )


def standing_roles(findings: Sequence[Finding]) -> tuple[Mapping[str, object], ...]:
    """One structure of all ranks that differ since the start and of whom nobody is accused."""
    mine = {
        finding.rank: finding for finding in findings if finding.kind == HEAVY and _of_role(finding)
    }
    if not mine:
        return ()
    ordered = sorted(mine.values(), key=lambda finding: -finding.slowdown)
    longer = [finding for finding in ordered if not finding.details.get(BY_CLOCK)]
    lower = [finding for finding in ordered if finding.details.get(BY_CLOCK)]
    parts = []
    if longer:
        parts.append(f"{_listed(longer, '')} took longer than other ranks")
    if lower:
        parts.append(f"the GPU of {_listed(lower, '1/')} had a lower clock than its peers")
    well = all(map(_by_design, ordered))
    why = "; nothing says that hardware is slow" if well else ""
    text = f"{', and '.join(parts)} in all steps seen: {OF_ROLES}{why}"
    return ({"kind": ROLES, "share": None, "text": text},)


def _listed(ordered: Sequence[Finding], over: str) -> str:
    """The first of the ranks, each with its ratio, and how many more there are."""
    names = [
        f"rank {finding.rank} ({over}{finding.slowdown:.2f}{'' if over else 'x'})"
        for finding in ordered
    ]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def heavier_or_slow(findings: Sequence[Finding]) -> Finding | None:
    """Of a node that nobody can say is well; None without."""
    return next(
        (finding for finding in findings if finding.kind == HEAVY and not _by_design(finding)), None
    )


def _by_design(finding: Finding) -> bool:
    """Whether a slow node would likelier than not have shown it, so that its stage is heavier.

    Parts and roles differ all the time. Of what comes again and again that is known where it is
    evaluation or checkpoints.
    """
    usual = _of_role(finding) or finding.slowdown <= MOST
    if (
        finding.details.get(AGAIN)
        and sum(finding.share.get(each, 0.0) for each in BY_DESIGN) < MOSTLY
    ):
        return False
    return bool(finding.details["log_ratio"] < np.log(LIKELIER) and usual)
