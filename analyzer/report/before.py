"""How often the culprits were culprits in past runs."""

from analyzer.report import blocks
from analyzer.report.blocks import Block
from analyzer.run import Verdict


def before(verdict: Verdict) -> list[Block | None]:
    """A sentence a culprit, and what Meta's lemon features (arXiv 2410.21680) are for it."""
    rows = [
        [one["uuid"] or one["node"], one["runs"], one["culprit_runs"], *one["interval"],
         one["peers_share"], one["features"]["xid_cnt"],
         one["features"]["multi_node_node_fails"] + one["features"]["single_node_node_fails"]]
        for one in verdict.recurrence
    ]  # fmt: skip
    columns = {"who": "", "runs": "count", "culprit in": "count", "at least": "share",
               "at most": "share", "its peers": "share", "with XIDs or memory errors": "count",
               "stopped": "count"}  # fmt: skip
    return [
        *(blocks.text(f"{one['text']}.") for one in verdict.recurrence),
        blocks.table("Culprits of this run in the 30 days before", columns, rows),
    ]
