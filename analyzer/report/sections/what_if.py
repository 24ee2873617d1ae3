"""What the run would take without a culprit; in the appendix, slowdowns as papers define them."""

from collections.abc import Mapping
from typing import Any

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.shapes.run import Verdict

METHODS = {
    "simulation": "Simulated from the operations of all ranks.",
    "bounds": "Bounds from the own time of each rank.",
}


def what_if(verdict: Verdict) -> list[Block | None]:
    """The method and the fixes; the published figures stand in the appendix (`simulated`)."""
    outcome = verdict.what_if
    method = METHODS.get(outcome["method"])
    if method is None:
        return []
    why = outcome.get("why")
    return [
        blocks.text(f"{method} No simulation: {why}." if why else method),
        blocks.table(
            "What if",
            {"without": "", "steps shorter by": "share", "at least": "share", "at most": "share",
             "known by": ""},
            [
                [fix["remove"], fix["gain"], *_pair(fix["interval"]), f"{fix['by']}, {fix['over']}"]
                for fix in outcome["fixes"]
            ],
        ),
        *(blocks.text(f"{gives_back(fix)}.") for fix in outcome["fixes"]),
    ]  # fmt: skip


def gives_back(fix: Mapping[str, Any]) -> str:
    """A fix as steps gained in the same time: `without node-3: +22 % steps an hour (...)`."""
    without, gain = fix_words(fix)
    return f"{without}: {gain}"


def fix_words(fix: Mapping[str, Any]) -> tuple[str, str]:
    """(what is removed, the steps gained in the same time), in words.

    Steps that are shorter by g are 1 / (1 - g) times as many.
    """
    words = f"{_more(fix['gain'])} steps an hour"
    if fix["interval"] is not None:
        low, high = (_more(bound) for bound in fix["interval"])
        words += f" (95 % interval {low} to {high})"
    return f"without {fix['remove']}", words


def _more(gain: float) -> str:
    if gain >= 1.0:
        return "any number of"
    percent = 100.0 * gain / (1.0 - gain)
    return f"{percent:+.0f} %" if abs(percent) >= 10.0 else f"{percent:+.1f} %"


def _pair(interval: Any) -> list[float | None]:
    return [None, None] if interval is None else list(interval)


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
    outcome = verdict.what_if
    if outcome["method"] != "simulation":
        return None
    rows = [
        ["S", TYPICAL, outcome["S"]],
        ["S_strata", STRATA, outcome["S_strata"]],
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
