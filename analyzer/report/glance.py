"""The first screen: who is late in one chart, what it costs, and what to do first."""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.impact import costs
from lockstep.analyzer.report.queries import Sources
from lockstep.analyzer.report.series import against_peers
from lockstep.analyzer.report.spans import Spans
from lockstep.analyzer.shapes.run import Grid, Verdict

FIRST_ACTIONS = 3
"""More do not fit on a screen; all of them stand in their own section."""


def glance(
    grid: Grid,
    verdict: Verdict,
    cut: Spans,
    sources: Sources,
    actions: Block,
    unit: str = "gpu hours",
) -> Block:
    """The section on the first screen.

    Args:
        grid: The run's windows.
        verdict: What it costs.
        cut: Who the culprits are, and since when.
        sources: Where the numbers come from.
        actions: The section on what to do (report.advice), whose first rows are shown.
        unit: Of what is lost (report.figures).
    """
    chart, twin = against_peers(
        grid, cut, grid.time["own"], title="Own time per step", unit="seconds",
        what="Own time per step, without waiting in collectives,", source=sources.own(),
        marks=_stop(verdict, cut),
    )  # fmt: skip
    none = blocks.text("No chart: no own time of a rank answered.") if chart is None else None
    return blocks.section(
        "glance",
        "At a glance",
        [
            chart,
            none,
            blocks.table("What it cost", {"what": "", "how much": ""}, costs(verdict, unit)),
            blocks.table("What to do first", {"where": "", "action": ""}, _first(actions)),
            twin,
        ],
    )


def _stop(verdict: Verdict, cut: Spans) -> Sequence[Mapping[str, Any]]:
    """Where a run that stopped did: there was nothing after it to compare with."""
    first = verdict.culprits[0] if verdict.culprits else None
    if cut.onset is not None or first is None or first.from_step is None:
        return ()
    return ({"step": first.from_step, "label": "stopped"},)


def _first(actions: Block) -> list[list[Any]]:
    """Where and what, of the first rows of the table of actions."""
    table = next(each for each in actions["blocks"] if each["block"] == "table")
    return [[where or "–", action] for _, where, _, action in table["rows"][:FIRST_ACTIONS]]
