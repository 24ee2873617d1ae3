"""What the run would take without a culprit, and how that is known."""

from typing import Any

from analyzer.report import blocks
from analyzer.report.blocks import Block
from analyzer.run import Verdict

METHODS = {
    "simulation": "Simulated from the operations of all ranks.",
    "bounds": "Bounds from the own time of each rank.",
}


def what_if(verdict: Verdict) -> list[Block | None]:
    """The method, the fixes, and the published figures where they were simulated."""
    told = verdict.what_if
    method = METHODS.get(told["method"])
    if method is None:
        return []
    why = told.get("why")
    return [
        blocks.text(f"{method} No simulation: {why}." if why else method),
        blocks.table(
            "What if",
            {"without": "", "steps shorter by": "share", "at least": "share", "at most": "share",
             "known by": ""},
            [
                [fix["remove"], fix["gain"], *_pair(fix["interval"]), f"{fix['by']}, {fix['over']}"]
                for fix in told["fixes"]
            ],
        ),
        blocks.table("Slowdown by simulation", {"figure": "", "what": "", "value": "ratio"},
                     _figures(told)),
    ]  # fmt: skip


def _pair(interval: Any) -> list[float | None]:
    return [None, None] if interval is None else list(interval)


def _figures(told: Any) -> list[list[Any]]:
    if told["method"] != "simulation":
        return []
    return [
        ["S", "steps over steps with all operations of a kind alike (OSDI'25)", told["S"]],
        ["S_strata", "the same within stage, chunk and micro-batch: by design is no loss",
         told["S_strata"]],
    ]  # fmt: skip
