"""The appendix: slowdowns as the literature defines them, and why they are not the run's own."""

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.shapes.run import Verdict

APART = (
    "Both figures replay the whole run, healthy steps included, with every operation as long as is"
    " typical of its kind. The slowdown of the run is about the steps of the trouble alone, against"
    " the same steps without the culprits. They answer other questions, so they differ from it; S"
    " is the one that papers report."
)

TYPICAL = (
    "simulated time of the steps over their time with all operations of a kind alike (What-If"
    " Analysis, OSDI'25)"
)
STRATA = (
    "the same, alike within each stage, chunk and micro-batch only: a stage that is heavier by"
    " design counts as no loss"
)


def simulated(verdict: Verdict) -> Block | None:
    """The section on S and S_strata; None where nothing was simulated."""
    told = verdict.what_if
    if told["method"] != "simulation":
        return None
    rows = [
        ["S", TYPICAL, told["S"]],
        ["S_strata", STRATA, told["S_strata"]],
    ]
    return blocks.section(
        "simulated",
        "Appendix: slowdown by simulation",
        [
            blocks.text(APART),
            blocks.table("Slowdown by simulation", {"figure": "", "what": "", "value": "ratio"},
                         rows, source="verdict.json: what_if"),
        ],
    )  # fmt: skip
