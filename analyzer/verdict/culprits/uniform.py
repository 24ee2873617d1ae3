"""A slowdown of all ranks alike, of a stage, or of the whole network, as structure: nobody's."""

from collections.abc import Mapping, Sequence

from lockstep.analyzer.causes.posterior import Posterior
from lockstep.analyzer.shapes.run import FULL_NETWORK, STAGE_SLOWDOWN, UNIFORM, Finding
from lockstep.analyzer.stragglers.detectors.links import FULL
from lockstep.collector.contract.words import Cause

ADVICE = "; look at "


def slower_structures(
    findings: Sequence[Finding], why: Posterior | None
) -> tuple[Mapping[str, object], ...]:
    """Structures of docs/reference/verdict.md of the findings that all of them slowed alike.

    Args:
        findings: Of the run; those of another kind than `structure` are no business here.
        why: What the causes say of the first one; None = they were not asked. Where it names one,
            the structure gets `cause`, `confidence` and `evidence`.
    """
    told: list[Mapping[str, object]] = []
    for finding in findings:
        if finding.kind != "structure":
            continue
        stage = finding.details.get("stage")
        one: dict[str, object] = {
            "kind": finding.details.get("kind", UNIFORM if stage is None else STAGE_SLOWDOWN),
            "share": 1.0 - 1.0 / finding.slowdown,
            "text": finding.text,
        }
        if why is not None and why.cause != Cause.UNKNOWN and not told:
            seen = [fact.text for fact in why.facts if fact.supports]
            where = finding.text.partition(ADVICE)[0]
            one["text"] = "; ".join([where, *seen[:2]])
            one |= {"cause": why.cause, "confidence": why.probability}
            one["evidence"] = [
                {"for": fact.supports, "text": fact.text, "query": fact.query} for fact in why.facts
            ]
        told.append(one)
    return tuple(told)


def full_networks(findings: Sequence[Finding]) -> tuple[Mapping[str, object], ...]:
    """That packets of most nodes wait for the network since transfers take longer."""
    return tuple(
        {
            "kind": FULL_NETWORK,
            "share": 1.0 - 1.0 / one.slowdown,
            "text": one.text,
            "cause": Cause.CONGESTION,
        }
        for one in findings
        if one.kind == "network" and one.details.get(FULL)
    )
