"""Why: the evidence for and against each cause, the alternatives, who was let go, what deviates."""

from datetime import datetime

from lockstep.analyzer.report import blocks, figures
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.series import MOST_CULPRITS, MOST_ROWS
from lockstep.analyzer.shapes.run import Culprit, Verdict


def reasons(verdict: Verdict) -> Block:
    """The section on why."""
    tables: list[Block | None] = [blocks.text(verdict.sentence)]
    for culprit in verdict.culprits[:MOST_CULPRITS]:
        who = culprit.who
        rows = [
            ["for" if fact.supports else "against", fact.text, fact.query]
            for fact in sorted(culprit.evidence, key=lambda fact: not fact.supports)
        ]
        tables.append(
            blocks.text(
                f"{who}: {culprit.cause}, confidence {sureness(culprit)}, {culprit.tier} tier."
            )
        )
        columns = {"speaks": "", "observation": "", "query": ""}
        tables.append(blocks.table(f"Evidence on {culprit.cause} at {who}", columns, rows))
    if not verdict.culprits:
        tables.append(blocks.text("No culprit was named, so there is no cause to argue for."))
    alternatives = [[each["cause"], each["confidence"]] for each in verdict.alternatives]
    return blocks.section(
        "reasons",
        "Why",
        [
            *tables,
            *before(verdict),
            blocks.table("Other causes", {"cause": "", "confidence": "confidence"}, alternatives),
            blocks.table(
                "Suspects that were ruled out",
                {"rank": "", "why": ""},
                [[each.rank, each.why] for each in verdict.rejected[:MOST_ROWS]],
            ),
            blocks.table(
                "Slow by structure, not by a node's fault",
                {"kind": "", "share": "share", "what": ""},
                [
                    [each.get(key) for key in ("kind", "share", "text")]
                    for each in verdict.structure
                ],
            ),
        ],
    )


def sureness(culprit: Culprit) -> str:
    """In the place, where it is told, and in the cause."""
    shares = [("place", culprit.place_confidence), ("cause", culprit.confidence)]
    return ", ".join(
        f"in the {what} {figures.cell(share, 'confidence')}"
        for what, share in shares
        if share is not None
    )


def before(verdict: Verdict) -> list[Block | None]:
    """A sentence a culprit, and what Meta's lemon features (arXiv 2410.21680) are for it."""
    rows = [
        [past["uuid"] or past["node"], past["runs"], past["culprit_runs"], *past["interval"],
         past["peers_share"], past["features"]["xid_cnt"],
         past["features"]["multi_node_node_fails"] + past["features"]["single_node_node_fails"]]
        for past in verdict.recurrence
    ]  # fmt: skip
    columns = {"who": "", "runs": "count", "culprit in": "count", "at least": "share",
               "at most": "share", "its peers": "share", "with XIDs or memory errors": "count",
               "stopped": "count"}  # fmt: skip
    return [
        *(blocks.text(f"{past['text']}.") for past in verdict.recurrence),
        blocks.table("Culprits of this run in the 30 days before", columns, rows),
    ]


def deviations(verdict: Verdict) -> list[Block]:
    """The section with `Verdict.anomalies`, or nothing."""
    if not verdict.anomalies:
        return []
    columns = {"node": "", "gpu": "", "since": "time", "distance": "score", "costs time": "",
               "what": ""}  # fmt: skip
    rows = [
        [anomaly["node"], anomaly["gpu"], datetime.fromisoformat(anomaly["since"]).timestamp(),
         anomaly["deviation"], "yes" if anomaly["costs_time"] else "not yet", anomaly["text"]]
        for anomaly in verdict.anomalies
    ]  # fmt: skip
    words = (
        "Compared with other GPUs of the same kind at the same time. A distance of 3 is three times"
        " what healthy parts differ by; errors that no healthy part has have no distance."
    )
    table = blocks.table("Hardware that deviates", columns, rows)
    return [blocks.section("deviations", "Hardware that deviates", [blocks.text(words), table])]
