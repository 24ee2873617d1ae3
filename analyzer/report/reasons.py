"""Why: the evidence for and against each cause, the alternatives, and who was let go."""

from typing import TYPE_CHECKING

from analyzer.report import blocks
from analyzer.report.before import before
from analyzer.report.blocks import Block

if TYPE_CHECKING:
    from analyzer.attribute import Diagnosis


def reasons(diagnosis: "Diagnosis") -> Block:
    """The section on why."""
    verdict = diagnosis.verdict
    tables: list[Block | None] = []
    for culprit in verdict.culprits:
        place = culprit.who
        rows = [
            ["for" if fact.supports else "against", fact.text, fact.query]
            for fact in sorted(culprit.evidence, key=lambda fact: not fact.supports)
        ]
        tables.append(
            blocks.text(
                f"{place}: {culprit.cause}, confidence {culprit.confidence * 100:.0f} %,"
                f" {culprit.tier} tier."
            )
        )
        columns = {"": "", "observation": "", "query": ""}
        tables.append(blocks.table(f"Evidence on {culprit.cause} at {place}", columns, rows))
    if not verdict.culprits:
        tables.append(blocks.text("No culprit was named, so there is no cause to argue for."))
    alternatives = [[each["cause"], each["confidence"]] for each in verdict.alternatives]
    return blocks.section(
        "reasons",
        "Why",
        [
            *tables,
            *before(verdict),
            blocks.table("Other causes", {"cause": "", "confidence": "share"}, alternatives),
            blocks.table(
                "Suspects that were let go",
                {"rank": "", "why": ""},
                [[each.rank, each.why] for each in verdict.rejected],
            ),
            blocks.table(
                "Unusual hardware",
                {"node": "", "gpu": "", "metric": "", "what": "", "costs time": ""},
                [
                    [each.get(key) for key in ("node", "gpu", "metric", "text", "costs_time")]
                    for each in verdict.anomalies
                ],
            ),
            blocks.table(
                "Slow by structure, not by a node's fault",
                {"kind": "", "share": "share", "what": ""},
                [
                    [each.get(key) for key in ("kind", "share", "text")]
                    for each in verdict.structure
                ],
            ),
            blocks.table(
                "What the detectors found",
                {"detector": "", "kind": "", "rank": "", "slowdown": "ratio", "score": "score",
                 "what": ""},
                [
                    [each.detector, each.kind, each.rank, each.slowdown, each.score, each.text]
                    for each in diagnosis.findings
                ],
            ),
        ],
    )  # fmt: skip
